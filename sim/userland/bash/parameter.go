package bash

import (
	"sort"
	"strconv"
	"strings"
	"time"
)

// param is the value of a parameter: special, positional, dynamic, or a variable.
func (sh *Shell) param(name string) (value string, set bool) {
	switch name {
	case "?":
		return strconv.Itoa(sh.status), true
	case "$":
		return strconv.Itoa(sh.p.OwnPID()), true
	case "!":
		if sh.lastBackground == 0 {
			return "", false
		}
		return strconv.Itoa(sh.lastBackground), true
	case "#":
		return strconv.Itoa(len(sh.args)), true
	case "0":
		return sh.name0(), true
	case "-":
		return sh.optionLetters(), true
	case "_":
		return sh.lastArg, true
	case "@", "*":
		return strings.Join(sh.args, " "), len(sh.args) > 0
	}
	if name != "" && name[0] >= '0' && name[0] <= '9' {
		n, err := strconv.Atoi(name)
		if err != nil || n < 1 || n > len(sh.args) {
			return "", false
		}
		return sh.args[n-1], true
	}
	if sh.style == bashStyle {
		switch name {
		case "RANDOM":
			return strconv.Itoa(sh.random()), true
		case "SRANDOM":
			return strconv.FormatUint(uint64(uint32(sh.p.World().Random("bash").Uint64())), 10), true
		case "SECONDS":
			return strconv.Itoa(sh.secondsBase + int(now().Sub(sh.secondsAt)/time.Second)), true
		case "EPOCHSECONDS":
			return strconv.FormatInt(now().Unix(), 10), true
		case "EPOCHREALTIME":
			return strconv.FormatInt(now().Unix(), 10) + "." + pad6(now().Nanosecond()/1000), true
		case "BASHPID":
			return strconv.Itoa(sh.p.OwnPID()), true
		case "BASH_SUBSHELL":
			return strconv.Itoa(sh.subshellDepth), true
		case "SHELLOPTS":
			return sh.shellopts(), true
		}
	}
	if name == "LINENO" {
		return strconv.Itoa(sh.line), true
	}
	v := sh.get(name)
	if v == nil {
		if base, sub, ok := splitSubscript(sh.deref(name)); ok && validName(base) {
			return sh.element(base, sub)
		}
		return "", false
	}
	return v.value()
}

func pad6(n int) string {
	s := strconv.Itoa(n)
	return strings.Repeat("0", 6-len(s)) + s
}

// element is the value of name[sub] with sub already expanded.
func (sh *Shell) element(name, sub string) (string, bool) {
	v := sh.get(name)
	switch {
	case v == nil:
		return "", false
	case sub == "@" || sub == "*":
		l := v.elements()
		return strings.Join(l, " "), len(l) > 0
	case v.Kind == assoc:
		s, ok := v.Assoc[sub]
		return s, ok
	}
	i, err := sh.index(v, name, sub)
	if err != nil {
		return "", false
	}
	return v.at(i)
}

func (sh *Shell) name0() string { return sh.zero }

// random is $RANDOM: drawn from the world's seed, or from the seed that was assigned to it, as bash computes it
// (lib/sh/random.c: the minimal standard generator, folded).
func (sh *Shell) random() int {
	if sh.seed == 0 {
		return int(sh.p.World().Random("bash").Uint64() & 0x7fff)
	}
	last := sh.lastRandom
	for {
		hi, lo := sh.seed/127773, sh.seed%127773
		n := int32(16807*int64(lo) - 2836*int64(hi))
		if n < 0 {
			n += 0x7fffffff
		}
		sh.seed = uint32(n)
		r := int((sh.seed>>16)^(sh.seed&0xffff)) & 0x7fff
		if r != last {
			sh.lastRandom = r
			return r
		}
	}
}

func (sh *Shell) randomSeed(n uint32) {
	if n == 0 {
		n = 123459876
	}
	sh.seed, sh.lastRandom = n, 0
}

// optionNames are the long names of the single-letter options of set.
var optionNames = map[byte]string{
	'a': "allexport", 'B': "braceexpand", 'e': "errexit", 'h': "hashall", 'H': "histexpand", 'm': "monitor",
	'C': "noclobber", 'n': "noexec", 'f': "noglob", 'u': "nounset", 'v': "verbose", 'x': "xtrace", 'E': "errtrace",
	'T': "functrace", 'k': "keyword", 't': "onecmd", 'P': "physical", 'p': "privileged", 'b': "notify",
}

// longOptions are the options of set that have no letter.
var longOptions = []string{"emacs", "history", "ignoreeof", "interactive-comments", "nolog", "pipefail", "posix", "vi"}

func (sh *Shell) optionLetters() string {
	var b strings.Builder
	for _, c := range "abefhkmnptuvxBCEHPT" {
		if sh.opt[byte(c)] {
			b.WriteRune(c)
		}
	}
	if sh.interactive {
		s := b.String()
		// bash lists i between h and m
		i := strings.IndexFunc(s, func(r rune) bool { return r > 'i' || r < 'a' })
		if i < 0 {
			i = len(s)
		}
		return s[:i] + "i" + s[i:] + sh.invocation
	}
	return b.String() + sh.invocation
}

func (sh *Shell) shellopts() string {
	var l []string
	for c, n := range optionNames {
		if sh.opt[c] {
			l = append(l, n)
		}
	}
	for n, on := range sh.longOpt {
		if on {
			l = append(l, n)
		}
	}
	sort.Strings(l)
	return strings.Join(l, ":")
}
