package nettools

import (
	"context"
	"crypto/tls"
	"fmt"
	"net/http"
	"net/http/httptrace"
	"net/netip"
	"net/url"
	"sort"
	"strings"
	"time"
)

// noteTLS prints what "curl -v" says about a handshake.
func (c *curlRun) noteTLS(s tls.ConnectionState, failed *curlExit) {
	ca := orElse(c.cacert, systemCAs)
	version := tls.VersionName(s.Version)
	version = strings.Replace(version, "TLS ", "TLSv", 1)
	c.note("%s (OUT), TLS handshake, Client hello (1):", version)
	c.note(" CAfile: %s", ca)
	c.note(" CApath: %s", map[bool]string{true: "/etc/ssl/certs", false: "none"}[c.cacert == ""])
	for _, l := range []string{"Server hello (2)", "Encrypted Extensions (8)", "Certificate (11)"} {
		c.note("%s (IN), TLS handshake, %s:", version, l)
	}
	if failed != nil && !c.opt["k"] {
		c.note("%s (OUT), TLS alert, unknown CA (560):", version)
		c.note("%s", failed.text)
		c.note("Closing connection")
		return
	}
	c.note("%s (IN), TLS handshake, CERT verify (15):", version)
	c.note("%s (IN), TLS handshake, Finished (20):", version)
	c.note("%s (OUT), TLS handshake, Finished (20):", version)
	c.note("SSL connection using %s / %s / X25519 / RSASSA-PSS", version, tls.CipherSuiteName(s.CipherSuite))
	if s.NegotiatedProtocol != "" {
		c.note("ALPN: server accepted %s", s.NegotiatedProtocol)
	} else {
		c.note("ALPN: server did not agree on a protocol. Uses default.")
	}
	leaf := s.PeerCertificates[0]
	c.note("Server certificate:")
	c.note(" subject: %s", distinguished(leaf.Subject.ToRDNSequence().String()))
	c.note(" start date: %s", leaf.NotBefore.UTC().Format("Jan _2 15:04:05 2006 GMT"))
	c.note(" expire date: %s", leaf.NotAfter.UTC().Format("Jan _2 15:04:05 2006 GMT"))
	c.note(" issuer: %s", distinguished(leaf.Issuer.ToRDNSequence().String()))
	if failed != nil {
		c.note(" SSL certificate verify result: %s (20), continuing anyway.", strings.TrimPrefix(failed.text, "SSL certificate problem: "))
	} else {
		c.note(" SSL certificate verify ok.")
	}
}

// distinguished writes a name in OpenSSL's order, "O=x; CN=y".
func distinguished(rdn string) string {
	f := strings.Split(rdn, ",")
	for i, j := 0, len(f)-1; i < j; i, j = i+1, j-1 {
		f[i], f[j] = f[j], f[i]
	}
	return strings.Join(f, "; ")
}

// traced has the request printed, as -v does, once the connection is there.
func (c *curlRun) traced(ctx context.Context, u *url.URL, r *http.Request) context.Context {
	printed := false
	show := func() {
		if printed {
			return
		}
		printed = true
		proto := "HTTP/1.1"
		if u.Scheme == "https" && !c.opt["http1.1"] {
			proto = "HTTP/2"
		}
		c.Errorf("> %s %s %s\r\n> Host: %s\r\n", r.Method, r.URL.RequestURI(), proto, orElse(r.Host, r.URL.Host))
		keys := make([]string, 0, len(r.Header))
		for k := range r.Header {
			keys = append(keys, k)
		}
		first := map[string]int{"Authorization": -3, "User-Agent": -2, "Accept": -1}
		sort.Slice(keys, func(i, j int) bool {
			if first[keys[i]] != first[keys[j]] {
				return first[keys[i]] < first[keys[j]]
			}
			return keys[i] < keys[j]
		})
		for _, k := range keys {
			c.Errorf("> %s: %s\r\n", k, r.Header.Get(k))
		}
		if r.ContentLength > 0 {
			c.Errorf("> Content-Length: %d\r\n", r.ContentLength)
		}
		c.Errorf("> \r\n")
	}
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		WroteRequest:         func(httptrace.WroteRequestInfo) { show() },
		GotFirstResponseByte: show,
	})
}

// expand fills in the variables of --write-out.
func (c *curlRun) expand(format string, code int, e *curlExit) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	var local, remote netip.AddrPort
	if c.conn != nil {
		local, _ = netip.ParseAddrPort(c.conn.LocalAddr().String())
		remote, _ = netip.ParseAddrPort(c.conn.RemoteAddr().String())
	}
	sec := func(d time.Duration) string { return fmt.Sprintf("%.6f", d.Seconds()) }
	v := map[string]string{"http_code": "000", "response_code": "000", "size_download": fmt.Sprint(c.size), "time_total": sec(time.Since(c.start)), "time_connect": sec(c.connected),
		"time_appconnect": sec(c.appConn), "time_namelookup": sec(0), "time_starttransfer": sec(time.Since(c.start)), "time_pretransfer": sec(c.appConn), "time_redirect": sec(0),
		"num_redirects": fmt.Sprint(c.redirects), "url_effective": c.effective, "url": c.effective, "redirect_url": c.next, "exitcode": fmt.Sprint(code), "errormsg": "", "http_version": "0",
		"remote_ip": "", "remote_port": "0", "local_ip": "", "local_port": "0", "content_type": "", "method": orElse(c.method, "GET"), "scheme": "", "ssl_verify_result": "0",
		"speed_download": "0", "num_connects": "1", "size_upload": "0", "filename_effective": c.output}
	if e != nil {
		v["errormsg"] = e.text
	}
	if c.verify != "" {
		v["ssl_verify_result"] = "20"
	}
	if local.IsValid() {
		v["local_ip"], v["local_port"] = local.Addr().String(), fmt.Sprint(local.Port())
		v["remote_ip"], v["remote_port"] = remote.Addr().String(), fmt.Sprint(remote.Port())
	}
	if u, err := url.Parse(c.effective); err == nil {
		v["scheme"] = strings.ToUpper(u.Scheme)
	}
	if c.res != nil {
		v["http_code"], v["response_code"] = fmt.Sprintf("%03d", c.res.StatusCode), fmt.Sprintf("%03d", c.res.StatusCode)
		v["content_type"] = c.res.Header.Get("Content-Type")
		v["http_version"] = map[int]string{1: "1.1", 2: "2"}[c.res.ProtoMajor]
	}
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		switch {
		case format[i] == '\\' && i+1 < len(format):
			i++
			switch format[i] {
			case 'n':
				b.WriteByte('\n')
			case 't':
				b.WriteByte('\t')
			case 'r':
				b.WriteByte('\r')
			default:
				b.WriteByte('\\')
				b.WriteByte(format[i])
			}
		case strings.HasPrefix(format[i:], "%%"):
			b.WriteByte('%')
			i++
		case strings.HasPrefix(format[i:], "%{"):
			name, _, ok := strings.Cut(format[i+2:], "}")
			if !ok {
				b.WriteByte('%')
				continue
			}
			switch val, known := v[name]; {
			case known:
				b.WriteString(val)
			case name == "stderr" || name == "stdout" || name == "onerror":
			default:
				fmt.Fprintf(&b, "curl: unknown --write-out variable: '%s'\n", name)
			}
			i += len(name) + 2
		default:
			b.WriteByte(format[i])
		}
	}
	return b.String()
}
