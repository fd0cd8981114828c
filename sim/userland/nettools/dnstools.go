package nettools

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"ckadrill/sim/kernel"
	"ckadrill/sim/network"
	"ckadrill/sim/userland/libc"

	"github.com/miekg/dns"
)

// dnsServer finds the server named on a command line, by its address or by its name.
func dnsServer(c *libc.Prog, name string) (netip.AddrPort, error) {
	if a, err := netip.ParseAddr(name); err == nil {
		return netip.AddrPortFrom(a, 53), nil
	}
	l, err := network.ResolveLibc(c.Context(), c.Process, name)
	if err != nil {
		return netip.AddrPort{}, err
	}
	return netip.AddrPortFrom(l[0], 53), nil
}

func query(c *kernel.Process, server netip.AddrPort, name string, t uint16, timeout time.Duration) (*dns.Msg, error) {
	q := new(dns.Msg).SetQuestion(dns.Fqdn(name), t)
	q.Id = uint16(c.World().Random("network/dns").Uint64())
	return network.Exchange(c.Context(), c, server, q, timeout)
}

// reverseName is the name to ask for an address's PTR record, "" if s is no address.
func reverseName(s string) string {
	if net.ParseIP(s) == nil {
		return ""
	}
	n, err := dns.ReverseAddr(s)
	if err != nil {
		return ""
	}
	return n
}

// resolvConfFor is the process's resolver configuration with a server of the command line in its place.
func resolvConfFor(c *libc.Prog, server string) (network.ResolvConf, error) {
	conf := network.ReadResolvConf(c.Process)
	if server != "" {
		s, err := dnsServer(c, server)
		if err != nil {
			return conf, err
		}
		conf.Servers = []netip.AddrPort{s}
	}
	return conf, nil
}

// nslookup is BIND's.
var nslookup = libc.Main("nslookup", func(c *libc.Prog) int {
	qtypes, timeout, retries := []uint16{dns.TypeA, dns.TypeAAAA}, 5*time.Second, 3
	var words []string
	for _, a := range c.Args {
		switch k, v, _ := strings.Cut(strings.TrimLeft(a, "-"), "="); {
		case !strings.HasPrefix(a, "-"):
			words = append(words, a)
		case k == "type" || k == "q" || k == "query" || k == "querytype":
			t, ok := dns.StringToType[strings.ToUpper(v)]
			if !ok {
				c.Put("unknown query type: %s\n", v)
				continue
			}
			qtypes = []uint16{t}
		case k == "timeout":
			if d, ok := seconds(v); ok {
				timeout = d
			}
		case k == "retry":
			retries, _ = strconv.Atoi(v)
		}
	}
	if len(words) == 0 {
		c.Errorf("nslookup: ckadrill does not simulate the interactive mode yet\n")
		return 1
	}
	server := ""
	if len(words) > 1 {
		server = words[1]
	}
	conf, err := resolvConfFor(c, server)
	if err != nil {
		c.Put("nslookup: couldn't get address for '%s': not found\n", server)
		return 1
	}
	names := conf.Names(words[0])
	if r := reverseName(words[0]); r != "" {
		names, qtypes = []string{r}, []uint16{dns.TypePTR}
	}
	headed, canonical := false, false
	head := func(s netip.AddrPort) {
		if !headed {
			c.Put("Server:\t\t%s\nAddress:\t%s#%d\n\n", s.Addr(), s.Addr(), s.Port())
		}
		headed = true
	}
	for i, name := range names {
		found, rcode := false, dns.RcodeSuccess
		for _, t := range qtypes {
			m, s, err := askAll(c, conf, name, t, timeout, retries)
			if err != nil {
				c.Out.Flush()
				if errors.Is(err, errNoServer) {
					c.Put(";; connection timed out; no servers could be reached\n\n")
				} else {
					c.Put(";; Got error: %s\n", err)
				}
				return 1
			}
			head(s)
			rcode = m.Rcode
			for _, rr := range m.Answer {
				if !canonical && !m.Authoritative && rr.Header().Rrtype != dns.TypePTR {
					c.Put("Non-authoritative answer:\n")
				}
				canonical, found = true, true
				putRecord(c, rr)
			}
			if m.Rcode != dns.RcodeSuccess {
				break
			}
		}
		if found {
			c.Put("\n")
			return 0
		}
		if i == len(names)-1 || rcode != dns.RcodeNameError {
			if rcode == dns.RcodeSuccess {
				c.Put("*** Can't find %s: No answer\n\n", words[0])
				return 1
			}
			c.Put("** server can't find %s: %s\n\n", strings.TrimSuffix(orElse(shortFor(words[0], names), name), "."), dns.RcodeToString[rcode])
			return 1
		}
	}
	return 1
})

