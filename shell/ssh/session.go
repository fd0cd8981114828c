package ssh

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/netip"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"ckadrill/sim/kernel"
	"ckadrill/sim/machine"
	"ckadrill/sim/network"
	"ckadrill/sim/userland/bash"
)

// visit is one connection to a server, in a process of its own.
type visit struct {
	server *server
	config *serverConfig
	p      *kernel.Process
	conn   *network.Conn
	w      *wire
	user   machine.User
	seat   int // of the terminal
	tty    *pty
}

// seats are a machine's sessions: the numbers of its terminals that are in use, and how many sessions there were.
type seats struct {
	mu       sync.Mutex
	used     map[int]bool
	sessions int
}

type seatsKey struct{}

var seatsMu sync.Mutex // guards the making of a machine's seats

func seatsOf(h *kernel.Host) *seats {
	seatsMu.Lock()
	defer seatsMu.Unlock()
	s, ok := h.Attached(seatsKey{}).(*seats)
	if !ok {
		s = &seats{used: map[int]bool{}}
		h.Attach(seatsKey{}, s)
	}
	return s
}

func (s *seats) session() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.sessions++
	return s.sessions
}

func (s *seats) take() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for s.used[n] {
		n++
	}
	s.used[n] = true
	return n
}

// keep takes a number again that was taken before a thaw, and counts its session.
func (s *seats) keep(n int, session int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.used[n] = true
	s.sessions = max(s.sessions, session)
}

func (s *seats) give(n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.used, n)
}

func (v *visit) client() string {
	a := v.conn.RemoteAddr().String()
	if ap, err := netip.ParseAddrPort(a); err == nil {
		return fmt.Sprintf("%s port %d", ap.Addr().Unmap(), ap.Port())
	}
	return a
}

func (v *visit) log(format string, a ...any) {
	if v.tty == nil || !bash.Suspended(v.tty) {
		v.server.log(v.p, format, a...)
	}
}

func (v *visit) run() {
	defer v.conn.Close()
	w, err := greet(v.conn, loginGrace)
	if err != nil {
		switch {
		case errors.Is(err, errNotSSH):
			v.log("error: kex_exchange_identification: client sent invalid protocol identifier")
			v.log("banner exchange: Connection from %s: invalid format", v.client())
		case errors.Is(err, syscall.ECONNRESET):
			v.log("error: kex_exchange_identification: read: Connection reset by peer")
			v.log("Connection reset by %s", v.client())
		default:
			v.log("error: kex_exchange_identification: Connection closed by remote host")
			v.log("Connection closed by %s", v.client())
		}
		return
	}
	v.w = w
	w.SetReadDeadline(time.Now().Add(loginGrace))
	kind, body, err := w.receive()
	var q request
	if err != nil || kind != msgOpen || json.Unmarshal(body, &q) != nil {
		v.log("Connection closed by %s [preauth]", v.client())
		return
	}
	w.SetReadDeadline(time.Time{})
	if why := v.authenticate(q.User); why != "" {
		w.send(msgRefused, []byte(why))
		return
	}
	v.log("Accepted none for %s from %s ssh2", v.user.Name, v.client())
	v.log("pam_unix(sshd:session): session opened for user %s(uid=%d) by %[1]s(uid=0)", v.user.Name, v.user.Cred.UID)
	if q.Files {
		v.title("notty")
		err = v.serveFiles()
	} else {
		err = v.session(&q)
	}
	v.farewell(err)
}

// farewell is what the server's journal says when a session has ended.
func (v *visit) farewell(err error) {
	if err == nil {
		v.log("Received disconnect from %s:11: disconnected by user", v.client())
		v.log("Disconnected from user %s %s", v.user.Name, v.client())
	} else {
		v.log("Connection closed by %s", v.client())
	}
	v.log("pam_unix(sshd:session): session closed for user %s", v.user.Name)
}

func (v *visit) title(tty string) { v.p.SetTitle("sshd:", v.user.Name+"@"+tty) }

// authenticate says why a user may not log in, "" if they may. A lab's users have each other's keys: those that have a
// directory for keys and a login shell.
func (v *visit) authenticate(name string) string {
	const denied = "Permission denied (publickey)."
	m := v.server.machine
	u, ok := m.LookupUser(name)
	if !ok {
		v.log("Invalid user %s from %s", name, v.client())
		v.log("Connection closed by invalid user %s %s [preauth]", name, v.client())
		return denied
	}
	files := m.Files(kernel.Root)
	match := func(patterns []string) bool {
		return slices.ContainsFunc(patterns, func(p string) bool { ok, _ := path.Match(p, name); return ok })
	}
	dir, err := files.Stat(path.Join(u.Home, ".ssh"))
	switch {
	case match(v.config.deny):
		v.log("User %s from %s not allowed because listed in DenyUsers", name, v.address())
	case len(v.config.allow) > 0 && !match(v.config.allow):
		v.log("User %s from %s not allowed because not listed in AllowUsers", name, v.address())
	case u.Cred.UID == 0 && v.config.permitRoot == "no":
		v.log("ROOT LOGIN REFUSED FROM %s [preauth]", v.client())
	case !loginShell(files, u.Shell):
		v.log("User %s not allowed because shell %s does not exist", name, u.Shell)
	case err == nil && dir.IsDir() && !v.config.noPublicKeys:
		v.user = u
		return ""
	}
	v.log("Connection closed by authenticating user %s %s [preauth]", name, v.client())
	return denied
}

func (v *visit) address() string {
	a, _, _ := strings.Cut(v.client(), " ")
	return a
}

func loginShell(files kernel.Files, shell string) bool {
	i, err := files.Stat(shell)
	return err == nil && !i.IsDir() && i.Mode()&0o111 != 0
}

