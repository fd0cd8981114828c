package images

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"ckadrill/sim/kernel"
	"ckadrill/sim/network"
)

// nginxSite is a configuration that is ready to serve.
type nginxSite struct {
	n         *nginxServer
	main      []*directive
	http      []*directive
	servers   []*virtualServer
	formats   map[string]string
	upstreams map[string][]string
	types     map[string]string // extension -> MIME type
	turn      map[string]int
}

type virtualServer struct {
	d       *directive
	listens []listenAddress
	names   []string
}

type listenAddress struct {
	address string // "0.0.0.0:80", "[::]:80"
	primary bool   // default_server
}

// scope is a directive's surroundings: the innermost block first.
type scope [][]*directive

// value is the innermost value of a directive.
func (s scope) value(name string) string {
	for _, l := range s {
		if v := find(l, name); len(v) > 0 && len(v[len(v)-1].args) > 0 {
			return v[len(v)-1].args[0]
		}
	}
	return ""
}

// all is the innermost block's directives of a name.
func (s scope) all(name string) []*directive {
	for _, l := range s {
		if v := find(l, name); len(v) > 0 {
			return v
		}
	}
	return nil
}

const combined = `$remote_addr - $remote_user [$time_local] "$request" $status $body_bytes_sent "$http_referer" "$http_user_agent"`

func newSite(n *nginxServer, main []*directive) (*nginxSite, error) {
	s := &nginxSite{n: n, main: main, formats: map[string]string{"combined": combined}, upstreams: map[string][]string{}, types: map[string]string{"html": "text/html", "gif": "image/gif", "jpg": "image/jpeg"}, turn: map[string]int{}}
	for _, h := range find(main, "http") {
		s.http = append(s.http, h.block...)
	}
	if t := find(s.http, "types"); len(t) > 0 {
		s.types = map[string]string{}
		for _, d := range t[0].block {
			for _, ext := range d.args {
				s.types[ext] = d.name
			}
		}
	}
	for _, f := range find(s.http, "log_format") {
		if len(f.args) > 1 {
			s.formats[f.args[0]] = strings.Join(f.args[1:], "")
		}
	}
	for _, u := range find(s.http, "upstream") {
		for _, b := range find(u.block, "server") {
			if len(b.args) > 0 && !slices.Contains(b.args, "down") {
				s.upstreams[u.args[0]] = append(s.upstreams[u.args[0]], withPort(b.args[0], "80"))
			}
		}
		if len(s.upstreams[u.args[0]]) == 0 {
			return nil, u.errorf("no servers are inside upstream")
		}
	}
	for _, d := range find(s.http, "server") {
		v := &virtualServer{d: d}
		for _, l := range find(d.block, "listen") {
			a, err := parseListen(l)
			if err != nil {
				return nil, err
			}
			if slices.ContainsFunc(v.listens, func(o listenAddress) bool { return o.address == a.address }) {
				return nil, l.errorf("a duplicate listen %s", l.args[0])
			}
			if slices.Contains(l.args, "ssl") {
				return nil, l.errorf("ckadrill does not simulate nginx with ssl yet, it is listened for")
			}
			v.listens = append(v.listens, a)
		}
		if len(v.listens) == 0 {
			v.listens = []listenAddress{{address: "0.0.0.0:80"}}
		}
		for _, m := range find(d.block, "server_name") {
			v.names = append(v.names, m.args...)
		}
		if err := s.checkServer(d); err != nil {
			return nil, err
		}
		s.servers = append(s.servers, v)
	}
	return s, nil
}

// checkServer finds errors that nginx finds beyond the syntax: upstreams that cannot be resolved, regular expressions.
func (s *nginxSite) checkServer(d *directive) error {
	seen := map[string]bool{}
	for _, l := range find(d.block, "location") {
		name := strings.Join(l.args, " ")
		if seen[name] {
			return l.errorf("duplicate location %q", l.args[len(l.args)-1])
		}
		seen[name] = true
		if strings.HasPrefix(l.args[0], "~") && len(l.args) > 1 {
			if _, err := regexp.Compile(l.args[1]); err != nil {
				return l.errorf("pcre2_compile() failed: %v in %q", err, l.args[1])
			}
		}
		for _, p := range find(l.block, "proxy_pass") {
			u, err := url.Parse(p.args[0])
			if err != nil || u.Scheme != "http" && u.Scheme != "https" {
				return p.errorf("invalid URL prefix")
			}
			if strings.Contains(p.args[0], "$") || s.upstreams[u.Host] != nil {
				continue
			}
			if _, err := s.resolve(context.Background(), u.Hostname()); err != nil {
				return p.errorf("host not found in upstream %q", u.Host)
			}
		}
	}
	return nil
}

