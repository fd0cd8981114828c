package ssh

import (
	"fmt"
	"net"
	"strings"

	"ckadrill/sim/kernel"
	"ckadrill/sim/machine"
	"ckadrill/sim/machine/journal"
	"ckadrill/sim/network"
	"ckadrill/sim/userland/libc"
)

const daemonUsage = fullName + `
usage: sshd [-46DdeGiqTtV] [-C connection_spec] [-c host_cert_file]
            [-E log_file] [-f config_file] [-g login_grace_time]
            [-h host_key_file] [-o option] [-p port] [-u len]
`

// server is one sshd.
type server struct {
	p       *kernel.Process
	machine *machine.Machine
	config  *serverConfig
	toError bool // -e: log to standard error
}

// daemon is sshd.
func daemon(p *kernel.Process) int {
	s := &server{p: p, machine: machine.Of(p.Host())}
	argv := p.CommandLine()
	opts, _, err := libc.Getopt(argv[1:], "46DdeGiqTtVC:c:E:f:g:h:o:p:u:k:b:")
	if err != nil {
		p.Errorf("%s: %v\n%s", argv[0], err, daemonUsage)
		return 1
	}
	file, test, foreground := configFile, false, false
	var overrides []string
	for _, o := range opts {
		switch o.Name {
		case "D":
			foreground = true
		case "e":
			s.toError = true
		case "t":
			test = true
		case "f":
			file = p.Path(o.Value)
		case "o":
			overrides = append(overrides, o.Value)
		case "p":
			overrides = append(overrides, "Port "+o.Value)
		case "V":
			p.Errorf("%s\n", fullName)
			return 0
		case "d", "G", "i", "T":
			p.Errorf("sshd: ckadrill does not simulate sshd -%s yet\n", o.Name)
			return 1
		}
	}
	if !strings.HasPrefix(argv[0], "/") && !test {
		p.Errorf("sshd re-exec requires execution with an absolute path\n")
		return failure
	}
	if s.config, err = readConfig(p.Files, file, overrides); err != nil {
		p.Errorf("%v\n", err)
		return failure
	}
	if i, err := p.Files.Stat("/run/sshd"); err != nil || !i.IsDir() {
		p.Errorf("Missing privilege separation directory: /run/sshd\n")
		return failure
	}
	switch {
	case test:
		return 0
	case s.machine == nil || p.Container != "":
		p.Errorf("sshd: ckadrill does not simulate sshd in a container yet\n")
		return failure
	case !foreground:
		return s.detach(argv)
	}
	return s.serve(file, overrides)
}

// detach runs the server in the background.
func (s *server) detach(argv []string) int {
	p := s.p
	spec := kernel.Spec{Argv: append([]string{argv[0], "-D"}, argv[1:]...), Env: p.Environ(), Cred: p.Cred, Files: p.Files, Net: p.Net, Parent: p.Host().Processes.Find(1), Unit: p.Unit}
	p.Host().Processes.Start(spec, daemon)
	return 0
}

// log writes a line to the journal, as syslog does.
func (s *server) log(p *kernel.Process, format string, a ...any) {
	text := fmt.Sprintf(format, a...)
	if s.toError {
		s.p.Errorf("%s\n", text)
		return
	}
	s.machine.Journal().Add(journal.Entry{Unit: s.p.Unit, Identifier: "sshd", PID: p.ID(), UID: p.Cred.UID, Priority: journal.Info, Message: text})
}

func (s *server) serve(file string, overrides []string) int {
	p := s.p
	p.SetTitle("sshd:", p.Argv[0], strings.Join(p.Argv[1:], " "), "[listener] 0 of 10-100 startups")
	stop := func(code int, text string) {
		s.log(p, "%s", text)
		p.Exit(code)
	}
	p.Notify(kernel.SIGTERM, func() { stop(0, "Received signal 15; terminating.") })
	p.Notify(kernel.SIGINT, func() { stop(failure, "Received signal 2; terminating.") })
	restart := make(chan struct{}, 1)
	p.Notify(kernel.SIGHUP, func() {
		select {
		case restart <- struct{}{}:
		default:
		}
	})
	quiet := p.Resumed()
	for {
		listeners := s.listen(quiet)
		if len(listeners) == 0 {
			s.log(p, "fatal: Cannot bind any address.")
			return failure
		}
		for _, l := range listeners {
			go s.accept(l, s.config)
		}
		select {
		case <-restart:
		case <-p.Done():
			return 0
		}
		s.log(p, "Received SIGHUP; restarting.")
		for _, l := range listeners {
			l.Close()
		}
		config, err := readConfig(p.Files, file, overrides)
		if err != nil {
			for _, l := range strings.Split(err.Error(), "\n") {
				s.log(p, "%s", l)
			}
			return failure
		}
		s.config, quiet = config, false
	}
}

func (s *server) listen(quiet bool) []net.Listener {
	var l []net.Listener
	for _, a := range s.config.addresses() {
		host, port, _ := net.SplitHostPort(a)
		kind := "tcp4"
		if strings.Contains(host, ":") {
			kind = "tcp6"
		}
		x, err := s.p.Listen(kind, a)
		if err != nil {
			s.log(s.p, "error: Bind to port %s on %s failed: %s.", port, host, libc.Strerror(err))
			continue
		}
		if !quiet {
			s.log(s.p, "Server listening on %s port %s.", host, port)
		}
		l = append(l, x)
	}
	return l
}

// sessionUnit is the systemd unit that a session runs in.
const sessionUnit = "session-%d.scope"

// accept starts a process for each connection.
func (s *server) accept(l net.Listener, config *serverConfig) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		c, ok := conn.(*network.Conn)
		if !ok {
			conn.Close()
			continue
		}
		number := seatsOf(s.p.Host()).session()
		// a session is a unit of its own, so that it outlives the service
		spec := kernel.Spec{Argv: []string{"sshd"}, Env: s.p.Environ(), Files: s.p.Files, Net: s.p.Net, Parent: s.p, Unit: fmt.Sprintf(sessionUnit, number)}
		ready := make(chan bool, 1)
		child := s.p.Host().Processes.Start(spec, func(p *kernel.Process) int {
			p.SetTitle("sshd:", "[accepted]")
			if !<-ready {
				return failure
			}
			(&visit{server: s, config: config, p: p, conn: c}).run()
			return 0
		})
		ready <- c.Pass(child)
	}
}
