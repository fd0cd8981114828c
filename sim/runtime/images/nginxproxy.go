package images

import (
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"
)

// proxy hands a request on to another server and its answer back.
func (e *exchange) proxy(loc, d *directive) {
	raw := e.expand(d.args[0])
	u, err := url.Parse(raw)
	if err != nil || u.Host == "" {
		e.fail(http.StatusInternalServerError, "invalid URL prefix in %q", raw)
		return
	}
	target := e.r.URL.RequestURI()
	if u.Path != "" || strings.HasSuffix(raw, "/") { // a URI in proxy_pass takes the place of what the location matched
		rest := strings.TrimPrefix(e.uri, loc.args[len(loc.args)-1])
		target = u.Path + rest
		if e.r.URL.RawQuery != "" {
			target += "?" + e.r.URL.RawQuery
		}
	}
	addrs := e.s.upstreams[u.Host]
	if addrs == nil {
		port := "80"
		if u.Scheme == "https" {
			port = "443"
		}
		if u.Port() != "" {
			port = u.Port()
		}
		addrs = []string{net.JoinHostPort(u.Hostname(), port)}
	}
	e.s.n.mu.Lock()
	first := e.s.turn[u.Host]
	e.s.turn[u.Host]++
	e.s.n.mu.Unlock()
	body, _ := io.ReadAll(io.LimitReader(e.r.Body, 1<<20))
	for i := range addrs {
		addr := addrs[(first+i)%len(addrs)]
		if e.forward(u, addr, target, body, i == len(addrs)-1) {
			return
		}
	}
}

// forward tries one upstream server. It returns false when another one may be tried.
func (e *exchange) forward(u *url.URL, addr, target string, body []byte, last bool) bool {
	host, port, _ := net.SplitHostPort(addr)
	upstream := u.Scheme + "://" + addr + target
	ip, err := e.s.resolve(e.r.Context(), host)
	if err != nil {
		e.fail(http.StatusBadGateway, "%s", err)
		return true
	}
	real := net.JoinHostPort(ip, port)
	ctx, cancel := context.WithTimeout(e.r.Context(), 60*time.Second)
	defer cancel()
	transport := &http.Transport{DisableKeepAlives: true, DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) { return e.s.n.p.Dial(ctx, "tcp", real) }}
	defer transport.CloseIdleConnections()
	r, err := http.NewRequestWithContext(ctx, e.r.Method, u.Scheme+"://"+real+target, strings.NewReader(string(body)))
	if err != nil {
		e.fail(http.StatusBadGateway, "%s", err)
		return true
	}
	for k, v := range e.r.Header {
		r.Header[k] = v
	}
	r.Header.Del("Connection")
	r.Host = u.Host
	for _, h := range e.scope.all("proxy_set_header") {
		if len(h.args) < 2 {
			continue
		}
		if v := e.expand(h.args[1]); strings.EqualFold(h.args[0], "Host") {
			r.Host = v
		} else {
			r.Header.Set(h.args[0], v)
		}
	}
	res, err := transport.RoundTrip(r)
	if err != nil {
		if ctx.Err() != nil {
			e.fail(http.StatusGatewayTimeout, "upstream timed out (110: Connection timed out) while connecting to upstream, upstream: %q", upstream)
			return true
		}
		if !last {
			e.logError("connect() failed (%s) while connecting to upstream, upstream: %q", errnoText(err), upstream)
			return false
		}
		e.fail(http.StatusBadGateway, "connect() failed (%s) while connecting to upstream, upstream: %q", errnoText(err), upstream)
		return true
	}
	defer res.Body.Close()
	for k, v := range res.Header {
		if k != "Server" && k != "Connection" {
			e.Header()[k] = v
		}
	}
	e.addHeaders()
	e.WriteHeader(res.StatusCode)
	io.Copy(e, res.Body)
	return true
}
