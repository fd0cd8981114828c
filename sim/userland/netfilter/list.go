package netfilter

import (
	"fmt"
	"strings"
)

// save is a rule as iptables -S prints it, without the chain.
func (r rule) save() string {
	var b strings.Builder
	put := func(flag string, m match) {
		if m.value == "" {
			return
		}
		if m.not {
			b.WriteString(" !")
		}
		b.WriteString(" " + flag + " " + m.value)
	}
	put("-s", r.src)
	put("-d", r.dst)
	put("-i", r.in)
	put("-o", r.out)
	if r.proto != "" {
		b.WriteString(" -p " + r.proto)
	}
	for _, m := range r.matches {
		b.WriteString(" " + m.save)
	}
	if r.leave {
		return b.String() + " -g " + r.target.save
	}
	b.WriteString(" -j " + r.target.save)
	return b.String()
}

// saveChains prints chains as iptables -S does.
func (t *table) saveChains(only string) string {
	var b strings.Builder
	for _, c := range t.chains {
		switch {
		case only != "" && c.name != only:
		case c.policy != "":
			fmt.Fprintf(&b, "-P %s %s\n", c.name, c.policy)
		default:
			fmt.Fprintf(&b, "-N %s\n", c.name)
		}
	}
	for _, c := range t.chains {
		if only != "" && c.name != only {
			continue
		}
		for _, r := range c.rules {
			fmt.Fprintf(&b, "-A %s%s\n", c.name, r.save())
		}
	}
	return b.String()
}

// listing is how iptables -L prints.
type listing struct{ numeric, verbose, numbers bool }

func (l listing) chain(t *table, c *chain) string {
	var b strings.Builder
	switch counters := ""; {
	case c.policy != "":
		if l.verbose {
			counters = " 0 packets, 0 bytes"
		}
		fmt.Fprintf(&b, "Chain %s (policy %s%s)\n", c.name, c.policy, counters)
	default:
		fmt.Fprintf(&b, "Chain %s (%d references)\n", c.name, t.references(c.name))
	}
	if l.numbers {
		b.WriteString("num  ")
	}
	if l.verbose {
		b.WriteString(" pkts bytes ")
	}
	b.WriteString("target     prot opt ")
	if l.verbose {
		b.WriteString("in     out     ")
	}
	b.WriteString("source               destination         \n")
	for i, r := range c.rules {
		if l.numbers {
			fmt.Fprintf(&b, "%-4d ", i+1)
		}
		if l.verbose {
			b.WriteString("    0     0 ")
		}
		name, options, _ := strings.Cut(r.target.list, "|")
		fmt.Fprintf(&b, "%-9s  %-4s --  ", name, l.proto(r.proto))
		if l.verbose {
			fmt.Fprintf(&b, "%-6s %-6s  ", l.link(r.in), l.link(r.out))
		}
		fmt.Fprintf(&b, "%-19s  %-19s ", l.address(r.src), l.address(r.dst))
		var more []string
		if r.leave {
			more = append(more, "[goto] ")
		}
		for _, m := range r.matches {
			more = append(more, m.list)
		}
		if options != "" {
			more = append(more, options)
		}
		if len(more) > 0 {
			b.WriteString(" " + strings.Join(more, " "))
		}
		b.WriteString("\n")
	}
	return b.String()
}

var numbers = map[string]string{"": "0", "tcp": "6", "udp": "17", "icmp": "1", "sctp": "132"}

func (l listing) proto(p string) string {
	switch {
	case l.numeric && numbers[p] != "":
		return numbers[p]
	case p == "":
		return "all"
	}
	return p
}

func (l listing) link(m match) string {
	switch {
	case m.value == "":
		return "*"
	case m.not:
		return "!" + m.value
	}
	return m.value
}

func (l listing) address(m match) string {
	v := strings.TrimSuffix(m.value, "/32")
	switch {
	case v == "" && l.numeric:
		return "0.0.0.0/0"
	case v == "":
		return "anywhere"
	case m.not:
		return "!" + v
	}
	return v
}