// shortFor is the name that BIND's nslookup reports as not found: as it was typed.
func shortFor(typed string, names []string) string {
	if len(names) == 1 && reverseName(typed) != "" {
		return names[0]
	}
	return typed
}

var errNoServer = errors.New("no servers could be reached")

func askAll(c *libc.Prog, conf network.ResolvConf, name string, t uint16, timeout time.Duration, tries int) (*dns.Msg, netip.AddrPort, error) {
	for range max(tries, 1) {
		for _, s := range conf.Servers {
			m, err := query(c.Process, s, name, t, timeout)
			if err == nil {
				return m, s, nil
			}
			c.Put(";; communications error to %s#%d: %s\n", s.Addr(), s.Port(), dnsFailure(err))
		}
	}
	return nil, netip.AddrPort{}, errNoServer
}

func dnsFailure(err error) string {
	var ne net.Error
	if errors.As(err, &ne) && ne.Timeout() {
		return "timed out"
	}
	return strings.ToLower(libc.Strerror(err))
}

func putRecord(c *libc.Prog, rr dns.RR) {
	name := strings.TrimSuffix(rr.Header().Name, ".")
	switch rr := rr.(type) {
	case *dns.A:
		c.Put("Name:\t%s\nAddress: %s\n", name, rr.A)
	case *dns.AAAA:
		c.Put("Name:\t%s\nAddress: %s\n", name, rr.AAAA)
	case *dns.PTR:
		c.Put("%s\tname = %s\n", name, rr.Ptr)
	case *dns.CNAME:
		c.Put("%s\tcanonical name = %s\n", name, rr.Target)
	case *dns.SRV:
		c.Put("%s\tservice = %d %d %d %s\n", name, rr.Priority, rr.Weight, rr.Port, rr.Target)
	case *dns.TXT:
		c.Put("%s\ttext = %q\n", name, strings.Join(rr.Txt, ""))
	case *dns.NS:
		c.Put("%s\tnameserver = %s\n", name, rr.Ns)
	default:
		c.Put("%s\n", strings.TrimPrefix(rr.String(), "\t"))
	}
}

