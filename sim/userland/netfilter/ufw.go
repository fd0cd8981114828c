package netfilter

import (
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"ckadrill/sim/network"
	"ckadrill/sim/userland/libc"
)

func now() time.Time { return time.Now().UTC() }

// Where ufw keeps whether it is on, its defaults, and the user's rules.
const (
	ufwConf     = "/etc/ufw/ufw.conf"
	ufwDefaults = "/etc/default/ufw"
	ufwRules    = "/etc/ufw/user.rules"
)

// firewall is what ufw's files say.
type firewall struct {
	c        *libc.Prog
	enabled  bool
	policies map[string]string // by direction: allow, deny or reject
	rules    []ufwRule
}

// ufwRule is a rule of the user, kept as a comment "### tuple ###" as ufw does it.
type ufwRule struct {
	action, proto, port, from string // "any" is all
	direction                 string // in or out
}

func (r ufwRule) tuple() string {
	return fmt.Sprintf("### tuple ### %s %s %s 0.0.0.0/0 any %s %s", r.action, r.proto, r.port, r.from, r.direction)
}

var defaultPolicies = map[string]string{"incoming": "deny", "outgoing": "allow", "routed": "deny"}

func loadFirewall(c *libc.Prog) *firewall {
	f := &firewall{c: c, policies: map[string]string{}}
	for k, v := range defaultPolicies {
		f.policies[k] = v
	}
	if b, err := c.Files.ReadFile(ufwConf); err == nil {
		f.enabled = strings.Contains("\n"+string(b), "\nENABLED=yes")
	}
	words := map[string]string{"ACCEPT": "allow", "DROP": "deny", "REJECT": "reject"}
	keys := map[string]string{"DEFAULT_INPUT_POLICY": "incoming", "DEFAULT_OUTPUT_POLICY": "outgoing", "DEFAULT_FORWARD_POLICY": "routed"}
	if b, err := c.Files.ReadFile(ufwDefaults); err == nil {
		for line := range strings.Lines(string(b)) {
			k, v, _ := strings.Cut(strings.TrimSpace(line), "=")
			if d, w := keys[k], words[strings.Trim(v, `"`)]; d != "" && w != "" {
				f.policies[d] = w
			}
		}
	}
	if b, err := c.Files.ReadFile(ufwRules); err == nil {
		for line := range strings.Lines(string(b)) {
			if t := strings.Fields(line); len(t) == 10 && t[1] == "tuple" {
				f.rules = append(f.rules, ufwRule{t[3], t[4], t[5], t[8], t[9]})
			}
		}
	}
	return f
}

// store writes the files.
func (f *firewall) store() error {
	if err := f.c.Files.MkdirAll("/etc/ufw", 0o755); err != nil {
		return err
	}
	on := map[bool]string{true: "yes", false: "no"}[f.enabled]
	err := f.c.Files.WriteFile(ufwConf, []byte("# /etc/ufw/ufw.conf\n#\n\n# Set to yes to start on boot. If setting this remotely, be sure to add a rule\n# to allow your remote connection before starting ufw. Eg: 'ufw allow 22/tcp'\nENABLED="+on+"\n\n# Please use the 'ufw' command to set the loglevel. Eg: 'ufw logging medium'.\n# See 'man ufw' for details.\nLOGLEVEL=low\n"), 0o644)
	if err != nil {
		return err
	}
	words := map[string]string{"allow": "ACCEPT", "deny": "DROP", "reject": "REJECT"}
	err = f.c.Files.WriteFile(ufwDefaults, []byte(fmt.Sprintf("# /etc/default/ufw\n#\n\nIPV6=yes\nDEFAULT_INPUT_POLICY=%q\nDEFAULT_OUTPUT_POLICY=%q\nDEFAULT_FORWARD_POLICY=%q\nDEFAULT_APPLICATION_POLICY=\"SKIP\"\nMANAGE_BUILTINS=no\n",
		words[f.policies["incoming"]], words[f.policies["outgoing"]], words[f.policies["routed"]])), 0o644)
	if err != nil {
		return err
	}
	var b strings.Builder
	b.WriteString("*filter\n### RULES ###\n\n")
	for _, r := range f.rules {
		b.WriteString(r.tuple() + "\n")
	}
	b.WriteString("\n### END RULES ###\nCOMMIT\n")
	return f.c.Files.WriteFile(ufwRules, []byte(b.String()), 0o640)
}

var verdicts = map[string]network.Verdict{"allow": network.Accept, "deny": network.Drop, "reject": network.Reject, "limit": network.Accept}

