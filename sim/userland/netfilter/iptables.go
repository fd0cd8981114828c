// Package netfilter is iptables 1.8 and ufw on Ubuntu 24.04: what they show is what programs have told the machine's kernel,
// and the rules of the table filter that a user makes take effect.
package netfilter

import (
	"errors"
	"slices"
	"strconv"
	"strings"

	"ckadrill/sim/kernel"
	"ckadrill/sim/network"
	"ckadrill/sim/userland/libc"
)

const version = "v1.8.10 (nf_tables)"

// Register adds the programs.
func Register(ps *kernel.Programs) {
	for name, run := range map[string]func(c *libc.Prog) int{"iptables": iptables, "ip6tables": iptables, "iptables-save": save, "ip6tables-save": save, "ufw": ufw, "ufw-init": ufwInit} {
		ps.Register(name, libc.Main(name, run))
	}
}

// exit statuses of iptables.
const (
	statusProblem   = 1
	statusParameter = 2
	statusResource  = 4
)

// program is one run of iptables.
type program struct {
	c     *libc.Prog
	space *network.Namespace
	table string
	listing
}

func (p *program) fail(status int, format string, a ...any) int {
	p.c.Out.Flush()
	p.c.Errorf(p.c.Name+" "+version+": "+format+"\n", a...)
	if status == statusParameter {
		p.c.Errorf("Try `%s -h' or '%s --help' for more information.\n", p.c.Name, p.c.Name)
	}
	return status
}

// rejected is what the kernel's refusal looks like.
func (p *program) rejected(format string, a ...any) int {
	p.c.Out.Flush()
	p.c.Errorf(p.c.Name+": "+format+"\n", a...)
	return statusProblem
}

// view is the program's table. Of IPv6 there are no rules.
func (p *program) view() *table {
	if p.c.Name == "ip6tables" || p.c.Name == "ip6tables-save" {
		return view(network.Netfilter{}, p.table)
	}
	return view(p.space.Netfilter(), p.table)
}

func open(c *libc.Prog) *program {
	p := &program{c: c, table: "filter"}
	p.space, _ = c.Net.(*network.Namespace)
	return p
}

func iptables(c *libc.Prog) int {
	p := open(c)
	command, chain, words, number := "", "", []string(nil), ""
	next := func(i *int) string {
		if *i+1 < len(c.Args) && !strings.HasPrefix(c.Args[*i+1], "-") && c.Args[*i+1] != "!" {
			*i++
			return c.Args[*i]
		}
		return ""
	}
	long := map[string]string{"--list": "-L", "--list-rules": "-S", "--append": "-A", "--insert": "-I", "--delete": "-D", "--check": "-C", "--flush": "-F", "--policy": "-P", "--zero": "-Z",
		"--new-chain": "-N", "--delete-chain": "-X", "--replace": "-R", "--rename-chain": "-E", "--table": "-t", "--numeric": "-n", "--verbose": "-v", "--version": "-V", "--help": "-h", "--wait": "-w"}
	var flags []string
	for i := 0; i < len(c.Args); i++ {
		a := c.Args[i]
		if l, ok := long[a]; ok {
			a = l
		}
		// short options may be written together: -nvL
		if len(a) > 2 && a[0] == '-' && a[1] != '-' && strings.Trim(a[1:], "nvxLSFZXw") == "" {
			for _, f := range a[1 : len(a)-1] {
				flags = append(flags, "-"+string(f))
			}
			a = a[len(a)-1:]
			a = "-" + a
			for _, f := range []string{"-L", "-S", "-F", "-Z", "-X"} {
				if slices.Contains(flags, f) && command == "" {
					command, chain = f, next(&i)
				}
			}
		}
		switch a {
		case "-t":
			if p.table = next(&i); builtin[p.table] == nil {
				return p.fail(3, "can't initialize iptables table `%s': Table does not exist (do you need to insmod?)\nPerhaps iptables or your kernel needs to be upgraded.", p.table)
			}
		case "-n", "-v", "-x", "--line-numbers", "-w":
			flags = append(flags, a)
			if a == "-w" && i+1 < len(c.Args) {
				if _, err := strconv.Atoi(c.Args[i+1]); err == nil {
					i++
				}
			}
		case "-V":
			c.Put("%s %s\n", c.Name, version)
			return 0
		case "-h":
			c.Put("ckadrill does not simulate %s --help; see the manual page %s(8).\n", c.Name, c.Name)
			return 0
		case "-L", "-S", "-F", "-Z", "-X", "-N", "-E", "-A", "-C", "-P":
			if command != "" {
				return p.fail(statusParameter, "Cannot use %s with %s", a, command)
			}
			command, chain = a, next(&i)
			if a == "-P" || a == "-E" {
				number = next(&i)
			}
		case "-I", "-D", "-R":
			command, chain = a, next(&i)
			if i+1 < len(c.Args) {
				if _, err := strconv.Atoi(c.Args[i+1]); err == nil {
					i++
					number = c.Args[i]
				}
			}
		default:
			words = append(words, c.Args[i])
		}
	}
	p.numeric, p.verbose, p.numbers = slices.Contains(flags, "-n"), slices.Contains(flags, "-v"), slices.Contains(flags, "--line-numbers")
	switch {
	case command == "":
		return p.fail(statusParameter, "no command specified")
	case c.Cred.UID != 0:
		c.Out.Flush()
		c.Errorf("%s %s: Could not fetch rule set generation id: Permission denied (you must be root)\n\n", c.Name, version)
		return statusResource
	case p.space == nil:
		return p.fail(statusProblem, "ckadrill does not simulate a packet filter here")
	}
	return p.do(command, chain, number, words)
}

