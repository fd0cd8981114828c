package nettools

import (
	"fmt"
	"net/netip"
	"strconv"
	"strings"

	"ckadrill/sim/kernel"
	"ckadrill/sim/network"
	"ckadrill/sim/userland/libc"
)

func namespaceOf(p *kernel.Process) *network.Namespace {
	n, _ := p.Net.(*network.Namespace)
	return n
}

// serviceNames are the ports of /etc/services that show by name without -n.
var serviceNames = map[uint16]string{22: "ssh", 53: "domain", 80: "http", 443: "https", 111: "sunrpc"}

func portText(port uint16, numeric bool) string {
	if s, ok := serviceNames[port]; ok && !numeric {
		return s
	}
	return strconv.Itoa(int(port))
}

// mayName says whether p may see which process owns a socket.
func mayName(p *kernel.Process, s network.Socket) bool {
	return s.Process != nil && (p.Cred.UID == 0 || p.Cred.UID == s.Process.Cred.UID)
}

// filterSockets keeps what -t, -u, -l, -a ask for.
func filterSockets(l []network.Socket, o map[string]bool) []network.Socket {
	both := o["t"] == o["u"]
	var keep []network.Socket
	for _, s := range l {
		if s.Proto == "tcp" && !both && !o["t"] || s.Proto == "udp" && !both && !o["u"] {
			continue
		}
		listening := s.State == "LISTEN" || s.State == "UNCONN"
		if !o["a"] && listening != o["l"] {
			continue
		}
		keep = append(keep, s)
	}
	return keep
}

// column is one column of ss's output.
type column struct {
	delim  string // before the column
	right  bool
	header string
}

var ss = libc.Main("ss", func(c *libc.Prog) int {
	opts, filter, err := libc.Getopt(c.Args, "tulanpsrieomxwH46hVO", "tcp|t", "udp|u", "listening|l", "all|a", "numeric|n", "processes|p", "summary|s", "resolve|r", "unix|x", "raw|w",
		"no-header|H", "ipv4|4", "ipv6|6", "help|h", "version|V", "oneline|O", "info|i", "extended|e", "options|o", "memory|m")
	if err != nil {
		c.Errorf("ss: %s\nUsage: ss [ OPTIONS ]\n       ss [ OPTIONS ] [ FILTER ]\n", err)
		return 255
	}
	o := map[string]bool{}
	for _, x := range opts {
		o[x.Name] = true
	}
	n := namespaceOf(c.Process)
	if n == nil {
		return 0
	}
	if o["V"] {
		c.Put("ss utility, iproute2-6.1.0, libbpf 1.3.0\n")
		return 0
	}
	if o["s"] {
		return ssSummary(c, n)
	}
	if (o["x"] || o["w"]) && !o["t"] && !o["u"] {
		c.Errorf("ss: ckadrill does not simulate the listing of unix and raw sockets yet\n")
		return 1
	}
	keep, err := ssFilter(filter)
	if err != nil {
		c.Errorf("%s\n", err)
		return 255
	}
	netid := o["t"] == o["u"]
	cols := []column{{"", false, "State"}, {" ", false, "Recv-Q"}, {" ", false, "Send-Q"}, {" ", true, "Local Address:"}, {"", false, "Port"}, {" ", true, "Peer Address:"}, {"", false, "Port"},
		{"", false, "Process"}}
	if netid {
		cols = append([]column{{"", false, "Netid"}}, cols...)
		cols[1].delim = " "
	}
	var rows [][]string
	sockets := filterSockets(n.Sockets(), o)
	if netid { // ss lists udp before tcp
		var udp, tcp []network.Socket
		for _, s := range sockets {
			if s.Proto == "udp" {
				udp = append(udp, s)
			} else {
				tcp = append(tcp, s)
			}
		}
		sockets = append(udp, tcp...)
	}
	for _, s := range sockets {
		v6 := s.Local.Addr().Is6()
		if o["4"] && !o["6"] && v6 || o["6"] && !o["4"] && !v6 || !keep(s) {
			continue
		}
		local, peer, port := ssAddr(s.Local.Addr(), s.Dual), "0.0.0.0", "*"
		switch {
		case s.Remote.IsValid():
			peer, port = ssAddr(s.Remote.Addr(), false), portText(s.Remote.Port(), o["n"])
		case s.Dual:
			peer = "*"
		case v6:
			peer = "[::]"
		}
		row := []string{s.State, strconv.Itoa(s.RecvQ), strconv.Itoa(s.SendQ), local + ":", portText(s.Local.Port(), o["n"]), peer + ":", port, ""}
		if o["p"] && mayName(c.Process, s) {
			row[7] = fmt.Sprintf(" users:((%q,pid=%d,fd=%d))", s.Process.Comm(), s.Process.ID(), s.FD)
		}
		if netid {
			row = append([]string{s.Proto}, row...)
		}
		rows = append(rows, row)
	}
	ssPrint(c, cols, rows, o["H"])
	return 0
})

