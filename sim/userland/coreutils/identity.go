package coreutils

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"ckadrill/sim/kernel"
	"ckadrill/sim/machine"
	"ckadrill/sim/userland/libc"
)

// groupIDs are the groups of a credential, the primary one first.
func groupIDs(c kernel.Credential) []int {
	l := []int{c.GID}
	for _, g := range c.Groups {
		if !slices.Contains(l, g) {
			l = append(l, g)
		}
	}
	slices.Sort(l[1:])
	return l
}

func id(c *libc.Prog) int {
	opts, operands, ok := c.Options("agGnruzZ", "group|g", "groups|G", "name|n", "real|r", "user|u", "zero|z", "context|Z")
	if !ok {
		return c.Status
	}
	want, name := "", false
	for _, o := range opts {
		switch o.Name {
		case "u", "g", "G":
			if want != "" && want != o.Name {
				return c.Fail("cannot print \"only\" of more than one choice")
			}
			want = o.Name
		case "n":
			name = true
		}
	}
	if name && want == "" {
		return c.Fail("printing only names or real IDs requires -u, -g, or -G")
	}
	if len(operands) == 0 {
		l := groupIDs(c.Cred)
		if c.Busybox { // prints them as the kernel keeps them
			slices.Sort(l)
		}
		printID(c, c.Cred, l, want, name)
		return c.Status
	}
	for _, n := range operands {
		u, found := libc.UserByName(c.Files, n)
		if uid, err := strconv.Atoi(strings.TrimPrefix(n, "+")); !found && err == nil {
			u, found = libc.UserByID(c.Files, uid)
		}
		if !found {
			if c.Busybox {
				c.Fail("unknown user %s", n)
			} else {
				c.Fail("%s: no such user", c.Quote(n))
			}
			continue
		}
		cred := libc.CredentialOf(c.Files, u)
		printID(c, cred, groupIDs(cred), want, name)
	}
	return c.Status
}

func printID(c *libc.Prog, cred kernel.Credential, groups []int, want string, name bool) {
	names := libc.NewNames(c.Files)
	switch want {
	case "u":
		if name {
			c.Put("%s\n", names.User(cred.UID))
		} else {
			c.Put("%d\n", cred.UID)
		}
	case "g":
		if name {
			c.Put("%s\n", names.Group(cred.GID))
		} else {
			c.Put("%d\n", cred.GID)
		}
	case "G":
		var l []string
		for _, g := range groups {
			if name {
				l = append(l, names.Group(g))
			} else {
				l = append(l, strconv.Itoa(g))
			}
		}
		c.Put("%s\n", strings.Join(l, " "))
	default:
		label := func(n int, s string) string {
			if s == strconv.Itoa(n) {
				return s
			}
			return fmt.Sprintf("%d(%s)", n, s)
		}
		var l []string
		for _, g := range groups {
			l = append(l, label(g, names.Group(g)))
		}
		c.Put("uid=%s gid=%s groups=%s\n", label(cred.UID, names.User(cred.UID)), label(cred.GID, names.Group(cred.GID)), strings.Join(l, ","))
	}
}

func whoami(c *libc.Prog) int {
	_, operands, ok := c.Options("")
	if !ok {
		return c.Status
	}
	if len(operands) > 0 {
		return c.ExtraOperand(operands[0])
	}
	u, found := libc.UserByID(c.Files, c.Cred.UID)
	if !found {
		if c.Busybox {
			return c.Fail("unknown uid %d", c.Cred.UID)
		}
		return c.Fail("cannot find name for user ID %d", c.Cred.UID)
	}
	c.Put("%s\n", u.Name)
	return 0
}

func groups(c *libc.Prog) int {
	_, operands, ok := c.Options("")
	if !ok {
		return c.Status
	}
	names := libc.NewNames(c.Files)
	list := func(cred kernel.Credential) string {
		var l []string
		for _, g := range groupIDs(cred) {
			n := names.Group(g)
			if n == strconv.Itoa(g) {
				c.Fail("cannot find name for group ID %d", g)
			}
			l = append(l, n)
		}
		return strings.Join(l, " ")
	}
	if len(operands) == 0 {
		c.Put("%s\n", list(c.Cred))
		return c.Status
	}
	for _, n := range operands {
		u, found := libc.UserByName(c.Files, n)
		if !found {
			c.Fail("%s: no such user", c.Quote(n))
			continue
		}
		c.Put("%s : %s\n", n, list(libc.CredentialOf(c.Files, u)))
	}
	return c.Status
}

