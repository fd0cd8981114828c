package nettools

import (
	"bytes"
	"context"
	"crypto/tls"
	"crypto/x509"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"path"
	"sort"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"ckadrill/sim/kernel"
	"ckadrill/sim/network"
	"ckadrill/sim/userland/libc"
)

const curlVersion = "8.5.0"

// curlExit is an error with curl's exit code.
type curlExit struct {
	code int
	text string
}

func (e *curlExit) Error() string { return e.text }

func curlError(code int, format string, a ...any) *curlExit {
	return &curlExit{code, fmt.Sprintf(format, a...)}
}

// curlRun is one run of curl: its options, and what is known of the transfer so far.
type curlRun struct {
	*libc.Prog
	opt       map[string]bool
	method    string
	headers   []string
	data      []string
	hasData   bool
	get       bool
	output    string
	remote    bool
	user      string
	agent     string
	writeOut  string
	cacert    string
	cert, key string
	resolve   map[string]netip.Addr
	unix      string
	upload    string
	dumpTo    string
	maxTime   time.Duration
	connTime  time.Duration
	maxRedirs int
	retries   int
	minTLS    uint16
	maxTLS    uint16

	start     time.Time
	connected time.Duration
	mu        sync.Mutex // guards what the handshake reports, which may outlast a transfer that was given up
	appConn   time.Duration
	verify    string
	conn      net.Conn
	res       *http.Response
	size      int64
	redirects int
	effective string
	next      string
}

var curlLong = []string{"silent|s", "show-error|S", "insecure|k", "verbose|v", "head|I", "include|i", "output:|o", "remote-name|O", "location|L", "header:|H",
	"request:|X", "data:|d", "data-ascii:|d", "data-raw:", "data-binary:", "data-urlencode:", "json:", "get|G", "max-time:|m", "write-out:|w", "user:|u", "fail|f",
	"fail-with-body", "user-agent:|A", "referer:|e", "cookie:|b", "cacert:", "cert:|E", "key:", "resolve:", "connect-timeout:", "unix-socket:", "upload-file:|T",
	"dump-header:|D", "max-redirs:", "retry:", "retry-delay:", "retry-connrefused", "retry-all-errors", "http1.1", "http2", "http1.0|0", "ipv4|4", "ipv6|6", "no-buffer|N",
	"noproxy:", "compressed", "tlsv1.2", "tlsv1.3", "tlsv1.0", "tlsv1.1", "tls-max:", "progress-bar|#", "no-progress-meter", "globoff|g", "disable|q", "oauth2-bearer:", "url:", "help|h",
	"version|V", "path-as-is", "no-keepalive", "create-dirs", "location-trusted", "proxy:|x"}

var curl = libc.Main("curl", func(p *libc.Prog) int {
	c := &curlRun{Prog: p, opt: map[string]bool{}, agent: "curl/" + curlVersion, resolve: map[string]netip.Addr{}, maxRedirs: 50}
	opts, urls, err := libc.Getopt(p.Args, "sSkvIio:OLH:X:d:m:w:u:fA:e:b:E:T:D:0N46#gqGhVx:", curlLong...)
	if err != nil {
		return c.usage(err.Error())
	}
	for _, o := range opts {
		if o.Name == "url" {
			urls = append(urls, o.Value)
			continue
		}
		if code := c.option(o); code >= 0 {
			return code
		}
	}
	if len(urls) == 0 {
		p.Errorf("curl: (2) no URL specified\ncurl: try 'curl --help' or 'curl --manual' for more information\n")
		return 2
	}
	code := 0
	for _, u := range urls {
		code = c.transfer(u)
	}
	return code
})

