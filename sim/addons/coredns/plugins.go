package coredns

import (
	"fmt"
	"net/http"
	"net/netip"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/coredns/caddy/caddyfile"
	"github.com/miekg/dns"

	"ckadrill/sim/network"
)

// simulated are the plugins that this program has.
var simulated = map[string]bool{"errors": true, "health": true, "ready": true, "kubernetes": true, "prometheus": true, "forward": true, "cache": true, "loop": true, "reload": true,
	"loadbalance": true, "hosts": true, "rewrite": true, "log": true, "debug": true, "bufsize": true, "pprof": true, "whoami": true, "cancel": true, "metadata": true}

// build makes the chain of plugins of a block. What has to happen once all blocks are built is returned as functions.
func (i *instance) build(c *corefile, b *block) (*zone, []func() error, error) {
	z := &zone{name: b.zone}
	var after []func() error
	plugins := b.plugins()
	var next handler = func(*query) (*dns.Msg, error) { return nil, errNoPlugin }
	for k := len(plugins) - 1; k >= 0; k-- {
		name := plugins[k]
		if !simulated[name] {
			return nil, nil, fmt.Errorf("plugin/%s: ckadrill does not simulate this plugin of CoreDNS yet", name)
		}
		d := c.dispenser(b, name)
		h, start, err := i.setup(name, &d, b, z, next)
		if err != nil {
			return nil, nil, fmt.Errorf("plugin/%s: %w", name, err)
		}
		if start != nil {
			after = append(after, start)
		}
		if h != nil {
			next = h
		}
	}
	z.handle = next
	return z, after, nil
}

// setup reads one plugin's lines.
func (i *instance) setup(name string, d *caddyfile.Dispenser, b *block, z *zone, next handler) (h handler, start func() error, err error) {
	switch name {
	case "errors":
		return i.errorsPlugin(d, next)
	case "log":
		return i.logPlugin(d, next)
	case "health":
		start, err = i.healthPlugin(d)
		return nil, start, err
	case "ready":
		start, err = i.readyPlugin(d)
		return nil, start, err
	case "prometheus":
		start, err = i.prometheusPlugin(d)
		return nil, start, err
	case "reload":
		return nil, nil, i.reloadPlugin(d)
	case "cache":
		return i.cachePlugin(d, b, next)
	case "loadbalance":
		return i.loadbalancePlugin(d, next)
	case "hosts":
		return i.hostsPlugin(d, b, next)
	case "rewrite":
		return i.rewritePlugin(d, next)
	case "kubernetes":
		return i.kubernetesSetup(d, b, next)
	case "forward":
		return i.forwardPlugin(d, next)
	case "loop":
		return i.loopPlugin(d, z, next)
	case "whoami":
		return func(q *query) (*dns.Msg, error) {
			r := new(dns.Msg).SetReply(q.msg)
			r.Authoritative = true
			return r, nil
		}, nil, nil
	}
	return nil, nil, nil // debug, bufsize, pprof, cancel, metadata change nothing that can be seen here
}

func (i *instance) errorsPlugin(d *caddyfile.Dispenser, next handler) (handler, func() error, error) {
	for d.Next() {
		if args := d.RemainingArgs(); len(args) > 1 || len(args) == 1 && args[0] != "stdout" {
			return nil, nil, d.ArgErr()
		}
	}
	return func(q *query) (*dns.Msg, error) {
		r, err := next(q)
		if err != nil {
			i.d.Printf("[ERROR] plugin/errors: %d %s %s: %v\n", dns.RcodeServerFailure, q.name, dns.TypeToString[q.qtype], err)
		}
		return r, err
	}, nil, nil
}

func (i *instance) logPlugin(d *caddyfile.Dispenser, next handler) (handler, func() error, error) {
	return func(q *query) (*dns.Msg, error) {
		start := time.Now()
		r, err := next(q)
		m := r
		if err != nil {
			m = new(dns.Msg).SetRcode(q.msg, dns.RcodeServerFailure)
		}
		var flags []string
		for _, f := range []struct {
			on   bool
			name string
		}{{m.Response, "qr"}, {m.Authoritative, "aa"}, {m.Truncated, "tc"}, {m.RecursionDesired, "rd"}, {m.RecursionAvailable, "ra"}} {
			if f.on {
				flags = append(flags, f.name)
			}
		}
		size, do := 512, false
		if o := q.msg.IsEdns0(); o != nil {
			size, do = int(o.UDPSize()), o.Do()
		}
		i.d.Printf("[INFO] %s - %d \"%s IN %s %s %d %v %d\" %s %s %d %.9fs\n", q.from, q.msg.Id, dns.TypeToString[q.qtype], q.name, q.proto, q.msg.Len(), do, size,
			dns.RcodeToString[m.Rcode], strings.Join(flags, ","), m.Len(), time.Since(start).Seconds())
		return r, err
	}, nil, nil
}