// apply tells the kernel: what ufw always lets through, the user's rules, and the policies.
func (f *firewall) apply() {
	space, _ := f.c.Net.(*network.Namespace)
	if space == nil {
		return
	}
	if !f.enabled {
		space.SetRules(ufwOwner, nil)
		return
	}
	chains := map[string]string{"in": "INPUT", "out": "OUTPUT"}
	policies := map[string]string{"INPUT": "incoming", "OUTPUT": "outgoing", "FORWARD": "routed"}
	var l []network.Rule
	for _, c := range []string{"INPUT", "OUTPUT", "FORWARD"} {
		l = append(l, network.Rule{Chain: c, Established: true, Verdict: network.Accept})
		if c != "FORWARD" {
			l = append(l, network.Rule{Chain: c, In: map[string]string{"INPUT": "lo"}[c], Out: map[string]string{"OUTPUT": "lo"}[c], Verdict: network.Accept})
		}
		l = append(l, network.Rule{Chain: c, Proto: "icmp", Verdict: network.Accept})
		for _, r := range f.rules {
			if chains[r.direction] == c {
				l = append(l, r.rules(c)...)
			}
		}
		l = append(l, network.Rule{Chain: c, Verdict: verdicts[f.policies[policies[c]]], Policy: true})
	}
	space.SetRules(ufwOwner, l)
}

// rules are what a rule of the user's is for the kernel.
func (r ufwRule) rules(chain string) (l []network.Rule) {
	protos := []string{r.proto}
	if r.proto == "any" && r.port != "any" {
		protos = []string{"tcp", "udp"}
	}
	for _, p := range protos {
		k := network.Rule{Chain: chain, Verdict: verdicts[r.action]}
		if p != "any" {
			k.Proto = p
		}
		if r.port != "any" {
			k.Ports, _ = parsePorts(r.port)
		}
		if a, err := netip.ParsePrefix(r.from); err == nil && a.Bits() > 0 {
			k.From = []netip.Prefix{a}
		}
		l = append(l, k)
	}
	return l
}

// ufwInit is what the unit ufw.service runs at boot.
func ufwInit(c *libc.Prog) int {
	if len(c.Args) > 0 && c.Args[0] == "start" {
		loadFirewall(c).apply()
	}
	return 0
}

func ufwFail(c *libc.Prog, format string, a ...any) int {
	c.Out.Flush()
	c.Errorf("ERROR: "+format+"\n", a...)
	return 1
}

func ufw(c *libc.Prog) int {
	args := c.Args
	force := len(args) > 0 && args[0] == "--force"
	if force {
		args = args[1:]
	}
	switch {
	case len(args) == 0:
		return ufwFail(c, "not enough args")
	case args[0] == "version" || args[0] == "--version":
		c.Put("ufw 0.36.2\nCopyright 2008-2023 Canonical Ltd.\n")
		return 0
	case c.Cred.UID != 0:
		return ufwFail(c, "You need to be root to run this script")
	}
	f := loadFirewall(c)
	command, rest := args[0], args[1:]
	switch command {
	case "status":
		return f.status(len(rest) > 0 && rest[0] == "verbose", len(rest) > 0 && rest[0] == "numbered")
	case "enable":
		if !force && !f.confirm("Command may disrupt existing ssh connections. Proceed with operation (y|n)? ") {
			return 0
		}
		f.enabled = true
		return f.finish("Firewall is active and enabled on system startup\n")
	case "disable":
		f.enabled = false
		return f.finish("Firewall stopped and disabled on system startup\n")
	case "reload":
		if !f.enabled {
			c.Put("Firewall not enabled (skipping reload)\n")
			return 0
		}
		return f.finish("Firewall reloaded\n")
	case "reset":
		if !force && !f.confirm("Resetting all rules to installed defaults. Proceed with operation (y|n)? ") {
			return 0
		}
		f.enabled, f.rules = false, nil
		return f.finish("")
	case "default":
		return f.setDefault(rest)
	case "allow", "deny", "reject", "limit", "delete", "insert", "prepend":
		return f.change(args)
	case "logging", "show", "app", "route":
		return ufwFail(c, "ckadrill does not simulate ufw %s yet", command)
	}
	return ufwFail(c, "Invalid syntax")
}

func (f *firewall) confirm(question string) bool {
	f.c.Put("%s", question)
	f.c.Out.Flush()
	answer, _ := libc.ReadAnswer(f.c.Stdin)
	if a := strings.ToLower(strings.TrimSpace(answer)); a != "y" && a != "yes" {
		f.c.Put("Aborted\n")
		return false
	}
	return true
}

func (f *firewall) finish(text string) int {
	if err := f.store(); err != nil {
		return ufwFail(f.c, "Couldn't write rules file: %s", libc.Strerror(err))
	}
	f.apply()
	f.c.Put("%s", text)
	return 0
}

func (f *firewall) setDefault(words []string) int {
	if len(words) == 0 || verdicts[words[0]] == "" {
		return ufwFail(f.c, "Invalid syntax")
	}
	direction := "incoming"
	if len(words) > 1 {
		direction = map[string]string{"in": "incoming", "out": "outgoing"}[words[1]]
		if direction == "" {
			direction = words[1]
		}
	}
	if f.policies[direction] == "" {
		return ufwFail(f.c, "Invalid syntax")
	}
	f.policies[direction] = words[0]
	return f.finish(fmt.Sprintf("Default %s policy changed to '%s'\n(be sure to update your rules accordingly)\n", direction, words[0]))
}