func (c *curlRun) usage(text string) int {
	switch {
	case strings.HasPrefix(text, "unrecognized option '"):
		text = "option " + strings.TrimSuffix(strings.TrimPrefix(text, "unrecognized option '"), "'") + ": is unknown"
	case strings.HasPrefix(text, "invalid option -- '"):
		text = "option -" + strings.TrimSuffix(strings.TrimPrefix(text, "invalid option -- '"), "'") + ": is unknown"
	case strings.Contains(text, "requires an argument"):
		text = "option " + strings.Trim(strings.TrimPrefix(strings.TrimPrefix(strings.Replace(text, "requires an argument", "", 1), "option "), " -- "), "' -") + ": requires parameter"
	}
	c.Errorf("curl: %s\ncurl: try 'curl --help' or 'curl --manual' for more information\n", text)
	return 2
}

func seconds(s string) (time.Duration, bool) {
	f, err := strconv.ParseFloat(s, 64)
	return time.Duration(f * float64(time.Second)), err == nil && f >= 0
}

// option takes one option; a result that is not negative ends curl.
func (c *curlRun) option(o libc.Opt) int {
	ok := true
	switch o.Name {
	case "H":
		c.headers = append(c.headers, o.Value)
	case "X":
		c.method = o.Value
	case "d", "data-binary", "data-raw", "data-urlencode", "json":
		return c.addData(o)
	case "G":
		c.get = true
	case "o":
		c.output = o.Value
	case "O":
		c.remote = true
	case "u":
		c.user = o.Value
	case "A":
		c.agent = o.Value
	case "e":
		c.headers = append(c.headers, "Referer: "+o.Value)
	case "b":
		c.headers = append(c.headers, "Cookie: "+o.Value)
	case "oauth2-bearer":
		c.headers = append(c.headers, "Authorization: Bearer "+o.Value)
	case "w":
		c.writeOut = o.Value
		if name, found := strings.CutPrefix(o.Value, "@"); found {
			b, err := c.InputAll(name)
			if err != nil {
				return c.usage("option -w: error encountered when reading a file")
			}
			c.writeOut = string(b)
		}
	case "cacert":
		c.cacert = o.Value
	case "E":
		c.cert = o.Value
	case "key":
		c.key = o.Value
	case "unix-socket":
		c.unix = o.Value
	case "T":
		c.upload = o.Value
	case "D":
		c.dumpTo = o.Value
	case "m":
		c.maxTime, ok = seconds(o.Value)
	case "connect-timeout":
		c.connTime, ok = seconds(o.Value)
	case "max-redirs":
		n, err := strconv.Atoi(o.Value)
		c.maxRedirs, ok = n, err == nil
	case "retry":
		n, err := strconv.Atoi(o.Value)
		c.retries, ok = n, err == nil && n >= 0
	case "tls-max":
		versions := map[string]uint16{"1.0": tls.VersionTLS10, "1.1": tls.VersionTLS11, "1.2": tls.VersionTLS12, "1.3": tls.VersionTLS13, "default": 0}
		c.maxTLS, ok = versions[o.Value]
	case "tlsv1.2":
		c.minTLS = tls.VersionTLS12
	case "tlsv1.3":
		c.minTLS = tls.VersionTLS13
	case "resolve":
		f := strings.SplitN(strings.TrimPrefix(o.Value, "+"), ":", 3)
		if len(f) == 3 {
			a, err := netip.ParseAddr(strings.Trim(strings.Split(f[2], ",")[0], "[]"))
			if ok = err == nil; ok {
				c.resolve[strings.ToLower(f[0])+":"+f[1]] = a
			}
		} else {
			ok = false
		}
		if !ok {
			c.Errorf("curl: (49) Couldn't parse CURLOPT_RESOLVE entry '%s'\n", o.Value)
			return 49
		}
	case "V":
		c.Put("curl %s (x86_64-pc-linux-gnu) libcurl/%s OpenSSL/3.0.13 zlib/1.3 nghttp2/1.59.0\nRelease-Date: 2023-12-06, security patched: 8.5.0-2ubuntu10.6\nProtocols: http https\nFeatures: alt-svc AsynchDNS HSTS HTTP2 HTTPS-proxy IPv6 libz SSL UnixSockets\n", curlVersion, curlVersion)
		return 0
	case "h":
		c.Put("Usage: curl [options...] <url>\n -d, --data <data>           HTTP POST data\n -f, --fail                  Fail fast with no output on HTTP errors\n -h, --help <category>       Get help for commands\n -i, --include               Include protocol response headers in the output\n -o, --output <file>         Write to file instead of stdout\n -O, --remote-name           Write output to a file named as the remote file\n -s, --silent                Silent mode\n -T, --upload-file <file>    Transfer local FILE to destination\n -u, --user <user:password>  Server user and password\n -A, --user-agent <name>     Send User-Agent <name> to server\n -v, --verbose               Make the operation more talkative\n -V, --version               Show version number and quit\n\nThis is not the full help, this menu is stripped into categories.\nUse \"--help category\" to get an overview of all categories.\nFor all options use the manual or \"--help all\".\n")
		return 0
	case "x":
		c.Errorf("curl: ckadrill does not simulate proxies yet\n")
		return 5
	default:
		c.opt[o.Name] = true
	}
	if !ok {
		return c.usage("option " + map[bool]string{true: "--", false: "-"}[len(o.Name) > 1] + o.Name + ": expected a proper numerical parameter")
	}
	return -1
}