func ssAddr(a netip.Addr, dual bool) string {
	switch {
	case dual:
		return "*"
	case a.Is6():
		return "[" + a.String() + "]"
	}
	return a.String()
}

// ssPrint aligns the columns as ss does: as wide as their contents, and on a terminal the room that is left is shared out.
func ssPrint(c *libc.Prog, cols []column, rows [][]string, noHeader bool) {
	head := make([]string, len(cols))
	for i := range cols {
		head[i] = cols[i].header
	}
	if !noHeader {
		rows = append([][]string{head}, rows...)
	}
	width := make([]int, len(cols))
	total := 0
	for i := range cols {
		for _, r := range rows {
			width[i] = max(width[i], len(r[i]))
		}
		width[i] += len(cols[i].delim)
		total += width[i]
	}
	if c.IsTerminal(c.Stdout) {
		if screen, _ := c.TTY.Size(); screen > total {
			pad := screen - total
			for i := range width {
				width[i] += pad / len(width)
				if i < pad%len(width) {
					width[i]++
				}
			}
		}
	}
	for _, r := range rows {
		for i, cell := range r {
			w := width[i] - len(cols[i].delim)
			if cols[i].right {
				c.Put("%s%*s", cols[i].delim, w, cell)
			} else {
				c.Put("%s%-*s", cols[i].delim, w, cell)
			}
		}
		c.Put("\n")
	}
}

// ssFilter understands the filters "sport = :80", "dport = :80", "( ... or ... )" of ports.
func ssFilter(words []string) (func(network.Socket) bool, error) {
	text := strings.Join(words, " ")
	f := strings.Fields(strings.NewReplacer("(", " ", ")", " ", "=", " = ").Replace(text))
	type want struct {
		side string
		port uint16
	}
	var wants []want
	for i := 0; i < len(f); i++ {
		switch f[i] {
		case "or", "||":
		case "sport", "dport":
			j := i + 1
			for j < len(f) && (f[j] == "=" || f[j] == "eq") {
				j++
			}
			if j >= len(f) {
				return nil, fmt.Errorf("Error: an inet prefix is expected rather than \"%s\".", text)
			}
			name := strings.TrimPrefix(f[j], ":")
			port, err := strconv.Atoi(name)
			for p, s := range serviceNames {
				if s == name {
					port, err = int(p), nil
				}
			}
			if err != nil {
				return nil, fmt.Errorf("Error: an inet prefix is expected rather than \"%s\".", f[j])
			}
			wants = append(wants, want{f[i], uint16(port)})
			i = j
		default:
			return nil, fmt.Errorf("ss: ckadrill does not simulate the filter %q yet", text)
		}
	}
	return func(s network.Socket) bool {
		for _, w := range wants {
			if w.side == "sport" && s.Local.Port() == w.port || w.side == "dport" && s.Remote.Port() == w.port {
				return true
			}
		}
		return len(wants) == 0
	}, nil
}

