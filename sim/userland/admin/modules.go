package admin

import (
	"slices"
	"strings"

	"ckadrill/sim/machine"
	"ckadrill/sim/userland/libc"
)

// modprobe loads nothing, since the simulated kernel has what it needs built in; it knows which modules exist.
func modprobe(c *libc.Prog) int {
	opts, operands, ok := c.Options("abfinqrvD", "all|a", "remove|r", "dry-run|n", "quiet|q", "verbose|v", "first-time", "show-depends|D")
	if !ok {
		return c.Status
	}
	quiet, remove := false, false
	for _, o := range opts {
		quiet = quiet || o.Name == "q"
		remove = remove || o.Name == "r"
	}
	if len(operands) == 0 {
		c.Errorf("modprobe: ERROR: missing parameters. See -h.\n")
		return 1
	}
	for _, n := range operands[:1] {
		n = strings.ReplaceAll(n, "-", "_")
		if !slices.Contains(modules, n) {
			if !quiet {
				c.Errorf("modprobe: FATAL: Module %s not found in directory /lib/modules/%s\n", operands[0], release(c))
			}
			return 1
		}
		if c.Cred.UID != 0 {
			c.Errorf("modprobe: ERROR: could not insert '%s': Operation not permitted\n", n)
			return 1
		}
		if remove {
			c.Errorf("modprobe: FATAL: Module %s is in use.\n", n)
			return 1
		}
	}
	return 0
}

func release(c *libc.Prog) string {
	if m := machine.Of(c.Host()); m != nil {
		return m.Options().KernelVersion
	}
	return "6.8.0-88-generic"
}

// modules are those that the simulated kernel stands for.
var modules = []string{"br_netfilter", "bridge", "iptable_nat", "ip_tables", "ip_vs", "ip_vs_rr", "ip_vs_sh", "ip_vs_wrr", "nf_conntrack", "nf_nat", "nf_tables", "overlay", "veth", "vxlan", "x_tables"}

func lsmod(c *libc.Prog) int {
	c.Put("Module                  Size  Used by\n")
	for _, m := range modules {
		c.Put("%-19s %8d  0\n", m, 32768)
	}
	return 0
}