// busyboxNslookup asks for A and AAAA of each search domain at once, and prints each answer as it is, which is why it shows
// failures beside successes.
var busyboxNslookup = libc.Main("nslookup", func(c *libc.Prog) int {
	qtypes := []uint16{dns.TypeA, dns.TypeAAAA}
	var words []string
	for _, a := range c.Args {
		if k, v, ok := strings.Cut(strings.TrimLeft(a, "-"), "="); strings.HasPrefix(a, "-") && ok && (k == "type" || k == "querytype" || k == "q") {
			t, ok := dns.StringToType[strings.ToUpper(v)]
			if !ok {
				c.Errorf("nslookup: invalid query type \"%s\"\n", v)
				return 1
			}
			qtypes = []uint16{t}
		} else if !strings.HasPrefix(a, "-") {
			words = append(words, a)
		}
	}
	if len(words) == 0 || len(words) > 2 {
		c.Errorf("BusyBox v1.36.1 (2024-06-10 07:11:47 UTC) multi-call binary.\n\nUsage: nslookup [-type=QUERY_TYPE] [-debug] HOST [DNS_SERVER]\n\nQuery DNS about HOST\n\nQUERY_TYPE: soa,ns,a,aaaa,cname,mx,txt,ptr,srv,any\n")
		return 1
	}
	server := ""
	if len(words) == 2 {
		server = words[1]
	}
	conf, err := resolvConfFor(c, server)
	if err != nil {
		c.Errorf("nslookup: bad address '%s'\n", server)
		return 1
	}
	// busybox knows no ndots: a name with a dot is asked for as it is, any other with the search domains.
	names := []string{dns.Fqdn(words[0])}
	if r := reverseName(words[0]); r != "" {
		names, qtypes = []string{r}, []uint16{dns.TypePTR}
	} else if !strings.Contains(words[0], ".") && len(conf.Search) > 0 {
		names = nil
		for _, s := range conf.Search {
			names = append(names, words[0]+"."+s)
		}
	}
	type reply struct {
		name string
		m    *dns.Msg
	}
	var replies []reply
	var from netip.AddrPort
	for _, s := range conf.Servers {
		answered := make(chan struct {
			i int
			m *dns.Msg
		}, len(names)*len(qtypes))
		n := 0
		for _, name := range names {
			for _, t := range qtypes {
				i := n
				n++
				go func() {
					// It sends again after 2.5 s and gives up after 5 s.
					m, err := query(c.Process, s, name, t, 5*time.Second)
					if err != nil {
						m = nil
					}
					answered <- struct {
						i int
						m *dns.Msg
					}{i, m}
				}()
			}
		}
		got := make([]*dns.Msg, n)
		any := false
		for range n {
			a := <-answered
			got[a.i] = a.m
			any = any || a.m != nil
		}
		if !any {
			continue
		}
		from = s
		for i, m := range got {
			replies = append(replies, reply{names[i/len(qtypes)], m})
		}
		break
	}
	if len(replies) == 0 {
		c.Put(";; connection timed out; no servers could be reached\n\n")
		return 1
	}
	c.Put("Server:\t\t%s\nAddress:\t%s\n\n", from.Addr(), from)
	failed := false
	for _, r := range replies {
		switch {
		case r.m == nil:
			c.Put("*** Can't find %s: No answer\n", strings.TrimSuffix(r.name, "."))
			failed = true
		case r.m.Rcode != dns.RcodeSuccess:
			c.Put("** server can't find %s: %s\n", strings.TrimSuffix(r.name, "."), dns.RcodeToString[r.m.Rcode])
			failed = true
		default:
			for _, rr := range r.m.Answer {
				putBusyboxRecord(c, rr)
			}
		}
		c.Put("\n")
	}
	if failed {
		return 1
	}
	return 0
})

func putBusyboxRecord(c *libc.Prog, rr dns.RR) {
	switch rr := rr.(type) {
	case *dns.MX, *dns.NS, *dns.SOA:
		c.Put("%s\n", rr)
	default:
		putRecord(c, rr)
	}
}

// getent knows the databases that need the network; the others are files.
var getent = libc.Main("getent", func(c *libc.Prog) int {
	if len(c.Args) < 1 {
		c.Errorf("getent: wrong number of arguments\nTry `getent --help' or `getent --usage' for more information.\n")
		return 1
	}
	status := 0
	switch db := c.Args[0]; db {
	case "hosts", "ahosts", "ahostsv4":
		for _, name := range c.Args[1:] {
			l, err := network.ResolveLibc(c.Context(), c.Process, name)
			if err != nil {
				status = 2
				continue
			}
			if db == "hosts" {
				// gethostbyname2: IPv6 addresses if there are any, else IPv4's
				six := slices.ContainsFunc(l, func(a netip.Addr) bool { return a.Is6() })
				for _, a := range l {
					if a.Is6() == six {
						c.Put("%-15s %s\n", a, name)
					}
				}
				continue
			}
			for _, a := range l {
				if db == "ahostsv4" && !a.Is4() {
					continue
				}
				for i, kind := range []string{"STREAM", "DGRAM", "RAW"} {
					c.Put("%-15s %-6s %s\n", a, kind, map[bool]string{true: name, false: ""}[i == 0])
				}
			}
		}
	case "passwd", "group", "shadow", "services", "protocols":
		b, err := c.ReadFile("/etc/" + db)
		if err != nil {
			return 2
		}
		for _, want := range append([]string{}, orAll(c.Args[1:])...) {
			found := false
			for l := range strings.Lines(string(b)) {
				f := strings.Split(strings.TrimSpace(l), ":")
				if want == "" || f[0] == want || len(f) > 2 && f[2] == want {
					c.Put("%s\n", strings.TrimSpace(l))
					found = true
				}
			}
			if !found && want != "" {
				status = 2
			}
		}
	default:
		c.Errorf("Unknown database: %s\nTry `getent --help' or `getent --usage' for more information.\n", db)
		return 1
	}
	return status
})

