package images

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path"
	"strconv"
	"strings"
	"time"

	"ckadrill/sim/kernel"
	"ckadrill/sim/network"
)

// apache is what httpd has read from its configuration.
type apache struct {
	p          *kernel.Process
	version    string
	root       string // ServerRoot
	documents  string // DocumentRoot
	serverName string
	listens    []string
	index      []string
}

// httpd is Apache's httpd of the httpd images, run with -DFOREGROUND.
func httpd(p *kernel.Process) int {
	a := &apache{p: p, version: binaryVersion(p), root: "/usr/local/apache2", documents: "/usr/local/apache2/htdocs", index: []string{"index.html"}}
	test := false
	conf := "conf/httpd.conf"
	for i, arg := range p.Argv[1:] {
		switch arg {
		case "-v", "-V":
			p.Printf("Server version: Apache/%s (Unix)\nServer built:   Oct 21 2025 00:11:31\n", a.version)
			return 0
		case "-t":
			test = true
		case "-f":
			if i+2 < len(p.Argv) {
				conf = p.Argv[i+2]
			}
		}
	}
	if !path.IsAbs(conf) {
		conf = path.Join(a.root, conf)
	}
	if err := a.read(conf); err != nil {
		p.Errorf("%s\n", err)
		return 1
	}
	if test {
		p.Errorf("Syntax OK\n")
		return 0
	}
	return a.run()
}

// read takes the directives that matter from the configuration; blocks are passed over.
func (a *apache) read(name string) error {
	b, err := a.p.Files.ReadFile(name)
	if err != nil {
		return fmt.Errorf("httpd: Could not open configuration file %s: %s", name, plainErrno(err))
	}
	for n, line := range strings.Split(string(b), "\n") {
		f := strings.Fields(strings.TrimSpace(line))
		if len(f) == 0 || strings.HasPrefix(f[0], "#") || strings.HasPrefix(f[0], "<") {
			continue
		}
		arg := ""
		if len(f) > 1 {
			arg = strings.Trim(f[1], `"`)
		}
		switch strings.ToLower(f[0]) {
		case "serverroot":
			a.root = arg
		case "listen":
			l := arg
			if !strings.Contains(l, ":") {
				l = ":" + l
			}
			if _, port, err := net.SplitHostPort(l); err != nil || !isPort(port) {
				return fmt.Errorf("AH00526: Syntax error on line %d of %s:\nPort must be specified", n+1, name)
			}
			a.listens = append(a.listens, l)
		case "documentroot":
			a.documents = arg
		case "servername":
			a.serverName = arg
		case "directoryindex":
			a.index = f[1:]
		default:
			if !apacheDirectives[strings.ToLower(f[0])] {
				return fmt.Errorf("AH00526: Syntax error on line %d of %s:\nInvalid command '%s', perhaps misspelled or defined by a module not included in the server configuration", n+1, name, f[0])
			}
		}
	}
	if len(a.listens) == 0 {
		return fmt.Errorf("no listening sockets available, shutting down\nAH00015: Unable to open logs")
	}
	if i, err := a.p.Files.Stat(a.documents); err != nil || !i.IsDir() {
		return fmt.Errorf("AH00526: Syntax error on line 1 of %s:\nDocumentRoot '%s' is not a directory, or is not readable", name, a.documents)
	}
	return nil
}

func isPort(s string) bool {
	n, err := strconv.Atoi(s)
	return err == nil && n > 0 && n < 65536
}

// plainErrno is an error's text without its number.
func plainErrno(err error) string {
	_, text, ok := strings.Cut(errnoText(err), ": ")
	if !ok {
		return err.Error()
	}
	return text
}

var apacheDirectives = func() map[string]bool {
	m := map[string]bool{}
	for _, n := range strings.Fields(`accessfilename addhandler addtype allow allowoverride alias customlog deny directoryindex enablemmap enablesendfile errordocument errorlog group include includeoptional
		indexoptions keepalive keepalivetimeout loadmodule logformat loglevel maxkeepaliverequests mimemagicfile options order proxypass proxypassreverse redirect require requestheader header rewriteengine rewriterule rewritecond
		scriptalias serveradmin serveralias serversignature servertokens setenvif sslrandomseed sslengine timeout traceenable typesconfig user usecanonicalname virtualdocumentroot`) {
		m[n] = true
	}
	return m
}()

