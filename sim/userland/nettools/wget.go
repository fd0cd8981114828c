package nettools

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"strconv"
	"strings"
	"time"

	"ckadrill/sim/kernel"
	"ckadrill/sim/network"
	"ckadrill/sim/userland/libc"
)

// fetched is what both wgets need of a transfer.
type fetched struct {
	addr  netip.Addr // that was connected to, or tried last
	res   *http.Response
	named bool  // the host name was resolved
	conn  error // connecting failed
}

// fetch makes one GET request, as far as it gets. Redirects are the caller's.
func fetch(ctx context.Context, p *kernel.Process, method string, u *url.URL, headers []string, cfg *tls.Config, connected func(netip.Addr)) (f fetched, done func(), err error) {
	addrs, err := network.ResolveLibc(ctx, p, u.Hostname())
	if err != nil {
		return f, func() {}, err
	}
	f.named = true
	var conn net.Conn
	for _, a := range addrs {
		f.addr = a
		if conn, f.conn = p.Dial(network.ForTransport(ctx, u.Scheme == "https"), "tcp", net.JoinHostPort(a.String(), portOf(u))); f.conn == nil {
			if connected != nil {
				connected(a)
			}
			break
		}
	}
	if f.conn != nil {
		return f, func() {}, f.conn
	}
	t := network.NewTransport(p, cfg)
	t.HTTP1 = true
	t.DialContext = func(context.Context, string, string) (net.Conn, error) { return conn, nil }
	r, _ := http.NewRequestWithContext(ctx, method, u.String(), nil)
	for _, h := range headers {
		k, v, _ := strings.Cut(h, ":")
		if v = strings.TrimSpace(v); strings.EqualFold(k, "Host") {
			r.Host = v
		} else {
			r.Header.Set(k, v)
		}
	}
	res, err := t.RoundTrip(r)
	f.res = res
	return f, func() {
		if res != nil {
			res.Body.Close()
		}
		t.CloseIdleConnections()
	}, err
}

var wget = libc.Main("wget", func(c *libc.Prog) int {
	opts, urls, err := libc.Getopt(c.Args, "qO:T:t:SvdP:cNh", "quiet|q", "no-verbose", "output-document:|O", "timeout:|T", "tries:|t", "spider", "server-response|S", "verbose|v",
		"no-check-certificate", "ca-certificate:", "header:", "directory-prefix:|P", "user-agent:|U", "connect-timeout:", "read-timeout:", "dns-timeout:", "post-data:", "method:",
		"continue|c", "timestamping|N", "help|h", "version|V", "no-proxy", "retry-connrefused", "max-redirect:")
	if err != nil {
		c.Errorf("wget: %s\nUsage: wget [OPTION]... [URL]...\n\nTry `wget --help' for more options.\n", err)
		return 2
	}
	o := map[string]string{}
	var headers []string
	for _, x := range opts {
		if x.Name == "header" {
			headers = append(headers, x.Value)
			continue
		}
		o[x.Name] = x.Value + " "
	}
	if o["U"] != "" {
		headers = append(headers, "User-Agent: "+strings.TrimSpace(o["U"]))
	} else {
		headers = append(headers, "User-Agent: Wget/1.21.4")
	}
	if len(urls) == 0 {
		c.Errorf("wget: missing URL\nUsage: wget [OPTION]... [URL]...\n\nTry `wget --help' for more options.\n")
		return 1
	}
	status := 0
	for _, u := range urls {
		w := &wgetRun{c, o, headers}
		if s := w.get(u); s != 0 {
			status = s
		}
	}
	return status
})

type wgetRun struct {
	*libc.Prog
	o       map[string]string
	headers []string
}

func (w *wgetRun) set(name string) bool { _, ok := w.o[name]; return ok }

func (w *wgetRun) say(format string, a ...any) {
	if !w.set("q") && !w.set("no-verbose") {
		w.Errorf(format, a...)
	}
}

// get fetches one URL as GNU wget does, with its retries. The statuses are wget's: 4 network, 5 TLS, 8 server error.
func (w *wgetRun) get(raw string) int {
	if !strings.Contains(raw, "://") {
		raw = "http://" + raw
	}
	tries := 20
	if t := strings.TrimSpace(w.o["t"]); t != "" {
		if tries, _ = strconv.Atoi(t); tries == 0 {
			tries = 1 << 30
		}
	}
	for n := 1; ; n++ {
		status, again := w.try(raw, n)
		if !again || n >= tries {
			if again && n >= tries {
				w.say("Giving up.\n\n")
			}
			return status
		}
		w.say("Retrying.\n\n")
		w.Wait(time.Duration(min(n, 10)) * time.Second)
	}
}

