package nettools

import (
	"cmp"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ckadrill/sim/network"
	"ckadrill/sim/userland/libc"
)

// internetFilter is what "lsof -i" was told: [46][protocol][@address][:port[-port]].
type internetFilter struct {
	version, proto, address string
	low, high               uint16
}

func parseInternetFilter(text string) (f internetFilter, err error) {
	rest := text
	if rest != "" && (rest[0] == '4' || rest[0] == '6') {
		f.version, rest = rest[:1], rest[1:]
	}
	rest, ports, hasPorts := strings.Cut(rest, ":")
	rest, f.address, _ = strings.Cut(rest, "@")
	if f.proto = strings.ToLower(rest); f.proto != "" && f.proto != "tcp" && f.proto != "udp" {
		return f, fmt.Errorf("unknown protocol name (%s) in: -i %s", rest, text)
	}
	if !hasPorts {
		return f, nil
	}
	low, high, isRange := strings.Cut(ports, "-")
	if f.low, err = portNumber(low); err != nil {
		return f, fmt.Errorf("unknown service %s in: -i %s", low, text)
	}
	if f.high = f.low; isRange {
		if f.high, err = portNumber(high); err != nil {
			return f, fmt.Errorf("unknown service %s in: -i %s", high, text)
		}
	}
	return f, nil
}

func portNumber(s string) (uint16, error) {
	for port, name := range serviceNames {
		if name == s {
			return port, nil
		}
	}
	n, err := strconv.ParseUint(s, 10, 16)
	return uint16(n), err
}

func (f internetFilter) matches(s network.Socket) bool {
	six := s.Local.Addr().Is6() || s.Dual
	if f.proto != "" && f.proto != s.Proto || f.version == "4" && six || f.version == "6" && !six {
		return false
	}
	within := func(port uint16) bool { return f.low == 0 || port >= f.low && port <= f.high }
	at := func(address string) bool { return f.address == "" || f.address == address }
	return at(s.Local.Addr().String()) && within(s.Local.Port()) || s.Remote.IsValid() && at(s.Remote.Addr().String()) && within(s.Remote.Port())
}

// lsof lists the sockets of the process's network namespace. Of files it knows nothing.
var lsof = libc.Main("lsof", func(c *libc.Prog) int {
	opts, names, err := libc.Getopt(c.Args, "i::nPtp:s::alVhvu:c:")
	if err != nil {
		c.Errorf("lsof: %s\nlsof 4.95.0\n usage: [-ntP] [-i [i]] [-p s] [-s [p:s]]\n", err)
		return 1
	}
	var filters []internetFilter
	var pids []string
	numeric, terse, state, internet := false, false, "", false
	for i := 0; i < len(opts); i++ {
		switch o := opts[i]; o.Name {
		case "i":
			internet = true
			text := o.Value
			if text == "" && len(names) > 0 { // "-i :6443"
				text, names = names[0], names[1:]
			}
			f, err := parseInternetFilter(text)
			if err != nil {
				return c.Fail("%s", err)
			}
			filters = append(filters, f)
		case "P":
			numeric = true
		case "t":
			terse = true
		case "p":
			pids = strings.Split(o.Value, ",")
		case "s":
			_, state, _ = strings.Cut(strings.ToUpper(o.Value), ":")
		case "u", "c":
			return c.Fail("ckadrill does not simulate lsof -%s yet", o.Name)
		case "v", "V", "h":
			c.Errorf("lsof version information:\n    revision: 4.95.0\n")
			return 0
		}
	}
	if !internet || len(names) > 0 {
		return c.Fail("ckadrill does not simulate lsof without -i yet")
	}
	n := namespaceOf(c.Process)
	if n == nil {
		return 1
	}
	sockets := slices.DeleteFunc(n.Sockets(), func(s network.Socket) bool {
		return !mayName(c.Process, s) || !slices.ContainsFunc(filters, func(f internetFilter) bool { return f.matches(s) }) ||
			pids != nil && !slices.Contains(pids, strconv.Itoa(s.Process.ID())) || state != "" && state != lsofState(s)
	})
	if len(sockets) == 0 {
		return 1
	}
	slices.SortStableFunc(sockets, func(a, b network.Socket) int {
		return cmp.Or(cmp.Compare(a.Process.ID(), b.Process.ID()), cmp.Compare(a.FD, b.FD))
	})
	if terse {
		last := 0
		for _, s := range sockets {
			if id := s.Process.ID(); id != last {
				c.Put("%d\n", id)
				last = id
			}
		}
		return 0
	}
	rows := [][]string{{"COMMAND", "PID", "USER", "  FD  ", "TYPE", "DEVICE", "SIZE/OFF", "NODE", "NAME"}}
	for _, s := range sockets {
		kind, name := "IPv4", lsofAddress(s, numeric)
		if s.Local.Addr().Is6() || s.Dual {
			kind = "IPv6"
		}
		if st := lsofState(s); s.Proto == "tcp" {
			name += " (" + st + ")"
		}
		comm := s.Process.Comm()
		rows = append(rows, []string{comm[:min(len(comm), 9)], strconv.Itoa(s.Process.ID()), libc.UserName(c.Files, s.Process.Cred.UID), fmt.Sprintf("%4du ", s.FD), kind,
			strconv.Itoa(s.Process.ID()*100 + s.FD), "0t0", strings.ToUpper(s.Proto), name})
	}
	lsofPrint(c, rows)
	return 0
})

func lsofState(s network.Socket) string {
	if s.State == "ESTAB" {
		return "ESTABLISHED"
	}
	return s.State
}

func lsofAddress(s network.Socket, numeric bool) string {
	local := "*"
	if !s.Dual && !s.Local.Addr().IsUnspecified() {
		local = ssAddr(s.Local.Addr(), false)
	}
	name := local + ":" + portText(s.Local.Port(), numeric)
	if s.Remote.IsValid() {
		name += "->" + ssAddr(s.Remote.Addr(), false) + ":" + portText(s.Remote.Port(), numeric)
	}
	return name
}

// lsofPrint aligns numbers to the right and names to the left, as lsof does.
func lsofPrint(c *libc.Prog, rows [][]string) {
	width := make([]int, len(rows[0]))
	for _, r := range rows {
		for i, cell := range r {
			width[i] = max(width[i], len(cell))
		}
	}
	for _, r := range rows {
		c.Put("%-*s", width[0], r[0])
		for i := 1; i < len(r)-1; i++ {
			c.Put(" %*s", width[i], r[i])
		}
		c.Put(" %s\n", r[len(r)-1])
	}
}
