package bash

import (
	"errors"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"syscall"

	"mvdan.cc/sh/v3/syntax"

	"ckadrill/sim/userland/libc"
)

// redirected is what a list of redirections changed, to be undone after the command.
type redirected struct {
	sh    *Shell
	saved map[int]*stream
	made  []*stream
}

// undo closes what was opened and gives the descriptors back.
func (r *redirected) undo() {
	if r == nil || r.sh == nil {
		return
	}
	for n, s := range r.saved {
		if s == nil {
			delete(r.sh.fds, n)
		} else {
			r.sh.fds[n] = s
		}
	}
	for _, s := range r.made {
		s.release()
	}
}

// redirect applies redirections. On an error it prints it, undoes what it did and returns false.
func (sh *Shell) redirect(list []*syntax.Redirect) (*redirected, bool) {
	if len(list) == 0 {
		return nil, true
	}
	r := &redirected{sh: sh, saved: map[int]*stream{}}
	for _, rd := range list {
		if err := sh.redirectOne(r, rd); err != nil {
			if !errors.Is(err, errReported) {
				sh.report(err)
			}
			r.undo()
			sh.status = 1
			if sh.style == dashStyle {
				sh.status = 2
			}
			return nil, false
		}
	}
	return r, true
}

// errReported is an error whose message has been printed.
var errReported = errors.New("reported")

// put makes descriptor n the stream s, which the redirection owns.
func (r *redirected) put(n int, s *stream) {
	if _, ok := r.saved[n]; !ok {
		r.saved[n] = r.sh.fds[n]
	}
	if s == nil {
		delete(r.sh.fds, n)
		return
	}
	r.sh.fds[n] = s
	r.made = append(r.made, s)
}

func (sh *Shell) redirectOne(r *redirected, rd *syntax.Redirect) error {
	n := 1
	switch rd.Op {
	case syntax.RdrIn, syntax.RdrInOut, syntax.DplIn, syntax.Hdoc, syntax.DashHdoc, syntax.WordHdoc:
		n = 0
	}
	variable := ""
	if rd.N != nil {
		if v := rd.N.Value; strings.HasPrefix(v, "{") {
			variable = strings.Trim(v, "{}")
			for n = 10; sh.fds[n] != nil; n++ {
			}
		} else {
			n, _ = strconv.Atoi(v)
		}
	}
	put := func(s *stream) error {
		r.put(n, s)
		if variable != "" {
			delete(r.saved, n) // {var}> stays open
			return sh.set(variable, strconv.Itoa(n))
		}
		return nil
	}
	switch rd.Op {
	case syntax.Hdoc, syntax.DashHdoc:
		text, err := sh.hereDoc(rd)
		if err != nil {
			return err
		}
		return put(opened(strings.NewReader(text), nil, nil))
	case syntax.WordHdoc:
		text, err := sh.literal(rd.Word)
		if err != nil {
			return err
		}
		return put(opened(strings.NewReader(text+"\n"), nil, nil))
	}
	fields, err := sh.fields([]*syntax.Word{rd.Word})
	if err != nil {
		return err
	}
	if len(fields) != 1 {
		sh.complain("%s: ambiguous redirect", sh.textOf(rd.Word))
		return errReported
	}
	name := fields[0]
	open := func(flag int) (*stream, error) {
		s, err := sh.openFile(name, flag)
		switch {
		case err == nil:
			return s, nil
		case sh.style == dashStyle && flag&os.O_CREATE != 0:
			sh.complain("cannot create %s: %s", name, dashText(err, true))
		case sh.style == dashStyle:
			sh.complain("cannot open %s: %s", name, dashText(err, false))
		case sh.style == ashStyle && flag&os.O_CREATE != 0:
			sh.complain("can't create %s: %s", name, ashText(err))
		case sh.style == ashStyle:
			sh.complain("can't open %s: %s", name, ashOpenText(err))
		case errors.Is(err, errNoclobber):
			sh.complain("%s: %s", name, err)
		case name == "":
			sh.complain(": No such file or directory")
		default:
			sh.complain("%s: %s", name, libc.Strerror(err))
		}
		return nil, errReported
	}
	const create = os.O_WRONLY | os.O_CREATE
	var s *stream
	switch rd.Op {
	case syntax.RdrIn:
		s, err = open(os.O_RDONLY)
	case syntax.RdrOut:
		s, err = open(create | os.O_TRUNC)
	case syntax.RdrClob:
		keep := sh.opt['C']
		sh.opt['C'] = false
		s, err = open(create | os.O_TRUNC)
		sh.opt['C'] = keep
	case syntax.AppOut:
		s, err = open(create | os.O_APPEND)
	case syntax.RdrInOut:
		s, err = open(os.O_RDWR | os.O_CREATE)
	case syntax.RdrAll, syntax.AppAll:
		flag := create | os.O_TRUNC
		if rd.Op == syntax.AppAll {
			flag = create | os.O_APPEND
		}
		if s, err = open(flag); err != nil {
			return err
		}
		r.put(1, s)
		r.put(2, s.retain())
		return nil
	case syntax.DplIn, syntax.DplOut:
		switch m, bad := strconv.Atoi(strings.TrimSuffix(name, "-")); {
		case name == "-":
			return put(nil)
		case bad == nil:
			from := sh.fds[m]
			if from == nil {
				sh.complain("%d: %s", m, libc.Strerror(syscall.EBADF))
				return errReported
			}
			if err := put(from.retain()); err != nil {
				return err
			}
			if strings.HasSuffix(name, "-") {
				r.put(m, nil)
			}
			return nil
		case rd.Op == syntax.DplOut && rd.N == nil: // >&file
			if s, err = open(create | os.O_TRUNC); err != nil {
				return err
			}
			r.put(1, s)
			r.put(2, s.retain())
			return nil
		}
		sh.complain("%s: ambiguous redirect", name)
		return errReported
	default:
		sh.complain("ckadrill does not simulate the redirection %s", rd.Op)
		return errReported
	}
	if err != nil {
		return err
	}
	return put(s)
}