func (c *curlRun) addData(o libc.Opt) int {
	v := o.Value
	c.hasData = true
	switch {
	case o.Name == "data-urlencode":
		name, val, found := strings.Cut(v, "=")
		if !found {
			name, val = "", v
		}
		v = url.QueryEscape(val)
		if name != "" {
			v = name + "=" + v
		}
	case o.Name != "data-raw" && strings.HasPrefix(v, "@"):
		b, err := c.InputAll(v[1:])
		if err != nil {
			c.Errorf("curl: Failed to open %s\n", v[1:])
			return 26
		}
		if v = string(b); o.Name == "d" {
			v = strings.NewReplacer("\n", "", "\r", "").Replace(v)
		}
	}
	if o.Name == "json" {
		c.headers = append(c.headers, "Content-Type: application/json", "Accept: application/json")
	}
	c.data = append(c.data, v)
	return -1
}

func (c *curlRun) note(format string, a ...any) {
	if c.opt["v"] {
		c.Errorf("* "+format+"\n", a...)
	}
}

// transfer fetches one URL and returns the exit code.
func (c *curlRun) transfer(raw string) int {
	var err error
	for try := 0; ; try++ {
		err = c.fetch(raw)
		var e *curlExit
		if err == nil || try >= c.retries || !errors.As(err, &e) || !(e.code == 28 || e.code == 6 || c.opt["retry-all-errors"] || e.code == 7 && c.opt["retry-connrefused"]) {
			break
		}
		delay := time.Second << min(try, 9)
		c.Errorf("Warning: Problem : %s. Will retry in %d seconds. %d retries left.\n", map[bool]string{true: "timeout", false: "connection refused"}[e.code == 28], delay/time.Second, c.retries-try)
		c.Wait(delay)
	}
	code := 0
	var e *curlExit
	if errors.As(err, &e) {
		code = e.code
	}
	if code != 0 && (!c.opt["s"] || c.opt["S"]) {
		c.Out.Flush()
		c.Errorf("curl: (%d) %s\n", code, e.text)
		if code == 60 {
			c.Errorf("More details here: https://curl.se/docs/sslcerts.html\n\ncurl failed to verify the legitimacy of the server and therefore could not\nestablish a secure connection to it. To learn more about this situation and\nhow to fix it, please visit the web page mentioned above.\n")
		}
	}
	if c.writeOut != "" {
		c.Put("%s", c.expand(c.writeOut, code, e))
	}
	return code
}