func (w *wgetRun) try(raw string, attempt int) (status int, again bool) {
	u, err := url.Parse(raw)
	if err != nil || u.Hostname() == "" {
		w.Errorf("%s: Invalid host name.\n", raw)
		return 1, false
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		w.Errorf("%s: Unsupported scheme ‘%s’.\n", raw, u.Scheme)
		return 1, false
	}
	if u.Path == "" {
		u.Path = "/"
	}
	spider := ""
	if w.set("spider") {
		spider = "Spider mode enabled. Check if remote file exists.\n"
	}
	now := func() string { return time.Now().UTC().Format("2006-01-02 15:04:05") }
	if attempt > 1 {
		spider += fmt.Sprintf("--%s--  (try:%2d)  %s\n", now(), attempt, u)
	} else {
		spider += fmt.Sprintf("--%s--  %s\n", now(), u)
	}
	w.say("%s", spider)
	timeout := 900 * time.Second
	for _, k := range []string{"T", "connect-timeout"} {
		if d, ok := seconds(strings.TrimSpace(w.o[k])); ok && w.set(k) {
			timeout = d
		}
	}
	ctx, cancel := context.WithTimeout(w.Context(), timeout)
	defer cancel()
	literal := net.ParseIP(u.Hostname()) != nil
	if !literal {
		w.say("Resolving %s (%s)... ", u.Hostname(), u.Hostname())
	}
	method := http.MethodGet
	if w.set("spider") {
		method = http.MethodHead
	}
	where := u.Hostname()
	connecting := func(a netip.Addr) string {
		if literal {
			return fmt.Sprintf("Connecting to %s:%s... ", where, portOf(u))
		}
		return fmt.Sprintf("Connecting to %s (%s)|%s|:%s... ", where, where, a, portOf(u))
	}
	cfg := &tls.Config{InsecureSkipVerify: true, VerifyConnection: func(s tls.ConnectionState) error {
		pool := x509.NewCertPool()
		name := orElse(strings.TrimSpace(w.o["ca-certificate"]), systemCAs)
		if b, err := w.ReadFile(name); err == nil {
			pool.AppendCertsFromPEM(b)
		}
		if err := verifyPeer(s, pool, u.Hostname()); err != nil && !w.set("no-check-certificate") {
			return err
		}
		return nil
	}}
	f, done, err := fetch(ctx, w.Process, method, u, w.headers, cfg, func(a netip.Addr) {
		if !literal {
			w.say("%s\n", a)
		}
		w.say("%sconnected.\n", connecting(a))
	})
	defer done()
	var cert *curlExit
	switch {
	case err == nil:
	case !f.named:
		reason := "Name or service not known"
		var de *net.DNSError
		if errors.As(err, &de) && !de.IsNotFound {
			reason = "Temporary failure in name resolution"
		}
		w.say("failed: %s.\n", reason)
		w.Errorf("wget: unable to resolve host address ‘%s’\n", u.Hostname())
		return 4, false
	case f.conn != nil:
		if !literal {
			w.say("%s\n", f.addr)
		}
		text := libc.Strerror(f.conn)
		if ctx.Err() != nil {
			text = "Connection timed out"
		}
		w.say("%sfailed: %s.\n", connecting(f.addr), text)
		return 4, text != "Connection refused" && text != "No route to host" && text != "Network is unreachable"
	case errors.As(err, &cert):
		w.Errorf("ERROR: cannot verify %s's certificate, issued by ‘%s’:\n  Unable to locally verify the issuer's authority.\nTo connect to %s insecurely, use `--no-check-certificate'.\n", u.Hostname(), "CN=kubernetes", u.Hostname())
		return 5, false
	case ctx.Err() != nil:
		w.say("HTTP request sent, awaiting response... Read error (Connection timed out) in headers.\n")
		return 4, true
	default:
		w.say("HTTP request sent, awaiting response... No data received.\n")
		return 4, true
	}
	text := strings.TrimPrefix(f.res.Status, strconv.Itoa(f.res.StatusCode)+" ")
	w.say("HTTP request sent, awaiting response... %d %s\n", f.res.StatusCode, text)
	if w.set("S") {
		for l := range strings.Lines(strings.TrimSuffix(headerText(f.res), "\r\n")) {
			w.Errorf("  %s\n", strings.TrimRight(l, "\r\n"))
		}
	}
	if l := f.res.Header.Get("Location"); f.res.StatusCode/100 == 3 && l != "" {
		w.say("Location: %s [following]\n", l)
		if to, err := u.Parse(l); err == nil {
			return w.try(to.String(), 1)
		}
	}
	if f.res.StatusCode >= 400 {
		if w.set("spider") {
			w.say("Remote file does not exist -- broken link!!!\n\n")
			return 8, false
		}
		w.say("%s ERROR %d: %s.\n\n", now(), f.res.StatusCode, text)
		return 8, false
	}
	if w.set("spider") {
		w.say("Length: %s\nRemote file exists.\n\n", length(f.res))
		return 0, false
	}
	return w.save(u, f.res, now)
}

