package images

import (
	"crypto/tls"
	"encoding/json"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"
	"sync"
	"time"

	"ckadrill/sim/kernel"
	"ckadrill/sim/network"

	"k8s.io/apimachinery/pkg/util/rand"
)

// agnhostServe serves HTTP on a port until SIGTERM, and then for delay more.
func agnhostServe(p *kernel.Process, port int, h http.Handler, delay time.Duration, term chan struct{}) int {
	return agnhostServeTLS(p, port, nil, h, delay, term)
}

// agnhostTLS makes the configuration of a server from two files of the container.
func agnhostTLS(p *kernel.Process, cert, key string) (*tls.Config, error) {
	c, err := p.ReadFile(cert)
	if err != nil {
		return nil, err
	}
	k, err := p.ReadFile(key)
	if err != nil {
		return nil, err
	}
	pair, err := tls.X509KeyPair(c, k)
	return &tls.Config{Certificates: []tls.Certificate{pair}}, err
}

func agnhostServeTLS(p *kernel.Process, port int, cfg *tls.Config, h http.Handler, delay time.Duration, term chan struct{}) int {
	l, err := p.Listen("tcp", fmt.Sprintf(":%d", port))
	if err != nil {
		logf(p, "%v", err)
		return 1
	}
	s := &network.Server{Handler: h, TLSConfig: cfg}
	go s.Serve(l)
	var once sync.Once
	p.Notify(kernel.SIGTERM, func() { once.Do(func() { close(term) }) })
	select {
	case <-term:
		if delay > 0 {
			logf(p, "Sleeping %d seconds before terminating...", int(delay.Seconds()))
			p.Sleep(delay)
		}
	case <-p.Context().Done():
	}
	s.Close()
	return 0
}

// netexec is agnhost netexec without SCTP.
func netexec(p *kernel.Process, f agnhostFlags) int {
	if f.number("sctp-port", -1) != -1 {
		p.Errorf("ckadrill does not simulate SCTP of agnhost netexec yet\n")
		return 1
	}
	var cfg *tls.Config
	if cert := f["tls-cert-file"]; cert != "" {
		var err error
		if cfg, err = agnhostTLS(p, cert, f["tls-private-key-file"]); err != nil {
			logf(p, "%v", err)
			return 1
		}
	}
	n := &netexecServer{p: p, http: f.number("http-port", 8080), udp: f.number("udp-port", 8081), term: make(chan struct{})}
	if n.udp == -1 {
		n.ready = false
	} else {
		for _, a := range strings.Split(f["udp-listen-addresses"], ",") {
			c, err := p.ListenPacket("udp", net.JoinHostPort(a, strconv.Itoa(n.udp)))
			if err != nil {
				logf(p, "Error occurred: failed to create listener for UDP address %s:%v", a, err)
				return 1
			}
			if !p.Resumed() {
				logf(p, "Started UDP server on port %s %d", a, n.udp)
			}
			n.ready = true
			go n.answerDatagrams(c)
		}
	}
	if !p.Resumed() {
		logf(p, "Started HTTP server on port %d", n.http)
	}
	var h http.Handler = n.routes()
	if over := f["http-override"]; over != "" {
		routes := h
		h = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			q, err := http.NewRequestWithContext(r.Context(), "GET", over, nil)
			if err != nil {
				http.Error(w, fmt.Sprintf("override request failed: %v", err), http.StatusInternalServerError)
				return
			}
			routes.ServeHTTP(w, q)
		})
	}
	return agnhostServeTLS(p, n.http, cfg, h, time.Duration(f.number("delay-shutdown", 0))*time.Second, n.term)
}

type netexecServer struct {
	p         *kernel.Process
	http, udp int
	ready     bool
	term      chan struct{}
}

