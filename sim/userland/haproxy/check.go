package haproxy

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strconv"
	"time"

	"ckadrill/sim/kernel"
	"ckadrill/sim/network"
	"ckadrill/sim/userland/libc"
)

// verdict is how a check has ended, in haproxy's words.
type verdict struct {
	ok   bool
	what string // "Layer4 connection problem"
	info string
	code int
	took time.Duration
}

func (v verdict) String() string {
	s := "reason: " + v.what
	if v.code != 0 {
		s += fmt.Sprintf(", code: %d", v.code)
	}
	if v.info != "" {
		s += fmt.Sprintf(", info: %q", v.info)
	}
	return s + fmt.Sprintf(", check duration: %dms", v.took.Milliseconds())
}

// check begins with the checks of the proxy's servers, which are spread over their interval. A resumed haproxy first finds out
// which of them it knew to be down, and says nothing of it.
func (x *proxy) check(resumed bool) {
	for i, s := range x.servers {
		if !s.checked || s.disabled {
			continue
		}
		go func() {
			if resumed {
				if x.b.p.AwaitDate() != nil {
					return
				}
				v := s.ask()
				x.mu.Lock()
				s.up = v.ok
				x.mu.Unlock()
			}
			if kernel.SleepContext(x.ctx, s.inter*time.Duration(i+1)/time.Duration(len(x.servers)+1)) != nil {
				return
			}
			for {
				v := s.ask()
				if x.ctx.Err() != nil {
					return
				}
				if kernel.SleepContext(x.ctx, x.note(s, v)) != nil {
					return
				}
			}
		}()
	}
}

// note counts a verdict and says when the server changes sides. It returns when the next check is due.
func (x *proxy) note(s *server, v verdict) time.Duration {
	x.mu.Lock()
	if v.ok == s.up {
		s.health = 0
	} else {
		s.health++
	}
	limit := s.fall
	if !s.up {
		limit = s.rise
	}
	var ended []*session
	active, backup, sessions := 0, 0, len(s.sessions)
	turned := s.health >= limit
	if turned {
		s.up, s.health = !s.up, 0
	}
	for _, o := range x.servers {
		if o.up && !o.disabled {
			if o.backup {
				backup++
			} else {
				active++
			}
		}
	}
	if turned && !s.up && s.shutDown {
		for n := range s.sessions {
			ended = append(ended, n)
		}
	}
	next := s.inter
	switch {
	case s.health > 0 && s.fastInter > 0:
		next = s.fastInter
	case !s.up && s.downInter > 0:
		next = s.downInter
	}
	up := s.up
	x.mu.Unlock()
	if !turned {
		return next
	}
	if up {
		x.b.say("WARNING", "Server %s/%s is UP, %s. %d active and %d backup servers online. 0 sessions requeued, 0 total in queue.", x.name, s.name, v, active, backup)
		return next
	}
	x.b.say("WARNING", "Server %s/%s is DOWN, %s. %d active and %d backup servers left. %d sessions active, 0 requeued, 0 remaining in queue.", x.name, s.name, v, active, backup, sessions)
	if active+backup == 0 {
		x.b.say("ALERT", "%s '%s' has no server available!", map[string]string{"backend": "backend", "listen": "proxy"}[x.kind], x.name)
	}
	for _, n := range ended {
		n.client.Close()
		n.server.Close()
	}
	return next
}

// ask does one check.
func (s *server) ask() verdict {
	x, began := s.proxy, time.Now()
	v := s.try(x)
	v.took = time.Since(began)
	return v
}

func (s *server) try(x *proxy) verdict {
	address := s.address
	if s.checkPort > 0 {
		host, _, _ := net.SplitHostPort(address)
		address = net.JoinHostPort(host, strconv.Itoa(s.checkPort))
	}
	limit := s.inter
	if x.connect > 0 {
		limit = min(limit, x.connect)
	}
	ctx, cancel := context.WithTimeout(x.ctx, limit)
	defer cancel()
	secure := s.checkTLS || x.http.tls
	conn, err := x.b.p.Dial(network.ForTransport(ctx, secure), "tcp", address)
	if err != nil {
		if timedOut(err) {
			return verdict{what: "Layer4 timeout"}
		}
		return verdict{what: "Layer4 connection problem", info: libc.Strerror(err)}
	}
	defer conn.Close()
	if !x.http.on && !secure {
		return verdict{ok: true, what: "Layer4 check passed"}
	}
	if x.checkTime > 0 {
		limit = x.checkTime
	}
	ctx, cancel = context.WithTimeout(x.ctx, limit)
	defer cancel()
	if !x.http.on {
		tc := tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
		if err := tc.HandshakeContext(ctx); err != nil {
			return layer6(err)
		}
		return verdict{ok: true, what: "Layer6 check passed"}
	}
	return s.askHTTP(ctx, conn, secure, address)
}

func (s *server) askHTTP(ctx context.Context, conn net.Conn, secure bool, address string) verdict {
	x := s.proxy
	t := network.NewTransport(x.b.p, &tls.Config{InsecureSkipVerify: true})
	t.HTTP1 = true
	t.DialContext = func(context.Context, string, string) (net.Conn, error) { return conn, nil }
	defer t.Close()
	scheme := "http://"
	if secure {
		scheme = "https://"
	}
	r, err := http.NewRequestWithContext(ctx, x.http.method, scheme+address+x.http.uri, nil)
	if err != nil {
		return verdict{what: "Layer7 invalid response", info: err.Error()}
	}
	r.Header.Set("User-Agent", "")
	res, err := t.RoundTrip(r)
	if err != nil {
		var record tls.RecordHeaderError
		switch {
		case timedOut(err):
			return verdict{what: "Layer7 timeout"}
		case errors.As(err, &record):
			return layer6(err)
		}
		return verdict{what: "Layer7 invalid response"}
	}
	res.Body.Close()
	good := res.StatusCode == x.http.expect || x.http.expect == 0 && res.StatusCode >= 200 && res.StatusCode < 400
	if !good {
		return verdict{what: "Layer7 wrong status", code: res.StatusCode, info: http.StatusText(res.StatusCode)}
	}
	return verdict{ok: true, what: "Layer7 check passed", code: res.StatusCode}
}

func layer6(err error) verdict {
	if timedOut(err) {
		return verdict{what: "Layer6 timeout"}
	}
	return verdict{what: "Layer6 invalid response", info: "SSL handshake failure"}
}

func timedOut(err error) bool {
	var n net.Error
	return errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded) || errors.As(err, &n) && n.Timeout()
}
