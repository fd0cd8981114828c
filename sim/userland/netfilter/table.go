package netfilter

import (
	"net/netip"
	"slices"
	"strings"
)

// table is one of iptables' tables as it is shown.
type table struct {
	name   string
	chains []*chain
}

type chain struct {
	name   string
	policy string // of a built-in chain
	rules  []rule
}

// rule is a rule as it is shown. own is its place among the rules that a user has made, -1 for another program's.
type rule struct {
	proto    string // "" is all
	src, dst match
	in, out  match
	matches  []extension
	target   extension
	leave    bool // "-g": what returns from the target goes on where this chain was called from
	own      int
}

// match is an address or interface, perhaps negated.
type match struct {
	value string
	not   bool
}

// extension is a match or target beyond the basic ones: as iptables -S prints it, and as -L does.
type extension struct{ save, list string }

func (t *table) chain(name string) *chain {
	for _, c := range t.chains {
		if c.name == name {
			return c
		}
	}
	return nil
}

// make returns a chain, which is added if it is not there.
func (t *table) make(name string) *chain {
	c := t.chain(name)
	if c == nil {
		c = &chain{name: name}
		t.chains = append(t.chains, c)
	}
	return c
}

func (t *table) add(name string, r rule) {
	c := t.make(name)
	c.rules = append(c.rules, r)
	if to := r.jump(); to != "" {
		t.make(to)
	}
}

// targets that are no chains.
var targets = []string{"ACCEPT", "DROP", "REJECT", "RETURN", "MASQUERADE", "DNAT", "MARK"}

// jump is the chain that a rule leads to, "" if it leads to none.
func (r rule) jump() string {
	word, _, _ := strings.Cut(r.target.save, " ")
	if slices.Contains(targets, word) {
		return ""
	}
	return word
}

// references counts the rules that lead to a chain.
func (t *table) references(name string) (n int) {
	for _, c := range t.chains {
		for _, r := range c.rules {
			if r.jump() == name {
				n++
			}
		}
	}
	return n
}

// sorted puts the built-in chains first, and the others in order of their names.
func (t *table) sorted() {
	slices.SortStableFunc(t.chains, func(a, b *chain) int {
		switch {
		case a.policy != "" && b.policy != "":
			return 0
		case a.policy != "":
			return -1
		case b.policy != "":
			return 1
		}
		return strings.Compare(a.name, b.name)
	})
}

// The pieces that rules are made of.

func to(target string) extension { return extension{target, target} }

func comment(text string) extension {
	return extension{`-m comment --comment "` + strings.ReplaceAll(text, `"`, `\"`) + `"`, "/* " + text + " */"}
}

func state(states string, not bool) extension {
	mark, show := "", ""
	if not {
		mark, show = "! ", "! "
	}
	return extension{"-m conntrack " + mark + "--ctstate " + states, show + "ctstate " + states}
}

func mark(value string, not bool) extension {
	sign, show := "", "mark match "
	if not {
		sign, show = "! ", "mark match ! "
	}
	return extension{"-m mark " + sign + "--mark " + value, show + value}
}

func setMark(value string) extension {
	value, mask, _ := strings.Cut(value, "/")
	kind := "or 0x4000"
	switch {
	case mask == "0x0":
		kind = "xor " + value
	default:
		kind = "or " + value
	}
	return extension{"MARK --set-xmark " + value + "/" + mask, "MARK|MARK " + kind}
}

func addrType(kind string) extension {
	return extension{"-m addrtype --" + kind + "-type LOCAL", "ADDRTYPE match " + kind + "-type LOCAL"}
}

func prefix(p netip.Prefix) match {
	if !p.IsValid() || p.Bits() == 0 {
		return match{}
	}
	return match{value: p.Masked().String()}
}

func not(p netip.Prefix) match {
	m := prefix(p)
	m.not = m.value != ""
	return m
}

func host(a netip.Addr) match { return prefix(netip.PrefixFrom(a, a.BitLen())) }