func (n *netexecServer) routes() *http.ServeMux {
	p := n.p
	m := http.NewServeMux()
	handle := func(name string, h http.HandlerFunc) {
		m.HandleFunc(name, func(w http.ResponseWriter, r *http.Request) {
			logf(p, "GET %s", r.URL.RequestURI())
			h(w, r)
		})
	}
	hostname := func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, p.HostName()) }
	handle("/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, "NOW: %v", time.Now()) })
	handle("/hostname", hostname)
	handle("/hostName", hostname)
	handle("/clientip", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.RemoteAddr) })
	handle("/serverport", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, n.http) })
	handle("/header", func(w http.ResponseWriter, r *http.Request) {
		if key := r.FormValue("key"); key != "" {
			io.WriteString(w, r.Header.Get(key))
			return
		}
		writeJSON(w, r.Header)
	})
	handle("/echo", func(w http.ResponseWriter, r *http.Request) {
		if c := r.FormValue("code"); c != "" {
			code, err := strconv.Atoi(c)
			if err != nil {
				fmt.Fprintf(w, "argument 'code' must be an integer or empty, got %q\n", c)
				return
			}
			w.WriteHeader(code)
		}
		io.WriteString(w, r.FormValue("msg"))
	})
	handle("/exit", func(_ http.ResponseWriter, r *http.Request) {
		wait, _ := time.ParseDuration(r.FormValue("wait"))
		code, _ := strconv.Atoi(r.FormValue("code"))
		p.Sleep(wait)
		p.Exit(code)
	})
	handle("/shutdown", func(http.ResponseWriter, *http.Request) { p.Exit(0) })
	handle("/healthz", func(w http.ResponseWriter, _ *http.Request) {
		if !n.ready {
			w.WriteHeader(http.StatusPreconditionFailed)
		}
	})
	handle("/readyz", func(w http.ResponseWriter, _ *http.Request) {
		select {
		case <-n.term:
			w.WriteHeader(http.StatusServiceUnavailable)
			io.WriteString(w, "shutting down")
		default:
			if !n.ready {
				w.WriteHeader(http.StatusPreconditionFailed)
				return
			}
			io.WriteString(w, "ok")
		}
	})
	handle("/redirect", func(w http.ResponseWriter, r *http.Request) {
		code := http.StatusFound
		if c, err := strconv.Atoi(r.FormValue("code")); err == nil {
			code = c
		}
		http.Redirect(w, r, r.FormValue("location"), code)
	})
	handle("/dial", n.dial)
	handle("/shell", n.shell)
	handle("/upload", n.upload)
	return m
}

func writeJSON(w http.ResponseWriter, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		http.Error(w, fmt.Sprintf("response could not be serialized. %v", err), http.StatusExpectationFailed)
		return
	}
	w.Write(b)
}

// agnhostTimeout is how long agnhost waits for an answer to what it asks itself.
const agnhostTimeout = 5 * time.Second

// agnhostGet fetches http://address/request.
func agnhostGet(p *kernel.Process, address, request string) (string, error) {
	t := network.NewTransport(p, nil)
	defer t.CloseIdleConnections()
	c := &http.Client{Transport: t, Timeout: agnhostTimeout}
	res, err := c.Get("http://" + address + "/" + request)
	if err != nil {
		return "", err
	}
	defer res.Body.Close()
	b, err := io.ReadAll(res.Body)
	return string(b), err
}

func (n *netexecServer) dial(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	request, tries := q.Get("request"), 1
	if t := q.Get("tries"); t != "" {
		var err error
		if tries, err = strconv.Atoi(t); err != nil {
			http.Error(w, fmt.Sprintf("tries parameter is invalid. %v", err), http.StatusBadRequest)
			return
		}
	}
	if request == "" {
		http.Error(w, "request parameter not specified. <nil>", http.StatusBadRequest)
		return
	}
	var ask func(address, request string) (string, error)
	switch protocol := strings.ToLower(q.Get("protocol")); protocol {
	case "", "http":
		ask = func(address, request string) (string, error) { return agnhostGet(n.p, address, request) }
	case "udp":
		ask = n.askDatagram
	default:
		http.Error(w, "unsupported protocol. "+protocol, http.StatusBadRequest)
		return
	}
	host := q.Get("host")
	if net.ParseIP(host) == nil {
		l, err := network.Resolve(r.Context(), n.p, host)
		if err != nil || len(l) == 0 {
			http.Error(w, fmt.Sprintf("host and/or port param are invalid. %v", err), http.StatusBadRequest)
			return
		}
		host = l[0].String()
	}
	out := map[string][]string{}
	var last string
	responses := []string{}
	for range tries {
		var err error
		if last, err = ask(net.JoinHostPort(host, q.Get("port")), request); err != nil {
			out["errors"] = append(out["errors"], err.Error())
		} else {
			responses = append(responses, last)
		}
	}
	if last != "" {
		out["responses"] = responses
	}
	writeJSON(w, out)
}