func (i *instance) healthPlugin(d *caddyfile.Dispenser) (func() error, error) {
	address := ":8080"
	for d.Next() {
		args := d.RemainingArgs()
		if len(args) > 1 {
			return nil, d.ArgErr()
		}
		if len(args) == 1 {
			address = args[0]
		}
		for d.NextBlock() {
			switch d.Val() {
			case "lameduck":
				v := d.RemainingArgs()
				if len(v) != 1 {
					return nil, d.ArgErr()
				}
				l, perr := time.ParseDuration(v[0])
				if perr != nil {
					return nil, fmt.Errorf("unable to parse lameduck duration value: '%v' : %v", v[0], perr)
				}
				i.lameduck = l
			default:
				return nil, d.ArgErr()
			}
		}
	}
	return func() error {
		mux := http.NewServeMux()
		mux.HandleFunc("/health", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "OK") })
		return i.serveHTTP(address, mux)
	}, nil
}

func (i *instance) readyPlugin(d *caddyfile.Dispenser) (func() error, error) {
	address := ":8181"
	for d.Next() {
		args := d.RemainingArgs()
		if len(args) > 1 {
			return nil, d.ArgErr()
		}
		if len(args) == 1 {
			address = args[0]
		}
	}
	return func() error {
		mux := http.NewServeMux()
		mux.HandleFunc("/ready", func(w http.ResponseWriter, _ *http.Request) {
			var waiting []string
			i.mu.Lock()
			for name, ready := range i.checks {
				if !ready() {
					waiting = append(waiting, name)
				}
			}
			i.mu.Unlock()
			sort.Strings(waiting)
			if len(waiting) == 0 {
				fmt.Fprint(w, "OK")
				return
			}
			list := strings.Join(waiting, ",")
			i.d.log("INFO", "plugin/ready: Still waiting on: %q", list)
			w.WriteHeader(http.StatusServiceUnavailable)
			fmt.Fprint(w, list)
		})
		return i.serveHTTP(address, mux)
	}, nil
}

func (i *instance) prometheusPlugin(d *caddyfile.Dispenser) (func() error, error) {
	address := "localhost:9153"
	for d.Next() {
		args := d.RemainingArgs()
		if len(args) > 1 {
			return nil, d.ArgErr()
		}
		if len(args) == 1 {
			address = args[0]
		}
	}
	return func() error {
		mux := http.NewServeMux()
		mux.HandleFunc("/metrics", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
			fmt.Fprintf(w, "# HELP coredns_build_info A metric with a constant '1' value labeled by version, revision, and goversion from which CoreDNS was built.\n# TYPE coredns_build_info gauge\ncoredns_build_info{goversion=%q,revision=%q,version=%q} 1\n", buildGo, buildCommit, i.d.version)
			fmt.Fprintf(w, "# HELP coredns_dns_requests_total Counter of DNS requests made per zone, protocol and family.\n# TYPE coredns_dns_requests_total counter\ncoredns_dns_requests_total{family=\"1\",proto=\"udp\",server=\"dns://:53\",type=\"other\",view=\"\",zone=\".\"} %d\n", i.requests.Load())
		})
		return i.serveHTTP(strings.Replace(address, "localhost", "127.0.0.1", 1), mux)
	}, nil
}

func (i *instance) reloadPlugin(d *caddyfile.Dispenser) error {
	r := &reloadOptions{30 * time.Second, 15 * time.Second}
	for d.Next() {
		args := d.RemainingArgs()
		if len(args) > 2 {
			return d.ArgErr()
		}
		if len(args) > 0 {
			v, err := time.ParseDuration(args[0])
			if err != nil {
				return err
			}
			r.interval, r.jitter = max(v, 2*time.Second), v/2
		}
		if len(args) > 1 {
			v, err := time.ParseDuration(args[1])
			if err != nil {
				return err
			}
			r.jitter = max(v, time.Second)
		}
	}
	r.jitter = min(r.jitter, r.interval/2)
	i.reload = r
	return nil
}

