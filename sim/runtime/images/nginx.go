package images

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"ckadrill/sim/kernel"
	"ckadrill/sim/network"
)

// nginxServer is one running nginx: the master process with what it has read.
type nginxServer struct {
	p       *kernel.Process
	version string
	prefix  string
	conf    string
	globals string
	pid     string

	errors  io.Writer // error_log
	level   string    // the least that error_log takes; "" is all
	mu      sync.Mutex
	site    *nginxSite
	open    map[string]*nginxListener
	workers []*kernel.Process
	serial  int
}

type nginxListener struct {
	l net.Listener
	s *network.Server
}

// nginx is the program /usr/sbin/nginx.
func nginx(p *kernel.Process) int {
	n := &nginxServer{p: p, prefix: "/etc/nginx", conf: "/etc/nginx/nginx.conf", version: binaryVersion(p), open: map[string]*nginxListener{}, errors: p.Stderr}
	if n.version == "" {
		n.version = p.Getenv("NGINX_VERSION")
	}
	test, dump, signal := false, false, ""
	args := p.Argv[1:]
	for len(args) > 0 {
		a := args[0]
		args = args[1:]
		if !strings.HasPrefix(a, "-") || a == "-" {
			p.Errorf("nginx: invalid option: \"%s\"\n", a)
			return 1
		}
		for i := 1; i < len(a); i++ {
			take := func() (string, bool) {
				if v := a[i+1:]; v != "" {
					i = len(a)
					return v, true
				}
				if len(args) == 0 {
					p.Errorf("nginx: option \"-%c\" requires parameter\n", a[i])
					return "", false
				}
				v := args[0]
				args = args[1:]
				return v, true
			}
			ok := true
			switch a[i] {
			case 't':
				test = true
			case 'T':
				test, dump = true, true
			case 'q':
			case 'v', 'V':
				p.Errorf("nginx version: nginx/%s\n", n.version)
				return 0
			case 'h', '?':
				p.Errorf("nginx version: nginx/%s\nUsage: nginx [-?hvVtTq] [-s signal] [-p prefix]\n             [-e filename] [-c filename] [-g directives]\n", n.version)
				return 0
			case 'g':
				n.globals, ok = take()
			case 'c':
				if n.conf, ok = take(); ok && !path.IsAbs(n.conf) {
					n.conf = path.Join(n.prefix, n.conf)
				}
			case 'p':
				n.prefix, ok = take()
			case 'e':
				_, ok = take()
			case 's':
				signal, ok = take()
			default:
				p.Errorf("nginx: invalid option: \"%c\"\n", a[i])
				return 1
			}
			if !ok {
				return 1
			}
		}
	}
	site, err := n.load()
	if err != nil {
		n.startError(err)
		if test {
			p.Errorf("nginx: configuration file %s test failed\n", n.conf)
		}
		return 1
	}
	n.site = site
	switch {
	case signal != "":
		return n.send(signal)
	case test:
		if err := n.prepare(); err != nil {
			n.startError(err)
			p.Errorf("nginx: configuration file %s test failed\n", n.conf)
			return 1
		}
		p.Errorf("nginx: the configuration file %s syntax is ok\nnginx: configuration file %s test is successful\n", n.conf, n.conf)
		if dump {
			n.dump()
		}
		return 0
	}
	return n.run()
}

func (n *nginxServer) dump() {
	b, err := n.p.Files.ReadFile(n.conf)
	if err == nil {
		n.p.Printf("# configuration file %s:\n%s\n", n.conf, b)
	}
}

// startError prints an error as nginx does before it gives up: on stderr, and in the error log if that is another one.
func (n *nginxServer) startError(err error) {
	n.log("emerg", "%s", err)
	n.p.Errorf("nginx: [emerg] %s\n", err)
}

const nginxTime = "2006/01/02 15:04:05"

// log writes a line to the error log.
func (n *nginxServer) log(level, format string, a ...any) {
	n.logAs(n.p.OwnPID(), level, format, a...)
}

// nginxLevels are the levels of error_log, lowest first.
var nginxLevels = []string{"debug", "info", "notice", "warn", "error", "crit", "alert", "emerg"}