// fetch does the transfer with its redirects.
func (c *curlRun) fetch(raw string) error {
	c.start, c.redirects, c.size, c.res, c.conn = time.Now(), 0, 0, nil, nil
	ctx, cancel := context.WithCancel(c.Context())
	defer cancel()
	if c.maxTime > 0 {
		ctx, cancel = context.WithTimeout(ctx, c.maxTime)
		defer cancel()
	}
	u, err := parseURL(raw)
	if err != nil {
		return err
	}
	if c.get && c.hasData {
		if u.RawQuery != "" {
			u.RawQuery += "&"
		}
		u.RawQuery += strings.Join(c.data, "&")
	}
	cfg, err := c.tlsConfig(u)
	if err != nil {
		return err
	}
	method := c.method
	var body []byte
	switch {
	case c.upload != "":
		if body, err = c.InputAll(c.upload); err != nil {
			return curlError(26, "Failed to open/read local data from file/application")
		}
		method = orElse(method, "PUT")
	case c.opt["I"]:
		method = orElse(method, "HEAD")
	case c.hasData && !c.get:
		method, body = orElse(method, "POST"), []byte(strings.Join(c.data, "&"))
	}
	method = orElse(method, "GET")
	for {
		done, err := c.once(ctx, u, method, body, cfg)
		if err != nil || done {
			return err
		}
		if c.redirects++; c.maxRedirs >= 0 && c.redirects > c.maxRedirs {
			return curlError(47, "Maximum (%d) redirects followed", c.maxRedirs)
		}
		to, err := u.Parse(c.res.Header.Get("Location"))
		if err != nil {
			return curlError(3, "URL rejected: Malformed input to a URL function")
		}
		c.note("Issue another request to this URL: '%s'", to)
		if s := c.res.StatusCode; c.method == "" && (s == 303 || (s == 301 || s == 302) && method == "POST") {
			method, body = "GET", nil
		}
		u = to
	}
}

func orElse(s, def string) string {
	if s == "" {
		return def
	}
	return s
}

func parseURL(raw string) (*url.URL, error) {
	s := raw
	if !strings.Contains(s, "://") {
		s = "http://" + s
	}
	if strings.ContainsAny(s, " \t\n") {
		return nil, curlError(3, "URL rejected: Malformed input to a URL function")
	}
	u, err := url.Parse(s)
	if err != nil {
		if strings.Contains(err.Error(), "invalid port") {
			return nil, curlError(3, "URL rejected: Port number was not a decimal number between 0 and 65535")
		}
		return nil, curlError(3, "URL rejected: Malformed input to a URL function")
	}
	u.Scheme = strings.ToLower(u.Scheme)
	if u.Scheme != "http" && u.Scheme != "https" {
		return nil, curlError(1, "Protocol \"%s\" not supported", u.Scheme)
	}
	if u.Hostname() == "" {
		return nil, curlError(3, "URL rejected: No host part in the URL")
	}
	if n, err := strconv.Atoi(orElse(u.Port(), "80")); err != nil || n > 65535 {
		return nil, curlError(3, "URL rejected: Port number was not a decimal number between 0 and 65535")
	}
	if u.Path == "" {
		u.Path = "/"
	}
	return u, nil
}

func portOf(u *url.URL) string {
	if u.Port() != "" {
		return u.Port()
	}
	if u.Scheme == "https" {
		return "443"
	}
	return "80"
}