// dashText is how dash's error messages for redirections end.
func dashText(err error, create bool) string {
	if errors.Is(err, fs.ErrNotExist) {
		if create {
			return "Directory nonexistent"
		}
		return "No such file"
	}
	return libc.Strerror(err)
}

func ashText(err error) string {
	if errors.Is(err, fs.ErrNotExist) {
		return "nonexistent directory"
	}
	return libc.Strerror(err)
}

func ashOpenText(err error) string {
	if errors.Is(err, fs.ErrNotExist) {
		return "no such file"
	}
	return libc.Strerror(err)
}

// hereDoc expands the body of a here-document.
func (sh *Shell) hereDoc(rd *syntax.Redirect) (string, error) {
	if rd.Hdoc == nil {
		return "", nil
	}
	quoted := false
	for _, part := range rd.Word.Parts {
		switch part := part.(type) {
		case *syntax.SglQuoted, *syntax.DblQuoted:
			quoted = true
		case *syntax.Lit:
			quoted = quoted || strings.Contains(part.Value, `\`)
		}
	}
	if quoted {
		var b strings.Builder
		for _, part := range rd.Hdoc.Parts {
			if l, ok := part.(*syntax.Lit); ok {
				b.WriteString(l.Value)
			}
		}
		if s := b.String(); rd.Op == syntax.DashHdoc {
			return stripTabs(s), nil
		} else {
			return s, nil
		}
	}
	word := rd.Hdoc
	if rd.Op == syntax.DashHdoc {
		word = &syntax.Word{}
		startOfLine := true
		for _, part := range rd.Hdoc.Parts {
			if l, ok := part.(*syntax.Lit); ok {
				c := *l
				c.Value = stripTabs(l.Value)
				if !startOfLine {
					// only what follows a newline inside this part is the start of a line
					first, rest, found := strings.Cut(l.Value, "\n")
					if c.Value = first; found {
						c.Value += "\n" + stripTabs(rest)
					}
				}
				startOfLine = strings.HasSuffix(l.Value, "\n")
				part = &c
			} else {
				startOfLine = false
			}
			word.Parts = append(word.Parts, part)
		}
	}
	frags, err := sh.plain(word.Parts, inHeredoc)
	return join(frags), err
}

func stripTabs(s string) string {
	lines := strings.Split(s, "\n")
	for i := range lines {
		lines[i] = strings.TrimLeft(lines[i], "\t")
	}
	return strings.Join(lines, "\n")
}
