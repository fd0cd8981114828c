package netfilter

import (
	"net/netip"
	"strings"

	"ckadrill/sim/network"
)

// calicoFilter is what calico-node has in the table filter, by the rules that it programmed: a chain for what each Pod sends (cali-fw) and
// one for what it gets (cali-tw). Addresses stand in the rules themselves, where the real one puts them into ipsets.
func calicoFilter(t *table, n network.Netfilter) {
	for _, o := range []struct{ owner, chain, dispatch, prefix string }{
		{"calico-egress", "cali-FORWARD", "cali-from-wl-dispatch", "cali-fw-"}, {"calico-ingress", "cali-FORWARD", "cali-to-wl-dispatch", "cali-tw-"}} {
		l := n.Filters[o.owner]
		if len(l) == 0 {
			continue
		}
		for _, c := range []string{"INPUT", "FORWARD"} {
			if c == "INPUT" && o.owner == "calico-ingress" {
				continue
			}
			if len(t.make(c).rules) == 0 || !t.leads(c, "cali-"+c) {
				t.add(c, rule{target: to("cali-" + c), own: -1})
			}
			r := rule{target: to(o.dispatch), own: -1}
			r.in.value, r.out.value = l[0].In, l[0].Out
			t.add("cali-"+c, r)
		}
		for _, r := range l {
			if r.Chain != "FORWARD" {
				continue // the same again
			}
			link := r.In + r.Out
			if strings.HasSuffix(link, "+") {
				if r.Established {
					continue // stands in each Pod's chain
				}
				s := shownRule(r, -1)
				s.in, s.out = match{}, match{}
				t.add(o.dispatch, s)
				continue
			}
			chain := o.prefix + link
			if t.chain(chain) == nil {
				d := rule{target: to(chain), leave: true, own: -1}
				d.in.value, d.out.value = r.In, r.Out
				t.add(o.dispatch, d)
				t.add(chain, rule{matches: []extension{state("RELATED,ESTABLISHED", false)}, target: to("RETURN"), own: -1})
			}
			r.In, r.Out = "", ""
			for _, one := range single(r) {
				t.add(chain, calicoRule(one))
			}
		}
	}
}

// leads says whether a chain has a rule that leads to another.
func (t *table) leads(from, to string) bool {
	for _, r := range t.make(from).rules {
		if r.jump() == to {
			return true
		}
	}
	return false
}

// single is a rule as several with one address each.
func single(r network.Rule) (l []network.Rule) {
	switch {
	case len(r.From) > 1:
		for _, p := range r.From {
			e := r
			e.From = []netip.Prefix{p}
			l = append(l, e)
		}
	case len(r.To) > 1:
		for _, p := range r.To {
			e := r
			e.To = []netip.Prefix{p}
			l = append(l, e)
		}
	default:
		l = append(l, r)
	}
	return l
}

// calicoRule is a rule of a Pod's chain. What it lets through goes back, for the other direction has its say too; what is
// excepted stands as ranges.
func calicoRule(r network.Rule) rule {
	s := shownRule(r, -1)
	for _, x := range []struct {
		no         []netip.Prefix
		save, list string
	}{{r.NotFrom, "--src-range", "source IP range"}, {r.NotTo, "--dst-range", "destination IP range"}} {
		for _, p := range x.no {
			reach := p.Masked().Addr().String() + "-" + last(p).String()
			s.matches = append([]extension{{"-m iprange ! " + x.save + " " + reach, x.list + " ! " + reach}}, s.matches...)
		}
	}
	if r.Verdict == network.Accept {
		s.target = to("RETURN")
	}
	return s
}

// last is a network's last address.
func last(p netip.Prefix) netip.Addr {
	b := p.Masked().Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	a, _ := netip.AddrFromSlice(b)
	return a
}