func (n *netexecServer) askDatagram(address, request string) (string, error) {
	c, err := n.p.Dial(n.p.Context(), "udp", address)
	if err != nil {
		return "", fmt.Errorf("udp dial failed. err:%v", err)
	}
	defer c.Close()
	if _, err := io.WriteString(c, request); err != nil {
		return "", fmt.Errorf("udp connection write failed. err:%v", err)
	}
	c.SetReadDeadline(time.Now().Add(agnhostTimeout))
	b := make([]byte, 2048)
	k, err := c.Read(b)
	if err != nil || k == 0 {
		return "", fmt.Errorf("reading from udp connection failed. err:'%v'", err)
	}
	return string(b[:k]), nil
}

func (n *netexecServer) answerDatagrams(c net.PacketConn) {
	b := make([]byte, 2048)
	for {
		k, from, err := c.ReadFrom(b)
		if err != nil {
			return
		}
		switch text := strings.ToLower(strings.TrimSpace(string(b[:k]))); {
		case text == "hostname":
			logf(n.p, "Sending udp hostName response")
			c.WriteTo([]byte(n.p.HostName()), from)
		case strings.HasPrefix(text, "echo "):
			logf(n.p, "Echoing %v to UDP client %s", text[5:], from)
			c.WriteTo([]byte(text[5:]), from)
		case text == "clientip":
			logf(n.p, "Sending clientip back to UDP client %s", from)
			c.WriteTo([]byte(from.String()), from)
		case text == "serverport":
			logf(n.p, "Sending server port to UDP client %d", n.udp)
			c.WriteTo([]byte(strconv.Itoa(n.udp)), from)
		case text != "":
			logf(n.p, "Unknown UDP command received from %s: %v", from, text)
		}
	}
}

// shell runs a command in the container.
func (n *netexecServer) shell(w http.ResponseWriter, r *http.Request) {
	command := r.FormValue("shellCommand")
	if command == "" {
		command = r.FormValue("cmd")
	}
	out := map[string]string{}
	main, argv, err := n.p.World().Load(n.p.Files, "/bin/sh", []string{"/bin/sh", "-c", command})
	if err != nil {
		out["error"] = err.Error()
		writeJSON(w, out)
		return
	}
	var text strings.Builder
	s := n.p.Spec
	s.Argv, s.Env, s.Dir, s.Stdin, s.Stdout, s.Stderr, s.Log, s.PID, s.NamespacePID, s.Parent, s.Started = argv, n.p.Environ(), n.p.Dir(), nil, &text, &text, nil, 0, 0, n.p, time.Time{}
	if code := n.p.Host().Processes.Start(s, main).Wait().ExitCode(); code != 0 {
		out["error"] = fmt.Sprintf("exit status %d", code)
	}
	if text.Len() > 0 {
		out["output"] = text.String()
	}
	logf(n.p, "Output: %s", out)
	writeJSON(w, out)
}

func (n *netexecServer) upload(w http.ResponseWriter, r *http.Request) {
	f, _, err := r.FormFile("file")
	if err != nil {
		writeJSON(w, map[string]string{"error": "Unable to upload file."})
		return
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		writeJSON(w, map[string]string{"error": "Unable to write file."})
		return
	}
	name := fmt.Sprintf("/uploads/upload%d", n.p.World().Random("agnhost").Uint64())
	if err := n.p.Files.WriteFile(name, b, 0o700); err != nil {
		writeJSON(w, map[string]string{"error": "Unable to open file for write"})
		return
	}
	w.WriteHeader(http.StatusCreated)
	writeJSON(w, map[string]string{"output": name})
}

// serveHostname is agnhost serve-hostname.
func serveHostname(p *kernel.Process, f agnhostFlags) int {
	port, name := f.number("port", 9376), []byte(p.HostName())
	tcp, udp := f.on("tcp", false), f.on("udp", false)
	if f.on("http", true) {
		if tcp || udp {
			logf(p, "Can't server TCP/UDP mode and HTTP mode at the same time")
			return 1
		}
		if !p.Resumed() {
			logf(p, "Serving on port %d.", port)
		}
		return agnhostServe(p, port, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			logf(p, "HTTP request from %s", r.RemoteAddr)
			if f.on("close", false) {
				w.Header().Set("Connection", "close")
			}
			w.Write(name)
		}), 0, make(chan struct{}))
	}
	if tcp {
		l, err := p.Listen("tcp", fmt.Sprintf(":%d", port))
		if err != nil {
			logf(p, "Error from net.Listen(): %s", err)
			return 1
		}
		go func() {
			for {
				c, err := l.Accept()
				if err != nil {
					return
				}
				logf(p, "TCP request from %s", c.RemoteAddr())
				c.Write(name)
				c.Close()
			}
		}()
	}
	if udp {
		s, err := p.ListenPacket("udp", fmt.Sprintf(":%d", port))
		if err != nil {
			logf(p, "Error from ListenUDP(): %s", err)
			return 1
		}
		go func() {
			var b [16]byte
			for {
				_, from, err := s.ReadFrom(b[:])
				if err != nil {
					return
				}
				logf(p, "UDP request from %s", from)
				s.WriteTo(name, from)
			}
		}()
	}
	return awaitTerm(p)
}