func ssSummary(c *libc.Prog, n *network.Namespace) int {
	count := map[string]int{}
	for _, s := range n.Sockets() {
		count[s.Proto+s.State]++
		v := "4"
		if s.Local.Addr().Is6() {
			v = "6"
		}
		count[s.Proto+v]++
		count[s.Proto]++
	}
	row := func(name string, four, six int) { c.Put("%s\t  %-9d %-9d %-9d\n", name, four+six, four, six) }
	c.Put("Total: %d\nTCP:   %d (estab %d, closed 0, orphaned 0, timewait 0)\n\nTransport Total     IP        IPv6\n", count["tcp"]+count["udp"], count["tcp"], count["tcpESTAB"])
	row("RAW", 0, 0)
	row("UDP", count["udp4"], count["udp6"])
	row("TCP", count["tcp4"], count["tcp6"])
	row("INET", count["udp4"]+count["tcp4"], count["udp6"]+count["tcp6"])
	row("FRAG", 0, 0)
	c.Put("\n")
	return 0
}

var netstat = libc.Main("netstat", func(c *libc.Prog) int {
	opts, _, err := libc.Getopt(c.Args, "tulanperW46", "tcp|t", "udp|u", "listening|l", "all|a", "numeric|n", "program|p", "extend|e", "route|r", "wide|W")
	if err != nil {
		c.Errorf("netstat: %s\nusage: netstat [-vWeenNcCF] [<Af>] -r         netstat {-V|--version|-h|--help}\n", err)
		return 1
	}
	o := map[string]bool{}
	for _, x := range opts {
		o[x.Name] = true
	}
	n := namespaceOf(c.Process)
	if n == nil {
		return 0
	}
	if o["r"] {
		c.Put("Kernel IP routing table\nDestination     Gateway         Genmask         Flags   MSS Window  irtt Iface\n")
		for _, r := range n.Routes() {
			gw, flags := "0.0.0.0", "U"
			if r.Via.IsValid() {
				gw, flags = r.Via.String(), "UG"
			}
			if r.Dst.Bits() == 32 {
				flags += "H"
			}
			c.Put("%-15s %-15s %-15s %-7s   0 0          0 %s\n", r.Dst.Addr(), gw, mask(r.Dst.Bits()), flags, r.Dev)
		}
		return 0
	}
	switch {
	case o["a"]:
		c.Put("Active Internet connections (servers and established)\n")
	case o["l"]:
		c.Put("Active Internet connections (only servers)\n")
	default:
		c.Put("Active Internet connections (w/o servers)\n")
	}
	c.Put("Proto Recv-Q Send-Q Local Address           Foreign Address         State      ")
	if o["p"] {
		c.Put(" PID/Program name    ")
	}
	c.Put("\n")
	for _, s := range filterSockets(n.Sockets(), o) {
		proto := s.Proto
		if s.Local.Addr().Is6() {
			proto += "6"
		}
		text := func(a netip.AddrPort, wild string) string {
			host, port := a.Addr().String(), portText(a.Port(), o["n"])
			if !a.IsValid() {
				host, port = wild, "*"
			} else if a.Addr().IsUnspecified() && a.Addr().Is6() {
				host = "::"
			}
			return host + ":" + port
		}
		wild := "0.0.0.0"
		if s.Local.Addr().Is6() {
			wild = "::"
		}
		state := map[string]string{"LISTEN": "LISTEN", "ESTAB": "ESTABLISHED", "UNCONN": ""}[s.State]
		sendQ := s.SendQ
		if s.State == "LISTEN" {
			sendQ = 0
		}
		c.Put("%-5s %6d %6d %-23s %-23s %-11s", proto, s.RecvQ, sendQ, text(s.Local, wild), text(s.Remote, wild), state)
		if o["p"] {
			who := "-"
			if mayName(c.Process, s) {
				who = fmt.Sprintf("%d/%s", s.Process.ID(), s.Process.Name())
			}
			c.Put(" %-20s", who)
		}
		c.Put("\n")
	}
	return 0
})

func mask(bits int) string {
	m := uint32(0xffffffff) << (32 - bits)
	if bits == 0 {
		m = 0
	}
	return fmt.Sprintf("%d.%d.%d.%d", byte(m>>24), byte(m>>16), byte(m>>8), byte(m))
}