// zonesOf are the zones that a plugin names, the block's if it names none.
func zonesOf(args []string, b *block) []string {
	if len(args) == 0 {
		return []string{b.zone}
	}
	var l []string
	for _, a := range args {
		z, _, err := splitKey(a, "53")
		if err == nil {
			l = append(l, z)
		}
	}
	return l
}

// match is the longest of the zones that a name lies in, "" if it is in none.
func match(zones []string, name string) string {
	best := ""
	for _, z := range zones {
		if dns.IsSubDomain(z, name) && (best == "" || dns.CountLabel(z) > dns.CountLabel(best)) {
			best = z
		}
	}
	return best
}

type cached struct {
	m      *dns.Msg
	stored time.Time
	ttl    time.Duration
}

// cacheLimit is the plugin's default capacity for each of successes and denials.
const cacheLimit = 9984

func (i *instance) cachePlugin(d *caddyfile.Dispenser, b *block, next handler) (handler, func() error, error) {
	longest, denial := time.Hour, 30*time.Minute
	var noSuccess, noDenial, zones []string
	for d.Next() {
		args := d.RemainingArgs()
		if len(args) > 0 {
			if n, err := strconv.Atoi(args[0]); err == nil {
				if n < 0 {
					return nil, nil, fmt.Errorf("cache TTL can not be zero or negative: %d", n)
				}
				longest, denial = time.Duration(n)*time.Second, time.Duration(n)*time.Second
				args = args[1:]
			}
		}
		zones = zonesOf(args, b)
		for d.NextBlock() {
			switch d.Val() {
			case "disable":
				a := d.RemainingArgs()
				if len(a) < 1 {
					return nil, nil, d.ArgErr()
				}
				z := zonesOf(a[1:], b)
				if len(a) == 1 {
					z = zones
				}
				switch a[0] {
				case "success":
					noSuccess = z
				case "denial":
					noDenial = z
				default:
					return nil, nil, fmt.Errorf("cache type for disable must be %q or %q", "success", "denial")
				}
			case "success", "denial":
				which := d.Val()
				a := d.RemainingArgs()
				if len(a) == 0 {
					return nil, nil, d.ArgErr()
				}
				if len(a) > 1 {
					n, err := strconv.Atoi(a[1])
					if err != nil {
						return nil, nil, err
					}
					if which == "success" {
						longest = time.Duration(n) * time.Second
					} else {
						denial = time.Duration(n) * time.Second
					}
				}
			case "prefetch", "serve_stale", "servfail", "keepttl":
				d.RemainingArgs()
			default:
				return nil, nil, d.ArgErr()
			}
		}
	}
	var mu sync.Mutex
	store := map[string]*cached{}
	return func(q *query) (*dns.Msg, error) {
		if match(zones, q.name) == "" {
			return next(q)
		}
		key := q.name + "/" + dns.TypeToString[q.qtype]
		mu.Lock()
		c := store[key]
		mu.Unlock()
		if c != nil {
			if age := time.Since(c.stored); age < c.ttl {
				r := c.m.Copy()
				r.Id, r.Question = q.msg.Id, q.msg.Question
				r.RecursionDesired, r.Authoritative = q.msg.RecursionDesired, false
				for _, l := range [][]dns.RR{r.Answer, r.Ns} {
					for _, rr := range l {
						rr.Header().Ttl = uint32((c.ttl - age) / time.Second)
					}
				}
				return r, nil
			}
		}
		r, err := next(q)
		if err != nil {
			return r, err
		}
		success := r.Rcode == dns.RcodeSuccess && len(r.Answer) > 0
		keep, limit := noDenial, denial
		if success {
			keep, limit = noSuccess, longest
		}
		if r.Rcode != dns.RcodeSuccess && r.Rcode != dns.RcodeNameError || match(keep, q.name) != "" || r.Truncated {
			return r, err
		}
		ttl := limit
		for _, l := range [][]dns.RR{r.Answer, r.Ns} {
			for _, rr := range l {
				ttl = min(ttl, time.Duration(rr.Header().Ttl)*time.Second)
			}
		}
		if len(r.Answer)+len(r.Ns) == 0 {
			ttl = min(limit, 5*time.Second)
		}
		if ttl > 0 {
			mu.Lock()
			if len(store) >= cacheLimit {
				clear(store)
			}
			store[key] = &cached{r.Copy(), time.Now(), ttl}
			mu.Unlock()
		}
		return r, err
	}, nil, nil
}