// awaitTerm waits until the process is told to end.
func awaitTerm(p *kernel.Process) int {
	term := make(chan struct{}, 1)
	p.Notify(kernel.SIGTERM, func() {
		select {
		case term <- struct{}{}:
		default:
		}
	})
	select {
	case <-term:
	case <-p.Done():
	}
	return 0
}

// tcpReset is agnhost tcp-reset: it reads one byte, and so answers with a reset what was sent beyond it.
func tcpReset(p *kernel.Process, f agnhostFlags) int {
	port := f.number("port", 8080)
	l, err := p.Listen("tcp", fmt.Sprintf(":%d", port))
	if err != nil {
		logf(p, "Error from net.Listen(): %s", err)
		return 1
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Read(make([]byte, 1))
			c.Close()
			logf(p, "TCP request from %s", c.RemoteAddr())
		}
	}()
	if !p.Resumed() {
		logf(p, "Serving on port %d.", port)
	}
	return awaitTerm(p)
}

// liveness is agnhost liveness: healthy for ten seconds.
func liveness(p *kernel.Process) int {
	started := p.StartTime()
	m := http.NewServeMux()
	m.HandleFunc("/started", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, time.Since(started).String()) })
	m.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) {
		if d := time.Since(started); d > 10*time.Second {
			w.WriteHeader(http.StatusInternalServerError)
			fmt.Fprintf(w, "error: %v", d.Seconds())
			return
		}
		io.WriteString(w, "ok")
	})
	m.HandleFunc("/redirect", func(w http.ResponseWriter, r *http.Request) {
		to, err := url.QueryUnescape(r.URL.Query().Get("loc"))
		if err != nil {
			http.Error(w, fmt.Sprintf("invalid redirect: %q", r.URL.Query().Get("loc")), http.StatusBadRequest)
			return
		}
		http.Redirect(w, r, to, http.StatusFound)
	})
	return agnhostServe(p, 8080, m, 0, make(chan struct{}))
}

// testWebserver is agnhost test-webserver: the container's files.
func testWebserver(p *kernel.Process, f agnhostFlags) int {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for k, v := range map[string]string{"Cache-Control": "private", "Access-Control-Allow-Origin": "*", "Access-Control-Allow-Credentials": "true", "Access-Control-Allow-Methods": "GET, POST, OPTIONS"} {
			w.Header().Set(k, v)
		}
		if strings.HasSuffix(r.URL.Path, "/index.html") { // as net/http's file server does
			w.Header().Set("Location", "./")
			w.WriteHeader(http.StatusMovedPermanently)
			return
		}
		name := path.Clean("/" + r.URL.Path)
		i, err := p.Files.Stat(name)
		if err != nil {
			http.NotFound(w, r)
			return
		}
		if !i.IsDir() {
			b, err := p.ReadFile(name)
			if err != nil {
				http.Error(w, "403 Forbidden", http.StatusForbidden)
				return
			}
			w.Write(b)
			return
		}
		if b, err := p.ReadFile(path.Join(name, "index.html")); err == nil {
			w.Write(b)
			return
		}
		l, err := p.Files.ReadDir(name)
		if err != nil {
			http.Error(w, "Error reading directory", http.StatusInternalServerError)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		io.WriteString(w, "<!doctype html>\n<meta name=\"viewport\" content=\"width=device-width\">\n<pre>\n")
		for _, e := range l {
			n := e.Name()
			if e.Type()&fs.ModeDir != 0 {
				n += "/"
			}
			fmt.Fprintf(w, "<a href=\"%s\">%s</a>\n", (&url.URL{Path: n}).String(), n)
		}
		io.WriteString(w, "</pre>\n")
	})
	return agnhostServe(p, f.number("port", 80), h, 0, make(chan struct{}))
}

