package ssh

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"sync"

	"ckadrill/sim/kernel"
	"ckadrill/sim/userland/bash"
	"ckadrill/sim/userland/libc"
)

// client is ssh.
var client = libc.Main("ssh", func(c *libc.Prog) int {
	s := &settings{}
	if err := s.parse(c, c.Args); err != nil {
		return fail(c, err, clientUsage)
	}
	if link, ok := bash.Returning(c.Process); ok {
		l, err := rejoin(c, s, link)
		if err != nil {
			c.Errorf("%v\n", err)
			return failure
		}
		defer l.Close()
		return attend(c, s, l, newFeeder(c, l), true)
	}
	l, err := dial(c, s)
	if err != nil {
		return fail(c, err, clientUsage)
	}
	defer l.Close()
	q := request{User: s.user, Command: s.command, Env: environment(c.Process)}
	typed := c.IsTerminal(c.Stdin)
	wanted := s.terminal >= 0 && (s.command == nil || s.terminal > 0)
	switch {
	case wanted && typed:
		token, withdraw := offer(c.TTY, c.Process)
		defer withdraw()
		q.Terminal = token
		if t := c.Getenv("TERM"); t != "" {
			q.Env = append(q.Env, "TERM="+t)
		}
	case wanted && s.terminal < 2 && !s.quiet:
		c.Errorf("Pseudo-terminal will not be allocated because stdin is not a terminal.\n")
	}
	q.Lazy = typed
	if err := l.open(q); err != nil {
		return fail(c, err, "")
	}
	feed := newFeeder(c, l)
	if q.Terminal == "" {
		go feed.run(s.noInput)
	}
	return attend(c, s, l, feed, q.Terminal != "")
})

// attend is what ssh does while it is connected.
func attend(c *libc.Prog, s *settings, l *link, feed *feeder, terminal bool) int {
	status, err := l.follow(c, feed)
	if s.quiet || bash.Suspended(c.TTY) {
		return status
	}
	if err != nil {
		c.Errorf("%v\n", err)
	}
	if terminal {
		c.Errorf("Connection to %s closed.\n", l.host)
	}
	return status
}

// fail prints why ssh ends, and returns its exit status.
func fail(c *libc.Prog, err error, usage string) int {
	if errors.Is(err, errUsage) {
		c.Errorf("%s", usage)
	} else {
		c.Errorf("%v\n", err)
	}
	return failure
}

// exit is how a remote program ended.
type exit struct{ Code, Signal int }

// follow prints what the remote program does until it has ended.
func (l *link) follow(c *libc.Prog, feed *feeder) (status int, err error) {
	for {
		kind, body, err := l.receive()
		if err != nil {
			return failure, l.lost(err)
		}
		switch kind {
		case msgCredit:
			if len(body) == 4 {
				feed.credit(int(binary.BigEndian.Uint32(body)))
			}
		case msgOutput:
			_, err = c.Stdout.Write(body)
		case msgError:
			_, err = c.Stderr.Write(body)
		case msgExit:
			var x exit
			if err := json.Unmarshal(body, &x); err != nil || x.Signal != 0 {
				return failure, nil // a remote program that was killed has no exit status
			}
			return x.Code, nil
		}
		if err != nil {
			return failure, nil
		}
	}
}

// feeder sends standard input to the remote program as far as it gives credit.
type feeder struct {
	c *libc.Prog
	l *link

	mu   sync.Mutex
	cond *sync.Cond
	room int
}

func newFeeder(c *libc.Prog, l *link) *feeder {
	f := &feeder{c: c, l: l}
	f.cond = sync.NewCond(&f.mu)
	return f
}

func (f *feeder) credit(n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.room += n
	f.cond.Broadcast()
}

func (f *feeder) run(nothing bool) {
	defer f.l.send(msgEnd, nil)
	if nothing {
		return
	}
	p := f.c.Process
	p.OnExit(func() { f.credit(1) }) // so that it does not wait for ever
	buf := make([]byte, chunk)
	for p.Alive() {
		f.mu.Lock()
		for f.room == 0 {
			f.cond.Wait()
		}
		room := f.room
		f.mu.Unlock()
		n, err := f.c.Stdin.Read(buf[:min(room, chunk)])
		if n > 0 {
			f.mu.Lock()
			f.room -= n
			f.mu.Unlock()
			if f.l.send(msgInput, buf[:n]) != nil {
				return
			}
		}
		if err != nil {
			if errors.Is(err, kernel.ErrInterrupted) {
				p.Signal(kernel.SIGINT)
			}
			return
		}
	}
}
