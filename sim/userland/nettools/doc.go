// Package nettools holds the commands that look at the network or use it: curl, wget, nslookup, dig, host, getent hosts, nc,
// ping, ss, netstat, lsof and ip, and busybox's variants of some. They know nothing but what their process's network namespace,
// files and connections tell them.
package nettools

import (
	"ckadrill/sim/kernel"
	"ckadrill/sim/userland/libc"
)

// Register adds the commands of this package. The names with the prefix "busybox-" are busybox's applets, whose messages and
// options differ; an image built on busybox has them under their plain names.
func Register(ps *kernel.Programs) {
	ps.Register("curl", curl)
	ps.Register("wget", wget)
	ps.Register("busybox-wget", busyboxWget)
	ps.Register("nslookup", nslookup)
	ps.Register("busybox-nslookup", busyboxNslookup)
	ps.Register("dig", dig)
	ps.Register("host", host)
	ps.Register("getent", getent)
	ps.Register("nc", nc)
	ps.Register("busybox-nc", busyboxNc)
	ps.Register("ping", ping)
	ps.Register("busybox-ping", busyboxPing)
	ps.Register("ss", ss)
	ps.Register("netstat", netstat)
	ps.Register("ip", ip)
	ps.Register("lsof", lsof)
	ps.Register("busybox-lsof", libc.Applet("lsof", func(c *libc.Prog) int { return c.Fail("ckadrill does not simulate lsof yet") }))
}
