package haproxy

import (
	"context"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"ckadrill/sim/kernel"
	"ckadrill/sim/machine"
	"ckadrill/sim/machine/journal"
)

// proxy is a section "frontend", "backend" or "listen".
type proxy struct {
	defaults
	b          *balancer
	kind, name string
	file       string
	line       int
	binds      []binding
	servers    []*server
	to         *proxy // whose servers a frontend's connections go to
	listeners  []net.Listener
	ctx        context.Context // of the checks
	cancel     context.CancelFunc

	mu   sync.Mutex
	turn int // of the server that was chosen last, by roundrobin
	open int // connections
}

func (x *proxy) front() bool { return x.kind != "backend" }
func (x *proxy) back() bool  { return x.kind != "frontend" }

func (x *proxy) missingTimeouts() bool {
	return x.front() && x.client == 0 || x.back() && len(x.servers) > 0 && (x.connect == 0 || x.server == 0)
}

// server is one line "server" of a proxy.
type server struct {
	proxy                       *proxy
	name, address, file         string
	line                        int
	checked, checkTLS           bool
	backup, disabled, shutDown  bool
	inter, fastInter, downInter time.Duration
	rise, fall, weight          int
	checkPort                   int

	// Below the proxy's lock.
	up       bool
	health   int // checks in a row that said otherwise
	sessions map[*session]bool
}

// session is a connection of a client that has found a server.
type session struct {
	client, server net.Conn
}

// usable lists the servers that take connections, or the backups if there is no other. The lock is held.
func (x *proxy) usable() (l []*server) {
	for _, backup := range []bool{false, true} {
		for _, s := range x.servers {
			if s.backup == backup && s.up && !s.disabled && s.weight > 0 {
				l = append(l, s)
			}
		}
		if len(l) > 0 {
			return l
		}
	}
	return nil
}

// choose takes a server for a client, another one than was tried if there is one.
func (x *proxy) choose(client net.Addr, tried *server) *server {
	x.mu.Lock()
	defer x.mu.Unlock()
	l := x.usable()
	if len(l) > 1 && tried != nil {
		l = slices.DeleteFunc(l, func(s *server) bool { return s == tried })
	}
	if len(l) == 0 {
		return nil
	}
	switch x.balance {
	case "first":
		return l[0]
	case "source":
		host, _, _ := net.SplitHostPort(client.String())
		return l[crc32.ChecksumIEEE([]byte(host))%uint32(len(l))]
	case "leastconn":
		return slices.MinFunc(l, func(a, b *server) int { return len(a.sessions)*b.weight - len(b.sessions)*a.weight })
	}
	for range x.servers {
		x.turn = (x.turn + 1) % len(x.servers)
		if slices.Contains(l, x.servers[x.turn]) {
			return x.servers[x.turn]
		}
	}
	return l[0]
}

func (x *proxy) accept(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go x.serve(c)
	}
}

// serve leads a connection to a server.
func (x *proxy) serve(c net.Conn) {
	defer c.Close()
	to := x.to
	if to == nil {
		return
	}
	x.mu.Lock()
	x.open++
	x.mu.Unlock()
	defer func() {
		x.mu.Lock()
		x.open--
		x.mu.Unlock()
	}()
	began := time.Now()
	e := entry{client: c.RemoteAddr(), began: began, state: "SC", wait: -1, connected: -1}
	defer func() { x.logSession(to, &e) }()
	conn, s := to.reach(c, &e)
	if conn == nil {
		return
	}
	defer conn.Close()
	n := &session{client: c, server: conn}
	to.mu.Lock()
	if s.sessions == nil {
		s.sessions = map[*session]bool{}
	}
	s.sessions[n] = true
	to.mu.Unlock()
	defer func() {
		to.mu.Lock()
		delete(s.sessions, n)
		to.mu.Unlock()
	}()
	e.state = "--"
	done := make(chan string, 1)
	go func() { done <- relay(conn, c, x.client, nil, 'c') }()
	if state := relay(c, conn, to.server, &e.bytes, 's'); state != "--" {
		e.state = state
	}
	if state := <-done; e.state == "--" {
		e.state = state
	}
}

