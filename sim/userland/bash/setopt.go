package bash

import (
	"fmt"
	"sort"
	"strings"
)

func builtinSet(sh *Shell, args []string) int {
	if len(args) == 0 {
		for _, n := range sh.names(func(v *variable) bool { return v.Set }) {
			fmt.Fprintln(sh.stdout(), n+"="+sh.lookup(n).literalShort())
		}
		return 0
	}
	for i := 0; i < len(args); i++ {
		a := args[i]
		switch {
		case a == "--":
			sh.args = append([]string(nil), args[i+1:]...)
			return 0
		case a == "-":
			sh.opt['x'], sh.opt['v'] = false, false
			if i+1 < len(args) {
				sh.args = append([]string(nil), args[i+1:]...)
			}
			return 0
		case len(a) > 1 && (a[0] == '-' || a[0] == '+'):
			on := a[0] == '-'
			for j := 1; j < len(a); j++ {
				if a[j] == 'o' {
					if i+1 >= len(args) {
						sh.printOptions(on)
						continue
					}
					i++
					if !sh.setLong(args[i], on) {
						if sh.style == dashStyle {
							sh.complain("set: Illegal option -o %s", args[i])
							sh.flow = flowExit
							return 2
						}
						sh.complain("set: %s: invalid option name", args[i])
						return 1
					}
					continue
				}
				if _, ok := optionNames[a[j]]; !ok {
					if sh.style == dashStyle {
						sh.complain("set: Illegal option %s", a)
						sh.flow = flowExit
						return 2
					}
					sh.complain("set: %c%c: invalid option", a[0], a[j])
					fmt.Fprintln(sh.stderr(), "set: usage: set [-abefhkmnptuvxBCEHPT] [-o option-name] [--] [-] [arg ...]")
					return 2
				}
				sh.opt[a[j]] = on
			}
		default:
			sh.args = append([]string(nil), args[i:]...)
			return 0
		}
	}
	return 0
}

func (sh *Shell) setLong(name string, on bool) bool {
	for c, n := range optionNames {
		if n == name {
			sh.opt[c] = on
			return true
		}
	}
	for _, n := range longOptions {
		if n == name {
			sh.longOpt[n] = on
			return true
		}
	}
	return false
}

func (sh *Shell) printOptions(human bool) {
	all := map[string]bool{}
	for c, n := range optionNames {
		if c != 'k' || true {
			all[n] = sh.opt[c]
		}
	}
	for _, n := range longOptions {
		all[n] = sh.longOpt[n]
	}
	for _, n := range sortedKeys(all) {
		if human {
			fmt.Fprintf(sh.stdout(), "%-15s\t%s\n", n, map[bool]string{true: "on", false: "off"}[all[n]])
		} else {
			fmt.Fprintf(sh.stdout(), "set %so %s\n", map[bool]string{true: "-", false: "+"}[all[n]], n)
		}
	}
}

func builtinShopt(sh *Shell, args []string) int {
	set, unset, quiet, print, long := false, false, false, false, false
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		for _, c := range args[0][1:] {
			switch c {
			case 's':
				set = true
			case 'u':
				unset = true
			case 'q':
				quiet = true
			case 'p':
				print = true
			case 'o':
				long = true
			default:
				sh.complain("shopt: -%c: invalid option", c)
				fmt.Fprintln(sh.stderr(), "shopt: usage: shopt [-pqsu] [-o] [optname ...]")
				return 2
			}
		}
		args = args[1:]
	}
	if long {
		status := 0
		for _, a := range args {
			if set || unset {
				if !sh.setLong(a, set) {
					sh.complain("shopt: %s: invalid option name", a)
					status = 1
				}
			}
		}
		return status
	}
	show := func(n string) {
		on := sh.shopt[n]
		switch {
		case quiet:
		case print:
			fmt.Fprintf(sh.stdout(), "shopt -%s %s\n", map[bool]string{true: "s", false: "u"}[on], n)
		default:
			fmt.Fprintf(sh.stdout(), "%-20s\t%s\n", n, map[bool]string{true: "on", false: "off"}[on])
		}
	}
	if len(args) == 0 {
		var names []string
		for n := range sh.shopt {
			names = append(names, n)
		}
		sort.Strings(names)
		for _, n := range names {
			if set && !sh.shopt[n] || unset && sh.shopt[n] {
				continue
			}
			show(n)
		}
		return 0
	}
	status := 0
	for _, n := range args {
		if _, ok := sh.shopt[n]; !ok {
			sh.complain("shopt: %s: invalid shell option name", n)
			status = 1
			continue
		}
		switch {
		case set, unset:
			sh.shopt[n] = set
		default:
			show(n)
			if !sh.shopt[n] {
				status = 1
			}
		}
	}
	return status
}