const apacheTime = "Mon Jan 02 15:04:05.000000 2006"

func (a *apache) notice(module, id, text string) {
	a.p.Errorf("[%s] [%s:notice] [pid %d:tid %d] %s: %s\n", time.Now().UTC().Format(apacheTime), module, a.p.OwnPID(), a.p.OwnPID(), id, text)
}

func (a *apache) run() int {
	p := a.p
	quiet := p.Resumed()
	if a.serverName == "" && !quiet {
		for range 2 {
			p.Errorf("AH00558: httpd: Could not reliably determine the server's fully qualified domain name, using %s. Set the 'ServerName' directive globally to suppress this message\n", a.ownAddress())
		}
	}
	var servers []*network.Server
	for _, addr := range a.listens {
		l, err := p.Listen("tcp", addr)
		if err != nil {
			shown := addr
			if strings.HasPrefix(addr, ":") {
				shown = "[::]" + addr
			}
			p.Errorf("(%s)%s: AH00072: make_sock: could not bind to address %s\nno listening sockets available, shutting down\nAH00015: Unable to open logs\n", strings.SplitN(errnoText(err), ":", 2)[0], plainErrno(err), shown)
			return 1
		}
		s := &network.Server{Handler: a}
		servers = append(servers, s)
		go s.Serve(l)
	}
	p.Files.WriteFile(path.Join(a.root, "logs/httpd.pid"), []byte(strconv.Itoa(p.OwnPID())+"\n"), 0o644)
	if !quiet {
		a.notice("mpm_event", "AH00489", "Apache/"+a.version+" (Unix) configured -- resuming normal operations")
		a.notice("core", "AH00094", "Command line: 'httpd -D FOREGROUND'")
	}
	p.SetMemory(6 << 20)
	stop := make(chan kernel.Signal, 1)
	for _, s := range []kernel.Signal{kernel.SIGTERM, kernel.SIGWINCH, kernel.SIGINT} {
		p.Notify(s, func() {
			select {
			case stop <- s:
			default:
			}
		})
	}
	for _, s := range []kernel.Signal{kernel.SIGUSR1, kernel.SIGHUP} {
		p.Notify(s, func() { a.notice("mpm_event", "AH00493", s.String()+" received.  Doing graceful restart") })
	}
	select {
	case s := <-stop:
		if s == kernel.SIGWINCH {
			a.notice("mpm_event", "AH00492", "caught SIGWINCH, shutting down gracefully")
		} else {
			a.notice("mpm_event", "AH00491", "caught SIGTERM, shutting down")
		}
	case <-p.Context().Done():
	}
	for _, s := range servers {
		s.Close()
	}
	return 0
}

func (a *apache) ownAddress() string {
	if a.p.Net != nil {
		for _, i := range a.p.Net.Interfaces() {
			for _, x := range i.Addresses {
				if x.Addr().Is4() && !x.Addr().IsLoopback() {
					return x.Addr().String()
				}
			}
		}
	}
	return "127.0.0.1"
}

// countingWriter remembers what was answered, for the log.
type countingWriter struct {
	http.ResponseWriter
	status int
	sent   int64
}

func (c *countingWriter) WriteHeader(code int) {
	if c.status == 0 {
		c.status = code
	}
	c.ResponseWriter.WriteHeader(code)
}

func (c *countingWriter) Write(b []byte) (int, error) {
	if c.status == 0 {
		c.WriteHeader(http.StatusOK)
	}
	n, err := c.ResponseWriter.Write(b)
	c.sent += int64(n)
	return n, err
}

// ServeHTTP serves the document root.
func (a *apache) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w := &countingWriter{ResponseWriter: rw}
	w.Header().Set("Server", "Apache/"+a.version+" (Unix)")
	a.serve(w, r)
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		host = r.RemoteAddr
	}
	sent := "-"
	if w.sent > 0 {
		sent = strconv.FormatInt(w.sent, 10)
	}
	a.p.Printf("%s - - [%s] \"%s %s %s\" %d %s\n", host, time.Now().UTC().Format("02/Jan/2006:15:04:05 -0700"), r.Method, r.URL.RequestURI(), r.Proto, w.status, sent)
}

