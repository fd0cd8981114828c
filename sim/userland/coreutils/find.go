package coreutils

import (
	"fmt"
	"io/fs"
	"path"
	"strconv"
	"strings"
	"time"

	"ckadrill/sim/kernel"
	"ckadrill/sim/userland/bash"
	"ckadrill/sim/userland/libc"
	"ckadrill/sim/userland/regex"
)

// finder is one run of find.
type finder struct {
	c          *libc.Prog
	now        time.Time
	names      *libc.Names
	minDepth   int
	maxDepth   int // -1 without limit
	depthFirst bool
	sameDevice bool
	follow     bool
	followArgs bool
	acts       bool // an action other than -prune was given
	quit       bool
	batches    []*batch
}

// found is a file that find looks at.
type found struct {
	name  string
	start string
	depth int
	info  fs.FileInfo
	prune bool
}

type predicate func(f *found) bool

// batch is -exec ... {} +.
type batch struct {
	argv  []string
	names []string
	dir   string
}

type findError string

func (e findError) Error() string { return string(e) }

func find(c *libc.Prog) int {
	d := &finder{c: c, now: time.Now(), names: libc.NewNames(c.Files), maxDepth: -1}
	args := c.Args
	for len(args) > 0 && (args[0] == "-H" || args[0] == "-L" || args[0] == "-P" || strings.HasPrefix(args[0], "-O")) {
		d.follow, d.followArgs = args[0] == "-L", args[0] == "-H"
		args = args[1:]
	}
	var starts []string
	for len(args) > 0 && !(strings.HasPrefix(args[0], "-") && len(args[0]) > 1) && args[0] != "(" && args[0] != "!" && args[0] != "," && args[0] != ")" {
		starts = append(starts, args[0])
		args = args[1:]
	}
	if len(starts) == 0 {
		starts = []string{"."}
	}
	p := &findParser{d: d, args: args}
	match, err := p.all()
	if err != nil {
		return c.Fail("%s", err)
	}
	if !d.acts {
		inner := match
		match = func(f *found) bool {
			if inner(f) {
				c.Put("%s\n", f.name)
			}
			return true
		}
	}
	for _, s := range starts {
		if d.quit {
			break
		}
		d.walk(&found{name: s, start: s}, match, "")
	}
	for _, b := range d.batches {
		d.runBatch(b)
	}
	return c.Status
}

func (d *finder) fail(name string, err error) {
	if d.c.Busybox {
		d.c.FailFile(name, err)
		return
	}
	d.c.Fail("%s: %s", d.c.Quote(name), libc.Strerror(err))
}

func (d *finder) walk(f *found, match predicate, device string) {
	c := d.c
	if d.quit || !c.Alive() {
		return
	}
	var err error
	full := c.Path(f.name)
	if d.follow || d.followArgs && f.depth == 0 || strings.HasSuffix(f.name, "/") {
		if f.info, err = c.Files.Stat(full); err != nil {
			f.info, err = c.Files.Lstat(full)
		}
	} else {
		f.info, err = c.Files.Lstat(full)
	}
	if err != nil {
		d.fail(f.name, err)
		return
	}
	if f.depth == 0 {
		device = libc.Stat(f.info).Device
	}
	visit := func() {
		if f.depth >= d.minDepth {
			match(f)
		}
	}
	if !d.depthFirst {
		visit()
	}
	if f.info.IsDir() && !f.prune && !d.quit && (d.maxDepth < 0 || f.depth < d.maxDepth) && !(d.sameDevice && libc.Stat(f.info).Device != device) {
		list, err := c.Files.ReadDir(full)
		if err != nil {
			d.fail(f.name, err)
		}
		for _, e := range list {
			d.walk(&found{name: joinName(f.name, e.Name()), start: f.start, depth: f.depth + 1}, match, device)
		}
	}
	if d.depthFirst {
		visit()
	}
}

type findParser struct {
	d    *finder
	args []string
	last string
}