func (n *nginxServer) logAs(pid int, level, format string, a ...any) {
	if n.level != "" && slices.Index(nginxLevels, level) < slices.Index(nginxLevels, n.level) {
		return
	}
	fmt.Fprintf(n.errors, "%s [%s] %d#%d: %s\n", time.Now().UTC().Format(nginxTime), level, pid, pid, fmt.Sprintf(format, a...))
}

// load reads the configuration and the directives of -g.
func (n *nginxServer) load() (*nginxSite, error) {
	parser := &nginxParser{p: n.p, prefix: n.prefix}
	l, err := parser.file(n.conf)
	if err != nil {
		return nil, err
	}
	if n.globals != "" {
		g, err := parser.text("command line", strings.TrimSuffix(strings.TrimSpace(n.globals), ";")+";")
		if err != nil {
			return nil, err
		}
		l = append(l, g...)
	}
	if err := nginxCheck(l, "main"); err != nil {
		return nil, err
	}
	if len(find(l, "events")) == 0 {
		return nil, emergf("no \"events\" section in configuration")
	}
	if logs := find(l, "error_log"); len(logs) > 0 {
		n.level = "error"
		if args := logs[len(logs)-1].args; len(args) > 1 && slices.Contains(nginxLevels, args[1]) {
			n.level = args[1]
		}
	}
	n.pid = "/run/nginx.pid"
	if v := value(l, "pid"); v != "" {
		n.pid = v
	}
	return newSite(n, l)
}

// prepare makes the directories and the pid file that nginx needs, which fail on a read-only root or for a plain user.
func (n *nginxServer) prepare() error {
	files := n.p.Files
	if n.p.Cred.UID != 0 {
		if u := find(n.site.main, "user"); len(u) > 0 {
			n.log("warn", "the \"user\" directive makes sense only if the master process runs with super-user privileges, ignored in %s:%d", u[0].file, u[0].line)
			n.p.Errorf("nginx: [warn] the \"user\" directive makes sense only if the master process runs with super-user privileges, ignored in %s:%d\n", u[0].file, u[0].line)
		}
	}
	for _, d := range []string{"client_temp", "proxy_temp", "fastcgi_temp", "uwsgi_temp", "scgi_temp"} {
		name := "/var/cache/nginx/" + d
		for _, c := range n.site.main {
			if v := value(c.block, strings.Replace(strings.Replace(d, "client_temp", "client_body_temp_path", 1), "_temp", "_temp_path", 1)); c.name == "http" && v != "" {
				name = v
			}
		}
		if err := files.Mkdir(name, 0o700); err != nil && !strings.HasPrefix(errnoText(err), "17:") {
			return emergf("mkdir() %q failed (%s)", name, errnoText(err))
		}
	}
	// The real one opens the pid file for writing even when it only tests.
	f, err := files.OpenFile(n.pid, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return emergf("open() %q failed (%s)", n.pid, errnoText(err))
	}
	return f.Close()
}

func (n *nginxServer) send(name string) int {
	sig, ok := map[string]kernel.Signal{"stop": kernel.SIGTERM, "quit": kernel.SIGQUIT, "reload": kernel.SIGHUP, "reopen": kernel.SIGUSR1}[name]
	if !ok {
		n.p.Errorf("nginx: invalid option: \"-s %s\"\n", name)
		return 1
	}
	b, err := n.p.Files.ReadFile(n.pid)
	if err != nil {
		n.startError(emergf("open() %q failed (%s)", n.pid, errnoText(err)))
		return 1
	}
	pid, err := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || pid <= 0 {
		n.startError(emergf("invalid PID number %q in %q", strings.TrimSpace(string(b)), n.pid))
		return 1
	}
	n.log("notice", "signal process started")
	for _, q := range n.p.Host().Processes.List() {
		if q.Container == n.p.Container && q.OwnPID() == pid {
			q.Signal(sig)
			return 0
		}
	}
	n.startError(emergf("kill(%d, %d) failed (3: No such process)", pid, int(sig)))
	return 1
}