// once makes one request. done is false for a redirect that is to be followed.
func (c *curlRun) once(ctx context.Context, u *url.URL, method string, body []byte, cfg *tls.Config) (done bool, err error) {
	c.effective = u.String()
	name, port := u.Hostname(), portOf(u)
	connect := ctx
	if c.connTime > 0 {
		var cancel context.CancelFunc
		connect, cancel = context.WithTimeout(ctx, c.connTime)
		defer cancel()
	}
	addrs, err := c.addresses(connect, name, port)
	if err != nil {
		if connect.Err() != nil {
			return true, curlError(28, "Resolving timed out after %d milliseconds", c.ms())
		}
		return true, err
	}
	conn, err := c.dial(network.ForTransport(connect, u.Scheme == "https"), addrs, name, port)
	if err != nil {
		return true, err
	}
	c.connected = time.Since(c.start)
	if u.Scheme == "https" {
		c.note("ALPN: curl offers h2,http/1.1")
	}
	t := network.NewTransport(c.Process, cfg)
	t.HTTP1 = c.opt["http1.1"] || c.opt["0"]
	t.DialContext = func(context.Context, string, string) (net.Conn, error) { return conn, nil }
	defer conn.Close()
	defer t.CloseIdleConnections()
	req, _ := http.NewRequestWithContext(ctx, method, u.String(), bytes.NewReader(body))
	if body == nil {
		req.Body, req.ContentLength = nil, 0
	}
	c.addHeaders(req, u, body)
	if c.opt["v"] {
		req = req.WithContext(c.traced(ctx, u, req))
	}
	res, err := t.RoundTrip(req)
	if err != nil {
		return true, c.explain(ctx, err)
	}
	defer res.Body.Close()
	c.res = res
	follow := c.opt["L"] && res.StatusCode >= 300 && res.StatusCode < 400 && res.Header.Get("Location") != ""
	c.next = ""
	if l := res.Header.Get("Location"); l != "" {
		if to, err := u.Parse(l); err == nil {
			c.next = to.String()
		}
	}
	head := headerText(res)
	if c.opt["v"] {
		for l := range strings.Lines(head) {
			c.Errorf("< %s", l)
		}
	}
	if c.dumpTo == "-" {
		c.Put("%s", head)
	} else if c.dumpTo != "" {
		if err := c.Files.WriteFile(c.Path(c.dumpTo), []byte(head), 0o644); err != nil {
			return true, curlError(23, "Failed writing received data to disk/application")
		}
	}
	if c.opt["f"] && res.StatusCode >= 400 {
		return true, curlError(22, "The requested URL returned error: %d", res.StatusCode)
	}
	var out io.Writer = c.Out
	var file kernel.File
	if target := c.target(u); target != "" && !follow {
		file, err = c.Files.OpenFile(c.Path(target), 0x241, 0o644) // O_WRONLY|O_CREATE|O_TRUNC
		if err != nil {
			return true, curlError(23, "Failure writing output to destination")
		}
		defer file.Close()
		out = file
	}
	if c.opt["i"] || c.opt["I"] {
		io.WriteString(out, head)
	}
	if follow {
		io.Copy(io.Discard, res.Body)
		c.leftIntact(name)
		return false, nil
	}
	meter := !c.opt["s"] && !c.opt["no-progress-meter"] && !c.opt["#"] && (file != nil || !c.IsTerminal(c.Stdout))
	if meter {
		c.Out.Flush()
		c.Errorf("  %% Total    %% Received %% Xferd  Average Speed   Time    Time     Time  Current\n                                 Dload  Upload   Total   Spent    Left  Speed\n\r  0     0    0     0    0     0      0      0 --:--:-- --:--:-- --:--:--     0")
	}
	err = c.copy(out, res.Body, file == nil)
	if meter {
		total := c.size
		if res.ContentLength > 0 {
			total = res.ContentLength
		}
		speed := c.size
		if d := time.Since(c.start).Seconds(); d > 0 {
			speed = int64(float64(c.size) / d)
		}
		c.Errorf("\r100 %s  100 %s    0     0 %s      0 --:--:-- --:--:-- --:--:-- %s\n", amount(total), amount(c.size), pad(amount(speed), 6), amount(speed))
	}
	if err != nil {
		if ctx.Err() != nil {
			return true, curlError(28, "Operation timed out after %d milliseconds with %d bytes received", c.ms(), c.size)
		}
		if errors.Is(err, syscall.ECONNRESET) {
			return true, curlError(56, "Recv failure: Connection reset by peer")
		}
		if res.ProtoMajor == 2 {
			return true, curlError(92, "HTTP/2 stream 1 was not closed cleanly: INTERNAL_ERROR (err 2)")
		}
		return true, curlError(18, "transfer closed with outstanding read data remaining")
	}
	c.leftIntact(name)
	if c.opt["fail-with-body"] && res.StatusCode >= 400 {
		return true, curlError(22, "The requested URL returned error: %d", res.StatusCode)
	}
	return true, nil
}

func (c *curlRun) leftIntact(name string) { c.note("Connection #0 to host %s left intact", name) }

func pad(s string, n int) string { return strings.Repeat(" ", max(0, n-len(s))) + s }