func (p *findParser) all() (predicate, error) {
	if len(p.args) == 0 {
		return func(*found) bool { return true }, nil
	}
	m, err := p.list()
	if err == nil && len(p.args) > 0 {
		if p.args[0] == ")" {
			return nil, findError("you have too many ')'")
		}
		return nil, findError("paths must precede expression: `" + p.args[0] + "'")
	}
	return m, err
}

func (p *findParser) next() string {
	if len(p.args) == 0 {
		return ""
	}
	return p.args[0]
}

func (p *findParser) list() (predicate, error) {
	l, err := p.or()
	for err == nil && p.next() == "," {
		p.args = p.args[1:]
		a := l
		var b predicate
		if b, err = p.or(); err == nil {
			l = func(f *found) bool { a(f); return b(f) }
		}
	}
	return l, err
}

func (p *findParser) or() (predicate, error) {
	l, err := p.and()
	for err == nil && (p.next() == "-o" || p.next() == "-or") {
		p.last = p.args[0]
		p.args = p.args[1:]
		a := l
		var b predicate
		if b, err = p.and(); err == nil {
			l = func(f *found) bool { return a(f) || b(f) }
		}
	}
	return l, err
}

func (p *findParser) and() (predicate, error) {
	l, err := p.not()
	for err == nil && len(p.args) > 0 {
		switch n := p.next(); n {
		case "-o", "-or", ")", ",":
			return l, nil
		case "-a", "-and":
			p.args = p.args[1:]
		}
		a := l
		var b predicate
		if b, err = p.not(); err == nil {
			l = func(f *found) bool { return a(f) && b(f) }
		}
	}
	return l, err
}

func (p *findParser) not() (predicate, error) {
	switch p.next() {
	case "!", "-not":
		p.args = p.args[1:]
		m, err := p.not()
		if err != nil {
			return nil, err
		}
		return func(f *found) bool { return !m(f) }, nil
	case "(":
		p.args = p.args[1:]
		m, err := p.list()
		if err != nil {
			return nil, err
		}
		if p.next() != ")" {
			return nil, findError("invalid expression; I was expecting to find a ')' somewhere but did not see one.")
		}
		p.args = p.args[1:]
		return m, nil
	}
	return p.primary()
}

// compare makes a test of a number with find's +n, n and -n.
func compare(s string) (func(n int64) bool, bool) {
	sign := byte(0)
	if s != "" && (s[0] == '+' || s[0] == '-') {
		sign, s = s[0], s[1:]
	}
	want, err := strconv.ParseInt(s, 10, 64)
	if err != nil {
		return nil, false
	}
	return func(n int64) bool {
		switch sign {
		case '+':
			return n > want
		case '-':
			return n < want
		}
		return n == want
	}, true
}