func (n *nginxServer) run() int {
	p := n.p
	quiet := p.Resumed()
	if !quiet {
		if err := n.prepare(); err != nil {
			n.startError(err)
			return 1
		}
	}
	if err := n.listen(n.site); err != nil {
		n.startError(err)
		return 1
	}
	if !quiet {
		n.log("notice", "using the \"epoll\" event method")
		n.log("notice", "nginx/%s", n.version)
		n.log("notice", "built by gcc 12.2.0 (Debian 12.2.0-14) ")
		n.log("notice", "OS: Linux %s", n.osRelease())
		n.log("notice", "getrlimit(RLIMIT_NOFILE): 1048576:1048576")
	}
	if value(n.site.main, "daemon") != "off" {
		return n.daemonize()
	}
	return n.master(quiet)
}

func (n *nginxServer) osRelease() string {
	b, err := n.p.Files.ReadFile("/proc/version")
	if f := strings.Fields(string(b)); err == nil && len(f) > 2 {
		return f[2]
	}
	return "6.8.0-88-generic"
}

// daemonize goes to the background: the process that was started ends, another one serves.
func (n *nginxServer) daemonize() int {
	n.close()
	s := n.p.Spec
	s.Argv, s.Parent, s.NamespacePID, s.PID = []string{"nginx: master process nginx"}, n.p, 0, 0
	n.p.Host().Processes.Start(s, func(q *kernel.Process) int {
		m := &nginxServer{p: q, version: n.version, prefix: n.prefix, conf: n.conf, globals: n.globals, pid: n.pid, open: map[string]*nginxListener{}, errors: q.Stderr}
		site, err := m.load()
		if err == nil {
			m.site, err = site, m.listen(site)
		}
		if err != nil {
			m.startError(err)
			return 1
		}
		return m.master(true)
	})
	return 0
}

// master runs the server until a signal ends it.
func (n *nginxServer) master(quiet bool) int {
	p := n.p
	p.Files.WriteFile(n.pid, []byte(strconv.Itoa(p.OwnPID())+"\n"), 0o644)
	type event struct {
		sig  kernel.Signal
		code int
	}
	events := make(chan event, 16)
	for _, s := range []kernel.Signal{kernel.SIGTERM, kernel.SIGINT, kernel.SIGQUIT, kernel.SIGHUP, kernel.SIGUSR1} {
		p.Notify(s, func() { events <- event{sig: s} })
	}
	for _, s := range []kernel.Signal{kernel.SIGWINCH, kernel.SIGUSR2, kernel.SIGCHLD} {
		p.Notify(s, func() {})
	}
	if !quiet {
		n.log("notice", "start worker processes")
	}
	n.startWorkers(quiet)
	for {
		var e event
		select {
		case e = <-events:
		case <-p.Context().Done():
			return 0
		}
		switch e.sig {
		case kernel.SIGHUP:
			n.log("notice", "signal 1 (SIGHUP) received, reconfiguring")
			n.reload()
		case kernel.SIGUSR1:
			n.log("notice", "signal 10 (SIGUSR1) received, reopening logs")
		case kernel.SIGQUIT:
			n.log("notice", "signal 3 (SIGQUIT) received, shutting down")
			n.stopWorkers(n.setWorkers(nil), "gracefully shutting down")
			return n.exit()
		default:
			n.log("notice", "signal %d (%s) received, exiting", int(e.sig), e.sig)
			n.stopWorkers(n.setWorkers(nil), "")
			return n.exit()
		}
	}
}

func (n *nginxServer) exit() int {
	n.close()
	n.log("notice", "exit")
	n.p.Files.Remove(n.pid)
	return 0
}

func (n *nginxServer) startWorkers(quiet bool) {
	count := 1
	switch v := value(n.site.main, "worker_processes"); v {
	case "":
	case "auto":
		count = n.processors()
	default:
		count, _ = strconv.Atoi(v)
	}
	for range min(count, 64) {
		s := n.p.Spec
		s.Argv, s.Parent, s.NamespacePID, s.PID, s.Cgroup = []string{"nginx: worker process"}, n.p, 0, 0, n.p.Cgroup
		if n.p.Cred.UID == 0 {
			s.Cred = kernel.Credential{UID: 101, GID: 101}
		}
		w := n.p.Host().Processes.Start(s, func(q *kernel.Process) int {
			q.SetMemory(3 << 20)
			<-q.Context().Done()
			return 0
		})
		if !quiet {
			n.log("notice", "start worker process %d", w.OwnPID())
		}
		n.mu.Lock()
		n.workers = append(n.workers, w)
		n.mu.Unlock()
	}
}