// amount is a byte count in at most 5 columns, as curl's progress meter shows it.
func amount(n int64) string {
	switch {
	case n < 100000:
		return pad(strconv.FormatInt(n, 10), 5)
	case n < 10000<<10:
		return pad(strconv.FormatInt(n>>10, 10)+"k", 5)
	}
	return pad(strconv.FormatInt(n>>20, 10)+"M", 5)
}

// copy passes the body on as it comes, so that a watch can be followed.
func (c *curlRun) copy(out io.Writer, body io.Reader, flush bool) error {
	b := make([]byte, 16<<10)
	for {
		n, err := body.Read(b)
		c.size += int64(n)
		if n > 0 {
			if _, err := out.Write(b[:n]); err != nil {
				return curlError(23, "Failure writing output to destination")
			}
			if flush {
				c.Out.Flush()
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func (c *curlRun) target(u *url.URL) string {
	if c.output != "" && c.output != "-" {
		return c.output
	}
	if c.remote {
		return path.Base(u.Path)
	}
	return ""
}

func (c *curlRun) ms() int64 { return time.Since(c.start).Milliseconds() }

// addresses resolves the host.
func (c *curlRun) addresses(ctx context.Context, name, port string) ([]netip.Addr, error) {
	if a, ok := c.resolve[strings.ToLower(name)+":"+port]; ok {
		c.note("Added %s:%s:%s to DNS cache", name, port, a)
		return []netip.Addr{a}, nil
	}
	if c.unix != "" {
		return []netip.Addr{{}}, nil
	}
	l, err := network.ResolveLibc(ctx, c.Process, name)
	if err != nil {
		c.note("Could not resolve host: %s", name)
		return nil, curlError(6, "Could not resolve host: %s", name)
	}
	var keep []netip.Addr
	for _, a := range l {
		if c.opt["4"] && !a.Is4() || c.opt["6"] && a.Is4() {
			continue
		}
		keep = append(keep, a)
	}
	if len(keep) == 0 {
		return nil, curlError(6, "Could not resolve host: %s", name)
	}
	return keep, nil
}

// dial tries the addresses.
func (c *curlRun) dial(ctx context.Context, addrs []netip.Addr, name, port string) (net.Conn, error) {
	var last error
	for _, a := range addrs {
		var conn net.Conn
		var err error
		if c.unix != "" {
			c.note("  Trying %s:0...", c.unix)
			conn, err = c.Dial(ctx, "unix", c.unix)
		} else {
			p, _ := strconv.Atoi(port)
			c.note("  Trying %s...", netip.AddrPortFrom(a, uint16(p)))
			conn, err = c.Dial(ctx, "tcp", net.JoinHostPort(a.String(), port))
		}
		if err == nil {
			c.conn = conn
			c.note("Connected to %s (%s) port %s", name, a, port)
			return conn, nil
		}
		last = err
		if ctx.Err() != nil {
			break
		}
		c.note("connect to %s port %s failed: %s", a, port, libc.Strerror(err))
	}
	if ctx.Err() != nil {
		if c.maxTime > 0 && c.ms() >= c.maxTime.Milliseconds() {
			return nil, curlError(28, "Connection timed out after %d milliseconds", c.ms())
		}
		return nil, curlError(28, "Failed to connect to %s port %s after %d ms: Timeout was reached", name, port, c.ms())
	}
	code := 7
	if errors.Is(last, syscall.ETIMEDOUT) {
		code = 28
	}
	if c.unix != "" {
		return nil, curlError(code, "Failed to connect to %s port %s after %d ms: Couldn't connect to server", name, port, c.ms())
	}
	c.note("Failed to connect to %s port %s after %d ms: Couldn't connect to server", name, port, c.ms())
	c.note("Closing connection")
	return nil, curlError(code, "Failed to connect to %s port %s after %d ms: Couldn't connect to server", name, port, c.ms())
}

func (c *curlRun) addHeaders(req *http.Request, u *url.URL, body []byte) {
	req.Header = http.Header{"User-Agent": {c.agent}, "Accept": {"*/*"}}
	if c.agent == "" {
		req.Header["User-Agent"] = []string{""}
	}
	if c.user != "" {
		req.Header.Set("Authorization", "Basic "+base64.StdEncoding.EncodeToString([]byte(c.user)))
	} else if u.User != nil {
		p, _ := u.User.Password()
		req.SetBasicAuth(u.User.Username(), p)
	}
	if body != nil && c.upload == "" {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	for _, h := range c.headers {
		k, v, ok := strings.Cut(h, ":")
		switch k, v = strings.TrimSpace(k), strings.TrimSpace(v); {
		case !ok:
			if k, ok = strings.CutSuffix(k, ";"); ok {
				req.Header[http.CanonicalHeaderKey(k)] = []string{""}
			}
		case strings.EqualFold(k, "Host"):
			req.Host = v
		case v == "":
			req.Header.Del(k)
		default:
			req.Header.Set(k, v)
		}
	}
}

// headerText is the response's head as curl prints it.
func headerText(r *http.Response) string {
	var b strings.Builder
	keys := make([]string, 0, len(r.Header))
	for k := range r.Header {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	if r.ProtoMajor == 2 {
		fmt.Fprintf(&b, "HTTP/2 %d \r\n", r.StatusCode)
	} else {
		fmt.Fprintf(&b, "HTTP/%d.%d %s\r\n", r.ProtoMajor, r.ProtoMinor, r.Status)
	}
	for _, k := range keys {
		for _, v := range r.Header[k] {
			if r.ProtoMajor == 2 {
				k = strings.ToLower(k)
			}
			fmt.Fprintf(&b, "%s: %s\r\n", k, v)
		}
	}
	if r.ProtoMajor == 1 && r.ContentLength < 0 && r.Header.Get("Transfer-Encoding") == "" && len(r.TransferEncoding) > 0 {
		fmt.Fprintf(&b, "Transfer-Encoding: chunked\r\n")
	}
	b.WriteString("\r\n")
	return b.String()
}

// explain turns a failed request into curl's error.
func (c *curlRun) explain(ctx context.Context, err error) error {
	var e *curlExit
	if errors.As(err, &e) {
		return e
	}
	if ctx.Err() != nil {
		return curlError(28, "Operation timed out after %d milliseconds with %d bytes received", c.ms(), c.size)
	}
	var record tls.RecordHeaderError
	var op *net.OpError
	switch {
	case errors.As(err, &record):
		return curlError(35, "OpenSSL/3.0.13: error:0A00010B:SSL routines::wrong version number")
	case errors.As(err, &op) && op.Op == "remote error":
		return curlError(56, "OpenSSL SSL_read: OpenSSL/3.0.13: %s, errno 0", alertText(op.Err.Error()))
	case strings.Contains(err.Error(), "protocol version"):
		return curlError(35, "OpenSSL/3.0.13: error:0A00042E:SSL routines::tlsv1 alert protocol version")
	case errors.Is(err, syscall.ECONNRESET):
		return curlError(56, "Recv failure: Connection reset by peer")
	case strings.Contains(err.Error(), "TLS handshake timeout"):
		return curlError(28, "SSL connection timeout")
	case errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || strings.Contains(err.Error(), "server closed idle connection"):
		return curlError(52, "Empty reply from server")
	case strings.Contains(err.Error(), "malformed HTTP"):
		return curlError(1, "Received HTTP/0.9 when not allowed")
	case strings.Contains(err.Error(), "stream error"):
		return curlError(92, "HTTP/2 stream 1 was not closed cleanly: INTERNAL_ERROR (err 2)")
	}
	return curlError(35, "%s", err)
}

// alertText is how OpenSSL words an alert of the other end.
func alertText(s string) string {
	switch strings.TrimPrefix(s, "tls: ") {
	case "bad certificate":
		return "error:0A000412:SSL routines::sslv3 alert bad certificate"
	case "unknown certificate authority":
		return "error:0A000418:SSL routines::tlsv1 alert unknown ca"
	case "expired certificate":
		return "error:0A000415:SSL routines::sslv3 alert certificate expired"
	case "certificate required":
		return "error:0A00045C:SSL routines::tlsv13 alert certificate required"
	}
	return "error:0A000410:SSL routines::sslv3 alert handshake failure"
}

// systemCAs is where curl looks for CAs without --cacert.
const systemCAs = "/etc/ssl/certs/ca-certificates.crt"

func (c *curlRun) tlsConfig(u *url.URL) (*tls.Config, error) {
	cfg := &tls.Config{InsecureSkipVerify: true, MinVersion: c.minTLS, MaxVersion: c.maxTLS}
	if c.opt["http1.1"] || c.opt["0"] {
		cfg.NextProtos = []string{"http/1.1"}
	}
	pool := x509.NewCertPool()
	file := orElse(c.cacert, orElse(c.Getenv("CURL_CA_BUNDLE"), c.Getenv("SSL_CERT_FILE")))
	b, err := c.ReadFile(orElse(file, systemCAs))
	if (err != nil || !pool.AppendCertsFromPEM(b)) && file != "" && (u.Scheme == "https" || c.opt["L"]) {
		return nil, curlError(77, "error setting certificate file: %s", file)
	}
	if c.cert != "" {
		name, _, _ := strings.Cut(c.cert, ":")
		certPEM, err := c.ReadFile(name)
		if err != nil {
			return nil, curlError(58, "could not load PEM client certificate from %s, OpenSSL error error:80000002:system library::%s, (no key found, wrong pass phrase, or wrong file format?)", name, libc.Strerror(err))
		}
		keyPEM := certPEM
		if c.key != "" {
			if keyPEM, err = c.ReadFile(c.key); err != nil {
				return nil, curlError(58, "unable to set private key file: '%s' type PEM", c.key)
			}
		}
		pair, err := tls.X509KeyPair(certPEM, keyPEM)
		if err != nil {
			return nil, curlError(58, "unable to set private key file: '%s' type PEM", orElse(c.key, name))
		}
		cfg.Certificates = []tls.Certificate{pair}
	}
	cfg.VerifyConnection = func(s tls.ConnectionState) error {
		err := verifyPeer(s, pool, u.Hostname())
		c.mu.Lock()
		defer c.mu.Unlock()
		c.appConn = time.Since(c.start)
		c.verify = ""
		if err != nil {
			c.verify = err.text
		}
		if c.opt["v"] {
			c.noteTLS(s, err)
		}
		if err != nil && !c.opt["k"] {
			return err
		}
		return nil
	}
	return cfg, nil
}

// verifyPeer checks a server's certificate and words the failure as OpenSSL does.
func verifyPeer(s tls.ConnectionState, pool *x509.CertPool, name string) *curlExit {
	leaf := s.PeerCertificates[0]
	inter := x509.NewCertPool()
	for _, k := range s.PeerCertificates[1:] {
		inter.AddCert(k)
	}
	_, err := leaf.Verify(x509.VerifyOptions{Roots: pool, Intermediates: inter, CurrentTime: time.Now()})
	problem := func(s string) *curlExit { return curlError(60, "SSL certificate problem: %s", s) }
	var unknown x509.UnknownAuthorityError
	var invalid x509.CertificateInvalidError
	last := s.PeerCertificates[len(s.PeerCertificates)-1]
	switch {
	case errors.As(err, &unknown):
		if bytes.Equal(leaf.RawIssuer, leaf.RawSubject) {
			return problem("self-signed certificate")
		}
		if bytes.Equal(last.RawIssuer, last.RawSubject) {
			return problem("self-signed certificate in certificate chain")
		}
		return problem("unable to get local issuer certificate")
	case errors.As(err, &invalid) && invalid.Reason == x509.Expired:
		if time.Now().Before(invalid.Cert.NotBefore) {
			return problem("certificate is not yet valid")
		}
		return problem("certificate has expired")
	case err != nil:
		return problem("unsuitable certificate purpose")
	}
	if leaf.VerifyHostname(name) != nil {
		return curlError(60, "SSL: no alternative certificate subject name matches target host name '%s'", name)
	}
	return nil
}