func (p *findParser) primary() (predicate, error) {
	d, c := p.d, p.d.c
	if len(p.args) == 0 {
		if p.last == "" {
			return nil, findError("invalid expression; expected to find a ')' but didn't see one. Perhaps you need an extra predicate after '('")
		}
		return nil, findError("invalid expression; you have used a binary operator '" + p.last + "' with nothing after it.")
	}
	name := p.args[0]
	p.args = p.args[1:]
	arg := func() (string, error) {
		if len(p.args) == 0 {
			return "", findError("missing argument to `" + name + "'")
		}
		a := p.args[0]
		p.args = p.args[1:]
		return a, nil
	}
	always := func(*found) bool { return true }
	glob := func(fold bool, of func(f *found) string) (predicate, error) {
		a, err := arg()
		if err != nil {
			return nil, err
		}
		g := libc.NewGlob(a, fold)
		return func(f *found) bool { return g.Match(of(f)) }, nil
	}
	base := func(f *found) string {
		if f.name == "/" {
			return "/"
		}
		return path.Base(f.name)
	}
	switch name {
	case "-name", "-iname":
		return glob(name == "-iname", base)
	case "-path", "-wholename", "-ipath", "-iwholename":
		return glob(strings.HasPrefix(name, "-i"), func(f *found) string { return f.name })
	case "-lname", "-ilname":
		return glob(name == "-ilname", func(f *found) string { t, _ := c.Files.Readlink(c.Path(f.name)); return t })
	case "-regex", "-iregex":
		a, err := arg()
		if err != nil {
			return nil, err
		}
		re, err := regex.Compile("^\\("+a+"\\)$", regex.Flags{Fold: name == "-iregex"})
		if err != nil {
			return nil, err
		}
		return func(f *found) bool { return re.MatchString(f.name) }, nil
	case "-regextype":
		_, err := arg()
		return always, err
	case "-type", "-xtype":
		a, err := arg()
		if err != nil {
			return nil, err
		}
		for _, t := range strings.Split(a, ",") {
			if len(t) != 1 || !strings.Contains("fdlpscb", t) {
				return nil, findError("Unknown argument to " + name + ": " + t)
			}
		}
		return func(f *found) bool {
			m := f.info.Mode()
			if i, err := c.Files.Stat(c.Path(f.name)); name == "-xtype" && err == nil {
				m = i.Mode()
			}
			t := libc.TypeLetter(m)
			if t == '-' {
				t = 'f'
			}
			return strings.IndexByte(a, t) >= 0
		}, nil
	case "-size":
		a, err := arg()
		if err != nil {
			return nil, err
		}
		unit := int64(512)
		if k := strings.IndexByte("cwbkMG", a[max(0, len(a)-1):][0]); a != "" && k >= 0 {
			unit = []int64{1, 2, 512, 1 << 10, 1 << 20, 1 << 30}[k]
			a = a[:len(a)-1]
		}
		cmp, ok := compare(a)
		if !ok {
			return nil, findError("invalid -size type `" + strings.TrimLeft(a, "+-0123456789") + "'")
		}
		return func(f *found) bool { return cmp((f.info.Size() + unit - 1) / unit) }, nil
	case "-empty":
		return func(f *found) bool {
			if f.info.IsDir() {
				l, err := c.Files.ReadDir(c.Path(f.name))
				return err == nil && len(l) == 0
			}
			return f.info.Mode().IsRegular() && f.info.Size() == 0
		}, nil
	case "-mtime", "-atime", "-ctime", "-mmin", "-amin", "-cmin":
		a, err := arg()
		if err != nil {
			return nil, err
		}
		cmp, ok := compare(a)
		if !ok {
			return nil, findError("invalid argument `" + a + "' to `" + name + "'")
		}
		unit := 24 * time.Hour
		minutes := strings.HasSuffix(name, "min")
		if minutes {
			unit = time.Minute
		}
		return func(f *found) bool {
			age := d.now.Sub(fileTime(f.info, name[1]))
			n := int64(age / unit)
			if minutes { // findutils rounds minutes up
				n = int64((age + unit - 1) / unit)
			}
			return cmp(n)
		}, nil
	case "-newer", "-anewer", "-cnewer":
		a, err := arg()
		if err != nil {
			return nil, err
		}
		i, err := c.Files.Stat(c.Path(a))
		if err != nil {
			return nil, findError(c.Quote(a) + ": " + libc.Strerror(err))
		}
		return func(f *found) bool {
			k := byte('m')
			if name != "-newer" {
				k = name[1]
			}
			return fileTime(f.info, k).After(i.ModTime())
		}, nil
	case "-newermt", "-newerat", "-newerct":
		a, err := arg()
		if err != nil {
			return nil, err
		}
		t, err := parseDate(a, d.now)
		if err != nil {
			return nil, findError("I cannot figure out how to interpret " + c.Quote(a) + " as a date or time")
		}
		return func(f *found) bool { return fileTime(f.info, name[6]).After(t) }, nil
	case "-perm":
		a, err := arg()
		if err != nil {
			return nil, err
		}
		kind, s := byte(0), a
		if s != "" && (s[0] == '-' || s[0] == '/') {
			kind, s = s[0], s[1:]
		}
		change, err := parseMode(s, 0)
		if err != nil {
			return nil, findError("invalid mode " + c.Quote(a))
		}
		want := change(0, false)
		return func(f *found) bool {
			m := libc.ModeBits(f.info.Mode())
			switch kind {
			case '-':
				return m&want == want
			case '/':
				return want == 0 || m&want != 0
			}
			return m == want
		}, nil
	case "-user", "-uid":
		a, err := arg()
		if err != nil {
			return nil, err
		}
		if name == "-uid" {
			if cmp, ok := compare(a); ok {
				return func(f *found) bool { return cmp(int64(libc.Stat(f.info).UID)) }, nil
			}
		}
		u, ok := libc.UserByName(c.Files, a)
		if n, err := strconv.Atoi(a); !ok && err == nil {
			u.UID, ok = n, true
		}
		if !ok {
			return nil, findError(c.Quote(a) + " is not the name of a known user")
		}
		return func(f *found) bool { return libc.Stat(f.info).UID == u.UID }, nil
	case "-group", "-gid":
		a, err := arg()
		if err != nil {
			return nil, err
		}
		g, ok := libc.GroupByName(c.Files, a)
		if n, err := strconv.Atoi(a); !ok && err == nil {
			g.GID, ok = n, true
		}
		if !ok {
			return nil, findError(c.Quote(a) + " is not the name of an existing group")
		}
		return func(f *found) bool { return libc.Stat(f.info).GID == g.GID }, nil
	case "-nouser", "-nogroup":
		return func(f *found) bool {
			st := libc.Stat(f.info)
			if name == "-nouser" {
				return d.names.User(st.UID) == strconv.Itoa(st.UID)
			}
			return d.names.Group(st.GID) == strconv.Itoa(st.GID)
		}, nil
	case "-links", "-inum":
		a, err := arg()
		if err != nil {
			return nil, err
		}
		cmp, ok := compare(a)
		if !ok {
			return nil, findError("invalid argument `" + a + "' to `" + name + "'")
		}
		return func(f *found) bool {
			if name == "-links" {
				return cmp(int64(libc.Stat(f.info).Nlink))
			}
			return cmp(int64(libc.Stat(f.info).Inode))
		}, nil
	case "-samefile":
		a, err := arg()
		if err != nil {
			return nil, err
		}
		i, err := c.Files.Stat(c.Path(a))
		if err != nil {
			return nil, findError(c.Quote(a) + ": " + libc.Strerror(err))
		}
		return func(f *found) bool { return sameFile(i, f.info) }, nil
	case "-readable", "-writable", "-executable":
		want := map[byte]fs.FileMode{'r': 4, 'w': 2, 'e': 1}[name[1]]
		return func(f *found) bool {
			i, err := c.Files.Stat(c.Path(f.name))
			return err == nil && bash.Access(c.Cred, i, want)
		}, nil
	case "-maxdepth", "-mindepth":
		a, err := arg()
		if err != nil {
			return nil, err
		}
		n, err := strconv.Atoi(a)
		if err != nil || n < 0 {
			return nil, findError("Expected a positive decimal integer argument to " + name + ", but got " + c.Quote(a))
		}
		if name == "-maxdepth" {
			d.maxDepth = n
		} else {
			d.minDepth = n
		}
		return always, nil
	case "-depth", "-d":
		d.depthFirst = true
		return always, nil
	case "-xdev", "-mount":
		d.sameDevice = true
		return always, nil
	case "-follow":
		d.follow = true
		return always, nil
	case "-noleaf", "-warn", "-nowarn", "-ignore_readdir_race", "-noignore_readdir_race", "-daystart":
		return always, nil
	case "-true":
		return always, nil
	case "-false":
		return func(*found) bool { return false }, nil
	case "-prune":
		return func(f *found) bool { f.prune = !d.depthFirst; return true }, nil
	case "-quit":
		d.acts = true
		return func(*found) bool { d.quit = true; return true }, nil
	case "-print":
		d.acts = true
		return func(f *found) bool { c.Put("%s\n", f.name); return true }, nil
	case "-print0":
		d.acts = true
		return func(f *found) bool { c.Put("%s\x00", f.name); return true }, nil
	case "-printf":
		a, err := arg()
		if err != nil {
			return nil, err
		}
		d.acts = true
		return func(f *found) bool { c.Out.WriteString(d.printf(a, f)); return true }, nil
	case "-ls":
		d.acts = true
		return func(f *found) bool {
			st := libc.Stat(f.info)
			label := f.name
			if f.info.Mode()&fs.ModeSymlink != 0 {
				t, _ := c.Files.Readlink(c.Path(f.name))
				label += " -> " + t
			}
			c.Put("%9d %6d %s %3d %-8s %-8s %8d %s %s\n", st.Inode, libc.Blocks(f.info), libc.ModeString(f.info.Mode()), st.Nlink, d.names.User(st.UID), d.names.Group(st.GID), f.info.Size(),
				libc.ListTime(f.info.ModTime(), d.now), label)
			return true
		}, nil
	case "-delete":
		d.acts, d.depthFirst = true, true
		return func(f *found) bool {
			if f.name == "." {
				return true
			}
			if err := c.Files.Remove(c.Path(f.name)); err != nil {
				c.Fail("cannot delete %s: %s", c.Quote(f.name), libc.Strerror(err))
				return false
			}
			return true
		}, nil
	case "-exec", "-execdir", "-ok", "-okdir":
		return p.exec(name)
	}
	if strings.HasPrefix(name, "-") {
		return nil, findError("unknown predicate `" + name + "'")
	}
	return nil, findError("paths must precede expression: `" + name + "'")
}