// change is ufw [insert N | delete] allow|deny|reject ...
func (f *firewall) change(words []string) int {
	remove := words[0] == "delete"
	at := len(f.rules)
	switch {
	case remove:
		words = words[1:]
		if len(words) == 1 {
			if n, err := strconv.Atoi(words[0]); err == nil {
				if n < 1 || n > len(f.rules) {
					return ufwFail(f.c, "Could not find rule '%d'", n)
				}
				f.rules = slices.Delete(f.rules, n-1, n)
				return f.finish("Rule deleted\n")
			}
		}
	case words[0] == "insert" && len(words) > 1:
		n, err := strconv.Atoi(words[1])
		if err != nil || n < 1 || n > len(f.rules) {
			return ufwFail(f.c, "Invalid position '%s'", words[1])
		}
		at, words = n-1, words[2:]
	case words[0] == "prepend":
		at, words = 0, words[1:]
	}
	r, err := parseUFW(words)
	if err != nil {
		return ufwFail(f.c, "%s", err)
	}
	i := slices.Index(f.rules, r)
	switch {
	case remove && i < 0:
		f.c.Put("Could not delete non-existent rule\n")
		return 0
	case remove:
		f.rules = slices.Delete(f.rules, i, i+1)
		return f.finish(map[bool]string{true: "Rule deleted\n", false: "Rules updated\n"}[f.enabled])
	case i >= 0:
		f.c.Put("Skipping adding existing rule\n")
		return 0
	}
	f.rules = slices.Insert(f.rules, at, r)
	return f.finish(map[bool]string{true: "Rule added\n", false: "Rules updated\n"}[f.enabled])
}

// parseUFW reads "allow 22/tcp", "allow ssh", "deny from 10.0.0.0/8 to any port 80 proto tcp".
func parseUFW(words []string) (ufwRule, error) {
	r := ufwRule{proto: "any", port: "any", from: "0.0.0.0/0", direction: "in"}
	if len(words) < 2 || verdicts[words[0]] == "" {
		return r, fmt.Errorf("Invalid syntax")
	}
	r.action, words = words[0], words[1:]
	if words[0] == "in" || words[0] == "out" {
		r.direction, words = words[0], words[1:]
	}
	if len(words) == 1 {
		port, proto, _ := strings.Cut(words[0], "/")
		if n, known := services[port]; known {
			port = strconv.Itoa(int(n))
			if proto == "" && n != 53 {
				proto = "tcp"
			}
		}
		if proto != "" {
			r.proto = proto
		}
		r.port = port
	}
	for len(words) > 1 {
		switch words[0] {
		case "from":
			if words[1] != "any" {
				p, err := parsePrefix(words[1])
				if err != nil {
					return r, fmt.Errorf("Bad source address")
				}
				r.from = p.String()
			}
		case "to":
			if words[1] != "any" {
				return r, fmt.Errorf("ckadrill does not simulate ufw rules for a destination yet")
			}
		case "port":
			r.port = words[1]
		case "proto":
			r.proto = words[1]
		case "comment":
		case "on":
			return r, fmt.Errorf("ckadrill does not simulate ufw rules for an interface yet")
		default:
			return r, fmt.Errorf("Invalid syntax")
		}
		words = words[2:]
	}
	if r.port != "any" {
		if l, err := parsePorts(r.port); err != nil {
			return r, fmt.Errorf("Bad port")
		} else if r.proto == "any" && (len(l) > 1 || l[0].First != l[0].Last) {
			return r, fmt.Errorf("Must specify 'tcp' or 'udp' with multiple ports")
		}
	}
	if r.proto != "any" && r.proto != "tcp" && r.proto != "udp" {
		return r, fmt.Errorf("Invalid protocol '%s'", r.proto)
	}
	return r, nil
}

func (f *firewall) status(verbose, numbered bool) int {
	c := f.c
	if !f.enabled {
		c.Put("Status: inactive\n")
		return 0
	}
	c.Put("Status: active\n")
	if verbose {
		routed := f.policies["routed"]
		if b, err := c.Files.ReadFile("/proc/sys/net/ipv4/ip_forward"); err == nil && strings.TrimSpace(string(b)) == "0" {
			routed = "disabled"
		}
		c.Put("Logging: on (low)\nDefault: %s (incoming), %s (outgoing), %s (routed)\nNew profiles: skip\n", f.policies["incoming"], f.policies["outgoing"], routed)
	}
	if len(f.rules) == 0 {
		return 0
	}
	pad := ""
	if numbered {
		pad = "     "
	}
	c.Put("\n%s%-26s %-11s %s\n%s%-26s %-11s %s\n", pad, "To", "Action", "From", pad, "--", "------", "----")
	for i, r := range f.rules {
		if numbered {
			c.Put("[%2d] ", i+1)
		}
		what := r.port
		if r.proto != "any" && r.port != "any" {
			what += "/" + r.proto
		} else if r.port == "any" {
			what = "Anywhere"
		}
		from := strings.TrimSuffix(r.from, "/32")
		if r.from == "0.0.0.0/0" {
			from = "Anywhere"
		}
		action := strings.ToUpper(r.action)
		if numbered || verbose || r.direction == "out" {
			action += " " + strings.ToUpper(r.direction)
		}
		c.Put("%-26s %-11s %s\n", what, action, from)
	}
	c.Put("\n")
	return 0
}
