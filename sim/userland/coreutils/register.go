// Package coreutils holds the commands that handle files, names, dates and other commands: ls, cp, find, xargs and their
// like, with the output, messages and exit statuses of GNU coreutils 9.4 and findutils 4.9, and busybox's words where an
// image has busybox.
package coreutils

import (
	"ckadrill/sim/kernel"
	"ckadrill/sim/userland/libc"
)

// Commands are the programs of this package by name.
var Commands = map[string]func(c *libc.Prog) int{
	"ls": ls, "dir": ls, "vdir": ls, "cp": cp, "mv": mv, "rm": rm, "mkdir": mkdir, "rmdir": rmdir, "touch": touch, "ln": ln, "link": link, "unlink": unlink,
	"chmod": chmod, "chown": chown, "chgrp": chown, "stat": stat, "find": find, "xargs": xargs, "install": install, "mktemp": mktemp, "truncate": truncate,
	"dd": dd, "df": df, "du": du, "tree": tree, "file": file, "readlink": readlink, "realpath": realpath, "basename": basename, "dirname": dirname,
	"echo": echo, "printf": printf, "test": test, "[": test, "[[": test, "true": trueCommand, "false": falseCommand, "expr": expr, "pwd": pwd,
	"sleep": sleep, "usleep": usleep, "date": date, "timeout": timeout, "yes": yes, "env": env, "printenv": printenv, "nohup": nohup, "nice": nice,
	"id": id, "whoami": whoami, "groups": groups, "logname": logname, "hostname": hostname, "uname": uname, "arch": arch, "nproc": nproc,
	"which": which, "tty": tty, "stty": stty, "clear": clearScreen, "reset": clearScreen, "tput": tput, "sync": trueCommand, "fsync": trueCommand, "factor": factor,
}

// Register adds the programs, and busybox's variants under "busybox-" and their names.
func Register(ps *kernel.Programs) {
	for name, run := range Commands {
		ps.Register(name, libc.Main(name, run))
		ps.Register("busybox-"+name, libc.Applet(name, run))
	}
}