func orAll(l []string) []string {
	if len(l) == 0 {
		return []string{""}
	}
	return l
}

// host is BIND's.
var host = libc.Main("host", func(c *libc.Prog) int {
	opts, words, err := libc.Getopt(c.Args, "t:aW:R:vTr46")
	if err != nil || len(words) == 0 {
		c.Errorf("Usage: host [-aCdilrTvVw] [-c class] [-N ndots] [-t type] [-W time]\n            [-R number] [-m flag] [-p port] hostname [server]\n")
		return 1
	}
	types := []uint16{dns.TypeA, dns.TypeAAAA, dns.TypeMX}
	timeout := 5 * time.Second
	for _, o := range opts {
		switch o.Name {
		case "t":
			t, ok := dns.StringToType[strings.ToUpper(o.Value)]
			if !ok {
				c.Errorf("host: invalid type: %s\n", o.Value)
				return 1
			}
			types = []uint16{t}
		case "W":
			if d, ok := seconds(o.Value); ok {
				timeout = d
			}
		}
	}
	server := ""
	if len(words) > 1 {
		server = words[1]
	}
	conf, err := resolvConfFor(c, server)
	if err != nil {
		c.Errorf("host: couldn't get address for '%s': not found\n", server)
		return 1
	}
	if server != "" {
		c.Put("Using domain server:\nName: %s\nAddress: %s#53\nAliases: \n\n", server, conf.Servers[0].Addr())
	}
	names := conf.Names(words[0])
	if r := reverseName(words[0]); r != "" {
		names, types = []string{r}, []uint16{dns.TypePTR}
	}
	rcode := dns.RcodeNameError
	for _, name := range names {
		found := false
		for _, t := range types {
			m, _, err := askAll(c, conf, name, t, timeout, 2)
			if err != nil {
				c.Put(";; connection timed out; no servers could be reached\n")
				return 1
			}
			if rcode = m.Rcode; rcode != dns.RcodeSuccess {
				break
			}
			found = true
			for _, rr := range m.Answer {
				n := strings.TrimSuffix(rr.Header().Name, ".")
				switch rr := rr.(type) {
				case *dns.A:
					c.Put("%s has address %s\n", n, rr.A)
				case *dns.AAAA:
					c.Put("%s has IPv6 address %s\n", n, rr.AAAA)
				case *dns.PTR:
					c.Put("%s domain name pointer %s\n", n, rr.Ptr)
				case *dns.CNAME:
					c.Put("%s is an alias for %s\n", n, rr.Target)
				case *dns.SRV:
					c.Put("%s has SRV record %d %d %d %s\n", n, rr.Priority, rr.Weight, rr.Port, rr.Target)
				case *dns.TXT:
					c.Put("%s descriptive text %q\n", n, strings.Join(rr.Txt, ""))
				default:
					c.Put("%s\n", rr)
				}
			}
		}
		if found {
			return 0
		}
	}
	c.Put("Host %s not found: %d(%s)\n", strings.TrimSuffix(orElse(shortFor(words[0], names), words[0]), "."), rcode, dns.RcodeToString[rcode])
	return 1
})