func length(r *http.Response) string {
	t := r.Header.Get("Content-Type")
	if t, _, _ = strings.Cut(t, ";"); t != "" {
		t = " [" + t + "]"
	}
	if r.ContentLength < 0 {
		return "unspecified" + t
	}
	return strconv.FormatInt(r.ContentLength, 10) + t
}

// save writes the document and tells about it.
func (w *wgetRun) save(u *url.URL, res *http.Response, now func() string) (int, bool) {
	name := strings.TrimSuffix(w.o["O"], " ")
	if name == "" {
		if name = path.Base(u.Path); name == "/" || name == "." {
			name = "index.html"
		}
		if d := strings.TrimSuffix(w.o["P"], " "); d != "" {
			name = path.Join(d, name)
		}
		for i, base := 1, name; ; i++ {
			if _, err := w.Files.Stat(w.Path(name)); err != nil {
				break
			}
			name = fmt.Sprintf("%s.%d", base, i)
		}
	}
	w.say("Length: %s\nSaving to: ‘%s’\n\n", length(res), map[bool]string{true: "STDOUT", false: name}[name == "-"])
	b, err := libc.ReadAll(res.Body)
	if err != nil {
		w.say("%s - Read error at byte %d (%s).", now(), len(b), libc.Strerror(err))
		return 4, true
	}
	if name == "-" {
		w.Out.Write(b)
	} else if err := w.Files.WriteFile(w.Path(name), b, 0o644); err != nil {
		w.Errorf("%s: %s\n", name, libc.Strerror(err))
		return 3, false
	}
	shown := name
	if name == "-" {
		shown = "-"
	}
	bar := fmt.Sprintf("%-20.20s100%%[===================>] %7d  --.-KB/s    in 0s      ", shown, len(b))
	if res.ContentLength < 0 {
		bar = fmt.Sprintf("%-20.20s    [ <=>                ] %7d  --.-KB/s    in 0s      ", shown, len(b))
	}
	w.say("\r%s\n\n", bar)
	if name == "-" {
		w.say("%s (1.00 MB/s) - written to stdout [%d]\n\n", now(), len(b))
	} else if res.ContentLength >= 0 {
		w.say("%s (1.00 MB/s) - ‘%s’ saved [%d/%d]\n\n", now(), name, len(b), len(b))
	} else {
		w.say("%s (1.00 MB/s) - ‘%s’ saved [%d]\n\n", now(), name, len(b))
	}
	if w.set("no-verbose") && !w.set("q") {
		w.Errorf("%s URL:%s [%d] -> \"%s\" [1]\n", now(), u, len(b), name)
	}
	return 0, false
}

var busyboxWget = libc.Main("wget", func(c *libc.Prog) int {
	opts, urls, err := libc.Getopt(c.Args, "qO:T:Y:U:P:cSs", "quiet|q", "output-document:|O", "timeout:|T", "spider|s", "no-check-certificate", "header:", "post-data:", "user-agent:|U",
		"directory-prefix:|P", "continue|c", "server-response|S", "proxy:|Y", "tries:", "no-verbose")
	usage := "BusyBox v1.36.1 (2024-06-10 07:11:47 UTC) multi-call binary.\n\nUsage: wget [-cqS] [--spider] [-O FILE] [-o LOGFILE] [--header STR]\n\t[--post-data STR | --post-file FILE] [-Y on/off]\n\t[--no-check-certificate] [-P DIR] [-U AGENT] [-T SEC] URL...\n"
	if err != nil {
		c.Errorf("wget: %s\n%s", err, usage)
		return 1
	}
	o := map[string]string{}
	headers := []string{"User-Agent: Wget"}
	for _, x := range opts {
		switch x.Name {
		case "header":
			headers = append(headers, x.Value)
		case "U":
			headers[0] = "User-Agent: " + x.Value
		default:
			o[x.Name] = x.Value
		}
	}
	if len(urls) == 0 {
		c.Errorf("%s", usage)
		return 1
	}
	for _, u := range urls {
		if s := busyboxGet(c, u, o, headers, 0); s != 0 {
			return s
		}
	}
	return 0
})