func (p *program) do(command, chain, number string, words []string) int {
	switch command {
	case "-L", "-S":
		return p.show(command, chain)
	case "-Z":
		return 0
	}
	if p.table != "filter" || p.c.Name == "ip6tables" {
		return p.fail(statusProblem, "ckadrill does not simulate changes of the table %s of %s yet", p.table, p.c.Name)
	}
	l := p.space.Rules(userOwner)
	isBuiltin := slices.Contains(builtin["filter"], chain)
	switch {
	case command == "-N" || command == "-E" || command == "-R":
		return p.fail(statusProblem, "ckadrill does not simulate iptables %s yet", command)
	case command == "-X":
		if chain != "" && p.view().chain(chain) == nil {
			return p.rejected("No chain/target/match by that name.")
		}
		return p.fail(statusProblem, "ckadrill does not simulate iptables -X yet")
	case command == "-P":
		if !isBuiltin {
			return p.rejected("Bad built-in chain name.")
		}
		if number != "ACCEPT" && number != "DROP" {
			return p.rejected("Bad policy name. Run `dmesg' for more information.")
		}
		l = slices.DeleteFunc(l, func(r network.Rule) bool { return r.Policy && r.Chain == chain })
		if number == "DROP" {
			l = append(l, network.Rule{Chain: chain, Verdict: network.Drop, Policy: true})
		}
	case command == "-F":
		l = slices.DeleteFunc(l, func(r network.Rule) bool { return !r.Policy && (chain == "" || r.Chain == chain) })
	case chain == "":
		return p.fail(statusParameter, "option \"%s\" requires an argument", command)
	case !isBuiltin:
		if p.view().chain(chain) == nil {
			return p.rejected("No chain/target/match by that name.")
		}
		return p.fail(statusProblem, "ckadrill does not simulate changes of the chain %s yet", chain)
	case command == "-D" && number != "":
		n, _ := strconv.Atoi(number)
		switch i := position(p.view(), chain, n, l); {
		case i == len(l):
			return p.rejected("Index of deletion too big.")
		case i < 0:
			return p.fail(statusProblem, "ckadrill does not simulate the deletion of kube-proxy's and CNI plugins' rules yet")
		default:
			l = slices.Delete(l, i, i+1)
		}
	default:
		r, err := parseRule(chain, words)
		var bad *parseError
		if errors.As(err, &bad) {
			status := statusProblem
			if bad.help {
				status = statusParameter
			}
			return p.fail(status, "%s", bad.text)
		}
		i := slices.IndexFunc(l, func(o network.Rule) bool { return same(o, r) })
		switch command {
		case "-C":
			if i < 0 {
				return p.rejected("Bad rule (does a matching rule exist in that chain?).")
			}
			return 0
		case "-D":
			if i < 0 {
				return p.rejected("Bad rule (does a matching rule exist in that chain?).")
			}
			l = slices.Delete(l, i, i+1)
		case "-A":
			l = append(l, r)
		case "-I":
			at := 0
			r.First = true
			if n, _ := strconv.Atoi(number); n > 1 {
				own := position(p.view(), chain, n, l)
				switch {
				case own < 0 || own == len(l) && n > len(p.view().chain(chain).rules)+1:
					return p.rejected("Index of insertion too big.")
				case own == len(l):
					at, r.First = own, false
				default:
					at, r.First = own, l[own].First
				}
			}
			l = slices.Insert(l, at, r)
		}
	}
	// Policies come last.
	slices.SortStableFunc(l, func(a, b network.Rule) int {
		switch {
		case a.Policy == b.Policy:
			return 0
		case a.Policy:
			return 1
		}
		return -1
	})
	p.space.SetRules(userOwner, l)
	return 0
}

