package nettools

import (
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"strings"
	"syscall"

	"ckadrill/sim/network"
	"ckadrill/sim/userland/libc"
)

// ipRun is one run of ip(8).
type ipRun struct {
	*libc.Prog
	n                *network.Namespace
	brief, four, six bool
}

const ipUsage = `Usage: ip [ OPTIONS ] OBJECT { COMMAND | help }
       ip [ -force ] -batch filename
where  OBJECT := { address | addrlabel | amt | fou | help | ila | ioam | l2tp |
                   link | macsec | maddress | monitor | mptcp | mroute | mrule |
                   neighbor | neighbour | netconf | netns | nexthop | ntable |
                   ntbl | route | rule | sr | tap | tcpmetrics |
                   token | tunnel | tuntap | vrf | xfrm }
`

var ip = libc.Main("ip", func(p *libc.Prog) int {
	c := &ipRun{Prog: p, n: namespaceOf(p.Process)}
	args := p.Args
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		switch strings.TrimLeft(args[0], "-") {
		case "br", "brief":
			c.brief = true
		case "4":
			c.four = true
		case "6":
			c.six = true
		case "c", "color", "o", "oneline", "d", "details", "s", "stats":
		case "V", "Version":
			c.Put("ip utility, iproute2-6.1.0, libbpf 1.3.0\n")
			return 0
		default:
			c.Errorf("Option %q is unknown, try \"ip -help\".\n", args[0])
			return 255
		}
		args = args[1:]
	}
	if len(args) == 0 || c.n == nil {
		c.Errorf("%s", ipUsage)
		return 255
	}
	object, rest := args[0], args[1:]
	is := func(full string) bool { return strings.HasPrefix(full, object) }
	switch {
	case is("address"):
		return c.address(rest)
	case is("route"):
		return c.route(rest)
	case is("link"):
		return c.link(rest)
	case is("neighbour") || is("neighbor"):
		for _, x := range c.n.Neighbours() {
			c.Put("%s dev %s lladdr %s REACHABLE \n", x.Addr, x.Dev, x.MAC)
		}
		return 0
	case is("netns"):
		for _, x := range c.n.Namespaces() {
			c.Put("%s\n", x.Path()[strings.LastIndexByte(x.Path(), '/')+1:])
		}
		return 0
	case is("help"):
		c.Errorf("%s", ipUsage)
		return 255
	}
	c.Errorf("Object %q is unknown, try \"ip help\".\n", object)
	return 1
})

func (c *ipRun) device(args []string) (string, []network.Link, bool) {
	name := ""
	if len(args) > 0 && strings.HasPrefix("show", args[0]) || len(args) > 0 && strings.HasPrefix("list", args[0]) {
		args = args[1:]
	}
	up := false
	for i := 0; i < len(args); i++ {
		switch args[i] {
		case "dev":
			if i+1 < len(args) {
				i++
				name = args[i]
			}
		case "up":
			up = true
		default:
			name = args[i]
		}
	}
	var l []network.Link
	for _, k := range c.n.Links() {
		if (name == "" || k.Name == name) && (!up || k.Up) {
			l = append(l, k)
		}
	}
	if name != "" && len(l) == 0 && !up {
		c.Errorf("Device %q does not exist.\n", name)
		return name, nil, false
	}
	return name, l, true
}

func state(k network.Link) string {
	switch {
	case k.Kind == network.Loopback && k.Up || k.Kind == network.VXLAN && k.Up:
		return "UNKNOWN"
	case k.Up:
		return "UP"
	}
	return "DOWN"
}

func flags(k network.Link) string {
	f := []string{"BROADCAST", "MULTICAST"}
	if k.Kind == network.Loopback {
		f = []string{"LOOPBACK"}
	}
	if k.Up {
		f = append(f, "UP", "LOWER_UP")
	}
	return "<" + strings.Join(f, ",") + ">"
}

// shownName adds the other end of a veth pair.
func (c *ipRun) shownName(k network.Link) string {
	if k.Kind != network.Veth {
		return k.Name
	}
	return fmt.Sprintf("%s@if%d", k.Name, c.n.PeerIndex(k.Name))
}