// porter is agnhost porter without SCTP: a port for each variable SERVE_PORT_NNNN and SERVE_TLS_PORT_NNNN.
func porter(p *kernel.Process, f agnhostFlags) int {
	for _, v := range p.Environ() {
		key, value, _ := strings.Cut(v, "=")
		if strings.HasPrefix(key, "SERVE_SCTP_PORT_") {
			p.Errorf("ckadrill does not simulate SCTP of agnhost porter yet\n")
			return 1
		}
		var cfg *tls.Config
		port, ok := strings.CutPrefix(key, "SERVE_PORT_")
		if !ok {
			if port, ok = strings.CutPrefix(key, "SERVE_TLS_PORT_"); !ok {
				continue
			}
			name := func(key, standard string) string {
				if v := p.Getenv(key); v != "" {
					return v
				}
				return standard
			}
			var err error
			if cfg, err = agnhostTLS(p, p.Path(name("CERT_FILE", "localhost.crt")), p.Path(name("KEY_FILE", "localhost.key"))); err != nil {
				logf(p, "tls server on port %q failed: %v", port, err)
				continue
			}
		}
		l, err := p.Listen("tcp", "0.0.0.0:"+port)
		if err != nil {
			logf(p, "server on port %q failed: %v", port, err)
			continue
		}
		go network.Serve(l, cfg, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if !f.on("json-response", false) {
				io.WriteString(w, value)
				return
			}
			w.Header().Set("Content-Type", "application/json")
			writeJSON(w, struct{ Method, Body string }{r.Method, value})
		}))
	}
	<-p.Done() // it has no handler of SIGTERM, which the first process of a container does not hear of then
	return 0
}

// guestbook is agnhost guestbook.
func guestbook(p *kernel.Process, f agnhostFlags) int {
	g := &book{p: p, backend: f.text("backend-port", "6379"), store: map[string]any{}}
	if to := f["replicaof"]; to != "" {
		go g.register(to)
	}
	m := http.NewServeMux()
	m.HandleFunc("/register", func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		defer g.mu.Unlock()
		logf(p, "GET /register?host=%s", r.URL.Query().Get("host"))
		writeJSON(w, map[string]any{"data": g.store})
		g.replicas = append(g.replicas, r.URL.Query().Get("host"))
		logf(p, "Node '%s' registered.", r.URL.Query().Get("host"))
	})
	m.HandleFunc("/get", func(w http.ResponseWriter, r *http.Request) {
		g.mu.Lock()
		defer g.mu.Unlock()
		key := r.URL.Query().Get("key")
		logf(p, "GET /get?key=%s", key)
		var data any = g.store
		if key != "" {
			if data = g.store[key]; data == nil {
				data = ""
			}
		}
		writeJSON(w, map[string]any{"data": data})
	})
	m.HandleFunc("/set", g.set)
	m.HandleFunc("/guestbook", func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		command := strings.ToLower(q.Get("cmd"))
		logf(p, "GET /guestbook?cmd=%s&key=%s&value=%s", command, q.Get("key"), q.Get("value"))
		host := "agnhost-primary"
		switch {
		case command == "get":
			host = "agnhost-replica"
		case command != "set":
			http.Error(w, fmt.Sprintf("unsupported cmd: '%s'", command), http.StatusBadRequest)
			return
		case q.Get("key") == "":
			http.Error(w, "cannot set with empty key.", http.StatusBadRequest)
			return
		}
		answer, err := agnhostGet(p, net.JoinHostPort(host, g.backend), fmt.Sprintf("%s?key=%s&value=%s", command, q.Get("key"), q.Get("value")))
		if err != nil {
			http.Error(w, fmt.Sprintf("encountered error: %v", err), http.StatusExpectationFailed)
			return
		}
		io.WriteString(w, answer)
	})
	return agnhostServe(p, f.number("http-port", 80), m, 0, make(chan struct{}))
}

type book struct {
	p        *kernel.Process
	backend  string
	mu       sync.Mutex
	replicas []string
	store    map[string]any
}

