package admin

import (
	"slices"
	"strconv"
	"strings"

	"ckadrill/sim/userland/libc"
)

// lsbRelease is the package lsb-release: what /etc/os-release says of the distribution.
func lsbRelease(c *libc.Prog) int {
	opts, operands, ok := c.Options("vidrcash", "version|v", "id|i", "description|d", "release|r", "codename|c", "all|a", "short|s")
	if !ok {
		return c.Status
	}
	if len(operands) > 0 {
		c.Errorf("No arguments are permitted\n")
		return 1
	}
	b, err := c.Files.ReadFile("/etc/os-release")
	if err != nil {
		c.Errorf("lsb_release: /etc/os-release: %s\n", libc.Strerror(err))
		return 1
	}
	values := map[string]string{}
	for line := range strings.Lines(string(b)) {
		k, v, _ := strings.Cut(strings.TrimSpace(line), "=")
		values[k] = strings.Trim(v, `"`)
	}
	short, modules, show := false, len(opts) == 0, map[string]bool{}
	for _, o := range opts {
		switch o.Name {
		case "s":
			short = true
		case "a":
			modules = true
			for _, n := range []string{"i", "d", "r", "c"} {
				show[n] = true
			}
		case "v":
			modules = true
		default:
			show[o.Name] = true
		}
	}
	if modules {
		c.Errorf("No LSB modules are available.\n")
	}
	for _, l := range [][3]string{{"i", "Distributor ID", values["NAME"]}, {"d", "Description", values["PRETTY_NAME"]}, {"r", "Release", values["VERSION_ID"]}, {"c", "Codename", values["VERSION_CODENAME"]}} {
		switch {
		case !show[l[0]]:
		case short:
			c.Put("%s\n", l[2])
		default:
			c.Put("%s:\t%s\n", l[1], l[2])
		}
	}
	return 0
}

// lscpu tells of the processors by /proc/cpuinfo.
func lscpu(c *libc.Prog) int {
	if len(c.Args) > 0 {
		return c.Fail("ckadrill does not simulate lscpu %s yet", c.Args[0])
	}
	b, err := c.Files.ReadFile("/proc/cpuinfo")
	if err != nil {
		return c.Fail("cannot open /proc/cpuinfo: %s", libc.Strerror(err))
	}
	n, values := 0, map[string]string{}
	for line := range strings.Lines(string(b)) {
		k, v, _ := strings.Cut(line, ":")
		k = strings.TrimSpace(k)
		if k == "processor" {
			n++
		}
		values[k] = strings.TrimSpace(v)
	}
	list := "0"
	if n > 1 {
		list = "0-" + strconv.Itoa(n-1)
	}
	for _, l := range [][2]string{
		{"Architecture:", "x86_64"}, {"  CPU op-mode(s):", "32-bit, 64-bit"}, {"  Byte Order:", "Little Endian"}, {"CPU(s):", strconv.Itoa(n)}, {"  On-line CPU(s) list:", list},
		{"Vendor ID:", values["vendor_id"]}, {"  Model name:", values["model name"]}, {"    CPU family:", values["cpu family"]}, {"    Model:", values["model"]},
		{"    Thread(s) per core:", "1"}, {"    Core(s) per socket:", strconv.Itoa(n)}, {"    Socket(s):", "1"}, {"Virtualization features:", ""}, {"  Hypervisor vendor:", "KVM"}, {"  Virtualization type:", "full"},
	} {
		if l[1] != "" || strings.HasPrefix(l[0], "Virt") {
			c.Put("%s\n", strings.TrimRight(l[0]+strings.Repeat(" ", max(26-len(l[0]), 1))+l[1], " "))
		}
	}
	return 0
}

// mountpoint says whether something is mounted on a directory.
func mountpoint(c *libc.Prog) int {
	opts, operands, ok := c.Options("qdnx", "quiet|q", "fs-devno|d", "devno|x", "nofollow")
	if !ok {
		return c.Status
	}
	quiet := false
	for _, o := range opts {
		switch o.Name {
		case "q":
			quiet = true
		case "d", "x":
			return c.Fail("ckadrill does not simulate mountpoint -%s yet", o.Name)
		}
	}
	if len(operands) != 1 {
		c.Warn("bad usage")
		return c.TryHelp()
	}
	name := c.Path(operands[0])
	i, err := c.Files.Stat(name)
	if err != nil {
		if !quiet {
			c.Warn("%s: %s", operands[0], libc.Strerror(err))
		}
		return 1
	}
	is := i.IsDir() && slices.ContainsFunc(mounts(c), func(m mounted) bool { return m.target == name })
	switch {
	case quiet:
	case is:
		c.Put("%s is a mountpoint\n", operands[0])
	default:
		c.Put("%s is not a mountpoint\n", operands[0])
	}
	if !is {
		return 32
	}
	return 0
}

// losetup lists loop devices, of which a machine has none.
func losetup(c *libc.Prog) int {
	opts, operands, ok := c.Options("alj:fLnJO:", "all|a", "list|l", "associated:|j", "find|f", "noheadings|n", "show", "json|J", "output:|O")
	if !ok {
		return c.Status
	}
	find := false
	for _, o := range opts {
		find = find || o.Name == "f"
	}
	switch {
	case find && len(operands) == 0:
		c.Put("/dev/loop0\n")
	case len(operands) > 0:
		return c.Fail("ckadrill does not simulate loop devices yet")
	}
	return 0
}