func (i *instance) loadbalancePlugin(d *caddyfile.Dispenser, next handler) (handler, func() error, error) {
	for d.Next() {
		if args := d.RemainingArgs(); len(args) > 0 && args[0] != "round_robin" {
			return nil, nil, fmt.Errorf("unknown policy: %s", args[0])
		}
	}
	r := i.d.World().Rand("coredns/loadbalance")
	return func(q *query) (*dns.Msg, error) {
		m, err := next(q)
		if err != nil || m.Rcode != dns.RcodeSuccess {
			return m, err
		}
		var rest, addrs []dns.RR
		for _, rr := range m.Answer {
			switch rr.(type) {
			case *dns.A, *dns.AAAA:
				addrs = append(addrs, rr)
			default:
				rest = append(rest, rr)
			}
		}
		if len(addrs) > 1 {
			r.Shuffle(len(addrs), func(a, b int) { addrs[a], addrs[b] = addrs[b], addrs[a] })
			m.Answer = append(rest, addrs...)
		}
		return m, nil
	}, nil, nil
}

func (i *instance) hostsPlugin(d *caddyfile.Dispenser, b *block, next handler) (handler, func() error, error) {
	file := "/etc/hosts"
	var inline []string
	var zones []string
	fall := false
	var fallZones []string
	ttl := uint32(3600)
	for d.Next() {
		args := d.RemainingArgs()
		if len(args) > 0 {
			file, args = args[0], args[1:]
		}
		zones = zonesOf(args, b)
		for d.NextBlock() {
			switch d.Val() {
			case "fallthrough":
				fall, fallZones = true, zonesOf(d.RemainingArgs(), &block{zone: "."})
			case "no_reverse":
				d.RemainingArgs()
			case "ttl":
				a := d.RemainingArgs()
				if len(a) != 1 {
					return nil, nil, d.ArgErr()
				}
				n, err := strconv.Atoi(a[0])
				if err != nil || n <= 0 || n > 65535 {
					return nil, nil, d.Errf("ttl needs to be a number of second")
				}
				ttl = uint32(n)
			case "reload":
				d.RemainingArgs()
			default:
				line := append([]string{d.Val()}, d.RemainingArgs()...)
				if _, err := netip.ParseAddr(line[0]); err != nil {
					return nil, nil, d.Errf("unknown property '%s'", line[0])
				}
				inline = append(inline, strings.Join(line, " "))
			}
		}
	}
	return func(q *query) (*dns.Msg, error) {
		if match(zones, q.name) == "" {
			return next(q)
		}
		text := strings.Join(inline, "\n")
		if c, err := i.d.ReadFile(file); err == nil {
			text = string(c) + "\n" + text
		}
		r := new(dns.Msg).SetReply(q.msg)
		r.Authoritative = true
		known := false
		for line := range strings.Lines(text) {
			line, _, _ = strings.Cut(line, "#")
			f := strings.Fields(line)
			if len(f) < 2 {
				continue
			}
			a, err := netip.ParseAddr(f[0])
			if err != nil {
				continue
			}
			rev, _ := dns.ReverseAddr(f[0])
			for _, h := range f[1:] {
				if q.qtype == dns.TypePTR && rev == q.name {
					r.Answer = append(r.Answer, &dns.PTR{Hdr: header(q, dns.TypePTR, ttl), Ptr: dns.Fqdn(h)})
				}
				if strings.ToLower(dns.Fqdn(h)) != q.name {
					continue
				}
				known = true
				if rr := addressRecord(q, a, ttl); rr != nil {
					r.Answer = append(r.Answer, rr)
				}
			}
		}
		if len(r.Answer) == 0 && !known {
			if fall && match(fallZones, q.name) != "" || q.qtype == dns.TypePTR {
				return next(q)
			}
			r.Rcode = dns.RcodeNameError
			if !fall {
				return r, nil
			}
			return next(q)
		}
		return r, nil
	}, nil, nil
}

func header(q *query, t uint16, ttl uint32) dns.RR_Header {
	return dns.RR_Header{Name: q.msg.Question[0].Name, Rrtype: t, Class: dns.ClassINET, Ttl: ttl}
}