func logname(c *libc.Prog) int {
	n := c.Getenv("LOGNAME")
	if n == "" {
		return c.Fail("no login name")
	}
	c.Put("%s\n", n)
	return 0
}

// hostname is Debian's hostname, which can also show the addresses of the machine.
func hostname(c *libc.Prog) int {
	opts, operands, ok := c.Options("aAdfiIsy", "short|s", "fqdn|f", "long|f", "ip-address|i", "all-ip-addresses|I", "domain|d", "alias|a")
	if !ok {
		return c.Status
	}
	name := c.HostName()
	for _, o := range opts {
		switch o.Name {
		case "s":
			name, _, _ = strings.Cut(name, ".")
		case "d":
			_, name, _ = strings.Cut(name, ".")
		case "i":
			name = strings.Join(hostAddresses(c, name), " ")
		case "I":
			var l []string
			if c.Net != nil {
				for _, i := range c.Net.Interfaces() {
					for _, a := range i.Addresses {
						if !a.Addr().IsLoopback() && !a.Addr().IsLinkLocalUnicast() {
							l = append(l, a.Addr().String())
						}
					}
				}
			}
			name = strings.Join(l, " ") + " "
		case "a":
			name = ""
		}
	}
	if len(operands) > 0 {
		if c.Cred.UID != 0 {
			return c.Fail("you must be root to change the host name")
		}
		if c.Container != "" || c.Spec.Hostname != "" {
			return c.Fail("sethostname: Operation not permitted")
		}
		c.Host().SetName(operands[0])
		return 0
	}
	c.Put("%s\n", name)
	return 0
}

// hostAddresses are the addresses that /etc/hosts gives a name.
func hostAddresses(c *libc.Prog, name string) []string {
	b, err := c.Files.ReadFile("/etc/hosts")
	if err != nil {
		return nil
	}
	var l []string
	for _, line := range strings.Split(string(b), "\n") {
		line, _, _ = strings.Cut(line, "#")
		if f := strings.Fields(line); len(f) > 1 && slices.Contains(f[1:], name) {
			l = append(l, f[0])
		}
	}
	return l
}

// kernelBuild is what uname -v says of the reference machine's kernel package.
const kernelBuild = "#89-Ubuntu SMP PREEMPT_DYNAMIC Sat Oct 11 01:02:46 UTC 2025"

// kernelRelease is the machine's kernel version, which its containers see too.
func kernelRelease(c *libc.Prog) string {
	if m := machine.Of(c.Host()); m != nil {
		return m.Options().KernelVersion
	}
	return machine.Options{}.KernelVersion
}

func uname(c *libc.Prog) int {
	opts, operands, ok := c.Options("asnrvmpio", "all|a", "kernel-name|s", "sysname|s", "nodename|n", "kernel-release|r", "release|r", "kernel-version|v", "machine|m", "processor|p",
		"hardware-platform|i", "operating-system|o")
	if !ok {
		return c.Status
	}
	if len(operands) > 0 {
		return c.ExtraOperand(operands[0])
	}
	system := "GNU/Linux"
	want := map[string]bool{}
	for _, o := range opts {
		want[o.Name] = true
	}
	all := want["a"]
	if len(want) == 0 {
		want["s"] = true
	}
	fields := []struct{ letter, text string }{{"s", "Linux"}, {"n", c.HostName()}, {"r", kernelRelease(c)}, {"v", kernelBuild}, {"m", "x86_64"}, {"p", "x86_64"}, {"i", "x86_64"}, {"o", system}}
	if c.Busybox {
		fields = slices.DeleteFunc(fields, func(f struct{ letter, text string }) bool { return all && (f.letter == "p" || f.letter == "i") })
	}
	var l []string
	for _, f := range fields {
		if all || want[f.letter] {
			l = append(l, f.text)
		}
	}
	c.Put("%s\n", strings.Join(l, " "))
	return 0
}

func arch(c *libc.Prog) int {
	c.Put("x86_64\n")
	return 0
}

func nproc(c *libc.Prog) int {
	if _, _, ok := c.Options("", "all", "ignore:"); !ok {
		return c.Status
	}
	n := 1
	if m := machine.Of(c.Host()); m != nil {
		n = m.Options().CPUs
	}
	c.Put("%d\n", n)
	return 0
}