func (s *nginxSite) resolve(ctx context.Context, host string) (string, error) {
	if net.ParseIP(host) != nil {
		return host, nil
	}
	l, err := network.Resolve(ctx, s.n.p, host)
	if err != nil || len(l) == 0 {
		return "", fmt.Errorf("%s could not be resolved", host)
	}
	return l[0].String(), nil
}

func withPort(host, port string) string {
	if _, _, err := net.SplitHostPort(host); err == nil {
		return host
	}
	return net.JoinHostPort(strings.Trim(host, "[]"), port)
}

func parseListen(d *directive) (listenAddress, error) {
	a := listenAddress{primary: slices.Contains(d.args, "default_server") || slices.Contains(d.args, "default")}
	v := d.args[0]
	bad := func() (listenAddress, error) { return a, d.errorf("invalid port in %q of the \"listen\" directive", v) }
	if strings.HasPrefix(v, "unix:") {
		a.address = v
		return a, nil
	}
	host, port := "0.0.0.0", v
	if i := strings.LastIndex(v, ":"); i >= 0 && !strings.HasSuffix(v, "]") {
		host, port = strings.Trim(v[:i], "[]"), v[i+1:]
	} else if _, err := strconv.Atoi(v); err != nil {
		host, port = strings.Trim(v, "[]"), "80"
	}
	n, err := strconv.Atoi(port)
	if err != nil || n < 1 || n > 65535 {
		return bad()
	}
	if host == "*" {
		host = "0.0.0.0"
	}
	if host == "localhost" {
		host = "127.0.0.1"
	}
	if net.ParseIP(host) == nil {
		return a, d.errorf("host not found in %q of the \"listen\" directive", v)
	}
	a.address = net.JoinHostPort(host, port)
	return a, nil
}

// addresses lists what the site listens on, in the order of the configuration.
func (s *nginxSite) addresses() (l []string) {
	for _, v := range s.servers {
		for _, a := range v.listens {
			if !slices.Contains(l, a.address) {
				l = append(l, a.address)
			}
		}
	}
	return l
}

// server finds the virtual server for a request: by its name, else the address's default.
func (s *nginxSite) server(address, host string) *virtualServer {
	if h, _, err := net.SplitHostPort(host); err == nil {
		host = h
	}
	var first, primary, wildcard *virtualServer
	for _, v := range s.servers {
		for _, a := range v.listens {
			if a.address != address {
				continue
			}
			if first == nil {
				first = v
			}
			if a.primary && primary == nil {
				primary = v
			}
			for _, n := range v.names {
				switch {
				case n == host && n != "":
					return v
				case strings.HasPrefix(n, "*.") && strings.HasSuffix(host, n[1:]), strings.HasPrefix(n, ".") && (strings.HasSuffix(host, n) || host == n[1:]):
					wildcard = v
				case strings.HasPrefix(n, "~"):
					if re, err := regexp.Compile(n[1:]); err == nil && re.MatchString(host) && wildcard == nil {
						wildcard = v
					}
				}
			}
		}
	}
	switch {
	case wildcard != nil:
		return wildcard
	case primary != nil:
		return primary
	}
	return first
}

// location finds the location block for a path by nginx's rules.
func location(l []*directive, uri string) *directive {
	var best *directive
	length := -1
	for _, d := range find(l, "location") {
		mod, arg := "", d.args[0]
		if len(d.args) > 1 {
			mod, arg = d.args[0], d.args[1]
		}
		switch mod {
		case "=":
			if uri == arg {
				return d
			}
		case "", "^~":
			if strings.HasPrefix(uri, arg) && len(arg) > length {
				best, length = d, len(arg)
			}
		}
	}
	if best != nil && best.args[0] == "^~" {
		return best
	}
	for _, d := range find(l, "location") {
		if len(d.args) > 1 && strings.HasPrefix(d.args[0], "~") {
			expr := d.args[1]
			if d.args[0] == "~*" {
				expr = "(?i)" + expr
			}
			if re, err := regexp.Compile(expr); err == nil && re.MatchString(uri) {
				return d
			}
		}
	}
	return best
}

