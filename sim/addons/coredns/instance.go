package coredns

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/miekg/dns"

	"ckadrill/sim/network"
)

// query is one question on its way through the plugins.
type query struct {
	ctx   context.Context
	msg   *dns.Msg
	name  string // lower case
	qtype uint16
	from  net.Addr
	proto string
	inst  *instance
	port  string
}

// handler answers a query, or passes it on. An error is answered with SERVFAIL.
type handler func(q *query) (*dns.Msg, error)

// errNoPlugin says that no plugin of the block answers.
var errNoPlugin = errors.New("no next plugin found")

// zone is one server block at work.
type zone struct {
	name    string
	handle  handler
	loopKey string
}

// instance is one configuration at work, with its sockets.
type instance struct {
	d        *program
	ctx      context.Context
	cancel   context.CancelFunc
	zones    map[string][]*zone // by port, the longest names first
	names    []string
	dns      map[string]*socket
	http     map[string]net.Listener
	reload   *reloadOptions
	lameduck time.Duration
	checks   map[string]func() bool // of the plugin ready
	kube     *kubernetesPlugin
	requests atomic.Int64

	mu sync.Mutex
}

type reloadOptions struct{ interval, jitter time.Duration }

// socket is one DNS port, over UDP and TCP. A reload hands it on.
type socket struct {
	udp, tcp *dns.Server
	current  atomic.Pointer[instance]
}

// start makes an instance of a Corefile. Sockets that an older one has are taken over.
func (d *program) start(text []byte, old *instance) (_ *instance, err error) {
	c, err := parseCorefile(d.Process, d.conf, text, d.port)
	if err != nil {
		return nil, err
	}
	i := &instance{d: d, zones: map[string][]*zone{}, dns: map[string]*socket{}, http: map[string]net.Listener{}, checks: map[string]func() bool{}}
	i.ctx, i.cancel = d.untilDone()
	defer func() {
		if err != nil {
			i.cancel()
			for port, s := range i.dns {
				if old == nil || old.dns[port] != s {
					s.close()
				}
			}
			for addr, l := range i.http {
				if old == nil || old.http[addr] != l {
					l.Close()
				}
			}
		}
	}()
	var after []func() error
	for _, b := range c.blocks {
		z, start, err := i.build(c, b)
		if err != nil {
			return nil, err
		}
		after = append(after, start...)
		i.zones[b.port] = append(i.zones[b.port], z)
		i.names = append(i.names, b.zone+":"+b.port)
	}
	for _, l := range i.zones {
		sort.SliceStable(l, func(a, b int) bool { return dns.CountLabel(l[a].name) > dns.CountLabel(l[b].name) })
	}
	for _, port := range c.ports() {
		if old != nil && old.dns[port] != nil {
			i.dns[port] = old.dns[port]
			continue
		}
		if i.dns[port], err = d.listen(port); err != nil {
			return nil, fmt.Errorf("Listen: %w", err)
		}
	}
	for _, f := range after {
		if err := f(); err != nil {
			return nil, err
		}
	}
	for _, s := range i.dns {
		s.current.Store(i)
	}
	for _, z := range i.zones {
		for _, k := range z {
			if k.loopKey != "" {
				go i.probeLoop(k)
			}
		}
	}
	return i, nil
}

// banner is what is printed for each zone.
func (i *instance) banner() []string {
	l := append([]string(nil), i.names...)
	sort.Strings(l)
	return l
}

func (d *program) listen(port string) (*socket, error) {
	s := &socket{}
	l, err := d.Listen("tcp", ":"+port)
	if err != nil {
		return nil, err
	}
	pc, err := d.ListenPacket("udp", ":"+port)
	if err != nil {
		l.Close()
		return nil, err
	}
	h := func(proto string) dns.HandlerFunc {
		return func(w dns.ResponseWriter, m *dns.Msg) {
			if i := s.current.Load(); i != nil {
				i.serve(w, m, proto, port)
			}
		}
	}
	s.udp = &dns.Server{PacketConn: pc, Handler: h("udp")}
	s.tcp = &dns.Server{Listener: l, Handler: h("tcp")}
	go s.udp.ActivateAndServe()
	go s.tcp.ActivateAndServe()
	return s, nil
}

func (s *socket) close() {
	s.udp.PacketConn.Close()
	s.tcp.Listener.Close()
}

// stop ends the instance, except for what another one has taken over.
func (i *instance) stop() {
	i.cancel()
	for _, s := range i.dns {
		if s.current.Load() == i {
			s.close()
		}
	}
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, l := range i.http {
		l.Close()
	}
}

// serve answers one message.
func (i *instance) serve(w dns.ResponseWriter, m *dns.Msg, proto, port string) {
	i.requests.Add(1)
	if len(m.Question) == 0 {
		w.WriteMsg(new(dns.Msg).SetRcode(m, dns.RcodeFormatError))
		return
	}
	q := &query{ctx: i.ctx, msg: m, name: strings.ToLower(m.Question[0].Name), qtype: m.Question[0].Qtype, from: w.RemoteAddr(), proto: proto, inst: i, port: port}
	r := i.answer(q)
	if opt := m.IsEdns0(); opt != nil {
		r.SetEdns0(max(opt.UDPSize(), dns.MinMsgSize), opt.Do())
	}
	if proto == "udp" {
		size := dns.MinMsgSize
		if opt := m.IsEdns0(); opt != nil {
			size = int(max(opt.UDPSize(), dns.MinMsgSize))
		}
		r.Truncate(size)
	}
	w.WriteMsg(r)
}

// answer finds the block for a query and has its plugins answer.
func (i *instance) answer(q *query) *dns.Msg {
	for _, z := range i.zones[q.port] {
		if !dns.IsSubDomain(z.name, q.name) {
			continue
		}
		r, err := z.handle(q)
		if err != nil {
			return new(dns.Msg).SetRcode(q.msg, dns.RcodeServerFailure)
		}
		return r
	}
	return new(dns.Msg).SetRcode(q.msg, dns.RcodeRefused)
}

// serveHTTP serves a plugin's pages. The instance that this one replaces gives its address up.
func (i *instance) serveHTTP(address string, h http.Handler) error {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.http[address] != nil {
		return nil
	}
	l, err := i.d.Listen("tcp", address)
	if old := i.d.instance(); err != nil && old != nil {
		old.release(address)
		l, err = i.d.Listen("tcp", address)
	}
	if err != nil {
		return err
	}
	i.http[address] = l
	go network.Serve(l, nil, h)
	return nil
}

// release gives a plugin's address to the next instance.
func (i *instance) release(address string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if l := i.http[address]; l != nil {
		l.Close()
		delete(i.http, address)
	}
}
