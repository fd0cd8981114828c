package network

import (
	"net/netip"
	"strconv"
	"strings"
	"time"

	"ckadrill/sim/kernel"
)

// ResolvConf is what /etc/resolv.conf says, see resolv.conf(5).
type ResolvConf struct {
	Servers  []netip.AddrPort
	Search   []string // with a trailing dot each
	Ndots    int
	Attempts int
	Timeout  time.Duration // of one query to one server
}

// Limits and defaults of resolv.conf(5).
const (
	maxServers      = 3
	maxNdots        = 15
	defaultAttempts = 2
	defaultTimeout  = 5 * time.Second
)

// ReadResolvConf reads the process's /etc/resolv.conf. Without one, or without a server in it, the server is 127.0.0.1.
func ReadResolvConf(p *kernel.Process) ResolvConf {
	var b []byte
	if p.Files != nil {
		b, _ = p.ReadFile("/etc/resolv.conf")
	}
	c := ParseResolvConf(string(b))
	if len(c.Servers) == 0 {
		c.Servers = []netip.AddrPort{netip.MustParseAddrPort("127.0.0.1:53")}
	}
	return c
}

// ParseResolvConf parses the text of a resolv.conf. What it does not understand it skips, as a libc does.
func ParseResolvConf(text string) ResolvConf {
	c := ResolvConf{Ndots: 1, Attempts: defaultAttempts, Timeout: defaultTimeout}
	for line := range strings.Lines(text) {
		if i := strings.IndexAny(line, ";#"); i >= 0 {
			line = line[:i]
		}
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		switch f[0] {
		case "nameserver":
			if a, err := netip.ParseAddr(f[1]); err == nil && len(c.Servers) < maxServers {
				c.Servers = append(c.Servers, netip.AddrPortFrom(a.Unmap(), 53))
			}
		case "domain":
			c.Search = []string{rooted(f[1])}
		case "search":
			c.Search = nil
			for _, s := range f[1:] {
				if d := rooted(s); d != "." {
					c.Search = append(c.Search, d)
				}
			}
		case "options":
			for _, o := range f[1:] {
				k, v, _ := strings.Cut(o, ":")
				n, err := strconv.Atoi(v)
				if err != nil || n < 0 {
					continue
				}
				switch k {
				case "ndots":
					c.Ndots = min(n, maxNdots)
				case "attempts":
					c.Attempts = min(max(n, 1), 5)
				case "timeout":
					c.Timeout = time.Duration(min(max(n, 1), 30)) * time.Second
				}
			}
		}
	}
	return c
}

func rooted(s string) string {
	if strings.HasSuffix(s, ".") {
		return s
	}
	return s + "."
}

// Names lists the absolute names to try for a name, in order.
func (c ResolvConf) Names(name string) []string {
	if strings.HasSuffix(name, ".") {
		return []string{name}
	}
	var l []string
	asIs := strings.Count(name, ".") >= c.Ndots
	if asIs {
		l = append(l, name+".")
	}
	for _, s := range c.Search {
		if n := name + "." + s; len(n) <= 254 {
			l = append(l, n)
		}
	}
	if !asIs {
		l = append(l, name+".")
	}
	return l
}

// hostsEntries looks a name up in the process's /etc/hosts.
func hostsEntries(p *kernel.Process, name string) []netip.Addr {
	if p.Files == nil {
		return nil
	}
	b, err := p.ReadFile("/etc/hosts")
	if err != nil {
		return nil
	}
	name = strings.TrimSuffix(name, ".")
	var l []netip.Addr
	for line := range strings.Lines(string(b)) {
		line, _, _ = strings.Cut(line, "#")
		f := strings.Fields(line)
		if len(f) < 2 {
			continue
		}
		a, err := netip.ParseAddr(f[0])
		if err != nil {
			continue
		}
		for _, h := range f[1:] {
			if strings.EqualFold(strings.TrimSuffix(h, "."), name) {
				l = append(l, a.Unmap())
				break
			}
		}
	}
	return l
}

// hostSources is the order of sources on nsswitch.conf's hosts line, "files" and "dns" if there is none.
func hostSources(p *kernel.Process) []string {
	def := []string{"files", "dns"}
	if p.Files == nil {
		return def
	}
	b, err := p.ReadFile("/etc/nsswitch.conf")
	if err != nil {
		return def
	}
	for line := range strings.Lines(string(b)) {
		line, _, _ = strings.Cut(line, "#")
		v, ok := strings.CutPrefix(strings.TrimSpace(line), "hosts:")
		if !ok {
			continue
		}
		var l []string
		for _, f := range strings.Fields(v) {
			switch f {
			case "files", "dns":
				l = append(l, f)
			case "resolve": // systemd-resolved asks the same servers
				l = append(l, "dns")
			}
		}
		return l
	}
	return def
}