// session runs the user's shell or command. The error is that of a connection that broke.
func (v *visit) session(q *request) error {
	h := v.p.Host()
	spec := v.shell(v.environment(q))
	command := q.Command
	if v.config.forced != "" {
		command = &v.config.forced
	}
	if command != nil {
		spec.Argv = []string{path.Base(v.user.Shell), "-c", *command}
	}
	in := newInput(v.w, q.Lazy)
	defer in.close()
	if o, ok := terminals.Load(q.Terminal); ok && v.config.permitTTY {
		o := o.(offered)
		v.seat = seatsOf(h).take()
		bash.Reach(v.p, o.client, v.standing().encode())
		defer v.sitDown(o.terminal, &spec)()
	} else {
		v.title("notty")
		spec.Stdin, spec.Stdout, spec.Stderr = in, output{v.w, msgOutput}, output{v.w, msgError}
	}
	if i, err := spec.Files.Stat(spec.Dir); err != nil || !i.IsDir() {
		fmt.Fprintf(spec.Stderr, "Could not chdir to home directory %s: %s\n", spec.Dir, "No such file or directory")
		spec.Dir = "/"
	}
	if err := v.w.send(msgOpened, nil); err != nil {
		return err
	}
	return v.attend(spec, in)
}

// shell describes the user's login shell.
func (v *visit) shell(env []string) kernel.Spec {
	m := v.server.machine
	return kernel.Spec{Argv: []string{"-" + path.Base(v.user.Shell)}, Env: env, Dir: v.user.Home, Cred: v.user.Cred, Files: m.Files(v.user.Cred), Net: v.p.Net, Parent: v.p}
}

// sitDown gives a process the client's terminal, at the visit's seat. leave gives both back.
func (v *visit) sitDown(t kernel.Terminal, spec *kernel.Spec) (leave func()) {
	name := fmt.Sprintf("pts/%d", v.seat)
	spec.Env = append(spec.Env, "SSH_TTY=/dev/"+name)
	v.title(name)
	v.tty = newPty(t, v.p)
	v.p.OnExit(v.tty.hangUp)
	spec.TTY, spec.Stdin, spec.Stdout, spec.Stderr = v.tty, v.tty, v.tty, v.tty
	return func() {
		v.tty.hangUp()
		seatsOf(v.p.Host()).give(v.seat)
	}
}

// attend starts the shell and returns when it has ended and the client knows.
func (v *visit) attend(spec kernel.Spec, in *input) error {
	h := v.p.Host()
	main, argv, err := h.World.Load(spec.Files, v.user.Shell, spec.Argv)
	if err != nil {
		fmt.Fprintf(spec.Stderr, "%s: %v\n", v.user.Shell, err)
		return v.w.sendJSON(msgExit, exit{Code: 1})
	}
	spec.Argv = argv
	child := h.Processes.Start(spec, main)
	v.p.Notify(kernel.SIGINT, func() { signalBelow(v.p, kernel.SIGINT) }) // what is typed at the terminal
	v.p.OnExit(func() { signalBelow(v.p, kernel.SIGHUP) })
	if v.tty == nil {
		in.open()
	}
	broken := make(chan error, 1)
	go func() { broken <- v.receive(in) }()
	select {
	case <-child.Done():
	case err := <-broken:
		// the client has gone away, and the terminal with it
		if v.tty != nil {
			v.tty.hangUp()
		}
		signalBelow(v.p, kernel.SIGHUP)
		in.close()
		child.Wait()
		return err
	}
	st := child.Wait()
	if err := v.w.sendJSON(msgExit, exit{Code: st.Code, Signal: int(st.Signal)}); err != nil {
		return err
	}
	<-broken // the client closes the connection when it has read everything
	return nil
}

// receive takes what the client sends until the connection ends.
func (v *visit) receive(in *input) error {
	for {
		kind, body, err := v.w.receive()
		switch {
		case err != nil:
			return err
		case kind == msgInput && in.add(body):
		case kind == msgEnd:
			in.close()
		default:
			return io.ErrUnexpectedEOF
		}
	}
}

// signalBelow signals all that descends from a process.
func signalBelow(top *kernel.Process, s kernel.Signal) {
	for _, p := range top.Host().Processes.List() {
		for a := p.Parent; a != nil; a = a.Parent {
			if a == top {
				p.Signal(s)
				break
			}
		}
	}
}

// environment is what a login starts with: /etc/environment, what the client sent, what sshd sets.
func (v *visit) environment(q *request) []string {
	u := v.user
	env := []string{"SHELL=" + u.Shell, "PATH=" + machine.DefaultPath}
	if b, err := v.p.Files.ReadFile("/etc/environment"); err == nil {
		for _, l := range strings.Split(string(b), "\n") {
			if k, val, ok := strings.Cut(strings.TrimSpace(l), "="); ok && !strings.HasPrefix(k, "#") {
				env = append(env, strings.TrimPrefix(k, "export ")+"="+strings.Trim(val, `"'`))
			}
		}
	}
	if len(q.Env) <= 64 {
		env = append(env, q.Env...)
	}
	remote, _ := netip.ParseAddrPort(v.conn.RemoteAddr().String())
	local, _ := netip.ParseAddrPort(v.conn.LocalAddr().String())
	from := fmt.Sprintf("%s %d", remote.Addr().Unmap(), remote.Port())
	return append(env, "HOME="+u.Home, "LOGNAME="+u.Name, "USER="+u.Name, "MAIL=/var/mail/"+u.Name,
		fmt.Sprintf("SSH_CLIENT=%s %d", from, local.Port()), fmt.Sprintf("SSH_CONNECTION=%s %s %d", from, local.Addr().Unmap(), local.Port()))
}