func (a *apache) serve(w *countingWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		a.page(w, r, http.StatusMethodNotAllowed, "Method Not Allowed", "The requested method "+r.Method+" is not allowed for this URL.")
		return
	}
	name := path.Join(a.documents, path.Clean("/"+r.URL.Path))
	files := a.p.Files
	if a.p.Cred.UID == 0 {
		files = files.As(kernel.Credential{UID: 33, GID: 33})
	}
	info, err := files.Stat(name)
	if err == nil && info.IsDir() {
		if !strings.HasSuffix(r.URL.Path, "/") {
			w.Header().Set("Location", "http://"+r.Host+r.URL.Path+"/")
			a.page(w, r, http.StatusMovedPermanently, "Moved Permanently", `The document has moved <a href="http://`+r.Host+r.URL.Path+`/">here</a>.`)
			return
		}
		for _, i := range a.index {
			if x, err := files.Stat(path.Join(name, i)); err == nil && !x.IsDir() {
				a.send(w, r, files, path.Join(name, i))
				return
			}
		}
		a.list(w, r, files, name)
		return
	}
	if err != nil {
		if strings.HasPrefix(errnoText(err), "13:") {
			a.page(w, r, http.StatusForbidden, "Forbidden", "You don't have permission to access this resource.")
			return
		}
		a.page(w, r, http.StatusNotFound, "Not Found", "The requested URL was not found on this server.")
		return
	}
	a.send(w, r, files, name)
}

func (a *apache) send(w http.ResponseWriter, r *http.Request, files kernel.Files, name string) {
	f, err := files.OpenFile(name, os.O_RDONLY, 0)
	if err != nil {
		a.page(w, r, http.StatusForbidden, "Forbidden", "You don't have permission to access this resource.")
		return
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	info, err2 := f.Stat()
	if err != nil || err2 != nil {
		a.page(w, r, http.StatusInternalServerError, "Internal Server Error", "The server encountered an internal error.")
		return
	}
	w.Header().Set("Etag", fmt.Sprintf("\"%x-%x\"", len(b), info.ModTime().UnixMicro()))
	if path.Ext(name) == ".html" {
		w.Header().Set("Content-Type", "text/html")
	}
	http.ServeContent(w, r, name, info.ModTime(), bytes.NewReader(b))
}

func (a *apache) list(w http.ResponseWriter, r *http.Request, files kernel.Files, dir string) {
	entries, err := files.ReadDir(dir)
	if err != nil {
		a.page(w, r, http.StatusForbidden, "Forbidden", "You don't have permission to access this resource.")
		return
	}
	var b strings.Builder
	fmt.Fprintf(&b, "<!DOCTYPE HTML PUBLIC \"-//W3C//DTD HTML 3.2 Final//EN\">\n<html>\n <head>\n  <title>Index of %s</title>\n </head>\n <body>\n<h1>Index of %[1]s</h1>\n<ul>", r.URL.Path)
	for _, e := range entries {
		fmt.Fprintf(&b, "<li><a href=\"%s\"> %[1]s</a></li>\n", e.Name())
	}
	b.WriteString("</ul>\n</body></html>\n")
	w.Header().Set("Content-Type", "text/html;charset=ISO-8859-1")
	io.WriteString(w, b.String())
}

func (a *apache) page(w http.ResponseWriter, _ *http.Request, code int, title, text string) {
	w.Header().Set("Content-Type", "text/html; charset=iso-8859-1")
	body := fmt.Sprintf("<!DOCTYPE HTML PUBLIC \"-//IETF//DTD HTML 2.0//EN\">\n<html><head>\n<title>%d %s</title>\n</head><body>\n<h1>%s</h1>\n<p>%s</p>\n</body></html>\n", code, title, title, text)
	w.Header().Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(code)
	io.WriteString(w, body)
}
