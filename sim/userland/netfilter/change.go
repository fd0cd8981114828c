package netfilter

import (
	"fmt"
	"net/netip"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"ckadrill/sim/network"
)

// parseError is what iptables says of a rule that it does not understand.
type parseError struct {
	text string
	help bool // it ends with a hint
}

func (e *parseError) Error() string { return e.text }

func unsupported(what string) error {
	return &parseError{text: "ckadrill does not simulate " + what + " yet"}
}

// services are the names of ports that rules are likely to use.
var services = map[string]uint16{"ssh": 22, "domain": 53, "http": 80, "https": 443}

func parsePorts(text string) (l []network.PortRange, err error) {
	for one := range strings.SplitSeq(text, ",") {
		first, last, isRange := strings.Cut(one, ":")
		if !isRange {
			last = first
		}
		var r network.PortRange
		for _, x := range []struct {
			s  string
			to *uint16
		}{{first, &r.First}, {last, &r.Last}} {
			n, err := strconv.ParseUint(x.s, 10, 16)
			switch p, known := services[x.s]; {
			case err == nil:
				*x.to = uint16(n)
			case known:
				*x.to = p
			case x.s == "" && isRange:
				if x.to == &r.Last {
					*x.to = 65535
				}
			default:
				return nil, &parseError{fmt.Sprintf("invalid port/service `%s' specified", x.s), true}
			}
		}
		l = append(l, r)
	}
	return l, nil
}

func parsePrefix(text string) (netip.Prefix, error) {
	if p, err := netip.ParsePrefix(text); err == nil && p.Addr().Is4() {
		return p.Masked(), nil
	}
	if a, err := netip.ParseAddr(text); err == nil && a.Is4() {
		return netip.PrefixFrom(a, 32), nil
	}
	return netip.Prefix{}, &parseError{fmt.Sprintf("host/network `%s' not found", text), true}
}

// parseRule reads the words of a rule.
func parseRule(chain string, words []string) (r network.Rule, err error) {
	r.Chain = chain
	module, reject := "", ""
	negate := false
	for i := 0; i < len(words); i++ {
		w := words[i]
		if w == "!" {
			negate = true
			continue
		}
		v := ""
		if i+1 < len(words) {
			v = words[i+1]
		}
		name, value, inline := strings.Cut(w, "=")
		if inline && strings.HasPrefix(w, "--") {
			w, v = name, value
		}
		if v == "" {
			return r, &parseError{fmt.Sprintf("option \"%s\" requires an argument", w), true}
		}
		switch w {
		case "-p", "--protocol", "--proto":
			if v = strings.ToLower(v); v != "all" {
				r.Proto = v
			}
			if numbers[v] == "" && v != "all" {
				return r, &parseError{fmt.Sprintf("unknown protocol \"%s\" specified", v), true}
			}
		case "-s", "--source", "--src", "-d", "--destination", "--dst":
			var l []netip.Prefix
			for one := range strings.SplitSeq(v, ",") {
				p, err := parsePrefix(one)
				if err != nil {
					return r, err
				}
				l = append(l, p)
			}
			switch source := w == "-s" || w == "--source" || w == "--src"; {
			case source && negate:
				r.NotFrom = l
			case source:
				r.From = l
			case negate:
				r.NotTo = l
			default:
				r.To = l
			}
			negate = false
		case "-i", "--in-interface":
			r.In = v
		case "-o", "--out-interface":
			r.Out = v
		case "-m", "--match":
			if module = v; !slices.Contains([]string{"tcp", "udp", "state", "conntrack", "comment", "multiport", "icmp"}, module) {
				return r, unsupported("the match " + module + " of iptables")
			}
		case "--dport", "--destination-port", "--dports", "--destination-ports":
			if r.Proto != "tcp" && r.Proto != "udp" {
				return r, &parseError{fmt.Sprintf("unknown option \"%s\"", w), true}
			}
			if r.Ports, err = parsePorts(v); err != nil {
				return r, err
			}
		case "--state", "--ctstate":
			states := strings.Split(strings.ToUpper(v), ",")
			slices.Sort(states)
			switch {
			case slices.Equal(states, []string{"NEW"}):
				r.New = true
			case slices.Equal(states, []string{"ESTABLISHED"}), slices.Equal(states, []string{"ESTABLISHED", "RELATED"}):
				r.Established = true
			case slices.Equal(states, []string{"ESTABLISHED", "NEW"}), slices.Equal(states, []string{"ESTABLISHED", "NEW", "RELATED"}):
			default:
				return r, unsupported("the connection state " + v)
			}
		case "--comment":
			r.Comment = v
		case "-j", "--jump":
			r.Verdict = network.Verdict(v)
		case "--reject-with":
			reject = v
		case "--icmp-type":
			return r, unsupported("types of ICMP in rules")
		case "--sport", "--source-port", "--sports", "-g", "--goto", "-f", "--tcp-flags", "--syn":
			return r, unsupported("iptables " + w)
		default:
			return r, &parseError{fmt.Sprintf("unknown option \"%s\"", w), true}
		}
		if negate {
			return r, unsupported("iptables ! " + w)
		}
		if !inline || !strings.HasPrefix(words[i], "--") {
			i++
		}
	}
	switch r.Verdict {
	case network.Accept, network.Drop:
	case network.Reject:
		r.RejectWith = reject
	case "":
		return r, unsupported("rules without a target")
	default:
		return r, unsupported("the target " + string(r.Verdict) + " of iptables")
	}
	return r, nil
}

// position is where a user's rule with a number in its chain is in the list of all of them; -1 if another program has made
// the rule of that number, len(l) if there is none.
func position(t *table, chain string, number int, l []network.Rule) int {
	c := t.chain(chain)
	if c == nil || number < 1 || number > len(c.rules) {
		return len(l)
	}
	return c.rules[number-1].own
}

// same says that two rules are one for -D and -C.
func same(a, b network.Rule) bool {
	a.First, b.First = false, false
	return reflect.DeepEqual(a, b)
}
