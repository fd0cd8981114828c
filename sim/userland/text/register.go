// Package text holds the commands that read, change and compare text: grep, sed, awk, sort and their like, with the messages
// and exit statuses of their GNU originals.
package text

import (
	"ckadrill/sim/kernel"
	"ckadrill/sim/userland/libc"
)

// Commands are the programs of this package by name.
var Commands = map[string]func(c *libc.Prog) int{
	"cat": cat, "tac": tac, "head": head, "tail": tail, "wc": wc, "cut": cut, "tr": tr, "sort": sortCommand, "uniq": uniq, "tee": tee, "nl": nl,
	"rev": rev, "fold": fold, "paste": paste, "comm": comm, "column": column, "grep": grep, "egrep": grep, "fgrep": grep, "sed": sed, "awk": awk,
	"diff": diff, "cmp": cmp, "base64": base64Command, "md5sum": sum, "sha1sum": sum, "sha256sum": sum, "sha512sum": sum, "seq": seq, "shuf": shuf,
	"split": split, "less": pager, "more": pager, "expand": expandTabs, "od": od, "hexdump": od, "xxd": od, "strings": stringsCommand, "jq": jq,
	"join": notSimulated, "patch": notSimulated, "python3": notSimulated,
}

// Register adds the programs, and busybox's variants under "busybox-" and their names.
func Register(ps *kernel.Programs) {
	for name, run := range Commands {
		ps.Register(name, libc.Main(name, run))
		ps.Register("busybox-"+name, libc.Applet(name, run))
	}
}

// notSimulated says that a program exists on the machine but not in the simulation.
func notSimulated(c *libc.Prog) int { return c.Fail("ckadrill does not simulate %s yet", c.Name) }
