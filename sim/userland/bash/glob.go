package bash

import (
	"errors"
	"io/fs"
	"path"
	"regexp"
	"sort"
	"strings"

	"mvdan.cc/sh/v3/pattern"
)

// globRegexp translates a pattern; extended operators are always understood, as [[ and case do.
func globRegexp(pat string, mode pattern.Mode, fold bool) (string, error) {
	if fold {
		mode |= pattern.NoGlobCase
	}
	return pattern.Regexp(pat, mode|pattern.ExtendedOperators)
}

// compileGlob returns a matcher of whole strings.
func compileGlob(pat string, fold bool) (func(string) bool, error) {
	if !pattern.HasMeta(pat, 0) && !strings.ContainsAny(pat, `\(`) && !fold {
		return func(s string) bool { return s == pat }, nil
	}
	expr, err := globRegexp(pat, pattern.EntireString, fold)
	var neg *pattern.NegExtGlobError
	if errors.As(err, &neg) && len(neg.Groups) > 0 {
		return compileNegated(pat, neg.Groups[0], fold)
	}
	if err != nil {
		return nil, err
	}
	re, err := regexp.Compile(expr)
	if err != nil {
		return nil, err
	}
	return re.MatchString, nil
}

// compileNegated matches a pattern with one !(...) group, which regular expressions cannot express.
func compileNegated(pat string, g pattern.NegExtGlobGroup, fold bool) (func(string) bool, error) {
	before, err := compileGlob(pat[:g.Start], fold)
	if err != nil {
		return nil, err
	}
	inner, err := compileGlob("@"+pat[g.Start+1:g.End], fold)
	if err != nil {
		return nil, err
	}
	after, err := compileGlob(pat[g.End:], fold)
	if err != nil {
		return nil, err
	}
	return func(s string) bool {
		for i := 0; i <= len(s); i++ {
			if !before(s[:i]) {
				continue
			}
			for j := i; j <= len(s); j++ {
				if after(s[j:]) && !inner(s[i:j]) {
					return true
				}
			}
		}
		return false
	}, nil
}

// match says whether a string as a whole matches a pattern.
func (sh *Shell) match(pat, s string) bool {
	m, err := compileGlob(pat, sh.shopt["nocasematch"])
	if err != nil {
		return pat == s
	}
	return m(s)
}

// globField expands a field that contains a pattern to the names of files.
func (sh *Shell) globField(f []frag) (matches []string, ok bool, err error) {
	if sh.opt['f'] || sh.files == nil {
		return nil, false, nil
	}
	candidate := false
	for _, p := range f {
		if !p.quoted && (strings.ContainsAny(p.text, "*?[") || sh.shopt["extglob"] && strings.Contains(p.text, "(")) {
			candidate = true
		}
	}
	if !candidate {
		return nil, false, nil
	}
	pat := globText(f)
	if !pattern.HasMeta(pat, 0) && !(sh.shopt["extglob"] && strings.Contains(pat, "(")) {
		return nil, false, nil
	}
	matches = sh.glob(pat)
	if len(matches) > maxElements {
		return nil, false, sh.outOfMemory(len(matches))
	}
	switch {
	case len(matches) > 0, sh.shopt["nullglob"]:
		return matches, true, nil
	case sh.shopt["failglob"]:
		return nil, false, expandError{"no match: " + join(f)}
	}
	return nil, false, nil
}

// glob lists the files that match a pattern, sorted by bytes as in the C.UTF-8 locale.
func (sh *Shell) glob(pat string) []string {
	found := []string{""}
	parts := strings.Split(pat, "/")
	if parts[0] == "" {
		found, parts = []string{"/"}, parts[1:]
	}
	for i, part := range parts {
		last := i == len(parts)-1
		var next []string
		for _, base := range found {
			next = append(next, sh.globPart(base, part, last)...)
			if len(next) > maxElements {
				return next
			}
		}
		found = next
	}
	sort.Strings(found)
	return found
}

func (sh *Shell) globPart(base, part string, last bool) []string {
	finish := func(name string) string {
		if last {
			return base + name
		}
		return base + name + "/"
	}
	if part == "" { // "a//b", or a trailing slash: only directories remain
		if base != "" && !sh.isDir(base) {
			return nil
		}
		if last {
			return []string{base}
		}
		return []string{base + "/"}
	}
	if part == "**" && sh.shopt["globstar"] {
		return sh.globStar(base, last, 0)
	}
	if !pattern.HasMeta(part, 0) && !(sh.shopt["extglob"] && strings.Contains(part, "(")) {
		name := unquotePattern(part)
		if _, err := sh.files.Lstat(sh.abs(base + name)); err != nil {
			return nil
		}
		if !last && !sh.isDir(base+name) {
			return nil
		}
		return []string{finish(name)}
	}
	match, err := compileGlob(part, sh.shopt["nocaseglob"])
	if err != nil {
		return nil
	}
	entries, err := sh.files.ReadDir(sh.abs(cleanDir(base)))
	if err != nil {
		return nil
	}
	var out []string
	for _, e := range entries {
		name := e.Name()
		if name[0] == '.' && !strings.HasPrefix(part, ".") && !sh.shopt["dotglob"] {
			continue
		}
		if !match(name) || !last && !e.IsDir() && (e.Type()&fs.ModeSymlink == 0 || !sh.isDir(base+name)) {
			continue
		}
		out = append(out, finish(name))
	}
	return out
}

func (sh *Shell) globStar(base string, last bool, depth int) []string {
	out := []string{base}
	if last && base == "" {
		out = nil
	}
	entries, err := sh.files.ReadDir(sh.abs(cleanDir(base)))
	if err != nil || depth > 64 {
		return out
	}
	for _, e := range entries {
		if e.Name()[0] == '.' && !sh.shopt["dotglob"] {
			continue
		}
		switch {
		case e.IsDir():
			sub := sh.globStar(base+e.Name()+"/", last, depth+1)
			if last {
				sub[0] = base + e.Name()
			}
			out = append(out, sub...)
		case last:
			out = append(out, base+e.Name())
		}
		if len(out) > maxElements {
			return out
		}
	}
	return out
}

func cleanDir(base string) string {
	if base == "" {
		return "."
	}
	return path.Clean(base)
}

func (sh *Shell) isDir(name string) bool {
	i, err := sh.files.Stat(sh.abs(name))
	return err == nil && i.IsDir()
}

func unquotePattern(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+1 < len(s) {
			i++
		}
		b.WriteByte(s[i])
	}
	return b.String()
}