func (c *ipRun) head(k network.Link, mode string) {
	queue := "noqueue"
	if k.Kind == network.Ethernet {
		queue = "fq_codel"
	}
	master := ""
	if k.Master != "" {
		master = " master " + k.Master
	}
	qlen := ""
	if k.Kind != network.Veth && k.Kind != network.VXLAN {
		qlen = " qlen 1000"
	}
	c.Put("%d: %s: %s mtu %d qdisc %s%s state %s %sgroup default%s\n", k.Index, c.shownName(k), flags(k), k.MTU, queue, master, state(k), mode, qlen)
	kind, brd := "ether", "ff:ff:ff:ff:ff:ff"
	if k.Kind == network.Loopback {
		kind, brd = "loopback", "00:00:00:00:00:00"
	}
	netns := ""
	if k.Kind == network.Veth {
		if i := c.n.PeerNetns(k.Name); i >= 0 {
			netns = fmt.Sprintf(" link-netnsid %d", i)
		}
	}
	c.Put("    link/%s %s brd %s%s\n", kind, k.MAC, brd, netns)
}

func (c *ipRun) address(args []string) int {
	if len(args) > 0 && (args[0] == "add" || args[0] == "del" || args[0] == "flush") {
		return c.changeAddress(args)
	}
	_, l, ok := c.device(args)
	if !ok {
		return 1
	}
	for _, k := range l {
		var addrs []netip.Prefix
		for _, p := range k.Addresses {
			if (c.four && !p.Addr().Is4()) || (c.six && p.Addr().Is4()) {
				continue
			}
			addrs = append(addrs, p)
		}
		if c.brief {
			s := ""
			for _, p := range addrs {
				s += p.String() + " "
			}
			c.Put("%-16s %-14s %s\n", c.shownName(k), state(k), s)
			continue
		}
		if (c.four || c.six) && len(addrs) == 0 {
			continue
		}
		c.head(k, "")
		for _, p := range addrs {
			scope, family, brd := "global", "inet", ""
			if p.Addr().IsLoopback() {
				scope = "host"
			}
			if p.Addr().Is6() {
				family = "inet6"
			} else if p.Bits() < 31 && scope == "global" {
				brd = " brd " + broadcast(p).String()
			}
			label := " " + k.Name
			if family == "inet6" {
				label = " "
				if scope == "host" {
					label = " noprefixroute "
				}
			}
			c.Put("    %s %s%s scope %s%s\n       valid_lft forever preferred_lft forever\n", family, p, brd, scope, label)
		}
	}
	return 0
}

func broadcast(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().As4()
	for i := p.Bits(); i < 32; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	return netip.AddrFrom4(b)
}

func (c *ipRun) denied() bool {
	if c.Cred.UID != 0 {
		c.Errorf("RTNETLINK answers: Operation not permitted\n")
		return true
	}
	return false
}

func (c *ipRun) answer(err error) int {
	if err == nil {
		return 0
	}
	c.Errorf("RTNETLINK answers: %s\n", libc.Strerror(err))
	return 2
}

func (c *ipRun) changeAddress(args []string) int {
	if c.denied() {
		return 2
	}
	var a netip.Prefix
	dev := ""
	for i := 1; i < len(args); i++ {
		if args[i] == "dev" && i+1 < len(args) {
			i++
			dev = args[i]
		} else if p, err := netip.ParsePrefix(args[i]); err == nil {
			a = p
		} else if x, err := netip.ParseAddr(args[i]); err == nil {
			a = netip.PrefixFrom(x, x.BitLen())
		} else if args[0] != "flush" {
			c.Errorf("Error: any valid prefix is expected rather than %q.\n", args[i])
			return 1
		} else {
			dev = args[i]
		}
	}
	var failed error
	err := c.n.ChangeLink(dev, func(k *network.Link) {
		var rest []netip.Prefix
		found := false
		for _, p := range k.Addresses {
			if found = found || p == a; p != a && args[0] != "flush" {
				rest = append(rest, p)
			}
		}
		switch {
		case args[0] == "add" && found:
			failed = syscall.EEXIST
		case args[0] == "add":
			k.Addresses = append(k.Addresses, a)
		case args[0] == "del" && !found:
			failed = syscall.EADDRNOTAVAIL
		default:
			k.Addresses = rest
		}
	})
	if errors.Is(err, syscall.ENODEV) {
		c.Errorf("Cannot find device %q\n", dev)
		return 1
	}
	return c.answer(failed)
}

func (c *ipRun) link(args []string) int {
	if len(args) > 0 && (args[0] == "set" || strings.HasPrefix("delete", args[0])) {
		if c.denied() {
			return 2
		}
		dev, action := "", ""
		mtu := 0
		for i := 1; i < len(args); i++ {
			switch args[i] {
			case "dev":
			case "up", "down":
				action = args[i]
			case "mtu":
				if i+1 < len(args) {
					i++
					mtu, _ = strconv.Atoi(args[i])
				}
			default:
				dev = args[i]
			}
		}
		var err error
		if args[0] == "set" {
			err = c.n.ChangeLink(dev, func(k *network.Link) {
				if action != "" {
					k.Up = action == "up"
				}
				if mtu > 0 {
					k.MTU = mtu
				}
			})
		} else {
			err = c.n.DeleteLink(dev)
		}
		if errors.Is(err, syscall.ENODEV) {
			c.Errorf("Cannot find device %q\n", dev)
			return 1
		}
		return c.answer(err)
	}
	_, l, ok := c.device(args)
	if !ok {
		return 1
	}
	for _, k := range l {
		if c.brief {
			c.Put("%-16s %-14s %s %s \n", c.shownName(k), state(k), k.MAC, flags(k))
			continue
		}
		c.head(k, "mode DEFAULT ")
	}
	return 0
}