func busyboxGet(c *libc.Prog, raw string, o map[string]string, headers []string, redirects int) int {
	_, quiet := o["q"]
	_, spider := o["s"]
	fail := func(format string, a ...any) int { c.Out.Flush(); c.Errorf("wget: "+format+"\n", a...); return 1 }
	if !strings.Contains(raw, "://") {
		raw = "http://" + raw
	}
	u, err := url.Parse(raw)
	if err != nil || u.Hostname() == "" {
		return fail("bad address '%s'", strings.TrimPrefix(raw, "http://"))
	}
	if u.Scheme != "http" && u.Scheme != "https" {
		return fail("not an http or ftp url: %s", raw)
	}
	if u.Path == "" {
		u.Path = "/"
	}
	ctx, cancel := context.WithCancel(c.Context())
	defer cancel()
	if t, ok := seconds(o["T"]); ok && o["T"] != "" {
		ctx, cancel = context.WithTimeout(ctx, t)
		defer cancel()
	}
	hostPort := u.Host
	cfg := &tls.Config{InsecureSkipVerify: true} // busybox checks no certificate
	if _, skip := o["no-check-certificate"]; u.Scheme == "https" && !skip && !quiet {
		c.Errorf("wget: note: TLS certificate validation not implemented\n")
	}
	method := http.MethodGet
	if spider {
		method = http.MethodHead
	}
	f, done, err := fetch(ctx, c.Process, method, u, headers, cfg, func(a netip.Addr) {
		if !quiet {
			c.Errorf("Connecting to %s (%s:%s)\n", hostPort, a, portOf(u))
		}
	})
	defer done()
	switch {
	case err == nil:
	case !f.named:
		return fail("bad address '%s'", hostPort)
	case ctx.Err() != nil:
		return fail("download timed out")
	case f.conn != nil:
		if !quiet {
			c.Errorf("Connecting to %s (%s:%s)\n", hostPort, f.addr, portOf(u))
		}
		return fail("can't connect to remote host (%s): %s", f.addr, libc.Strerror(f.conn))
	case strings.Contains(err.Error(), "tls:"):
		return fail("error getting response: Connection reset by peer")
	default:
		return fail("error getting response: %s", libc.Strerror(err))
	}
	if _, ok := o["S"]; ok {
		for l := range strings.Lines(strings.TrimSuffix(headerText(f.res), "\r\n")) {
			c.Errorf("  %s\n", strings.TrimRight(l, "\r\n"))
		}
	}
	if l := f.res.Header.Get("Location"); f.res.StatusCode/100 == 3 && l != "" {
		if redirects++; redirects > 10 {
			return fail("too many redirections")
		}
		if to, err := u.Parse(l); err == nil {
			return busyboxGet(c, to.String(), o, headers, redirects)
		}
	}
	if f.res.StatusCode >= 300 || f.res.StatusCode < 200 {
		return fail("server returned error: HTTP/%d.%d %s", f.res.ProtoMajor, f.res.ProtoMinor, f.res.Status)
	}
	if spider {
		if !quiet {
			c.Errorf("remote file exists\n")
		}
		return 0
	}
	name := o["O"]
	if name == "" {
		if name = path.Base(u.Path); name == "/" || name == "." {
			name = "index.html"
		}
		if o["P"] != "" {
			name = path.Join(o["P"], name)
		}
		if _, err := c.Files.Stat(c.Path(name)); err == nil {
			return fail("can't open '%s': File exists", name)
		}
	}
	if name == "-" {
		if !quiet {
			c.Errorf("writing to stdout\n")
		}
		n, err := io.Copy(c.Out, f.res.Body)
		c.Out.Flush()
		if err == nil && !quiet {
			c.Errorf("-                    100%% |%s| %5d  0:00:00 ETA\nwritten to stdout\n", strings.Repeat("*", 32), n)
		}
		if err != nil {
			if ctx.Err() != nil {
				return fail("download timed out")
			}
			return fail("connection closed prematurely")
		}
		return 0
	}
	if !quiet {
		c.Errorf("saving to '%s'\n", name)
	}
	b, err := libc.ReadAll(f.res.Body)
	if err != nil {
		if ctx.Err() != nil {
			return fail("download timed out")
		}
		return fail("connection closed prematurely")
	}
	if err := c.Files.WriteFile(c.Path(name), b, 0o666); err != nil {
		return fail("can't open '%s': %s", name, libc.Strerror(err))
	}
	if !quiet {
		c.Errorf("%-20.20s 100%% |%s| %5d  0:00:00 ETA\n'%s' saved\n", path.Base(name), strings.Repeat("*", 32), len(b), name)
	}
	return 0
}