// exchange is one request with its answer.
type exchange struct {
	s      *nginxSite
	w      http.ResponseWriter
	r      *http.Request
	v      *virtualServer
	uri    string
	scope  scope
	serial int
	status int
	sent   int64
	jumps  int
	start  time.Time
	// fixed is the status that an error page is shown with.
	fixed int
	// logging has empty variables shown as a dash.
	logging bool
}

func (e *exchange) Header() http.Header { return e.w.Header() }

func (e *exchange) WriteHeader(code int) {
	if e.fixed != 0 && code == http.StatusOK {
		code = e.fixed
	}
	if e.status == 0 {
		e.status = code
	}
	e.w.WriteHeader(code)
}

func (e *exchange) Write(b []byte) (int, error) {
	if e.status == 0 {
		e.WriteHeader(http.StatusOK)
	}
	n, err := e.w.Write(b)
	e.sent += int64(n)
	return n, err
}

// Unwrap lets http.ResponseController find the writer below.
func (e *exchange) Unwrap() http.ResponseWriter { return e.w }

func (s *nginxSite) serve(w http.ResponseWriter, r *http.Request, address string, serial int) {
	e := &exchange{s: s, w: w, r: r, v: s.server(address, r.Host), uri: path.Clean("/" + r.URL.Path), serial: serial, start: time.Now()}
	if strings.HasSuffix(r.URL.Path, "/") && e.uri != "/" {
		e.uri += "/"
	}
	token := "nginx/" + s.n.version
	if e.v != nil && (scope{e.v.d.block, s.http}).value("server_tokens") == "off" {
		token = "nginx"
	}
	w.Header().Set("Server", token)
	e.handle()
	e.logAccess()
}

// handle finds the location and answers.
func (e *exchange) handle() {
	if e.jumps++; e.jumps > 10 {
		e.fail(http.StatusInternalServerError, "rewrite or internal redirection cycle while processing %q", e.uri)
		return
	}
	if e.v == nil {
		e.fail(http.StatusNotFound, "")
		return
	}
	e.scope = scope{e.v.d.block, e.s.http, e.s.main}
	if e.returned(e.v.d.block) {
		return
	}
	l := e.v.d.block
	var loc *directive
	for d := location(l, e.uri); d != nil; d = location(d.block, e.uri) {
		loc = d
		e.scope = append(scope{d.block}, e.scope...)
	}
	if loc == nil {
		e.static(nil)
		return
	}
	switch {
	case e.returned(loc.block):
	case len(find(loc.block, "stub_status")) > 0:
		fmt.Fprintf(e, "Active connections: 1 \nserver accepts handled requests\n %d %d %d \nReading: 0 Writing: 1 Waiting: 0 \n", e.serial, e.serial, e.serial)
	case len(find(loc.block, "proxy_pass")) > 0:
		e.proxy(loc, find(loc.block, "proxy_pass")[0])
	default:
		e.static(loc)
	}
}

// returned executes a block's return directive.
func (e *exchange) returned(block []*directive) bool {
	d := find(block, "return")
	if len(d) == 0 {
		return false
	}
	code, err := strconv.Atoi(d[0].args[0])
	text := ""
	if err != nil {
		code, text = http.StatusFound, d[0].args[0]
	} else if len(d[0].args) > 1 {
		text = d[0].args[1]
	}
	text = e.expand(text)
	e.addHeaders()
	switch {
	case code == 444:
		panic(http.ErrAbortHandler)
	case code >= 301 && code <= 308 && code != 304:
		e.redirect(code, text)
	case len(d[0].args) < 2 && err == nil && code >= 400:
		e.fail(code, "")
	default:
		if e.Header().Get("Content-Type") == "" {
			e.Header().Set("Content-Type", e.mime(e.uri))
		}
		e.Header().Set("Content-Length", strconv.Itoa(len(text)))
		e.WriteHeader(code)
		io.WriteString(e, text)
	}
	return true
}