// reach finds a server that answers: the same one is tried again after a second, and another one at last if the proxy says
// so ("option redispatch").
func (x *proxy) reach(c net.Conn, e *entry) (net.Conn, *server) {
	var s *server
	for try := 0; try <= x.retries; try++ {
		var tried *server
		if try > 0 {
			if try == x.retries && x.redispatch {
				tried = s
			} else if x.b.p.Sleep(time.Second) != nil {
				return nil, nil
			}
		}
		x.mu.Lock()
		gone := s == nil || !s.up || tried != nil
		x.mu.Unlock()
		if gone {
			if s = x.choose(c.RemoteAddr(), tried); s == nil {
				return nil, nil
			}
		}
		e.server, e.wait, e.retries = s, time.Since(e.began), try
		ctx := x.b.p.Context()
		if x.connect > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeout(ctx, x.connect)
			defer cancel()
		}
		began := time.Now()
		conn, err := x.b.p.Dial(ctx, "tcp", s.address)
		if err == nil {
			e.connected = time.Since(began)
			return conn, s
		}
		if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) {
			e.state = "sC"
		}
	}
	return nil, nil
}

// relay passes on what comes from one end until it ends or is silent for too long, and returns haproxy's letters for why the
// session ended.
func relay(to, from net.Conn, timeout time.Duration, count *int64, side byte) string {
	buf := make([]byte, 16<<10)
	for {
		if timeout > 0 {
			from.SetReadDeadline(time.Now().Add(timeout))
		}
		n, err := from.Read(buf)
		if count != nil {
			*count += int64(n)
		}
		if n > 0 {
			if _, werr := to.Write(buf[:n]); werr != nil {
				from.Close()
				return "--"
			}
		}
		switch {
		case err == nil:
			continue
		case errors.Is(err, io.EOF):
			if w, ok := to.(interface{ CloseWrite() error }); ok {
				w.CloseWrite()
			}
			return "--"
		case errors.Is(err, os.ErrDeadlineExceeded):
			to.Close()
			from.Close()
			return string(side) + "D"
		}
		to.Close()
		from.Close()
		if errors.Is(err, syscall.ECONNRESET) {
			return strings.ToUpper(string(side)) + "D"
		}
		return "--"
	}
}

// entry is what "option tcplog" tells of a session.
type entry struct {
	client          net.Addr
	began           time.Time
	server          *server
	wait, connected time.Duration
	retries         int
	bytes           int64
	state           string
}

// logSession writes a session's line where the proxy logs.
func (x *proxy) logSession(to *proxy, e *entry) {
	if len(x.log) == 0 || !x.tcplog || !x.b.p.Alive() {
		return
	}
	ms := func(d time.Duration) int64 {
		if d < 0 {
			return -1
		}
		return d.Milliseconds()
	}
	name, busy, open := "<NOSRV>", 0, 0
	to.mu.Lock()
	for _, s := range to.servers {
		open += len(s.sessions)
	}
	if e.server != nil {
		name, busy = e.server.name, len(e.server.sessions)
	}
	to.mu.Unlock()
	x.mu.Lock()
	front := x.open
	x.mu.Unlock()
	x.write("%s [%s] %s %s/%s %d/%d/%d %d %s %d/%d/%d/%d/%d 0/0", e.client, e.began.Format("02/Jan/2006:15:04:05.000"), x.name, to.name, name,
		ms(e.wait), ms(e.connected), time.Since(e.began).Milliseconds(), e.bytes, e.state, front, front, open, busy, e.retries)
}

// write sends a line to the proxy's log targets: to standard output, or to the machine's log by /dev/log. Other machines take none.
func (x *proxy) write(format string, a ...any) {
	for _, target := range x.log {
		switch target {
		case "stdout":
			x.b.p.Printf(format+"\n", a...)
		case "stderr":
			x.b.p.Errorf(format+"\n", a...)
		case "/dev/log":
			logTo(x.b.p, format, a...)
		}
	}
}

func logTo(p *kernel.Process, format string, a ...any) {
	if m := machine.Of(p.Host()); m != nil {
		m.Journal().Add(journal.Entry{Unit: p.Unit, Identifier: "haproxy", PID: p.ID(), UID: p.Cred.UID, Priority: journal.Info, Message: fmt.Sprintf(format, a...)})
	}
}