func (p *findParser) exec(name string) (predicate, error) {
	d, c := p.d, p.d.c
	d.acts = true
	var argv []string
	for {
		if len(p.args) == 0 {
			return nil, findError("missing argument to `" + name + "'")
		}
		a := p.args[0]
		p.args = p.args[1:]
		if a == ";" {
			break
		}
		if a == "+" && len(argv) > 0 && argv[len(argv)-1] == "{}" {
			b := &batch{argv: argv[:len(argv)-1]}
			if len(b.argv) == 0 {
				return nil, findError("missing argument to `" + name + "'")
			}
			d.batches = append(d.batches, b)
			return func(f *found) bool {
				b.names = append(b.names, f.name)
				if len(b.names) >= 5000 {
					d.runBatch(b)
				}
				return true
			}, nil
		}
		argv = append(argv, a)
	}
	if len(argv) == 0 {
		return nil, findError("missing argument to `" + name + "'")
	}
	return func(f *found) bool {
		file, dir := f.name, ""
		if strings.HasSuffix(name, "dir") {
			file, dir = "./"+path.Base(f.name), path.Dir(c.Path(f.name))
		}
		words := make([]string, len(argv))
		for i, a := range argv {
			words[i] = strings.ReplaceAll(a, "{}", file)
		}
		if strings.HasPrefix(name, "-ok") {
			c.Out.Flush()
			c.Errorf("< %s ... %s > ? ", argv[0], f.name)
			var answer [1]byte
			yes := false
			for first := true; ; first = false {
				if n, err := c.Stdin.Read(answer[:]); n == 0 || err != nil || answer[0] == '\n' {
					break
				}
				yes = yes || first && (answer[0] == 'y' || answer[0] == 'Y')
			}
			if !yes {
				return false
			}
		}
		return d.run(words, dir) == 0
	}, nil
}