// setWorkers changes the worker processes that the master knows, and returns those before.
func (n *nginxServer) setWorkers(l []*kernel.Process) []*kernel.Process {
	n.mu.Lock()
	defer n.mu.Unlock()
	old := n.workers
	n.workers = l
	return old
}

// worker is the pid of the worker process that serves a connection.
func (n *nginxServer) worker(connection int) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.workers) == 0 {
		return n.p.OwnPID()
	}
	return n.workers[connection%len(n.workers)].OwnPID()
}

func (n *nginxServer) processors() int {
	b, err := n.p.Files.ReadFile("/proc/cpuinfo")
	if err != nil {
		return 1
	}
	return max(1, strings.Count(string(b), "processor\t"))
}

func (n *nginxServer) stopWorkers(workers []*kernel.Process, how string) {
	for _, w := range workers {
		pid := w.OwnPID()
		if how != "" {
			n.logAs(pid, "notice", "%s", how)
		}
		n.logAs(pid, "notice", "exiting")
		n.logAs(pid, "notice", "exit")
		w.Signal(kernel.SIGTERM)
		<-w.Done()
		n.log("notice", "signal 17 (SIGCHLD) received from %d", pid)
		n.log("notice", "worker process %d exited with code 0", pid)
	}
}

// reload reads the configuration again; if it is wrong the old one stays.
func (n *nginxServer) reload() {
	site, err := n.load()
	if err == nil {
		err = n.listen(site)
	}
	if err != nil {
		n.log("emerg", "%s", err)
		return
	}
	n.log("notice", "reconfiguring")
	n.mu.Lock()
	n.site = site
	n.mu.Unlock()
	old := n.setWorkers(nil)
	n.log("notice", "using the \"epoll\" event method")
	n.log("notice", "start worker processes")
	n.startWorkers(false)
	n.stopWorkers(old, "gracefully shutting down")
}

// listen opens the sockets of a site that are not open yet, and closes those that it has no use for.
func (n *nginxServer) listen(site *nginxSite) error {
	want := site.addresses()
	for _, a := range want {
		if n.open[a] != nil {
			continue
		}
		l, err := n.bind(a)
		if err != nil {
			return err
		}
		k := &nginxListener{l, &network.Server{Handler: n.handler(a)}}
		n.open[a] = k
		go k.s.Serve(l)
	}
	for a, k := range n.open {
		if !slices.Contains(want, a) {
			k.l.Close()
			delete(n.open, a)
		}
	}
	return nil
}

// bind tries as often as nginx does when an address is taken.
func (n *nginxServer) bind(a string) (net.Listener, error) {
	net, addr := "tcp4", a
	if strings.HasPrefix(a, "[") {
		net = "tcp6"
	}
	if strings.HasPrefix(a, "unix:") {
		net, addr = "unix", strings.TrimPrefix(a, "unix:")
	}
	for try := 0; ; try++ {
		l, err := n.p.Listen(net, addr)
		if err == nil {
			return l, nil
		}
		text := fmt.Sprintf("bind() to %s failed (%s)", a, errnoText(err))
		if !errors.Is(err, syscall.EADDRINUSE) {
			return nil, emergf("%s", text)
		}
		n.log("emerg", "%s", text)
		n.p.Errorf("nginx: [emerg] %s\n", text)
		if try == 4 {
			return nil, emergf("still could not bind()")
		}
		n.log("notice", "try again to bind() after 500ms")
		if n.p.Sleep(500*time.Millisecond) != nil {
			return nil, emergf("still could not bind()")
		}
	}
}

func (n *nginxServer) close() {
	for a, k := range n.open {
		k.l.Close()
		k.s.Close()
		delete(n.open, a)
	}
}

// handler serves the connections of one address with the configuration of the moment.
func (n *nginxServer) handler(address string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n.mu.Lock()
		site := n.site
		n.serial++
		serial := n.serial
		n.mu.Unlock()
		site.serve(w, r, address, serial)
	})
}