// dig is BIND's.
var dig = libc.Main("dig", func(c *libc.Prog) int {
	var server string
	t, name := uint16(dns.TypeA), ""
	flags := map[string]bool{}
	timeout, tries, port := 5*time.Second, 3, uint16(53)
	args := c.Args
	for i := 0; i < len(args); i++ {
		a := args[i]
		value := func() string {
			if i+1 < len(args) {
				i++
				return args[i]
			}
			return ""
		}
		switch {
		case strings.HasPrefix(a, "@"):
			server = a[1:]
		case strings.HasPrefix(a, "+"):
			k, v, _ := strings.Cut(a[1:], "=")
			switch k {
			case "time", "timeout":
				if d, ok := seconds(v); ok {
					timeout = max(d, time.Second)
				}
			case "tries":
				tries, _ = strconv.Atoi(v)
			case "retry":
				n, _ := strconv.Atoi(v)
				tries = n + 1
			default:
				flags[k] = true
			}
		case a == "-x":
			if n := reverseName(value()); n != "" {
				name, t = n, dns.TypePTR
			}
		case a == "-t":
			t = dns.StringToType[strings.ToUpper(value())]
		case a == "-p":
			n, _ := strconv.Atoi(value())
			port = uint16(n)
		case a == "-4" || a == "-6":
		case strings.HasPrefix(a, "-"):
			c.Errorf("Invalid option: %s\nUsage:  dig [@global-server] [domain] [q-type] [q-class] {q-opt}\n            {global-d-opt} host [@local-server] {local-d-opt}\n            [ host [@local-server] {local-d-opt} [...]]\n\nUse \"dig -h\" (or \"dig -h | more\") for complete list of options\n", a)
			return 1
		default:
			if n, ok := dns.StringToType[strings.ToUpper(a)]; ok {
				t = n
			} else if !strings.EqualFold(a, "in") {
				name = a
			}
		}
	}
	if name == "" {
		name, t = ".", dns.TypeNS
	}
	conf, err := resolvConfFor(c, server)
	if err != nil {
		c.Errorf("dig: couldn't get address for '%s': not found\n", server)
		return 10
	}
	names := []string{dns.Fqdn(name)}
	if flags["search"] {
		names = conf.Names(name)
	}
	short := flags["short"]
	if !short && !flags["nocmd"] && !flags["noall"] {
		c.Put("\n; <<>> DiG 9.18.39-0ubuntu0.24.04.2-Ubuntu <<>> %s\n", strings.Join(c.Args, " "))
		if server != "" {
			c.Put("; (1 server found)\n")
		}
		c.Put(";; global options: +cmd\n")
	}
	start := time.Now()
	var m *dns.Msg
	var from netip.AddrPort
	for _, n := range names {
		m = nil
		for range max(tries, 1) {
			for _, s := range conf.Servers {
				s = netip.AddrPortFrom(s.Addr(), port)
				q := new(dns.Msg).SetQuestion(n, t)
				q.Id = uint16(c.World().Random("network/dns").Uint64())
				q.AuthenticatedData = true
				q.SetEdns0(1232, false)
				proto := "udp"
				if flags["tcp"] || flags["vc"] {
					proto = "tcp"
				}
				r, err := network.ExchangeOver(context.Background(), c.Process, proto, s, q, timeout)
				if err == nil && r.Truncated && proto == "udp" {
					c.Put(";; Truncated, retrying in TCP mode.\n")
					r, err = network.ExchangeOver(context.Background(), c.Process, "tcp", s, q, timeout)
				}
				if err == nil {
					m, from = r, s
					break
				}
				c.Put(";; communications error to %s#%d: %s\n", s.Addr(), s.Port(), dnsFailure(err))
			}
			if m != nil {
				break
			}
		}
		if m == nil || m.Rcode == dns.RcodeSuccess && len(m.Answer) > 0 {
			break
		}
	}
	if m == nil {
		c.Put("\n; <<>> DiG 9.18.39-0ubuntu0.24.04.2-Ubuntu <<>> %s\n;; global options: +cmd\n;; no servers could be reached\n", strings.Join(c.Args, " "))
		return 9
	}
	if short {
		for _, rr := range m.Answer {
			c.Put("%s\n", strings.TrimPrefix(rr.String(), rr.Header().String()))
		}
		return 0
	}
	if flags["noall"] {
		if flags["answer"] {
			for _, rr := range m.Answer {
				c.Put("%s\n", rr)
			}
		}
		return 0
	}
	text := m.String()
	c.Put(";; Got answer:\n;; ->>HEADER<<- opcode: %s, status: %s, id: %d\n%s\n", dns.OpcodeToString[m.Opcode], dns.RcodeToString[m.Rcode], m.Id, strings.TrimRight(text[strings.Index(text, ";; flags"):], "\n"))
	c.Put("\n;; Query time: %d msec\n;; SERVER: %s#%d(%s) (UDP)\n;; WHEN: %s\n;; MSG SIZE  rcvd: %d\n\n", time.Since(start).Milliseconds(), from.Addr(), from.Port(), from.Addr(), time.Now().UTC().Format("Mon Jan 02 15:04:05 UTC 2006"), m.Len())
	return 0
})