func (p *program) show(command, chain string) int {
	t := p.view()
	if chain != "" && t.chain(chain) == nil {
		return p.rejected("No chain/target/match by that name.")
	}
	if command == "-S" {
		p.c.Put("%s", t.saveChains(chain))
		return 0
	}
	if p.verbose {
		p.c.Errorf("%s: ckadrill does not simulate counters of packets yet; they are 0\n", p.c.Name)
	}
	first := true
	for _, c := range t.chains {
		if chain != "" && c.name != chain {
			continue
		}
		if !first {
			p.c.Put("\n")
		}
		first = false
		p.c.Put("%s", p.listing.chain(t, c))
	}
	return 0
}

// save is iptables-save.
func save(c *libc.Prog) int {
	p := open(c)
	tables := []string{"mangle", "raw", "filter", "nat"}
	for i := 0; i < len(c.Args); i++ {
		switch a := c.Args[i]; {
		case a == "-t" && i+1 < len(c.Args):
			i++
			tables = []string{c.Args[i]}
		case a == "-c":
			c.Errorf("%s: ckadrill does not simulate counters of packets yet; they are 0\n", c.Name)
		default:
			return p.fail(statusParameter, "Unknown arguments found on commandline")
		}
	}
	if c.Cred.UID != 0 {
		c.Errorf("%s %s: Could not fetch rule set generation id: Permission denied (you must be root)\n\n", c.Name, version)
		return statusResource
	}
	if p.space == nil {
		return p.fail(statusProblem, "ckadrill does not simulate a packet filter here")
	}
	const date = "Mon Jan _2 15:04:05 2006"
	for _, name := range tables {
		p.table = name
		t := p.view()
		if len(t.chains) == 0 || name != "filter" && !slices.ContainsFunc(t.chains, func(c *chain) bool { return len(c.rules) > 0 || c.policy == "" }) {
			continue
		}
		c.Put("# Generated by %s v1.8.10 on %s\n*%s\n", c.Name, now().Format(date), name)
		for _, k := range t.chains {
			policy := k.policy
			if policy == "" {
				policy = "-"
			}
			c.Put(":%s %s [0:0]\n", k.name, policy)
		}
		for _, k := range t.chains {
			for _, r := range k.rules {
				c.Put("-A %s%s\n", k.name, r.save())
			}
		}
		c.Put("COMMIT\n# Completed on %s\n", now().Format(date))
	}
	return 0
}