func (e *exchange) redirect(code int, to string) {
	if strings.HasPrefix(to, "/") {
		to = "http://" + e.r.Host + to
	}
	e.Header().Set("Location", to)
	e.page(code)
}

func (e *exchange) addHeaders() {
	for _, h := range e.scope.all("add_header") {
		if len(h.args) > 1 {
			e.Header().Add(h.args[0], e.expand(h.args[1]))
		}
	}
}

func (e *exchange) mime(name string) string {
	if t := e.s.types[strings.TrimPrefix(path.Ext(name), ".")]; t != "" {
		return t
	}
	if t := e.scope.value("default_type"); t != "" {
		return t
	}
	return "text/plain"
}

// root is the directory that a URI is looked up in, and the file it names.
func (e *exchange) file(loc *directive, uri string) string {
	if loc != nil {
		if a := value(loc.block, "alias"); a != "" {
			prefix := loc.args[len(loc.args)-1]
			return path.Join("/", e.expand(a), strings.TrimPrefix(uri, prefix))
		}
	}
	root := e.scope.value("root")
	if root == "" {
		root = "/etc/nginx/html"
	}
	root = e.expand(root)
	if !path.IsAbs(root) {
		root = path.Join("/etc/nginx", root)
	}
	return path.Join(root, uri)
}

// static serves a file.
func (e *exchange) static(loc *directive) {
	if e.r.Method != http.MethodGet && e.r.Method != http.MethodHead {
		e.fail(http.StatusMethodNotAllowed, "")
		return
	}
	if t := e.scope.all("try_files"); len(t) > 0 {
		args := t[0].args
		for i, a := range args {
			a = e.expand(a)
			if i == len(args)-1 {
				if code, err := strconv.Atoi(strings.TrimPrefix(a, "=")); err == nil && strings.HasPrefix(a, "=") {
					e.fail(code, "")
				} else {
					e.uri = a
					e.handle()
				}
				return
			}
			name := e.file(loc, strings.TrimSuffix(a, "/"))
			if info, err := e.s.n.p.Files.Stat(name); err == nil && info.IsDir() == strings.HasSuffix(a, "/") {
				e.uri = a
				break
			}
		}
	}
	name := e.file(loc, e.uri)
	files := e.s.n.p.Files.As(e.credential())
	info, err := files.Stat(name)
	if err == nil && info.IsDir() {
		if !strings.HasSuffix(e.uri, "/") {
			e.redirect(http.StatusMovedPermanently, e.uri+"/")
			return
		}
		e.directory(loc, name, files)
		return
	}
	if err == nil && strings.HasSuffix(e.uri, "/") {
		err = &fs.PathError{Op: "open", Path: name + "/", Err: fs.ErrNotExist}
	}
	if err != nil {
		e.openFailed(name, err)
		return
	}
	e.send(files, name, info)
}

// credential is who the worker processes are.
func (e *exchange) credential() kernel.Credential {
	if e.s.n.p.Cred.UID == 0 {
		return kernel.Credential{UID: 101, GID: 101}
	}
	return e.s.n.p.Cred
}

func (e *exchange) openFailed(name string, err error) {
	code := http.StatusNotFound
	if strings.HasPrefix(errnoText(err), "13:") {
		code = http.StatusForbidden
	}
	e.fail(code, "open() \"%s\" failed (%s)", name, errnoText(err))
}

func (e *exchange) send(files kernel.Files, name string, info fs.FileInfo) {
	f, err := files.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		e.openFailed(name, err)
		return
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		e.openFailed(name, err)
		return
	}
	e.addHeaders()
	e.Header().Set("Content-Type", e.mime(name))
	e.Header().Set("Etag", fmt.Sprintf("\"%x-%x\"", info.ModTime().Unix(), len(b)))
	http.ServeContent(e, e.r, name, info.ModTime(), bytes.NewReader(b))
}