func (g *book) set(w http.ResponseWriter, r *http.Request) {
	key, value := r.URL.Query().Get("key"), r.URL.Query().Get("value")
	logf(g.p, "GET /set?key=%s&value=%s", key, value)
	if key == "" {
		http.Error(w, "cannot set with empty key.", http.StatusBadRequest)
		return
	}
	g.mu.Lock()
	g.store[key] = value
	replicas := append([]string(nil), g.replicas...)
	g.mu.Unlock()
	for _, replica := range replicas {
		if _, err := agnhostGet(g.p, net.JoinHostPort(replica, g.backend), fmt.Sprintf("set?key=%s&value=%s", key, value)); err != nil {
			http.Error(w, fmt.Sprintf("encountered error while propagating to replica '%s': %v", replica, err), http.StatusExpectationFailed)
			return
		}
	}
	writeJSON(w, map[string]string{"message": "Updated"})
}

// How long a replica of the guestbook tries to register, and how long it waits between two attempts.
const (
	registerTimeout = 15 * time.Second
	registerPause   = time.Second
)

func (g *book) register(to string) {
	at := net.JoinHostPort(to, g.backend)
	for start := time.Now(); time.Since(start) < registerTimeout; g.p.Sleep(registerPause) {
		own, err := g.ownAddress(at)
		if err != nil {
			logf(g.p, "unable to get IP %s: %v. Retrying in %s.", at, err, registerPause)
			continue
		}
		logf(g.p, "Registering to primary: %s/register?host=%s", at, own)
		answer, err := agnhostGet(g.p, at, "register?host="+own)
		if err != nil {
			logf(g.p, "encountered error while registering to primary: %v. Retrying in %s.", err, registerPause)
			continue
		}
		var got struct{ Data map[string]any }
		if err := json.Unmarshal([]byte(answer), &got); err != nil {
			logf(g.p, "Error while unmarshaling primary's response: %v", err)
			g.p.Exit(1)
			return
		}
		g.mu.Lock()
		if got.Data != nil {
			g.store = got.Data
		}
		g.mu.Unlock()
		logf(g.p, "Registered to node: %s", to)
		return
	}
	logf(g.p, "Timed out while registering to primary.")
	g.p.Exit(1)
}

// ownAddress is the address by which the process would reach another.
func (g *book) ownAddress(at string) (string, error) {
	c, err := g.p.Dial(g.p.Context(), "udp", at)
	if err != nil {
		return "", err
	}
	defer c.Close()
	host, _, err := net.SplitHostPort(c.LocalAddr().String())
	return host, err
}

var (
	generatedMethods    = []string{"GET", "POST", "PUT"}
	generatedNamespaces = []string{"kube-system", "default", "ns"}
)

// logsGenerator is agnhost logs-generator.
func logsGenerator(p *kernel.Process, f agnhostFlags) int {
	number := func(long, short string) string {
		if v, ok := f[long]; ok {
			return v
		}
		return f[short]
	}
	total, _ := strconv.Atoi(number("log-lines-total", "t"))
	d, _ := time.ParseDuration(number("run-duration", "d"))
	switch {
	case total <= 0:
		p.Errorf("F%s logs_generator.go:67] Invalid total number of lines: %d\n", klogTime(p), total)
		return 255
	case d <= 0:
		p.Errorf("F%s logs_generator.go:71] Invalid duration: %v\n", klogTime(p), d)
		return 255
	}
	t := time.NewTicker(d / time.Duration(total))
	defer t.Stop()
	for id := range total {
		p.Errorf("I%s logs_generator.go:79] %d %s /api/v1/namespaces/%s/pods/%s %d\n", klogTime(p), id, generatedMethods[rand.Intn(3)], generatedNamespaces[rand.Intn(3)], rand.String(rand.IntnRange(3, 5)), rand.IntnRange(200, 600))
		select {
		case <-t.C:
		case <-p.Done():
			return 1
		}
	}
	return 0
}

func klogTime(p *kernel.Process) string {
	return time.Now().UTC().Format("0102 15:04:05.000000") + fmt.Sprintf(" %7d", p.OwnPID())
}

// resolverWords prints the words of a line of /etc/resolv.conf.
func resolverWords(p *kernel.Process, key string) int {
	b, err := p.ReadFile("/etc/resolv.conf")
	if err != nil {
		p.Errorf("panic: %v\n", err)
		return 2
	}
	for line := range strings.Lines(string(b)) {
		if rest, ok := strings.CutPrefix(strings.TrimRight(line, "\n"), key); ok {
			p.Printf("%s\n", strings.Join(strings.Split(strings.TrimPrefix(rest, " "), " "), ","))
			return 0
		}
	}
	p.Errorf("panic: Could not find DNS search list!\n")
	return 2
}