func (d *finder) run(argv []string, dir string) int {
	p, status := startChild(d.c, argv, func(s *kernel.Spec) {
		if dir != "" {
			s.Dir = dir
		}
		s.Stdin = d.c.Stdin
	})
	if p == nil {
		d.c.Status = 1 // as with a command that fails; only -exec ... + makes find fail
		return status
	}
	return p.Wait().ExitCode()
}

func (d *finder) runBatch(b *batch) {
	if len(b.names) == 0 {
		return
	}
	if d.run(append(append([]string(nil), b.argv...), b.names...), b.dir) != 0 {
		d.c.Status = 1
	}
	b.names = nil
}

// fileTime is a file's time of last access ('a'), change ('c') or modification.
func fileTime(i fs.FileInfo, which byte) time.Time {
	switch which {
	case 'a':
		return libc.Stat(i).Atime
	case 'c':
		return libc.Stat(i).Ctime
	}
	return i.ModTime()
}

func (d *finder) printf(format string, f *found) string {
	c, st := d.c, libc.Stat(f.info)
	var b strings.Builder
	for i := 0; i < len(format); i++ {
		ch := format[i]
		if ch == '\\' && i+1 < len(format) {
			i++
			if k := strings.IndexByte("abfnrtv\\0", format[i]); k >= 0 {
				b.WriteByte("\a\b\f\n\r\t\v\\\x00"[k])
			} else {
				b.WriteString("\\" + string(format[i]))
			}
			continue
		}
		if ch != '%' || i+1 >= len(format) {
			b.WriteByte(ch)
			continue
		}
		start := i
		i++
		for i < len(format)-1 && strings.IndexByte("-+ #0123456789.", format[i]) >= 0 {
			i++
		}
		flags := format[start:i]
		text := func(s string) { fmt.Fprintf(&b, flags+"s", s) }
		when := func(t time.Time) {
			if i+1 < len(format) {
				i++
				if format[i] == '@' {
					text(fmt.Sprintf("%d.%09d0", t.Unix(), t.Nanosecond()))
				} else {
					text(bash.Strftime("%"+string(format[i]), t))
				}
			}
		}
		switch format[i] {
		case '%':
			b.WriteByte('%')
		case 'p':
			text(f.name)
		case 'f':
			if f.name == "/" {
				text("/")
			} else {
				text(path.Base(f.name))
			}
		case 'h':
			text(path.Dir(f.name))
		case 'P':
			text(strings.TrimPrefix(strings.TrimPrefix(f.name, f.start), "/"))
		case 'H':
			text(f.start)
		case 's':
			text(strconv.FormatInt(f.info.Size(), 10))
		case 'm':
			text(strconv.FormatInt(int64(libc.ModeBits(f.info.Mode())), 8))
		case 'M':
			text(libc.ModeString(f.info.Mode()))
		case 'u':
			text(d.names.User(st.UID))
		case 'g':
			text(d.names.Group(st.GID))
		case 'U':
			text(strconv.Itoa(st.UID))
		case 'G':
			text(strconv.Itoa(st.GID))
		case 'd':
			text(strconv.Itoa(f.depth))
		case 'i':
			text(strconv.FormatUint(st.Inode, 10))
		case 'n':
			text(strconv.Itoa(st.Nlink))
		case 'k':
			text(strconv.FormatInt(libc.Blocks(f.info), 10))
		case 'b':
			text(strconv.FormatInt(libc.Blocks(f.info)*2, 10))
		case 'y':
			t := string(libc.TypeLetter(f.info.Mode()))
			if t == "-" {
				t = "f"
			}
			text(t)
		case 'l':
			t, _ := c.Files.Readlink(c.Path(f.name))
			text(t)
		case 't':
			text(f.info.ModTime().Format("Mon Jan _2 15:04:05.0000000000 2006"))
		case 'T':
			when(f.info.ModTime())
		case 'A':
			when(st.Atime)
		case 'C':
			when(st.Ctime)
		default:
			b.WriteString(format[start : i+1])
		}
	}
	return b.String()
}