// directory serves an index file, or a listing if that is wanted.
func (e *exchange) directory(loc *directive, dir string, files kernel.Files) {
	index := []string{"index.html"}
	if d := e.scope.all("index"); len(d) > 0 {
		index = d[len(d)-1].args
	}
	for _, i := range index {
		name := path.Join(dir, i)
		if info, err := files.Stat(name); err == nil && !info.IsDir() {
			// An index is an internal redirect: another location may match it.
			if l := location(e.v.d.block, e.uri+i); l != nil && l != loc && e.jumps < 10 {
				e.uri += i
				e.handle()
				return
			}
			e.send(files, name, info)
			return
		}
	}
	if e.scope.value("autoindex") == "on" {
		e.autoindex(dir, files)
		return
	}
	e.fail(http.StatusForbidden, "directory index of \"%s/\" is forbidden", strings.TrimSuffix(dir, "/"))
}

func (e *exchange) autoindex(dir string, files kernel.Files) {
	entries, err := files.ReadDir(dir)
	if err != nil {
		e.openFailed(dir, err)
		return
	}
	e.Header().Set("Content-Type", "text/html")
	var b strings.Builder
	fmt.Fprintf(&b, "<html>\r\n<head><title>Index of %s</title></head>\r\n<body>\r\n<h1>Index of %[1]s</h1><hr><pre><a href=\"../\">../</a>\r\n", e.uri)
	for _, d := range entries {
		info, err := d.Info()
		if err != nil {
			continue
		}
		name, size := d.Name(), strconv.FormatInt(info.Size(), 10)
		if d.IsDir() {
			name, size = name+"/", "-"
		}
		fmt.Fprintf(&b, "<a href=\"%s\">%[1]s</a>%s %s %19s\r\n", name, strings.Repeat(" ", max(1, 51-len(name))), info.ModTime().UTC().Format("02-Jan-2006 15:04"), size)
	}
	b.WriteString("</pre><hr></body>\r\n</html>\r\n")
	io.WriteString(e, b.String())
}

// fail answers with an error page, the configured one if there is one, and says why in the error log.
func (e *exchange) fail(code int, format string, a ...any) {
	if format != "" {
		e.logError(format, a...)
	}
	if e.fixed == 0 && e.v != nil {
		for _, d := range e.scope.all("error_page") {
			if len(d.args) > 1 && slices.Contains(d.args[:len(d.args)-1], strconv.Itoa(code)) {
				uri := d.args[len(d.args)-1]
				if strings.HasPrefix(uri, "/") {
					e.fixed, e.uri = code, uri
					e.handle()
					return
				}
			}
		}
	}
	if e.fixed != 0 {
		code = e.fixed
	}
	e.page(code)
}

// page is nginx's own page for a status.
func (e *exchange) page(code int) {
	token := e.Header().Get("Server")
	title := strconv.Itoa(code) + " " + http.StatusText(code)
	if code == http.StatusMethodNotAllowed {
		title = "405 Not Allowed"
	}
	body := fmt.Sprintf("<html>\r\n<head><title>%s</title></head>\r\n<body>\r\n<center><h1>%[1]s</h1></center>\r\n<hr><center>%[2]s</center>\r\n</body>\r\n</html>\r\n", title, token)
	e.Header().Set("Content-Type", "text/html")
	e.Header().Set("Content-Length", strconv.Itoa(len(body)))
	e.WriteHeader(code)
	if e.r.Method != http.MethodHead {
		io.WriteString(e, body)
	}
}

// logError writes to the error log what went wrong with the request.
func (e *exchange) logError(format string, a ...any) {
	name := ""
	if e.v != nil && len(e.v.names) > 0 {
		name = e.v.names[0]
	}
	pid := e.s.n.worker(e.serial)
	text := fmt.Sprintf("*%d %s, client: %s, server: %s, request: %q, host: %q", e.serial, fmt.Sprintf(format, a...), e.client(), name, e.request(), e.r.Host)
	if ref := e.r.Referer(); ref != "" {
		text += fmt.Sprintf(", referrer: %q", ref)
	}
	e.s.n.logAs(pid, "error", "%s", text)
}

func (e *exchange) client() string {
	h, _, err := net.SplitHostPort(e.r.RemoteAddr)
	if err != nil {
		return e.r.RemoteAddr
	}
	return h
}

func (e *exchange) request() string {
	return e.r.Method + " " + e.r.URL.RequestURI() + " " + e.r.Proto
}

