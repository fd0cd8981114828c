package bash

import (
	"fmt"
	"strconv"
	"strings"
)

// stack is the directory stack, the current directory first.
func (sh *Shell) stack() []string { return append([]string{sh.dir}, sh.dirStack...) }

func (sh *Shell) showStack() {
	l := sh.stack()
	for i := range l {
		l[i] = sh.tildeName(l[i])
	}
	fmt.Fprintln(sh.stdout(), strings.Join(l, " "))
}

func (sh *Shell) tildeName(dir string) string {
	if home := sh.getStr("HOME"); home != "" && home != "/" && (dir == home || strings.HasPrefix(dir, home+"/")) {
		return "~" + dir[len(home):]
	}
	return dir
}

// stackIndex reads +n or -n.
func stackIndex(s string, n int) (int, bool) {
	if len(s) < 2 || s[0] != '+' && s[0] != '-' {
		return 0, false
	}
	k, err := strconv.Atoi(s[1:])
	if err != nil {
		return 0, false
	}
	if s[0] == '-' {
		k = n - 1 - k
	}
	return k, true
}

func builtinPushd(sh *Shell, args []string) int {
	l := sh.stack()
	if len(args) == 0 {
		if len(l) < 2 {
			sh.complain("pushd: no other directory")
			return 1
		}
		if s := sh.chdir("pushd", l[1], false); s != 0 {
			return s
		}
		sh.dirStack[0] = l[0]
		sh.showStack()
		return 0
	}
	if k, ok := stackIndex(args[0], len(l)); ok {
		if k < 0 || k >= len(l) {
			sh.complain("pushd: %s: directory stack index out of range", args[0])
			return 1
		}
		l = append(append([]string(nil), l[k:]...), l[:k]...)
		if s := sh.chdir("pushd", l[0], false); s != 0 {
			return s
		}
		sh.dirStack = l[1:]
		sh.showStack()
		return 0
	}
	if len(l) > 100 {
		return 1
	}
	if s := sh.chdir("pushd", args[0], false); s != 0 {
		return s
	}
	sh.dirStack = l
	sh.showStack()
	return 0
}

func builtinPopd(sh *Shell, args []string) int {
	l := sh.stack()
	if len(l) < 2 {
		sh.complain("popd: directory stack empty")
		return 1
	}
	k := 0
	if len(args) > 0 {
		var ok bool
		if k, ok = stackIndex(args[0], len(l)); !ok || k < 0 || k >= len(l) {
			sh.complain("popd: %s: directory stack index out of range", args[0])
			return 1
		}
	}
	l = append(l[:k:k], l[k+1:]...)
	if k == 0 {
		if s := sh.chdir("popd", l[0], false); s != 0 {
			return s
		}
	}
	sh.dirStack = l[1:]
	sh.showStack()
	return 0
}

func builtinDirs(sh *Shell, args []string) int {
	for _, a := range args {
		switch a {
		case "-c":
			sh.dirStack = nil
			return 0
		case "-p", "-v":
			for i, d := range sh.stack() {
				if a == "-v" {
					fmt.Fprintf(sh.stdout(), "%2d  %s\n", i, sh.tildeName(d))
				} else {
					fmt.Fprintln(sh.stdout(), sh.tildeName(d))
				}
			}
			return 0
		case "-l":
			fmt.Fprintln(sh.stdout(), strings.Join(sh.stack(), " "))
			return 0
		}
	}
	sh.showStack()
	return 0
}