// addressRecord is the record for an address if the query asks for its family.
func addressRecord(q *query, a netip.Addr, ttl uint32) dns.RR {
	switch {
	case a.Is4() && q.qtype == dns.TypeA:
		return &dns.A{Hdr: header(q, dns.TypeA, ttl), A: a.AsSlice()}
	case a.Is6() && q.qtype == dns.TypeAAAA:
		return &dns.AAAA{Hdr: header(q, dns.TypeAAAA, ttl), AAAA: a.AsSlice()}
	}
	return nil
}

// rewriteRule is one "rewrite name" line.
type rewriteRule struct {
	kind     string
	from, to string
	cont     bool
}

func (r rewriteRule) apply(name string) (string, bool) {
	switch r.kind {
	case "exact":
		return r.to, name == r.from
	case "prefix":
		s, ok := strings.CutPrefix(name, r.from)
		return r.to + s, ok
	case "suffix":
		s, ok := strings.CutSuffix(name, r.from)
		return s + r.to, ok
	default:
		return strings.Replace(name, r.from, r.to, 1), strings.Contains(name, r.from)
	}
}

func (i *instance) rewritePlugin(d *caddyfile.Dispenser, next handler) (handler, func() error, error) {
	var rules []rewriteRule
	for d.Next() {
		args := d.RemainingArgs()
		for d.NextBlock() {
			return nil, nil, fmt.Errorf("ckadrill does not simulate blocks of rewrite yet")
		}
		r := rewriteRule{kind: "exact"}
		if len(args) > 0 && (args[0] == "stop" || args[0] == "continue") {
			r.cont = args[0] == "continue"
			args = args[1:]
		}
		if len(args) < 1 {
			return nil, nil, d.ArgErr()
		}
		if args[0] != "name" {
			return nil, nil, fmt.Errorf("ckadrill does not simulate \"rewrite %s\" yet", args[0])
		}
		args = args[1:]
		if len(args) >= 3 {
			switch args[0] {
			case "exact", "prefix", "suffix", "substring":
				r.kind, args = args[0], args[1:]
			case "regex":
				return nil, nil, fmt.Errorf("ckadrill does not simulate \"rewrite name regex\" yet")
			}
		}
		if len(args) < 2 || len(args) > 2 && args[2] != "answer" {
			return nil, nil, d.ArgErr()
		}
		r.from, r.to = strings.ToLower(args[0]), strings.ToLower(args[1])
		if r.kind == "exact" {
			r.from, r.to = dns.Fqdn(r.from), dns.Fqdn(r.to)
		}
		if r.kind == "suffix" {
			r.from, r.to = dns.Fqdn(r.from), dns.Fqdn(r.to)
		}
		rules = append(rules, r)
	}
	return func(q *query) (*dns.Msg, error) {
		name := q.name
		for _, r := range rules {
			if to, ok := r.apply(name); ok {
				name = to
				if !r.cont {
					break
				}
			}
		}
		if name == q.name {
			return next(q)
		}
		original := q.msg.Question[0].Name
		other := *q
		other.msg = q.msg.Copy()
		other.msg.Question[0].Name, other.name = name, name
		m, err := next(&other)
		if err != nil {
			return nil, err
		}
		m = m.Copy()
		m.Question = q.msg.Question
		for _, rr := range m.Answer { // "exact" rewrites its answers back
			if strings.EqualFold(rr.Header().Name, name) {
				rr.Header().Name = original
			}
		}
		return m, nil
	}, nil, nil
}

// forwardTimeout is the plugin's limit for a query, readTimeout that for one server.
const (
	forwardTimeout = 5 * time.Second
	readTimeout    = 2 * time.Second
)