func (c *ipRun) route(args []string) int {
	if len(args) > 0 {
		switch {
		case args[0] == "get":
			return c.routeGet(args[1:])
		case args[0] == "add" || args[0] == "del" || args[0] == "delete" || args[0] == "replace":
			return c.changeRoute(args)
		}
	}
	dev := ""
	for i, a := range args {
		if a == "dev" && i+1 < len(args) {
			dev = args[i+1]
		}
	}
	for _, r := range c.n.Routes() {
		if r.Dst.Addr().Is4() == c.six || dev != "" && r.Dev != dev {
			continue
		}
		c.Put("%s \n", routeText(r))
	}
	return 0
}

func routeText(r network.Route) string {
	s := r.Dst.String()
	if r.Dst.Bits() == 0 {
		s = "default"
	} else if r.Dst.Bits() == r.Dst.Addr().BitLen() {
		s = r.Dst.Addr().String()
	}
	if r.Via.IsValid() {
		s += " via " + r.Via.String()
	}
	s += " dev " + r.Dev
	if r.Proto != "" {
		s += " proto " + r.Proto
	}
	if !r.Via.IsValid() && r.Dst.Addr().Is4() {
		s += " scope link"
	}
	if r.Src.IsValid() {
		s += " src " + r.Src.String()
	}
	if r.Metric != 0 {
		s += " metric " + strconv.Itoa(r.Metric)
	}
	if r.OnLink {
		s += " onlink"
	}
	return s
}

func (c *ipRun) routeGet(args []string) int {
	if len(args) == 0 {
		c.Errorf("need at least a destination address\n")
		return 1
	}
	a, err := netip.ParseAddr(args[0])
	if err != nil {
		c.Errorf("Error: any valid prefix is expected rather than %q.\n", args[0])
		return 1
	}
	r, src, err := c.n.Route(a)
	if err != nil {
		return c.answer(err)
	}
	via := ""
	if r.Via.IsValid() {
		via = " via " + r.Via.String()
	}
	local, cache := "", ""
	if r.Dev == "lo" {
		local, cache = "local ", "<local> "
	}
	c.Put("%s%s%s dev %s src %s uid %d \n    cache %s\n", local, a, via, r.Dev, src, c.Cred.UID, cache)
	return 0
}

func (c *ipRun) changeRoute(args []string) int {
	if c.denied() {
		return 2
	}
	var r network.Route
	for i := 1; i < len(args); i++ {
		next := func() string {
			if i+1 < len(args) {
				i++
				return args[i]
			}
			return ""
		}
		switch args[i] {
		case "via":
			via, err := netip.ParseAddr(next())
			if err != nil {
				c.Errorf("Error: any valid address is expected rather than %q.\n", args[i])
				return 1
			}
			r.Via = via
		case "dev":
			r.Dev = next()
			if _, ok := c.n.Link(r.Dev); !ok {
				c.Errorf("Cannot find device %q\n", r.Dev)
				return 1
			}
		case "src":
			r.Src, _ = netip.ParseAddr(next())
		case "metric":
			r.Metric, _ = strconv.Atoi(next())
		case "proto", "protocol":
			r.Proto = next()
		case "scope":
			next() // follows from the rest
		case "onlink":
			r.OnLink = true
		case "default":
			r.Dst = netip.PrefixFrom(netip.IPv4Unspecified(), 0)
		default:
			p, err := netip.ParsePrefix(args[i])
			if err != nil {
				a, err := netip.ParseAddr(args[i])
				if err != nil {
					c.Errorf("Error: any valid prefix is expected rather than %q.\n", args[i])
					return 1
				}
				p = netip.PrefixFrom(a, a.BitLen())
			}
			if p != p.Masked() {
				c.Errorf("RTNETLINK answers: Invalid argument\n")
				return 2
			}
			r.Dst = p
		}
	}
	if args[0] == "add" || args[0] == "replace" {
		return c.answer(c.n.AddRoute(r, args[0] == "replace"))
	}
	return c.answer(c.n.DeleteRoute(r.Dst, r.Dev))
}