// logAccess writes the access log's line.
func (e *exchange) logAccess() {
	d := e.scope.all("access_log")
	format, target := combined, "/var/log/nginx/access.log"
	if len(d) > 0 {
		args := d[len(d)-1].args
		if args[0] == "off" {
			return
		}
		target = args[0]
		if len(args) > 1 {
			if f, ok := e.s.formats[args[1]]; ok {
				format = f
			}
		}
	}
	e.logging = true
	e.s.n.write(target, e.expand(format)+"\n")
}

// write appends to a log file: standard output and error where the name leads there.
func (n *nginxServer) write(name, line string) {
	if t, err := n.p.Files.Readlink(name); err == nil {
		name = t
	}
	switch name {
	case "/dev/stdout", "/proc/self/fd/1":
		io.WriteString(n.p.Stdout, line)
	case "/dev/stderr", "/proc/self/fd/2", "stderr":
		io.WriteString(n.p.Stderr, line)
	default:
		if f, err := n.p.Files.OpenFile(name, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o644); err == nil {
			io.WriteString(f, line)
			f.Close()
		}
	}
}

// expand replaces variables.
func (e *exchange) expand(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '$' {
			b.WriteByte(s[i])
			continue
		}
		j := i + 1
		braces := j < len(s) && s[j] == '{'
		if braces {
			j++
		}
		k := j
		for k < len(s) && (s[k] == '_' || s[k] >= 'a' && s[k] <= 'z' || s[k] >= '0' && s[k] <= '9') {
			k++
		}
		v := e.variable(s[j:k])
		if v == "" && e.logging {
			v = "-"
		}
		b.WriteString(v)
		if braces && k < len(s) && s[k] == '}' {
			k++
		}
		i = k - 1
	}
	return b.String()
}

func (e *exchange) variable(name string) string {
	switch name {
	case "remote_addr", "realip_remote_addr":
		return e.client()
	case "remote_user":
		u, _, _ := e.r.BasicAuth()
		return u
	case "time_local":
		return time.Now().UTC().Format("02/Jan/2006:15:04:05 -0700")
	case "time_iso8601":
		return time.Now().UTC().Format("2006-01-02T15:04:05-07:00")
	case "msec":
		return fmt.Sprintf("%.3f", float64(time.Now().UnixMilli())/1000)
	case "request":
		return e.request()
	case "request_method":
		return e.r.Method
	case "request_uri":
		return e.r.URL.RequestURI()
	case "request_time", "upstream_response_time":
		return fmt.Sprintf("%.3f", time.Since(e.start).Seconds())
	case "uri", "document_uri":
		return e.uri
	case "args", "query_string":
		return e.r.URL.RawQuery
	case "is_args":
		if e.r.URL.RawQuery != "" {
			return "?"
		}
		return ""
	case "scheme":
		return "http"
	case "status":
		return strconv.Itoa(e.status)
	case "body_bytes_sent", "bytes_sent":
		return strconv.FormatInt(e.sent, 10)
	case "host":
		h, _, err := net.SplitHostPort(e.r.Host)
		if err != nil {
			return e.r.Host
		}
		return h
	case "hostname":
		return e.s.n.p.HostName()
	case "server_name":
		if e.v != nil && len(e.v.names) > 0 {
			return e.v.names[0]
		}
		return ""
	case "server_addr":
		return hostOf(e.r, 0)
	case "server_port":
		return hostOf(e.r, 1)
	case "server_protocol":
		return e.r.Proto
	case "nginx_version":
		return e.s.n.version
	case "pid":
		return strconv.Itoa(e.s.n.p.OwnPID())
	case "proxy_host":
		return ""
	case "proxy_add_x_forwarded_for":
		if f := e.r.Header.Get("X-Forwarded-For"); f != "" {
			return f + ", " + e.client()
		}
		return e.client()
	}
	if h, ok := strings.CutPrefix(name, "http_"); ok {
		return e.r.Header.Get(strings.ReplaceAll(h, "_", "-"))
	}
	if a, ok := strings.CutPrefix(name, "arg_"); ok {
		return e.r.URL.Query().Get(a)
	}
	return ""
}

func hostOf(r *http.Request, part int) string {
	a, ok := r.Context().Value(http.LocalAddrContextKey).(net.Addr)
	if !ok {
		return ""
	}
	h, p, err := net.SplitHostPort(a.String())
	if err != nil {
		return ""
	}
	if part == 1 {
		return p
	}
	return h
}