func (i *instance) forwardPlugin(d *caddyfile.Dispenser, next handler) (handler, func() error, error) {
	var from string
	var to []netip.AddrPort
	var except []string
	forceTCP := false
	for d.Next() {
		args := d.RemainingArgs()
		if len(args) < 1 {
			return nil, nil, d.ArgErr()
		}
		z, _, err := splitKey(args[0], "53")
		if err != nil {
			return nil, nil, fmt.Errorf("unable to normalize '%s'", args[0])
		}
		from = z
		if len(args) < 2 {
			return nil, nil, d.ArgErr()
		}
		for _, a := range args[1:] {
			a = strings.TrimPrefix(a, "dns://")
			if s, err := netip.ParseAddrPort(a); err == nil {
				to = append(to, s)
				continue
			}
			if s, err := netip.ParseAddr(a); err == nil {
				to = append(to, netip.AddrPortFrom(s, 53))
				continue
			}
			b, err := i.d.ReadFile(a)
			if err != nil {
				return nil, nil, fmt.Errorf("not an IP address or file: %q", a)
			}
			c := network.ParseResolvConf(string(b))
			if len(c.Servers) == 0 {
				return nil, nil, fmt.Errorf("no nameservers found in %q", a)
			}
			to = append(to, c.Servers...)
		}
		for d.NextBlock() {
			switch d.Val() {
			case "except":
				a := d.RemainingArgs()
				if len(a) == 0 {
					return nil, nil, d.ArgErr()
				}
				except = append(except, zonesOf(a, nil)...)
			case "force_tcp":
				forceTCP = true
			case "max_concurrent", "max_fails", "health_check", "expire", "policy", "next", "failfast_all_unhealthy_upstreams", "max_idle_conns", "max_age":
				d.RemainingArgs()
			case "prefer_udp":
			case "tls", "tls_servername":
				return nil, nil, fmt.Errorf("ckadrill does not simulate forwarding over TLS yet")
			default:
				return nil, nil, d.Errf("unknown property '%s'", d.Val())
			}
		}
	}
	if len(to) > 15 {
		return nil, nil, fmt.Errorf("more than 15 TOs configured: %d", len(to))
	}
	r := i.d.World().Rand("coredns/forward")
	return func(q *query) (*dns.Msg, error) {
		if !dns.IsSubDomain(from, q.name) || match(except, q.name) != "" {
			return next(q)
		}
		start := time.Now()
		first := r.IntN(len(to))
		var last error
		for n := 0; time.Since(start) < forwardTimeout && n < max(2, len(to)); n++ {
			server := to[(first+n)%len(to)]
			proto := q.proto
			if forceTCP {
				proto = "tcp"
			}
			ask := q.msg.Copy()
			m, err := network.ExchangeOver(q.ctx, i.d.Process, proto, server, ask, readTimeout)
			if err != nil {
				last = err
				continue
			}
			m.Question = q.msg.Question
			return m, nil
		}
		return nil, last
	}, nil, nil
}

func (i *instance) loopPlugin(d *caddyfile.Dispenser, z *zone, next handler) (handler, func() error, error) {
	for d.Next() {
		if len(d.RemainingArgs()) > 0 {
			return nil, nil, d.ArgErr()
		}
	}
	r := i.d.World().Rand("coredns/loop")
	base := z.name
	if base == "." {
		base = ""
	}
	z.loopKey = fmt.Sprintf("%d.%d.%s", r.Uint64()>>1, r.Uint64()>>1, base)
	var mu sync.Mutex
	seen := 0
	return func(q *query) (*dns.Msg, error) {
		if q.qtype != dns.TypeHINFO || q.name != strings.ToLower(z.loopKey) {
			return next(q)
		}
		mu.Lock()
		seen++
		n := seen
		mu.Unlock()
		if n > 2 {
			i.d.Printf("[FATAL] plugin/loop: Loop (%s -> :%s) detected for zone %q, see https://coredns.io/plugins/loop#troubleshooting. Query: \"HINFO %s\"\n", q.from, q.port, z.name, z.loopKey)
			go i.d.Exit(1) // not here: it would end this goroutine under the DNS server's feet
		}
		return next(q)
	}, nil, nil
}

// probeLoop sends the query that must not come back, to this server itself.
func (i *instance) probeLoop(z *zone) {
	port := "53"
	for p, l := range i.zones {
		for _, k := range l {
			if k == z {
				port = p
			}
		}
	}
	n, _ := strconv.Atoi(port)
	self := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), uint16(n))
	for i.ctx.Err() == nil {
		q := new(dns.Msg).SetQuestion(z.loopKey, dns.TypeHINFO)
		q.Id = uint16(i.d.World().Random("coredns/loop").Uint64())
		if _, err := network.Exchange(i.ctx, i.d.Process, self, q, 5*time.Second); err == nil {
			return
		}
		if i.d.Sleep(2*time.Second) != nil {
			return
		}
	}
}
