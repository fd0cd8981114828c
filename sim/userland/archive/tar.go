package archive

import (
	stdtar "archive/tar"
	"bufio"
	stdgzip "compress/gzip"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"ckadrill/sim/kernel"
	"ckadrill/sim/userland/libc"
)

// tarRun is one run of tar.
type tarRun struct {
	c                                          *libc.Prog
	mode                                       byte // c, x, t, r
	gzip, verbose, keepOld, toStdout, absolute bool
	follow, sameOwner, keepMode, noTimes       bool
	verboseLevel, strip                        int
	file                                       string
	dir                                        string
	exclude                                    []libc.Glob
	links                                      map[uint64]string
	told                                       bool
	failed                                     bool
	names                                      *libc.Names
}

// tar reads and writes archives.
func tar(c *libc.Prog) int {
	c.FailStatus = 2
	r := &tarRun{c: c, links: map[uint64]string{}, names: libc.NewNames(c.Files), dir: c.Dir(), sameOwner: c.Cred.UID == 0, keepMode: c.Cred.UID == 0}
	args := oldTarOptions(c.Args)
	opts, operands, err := libc.Getopt(args, "cxtrzvf:C:pOkhPamjJX:T:wSWUo", "create|c", "extract|x", "get|x", "list|t", "append|r", "gzip|z", "gunzip|z", "verbose|v", "file:|f", "directory:|C", "preserve-permissions|p", "same-permissions|p",
		"to-stdout|O", "keep-old-files|k", "dereference|h", "absolute-names|P", "auto-compress|a", "touch|m", "bzip2|j", "xz|J", "exclude:", "strip-components:", "no-same-owner", "same-owner", "no-same-permissions", "owner:", "group:",
		"numeric-owner", "overwrite", "files-from:|T", "exclude-from:|X", "warning:", "one-file-system", "wildcards", "transform:", "sort:", "mtime:", "help", "version", "totals", "no-recursion", "to-command:", "ignore-failed-read")
	if err != nil {
		c.Warn("%s", err)
		return r.tryHelp()
	}
	auto := false
	for _, o := range opts {
		switch o.Name {
		case "c", "x", "t", "r":
			if r.mode != 0 && r.mode != o.Name[0] {
				c.Fail("You may not specify more than one '-Acdtrux', '--delete' or  '--test-label' option")
				return r.tryHelp()
			}
			r.mode = o.Name[0]
		case "z":
			r.gzip = true
		case "v":
			r.verbose = true
			r.verboseLevel++
		case "f":
			r.file = o.Value
		case "C":
			d := o.Value
			if !path.IsAbs(d) {
				d = path.Join(r.dir, d)
			}
			if i, err := c.Files.Stat(d); err != nil || !i.IsDir() {
				if err == nil {
					err = fs.ErrInvalid
				}
				text := libc.Strerror(err)
				if i != nil {
					text = "Not a directory"
				}
				c.Warn("%s: Cannot open: %s", o.Value, text)
				return c.Fail("Error is not recoverable: exiting now")
			}
			r.dir = d
		case "p":
			r.keepMode = true
		case "O":
			r.toStdout = true
		case "k":
			r.keepOld = true
		case "h":
			r.follow = true
		case "P":
			r.absolute = true
		case "a":
			auto = true
		case "m":
			r.noTimes = true
		case "o", "no-same-owner":
			r.sameOwner = false
		case "same-owner":
			r.sameOwner = true
		case "no-same-permissions":
			r.keepMode = false
		case "exclude":
			r.exclude = append(r.exclude, libc.NewGlob(o.Value, false), libc.NewGlob("*/"+o.Value, false))
		case "strip-components":
			r.strip, _ = strconv.Atoi(o.Value)
		case "version":
			c.Put("tar (GNU tar) 1.35\n")
			return 0
		case "j", "J":
			return c.Fail("ckadrill does not simulate this compression yet")
		case "T", "X", "to-command", "transform":
			return c.Fail("ckadrill does not simulate tar --%s yet", o.Name)
		}
	}
	r.gzip = r.gzip || auto && (strings.HasSuffix(r.file, ".gz") || strings.HasSuffix(r.file, ".tgz"))
	switch r.mode {
	case 'c':
		if len(operands) == 0 {
			c.Warn("Cowardly refusing to create an empty archive")
			return r.tryHelp()
		}
		return r.create(operands)
	case 'x', 't':
		return r.read(operands)
	case 'r':
		return c.Fail("ckadrill does not simulate tar -r yet")
	}
	if c.Busybox {
		return c.Usage(errors.New("no operation given"))
	}
	c.Warn("You must specify one of the '-Acdtrux', '--delete' or '--test-label' options")
	return r.tryHelp()
}

func (r *tarRun) tryHelp() int {
	r.c.Errorf("Try 'tar --help' or 'tar --usage' for more information.\n")
	return 2
}

// oldTarOptions turns "tar czf a.tgz" into "tar -c -z -f a.tgz".
func oldTarOptions(args []string) []string {
	if len(args) == 0 || strings.HasPrefix(args[0], "-") || args[0] == "" {
		return args
	}
	var out []string
	rest := args[1:]
	for _, ch := range args[0] {
		out = append(out, "-"+string(ch))
		if strings.ContainsRune("fCXT", ch) && len(rest) > 0 {
			out, rest = append(out, rest[0]), rest[1:]
		}
	}
	return append(out, rest...)
}

func (r *tarRun) path(name string) string {
	if path.IsAbs(name) {
		return path.Clean(name)
	}
	return path.Join(r.dir, name)
}

func (r *tarRun) excluded(name string) bool {
	return slices.ContainsFunc(r.exclude, func(g libc.Glob) bool { return g.Match(name) || g.Match(strings.TrimPrefix(name, "./")) })
}

// list prints a member's name where -v asks for it: to standard error when the archive goes to standard output.
func (r *tarRun) list(s string) {
	if r.mode == 'c' && (r.file == "" || r.file == "-") {
		r.c.Errorf("%s\n", s)
		return
	}
	r.c.Put("%s\n", s)
}

func (r *tarRun) create(operands []string) int {
	c := r.c
	var out io.Writer = c.Stdout
	var file kernel.File
	if r.file != "" && r.file != "-" {
		f, err := c.Files.OpenFile(c.Path(r.file), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
		if err != nil {
			c.Warn("%s: Cannot open: %s", r.file, libc.Strerror(err))
			return c.Fail("Error is not recoverable: exiting now")
		}
		file, out = f, f
	} else if c.IsTerminal(c.Stdout) {
		c.Warn("Refusing to write archive contents to terminal (missing -f option?)")
		return c.Fail("Error is not recoverable: exiting now")
	}
	buffered := bufio.NewWriterSize(out, 64<<10)
	var zip *stdgzip.Writer
	var sink io.Writer = buffered
	if r.gzip {
		zip = stdgzip.NewWriter(buffered)
		sink = zip
	}
	w := stdtar.NewWriter(sink)
	for _, n := range operands {
		if err := r.add(w, n); err != nil {
			c.Warn("%s: Cannot write: %s", r.file, libc.Strerror(err))
			return c.Fail("Error is not recoverable: exiting now")
		}
	}
	err := w.Close()
	if err == nil && zip != nil {
		err = zip.Close()
	}
	if err == nil {
		err = buffered.Flush()
	}
	if file != nil {
		if cerr := file.Close(); err == nil {
			err = cerr
		}
	}
	if err != nil {
		c.Warn("%s: Cannot write: %s", r.file, libc.Strerror(err))
		return c.Fail("Error is not recoverable: exiting now")
	}
	if r.failed {
		return c.Fail("Exiting with failure status due to previous errors")
	}
	return c.Status
}

func (r *tarRun) warn(format string, a ...any) {
	r.c.Warn(format, a...)
	r.failed = true
}

// add writes a file or tree into the archive. The error is the archive's own.
func (r *tarRun) add(w *stdtar.Writer, name string) error {
	c := r.c
	if r.excluded(name) || !c.Alive() {
		return nil
	}
	full := r.path(name)
	i, err := c.Files.Lstat(full)
	if err == nil && r.follow {
		i, err = c.Files.Stat(full)
	}
	if err != nil {
		r.warn("%s: Cannot stat: %s", name, libc.Strerror(err))
		return nil
	}
	if r.file != "" && full == c.Path(r.file) {
		c.Warn("%s: file is the archive; not dumped", name)
		return nil
	}
	member := name
	if !r.absolute && strings.HasPrefix(member, "/") {
		if !r.told {
			c.Warn("Removing leading `/' from member names")
			r.told = true
		}
		member = strings.TrimLeft(member, "/")
		if member == "" {
			member = "./"
		}
	}
	st := libc.Stat(i)
	h := &stdtar.Header{Name: member, Mode: int64(libc.ModeBits(i.Mode())), Uid: st.UID, Gid: st.GID, Uname: r.names.User(st.UID), Gname: r.names.Group(st.GID), ModTime: i.ModTime().Truncate(time.Second), Format: stdtar.FormatGNU}
	switch t := libc.TypeLetter(i.Mode()); t {
	case 'd':
		h.Typeflag = stdtar.TypeDir
		h.Name = strings.TrimSuffix(member, "/") + "/"
	case 'l':
		h.Typeflag = stdtar.TypeSymlink
		h.Linkname, _ = c.Files.Readlink(full)
	case '-':
		h.Typeflag, h.Size = stdtar.TypeReg, i.Size()
		if st.Nlink > 1 {
			if first, seen := r.links[st.Inode]; seen {
				h.Typeflag, h.Size, h.Linkname = stdtar.TypeLink, 0, first
			} else {
				r.links[st.Inode] = member
			}
		}
	case 's':
		c.Warn("%s: socket ignored", name)
		return nil
	case 'p':
		h.Typeflag = stdtar.TypeFifo
	default:
		h.Typeflag = stdtar.TypeChar
		if t == 'b' {
			h.Typeflag = stdtar.TypeBlock
		}
		fmt.Sscanf(st.Rdev, "%d:%d", &h.Devmajor, &h.Devminor)
	}
	var content []byte
	if h.Typeflag == stdtar.TypeReg {
		// Files of /proc have no size that could be trusted: what is read is what is written.
		if content, err = c.Files.ReadFile(full); err != nil {
			r.warn("%s: Cannot open: %s", name, libc.Strerror(err))
			return nil
		}
		h.Size = int64(len(content))
	}
	if r.verbose {
		if r.verboseLevel > 1 {
			r.list(longMember(h))
		} else {
			r.list(h.Name)
		}
	}
	if err := w.WriteHeader(h); err != nil {
		return err
	}
	if _, err := w.Write(content); err != nil {
		return err
	}
	if h.Typeflag == stdtar.TypeDir {
		list, err := c.Files.ReadDir(full)
		if err != nil {
			r.warn("%s: Cannot open: %s", name, libc.Strerror(err))
			return nil
		}
		for _, e := range list {
			if err := r.add(w, strings.TrimSuffix(name, "/")+"/"+e.Name()); err != nil {
				return err
			}
		}
	}
	return nil
}

// longMember is a member as tar -tv shows it.
func longMember(h *stdtar.Header) string {
	m := libc.ModeOf(int(h.Mode))
	size := strconv.FormatInt(h.Size, 10)
	suffix := ""
	letter := byte('-')
	switch h.Typeflag {
	case stdtar.TypeDir:
		letter = 'd'
	case stdtar.TypeSymlink:
		letter, suffix = 'l', " -> "+h.Linkname
	case stdtar.TypeLink:
		letter, suffix = 'h', " link to "+h.Linkname
	case stdtar.TypeChar:
		letter, size = 'c', fmt.Sprintf("%d,%d", h.Devmajor, h.Devminor)
	case stdtar.TypeBlock:
		letter, size = 'b', fmt.Sprintf("%d,%d", h.Devmajor, h.Devminor)
	case stdtar.TypeFifo:
		letter = 'p'
	}
	owner, group := h.Uname, h.Gname
	if owner == "" {
		owner = strconv.Itoa(h.Uid)
	}
	if group == "" {
		group = strconv.Itoa(h.Gid)
	}
	who := owner + "/" + group
	pad := max(1, 19-len(who)-len(size))
	return string(letter) + libc.ModeString(m)[1:] + " " + who + strings.Repeat(" ", pad) + size + " " + h.ModTime.UTC().Format("2006-01-02 15:04") + " " + h.Name + suffix
}

func (r *tarRun) read(operands []string) int {
	c := r.c
	in := c.Stream()
	if r.file != "" && r.file != "-" {
		f, err := c.Open(r.file)
		if err != nil {
			if c.Busybox {
				c.FailStatus = 1
				return c.Fail("can't open '%s': %s", r.file, libc.Strerror(err))
			}
			c.Warn("%s: Cannot open: %s", r.file, libc.Strerror(err))
			return c.Fail("Error is not recoverable: exiting now")
		}
		defer f.Close()
		in = f
	} else if c.IsTerminal(c.Stdin) {
		c.Warn("Refusing to read archive contents from terminal (missing -f option?)")
		return c.Fail("Error is not recoverable: exiting now")
	}
	b := bufio.NewReaderSize(in, 64<<10)
	magic, _ := b.Peek(2)
	switch {
	case len(magic) == 2 && magic[0] == 0x1f && magic[1] == 0x8b:
		z, err := stdgzip.NewReader(b)
		if err != nil {
			return r.broken(err)
		}
		in = z
	case r.gzip && len(magic) > 0:
		c.Errorf("\ngzip: stdin: not in gzip format\n")
		c.Warn("Child returned status 1")
		return c.Fail("Error is not recoverable: exiting now")
	default:
		in = b
	}
	a := stdtar.NewReader(in)
	found := map[string]bool{}
	type later struct {
		name string
		time time.Time
		mode fs.FileMode
	}
	var dirs []later
	first := true
	for c.Alive() {
		h, err := a.Next()
		if err == io.EOF {
			break
		}
		if err != nil {
			if first && errors.Is(err, io.ErrUnexpectedEOF) {
				err = stdtar.ErrHeader
			}
			return r.broken(err)
		}
		first = false
		if len(operands) > 0 {
			match := ""
			for _, o := range operands {
				t := strings.TrimSuffix(o, "/")
				if h.Name == o || strings.TrimSuffix(h.Name, "/") == t || strings.HasPrefix(h.Name, t+"/") {
					match = o
				}
			}
			if match == "" {
				continue
			}
			found[match] = true
		}
		if r.excluded(strings.TrimSuffix(h.Name, "/")) {
			continue
		}
		if r.mode == 't' {
			if r.verbose {
				c.Put("%s\n", longMember(h))
			} else {
				c.Put("%s\n", h.Name)
			}
			continue
		}
		if r.verbose {
			if r.verboseLevel > 1 {
				c.Put("%s\n", longMember(h))
			} else {
				c.Put("%s\n", h.Name)
			}
		}
		if r.toStdout {
			io.Copy(c.Out, a)
			continue
		}
		name, ok := r.target(h.Name)
		if !ok {
			continue
		}
		if err := r.extract(a, h, name); err != nil {
			r.warn("%s: Cannot open: %s", h.Name, libc.Strerror(err))
			continue
		}
		if h.Typeflag == stdtar.TypeDir {
			dirs = append(dirs, later{name, h.ModTime, libc.ModeOf(int(h.Mode))})
		}
	}
	for i := len(dirs) - 1; i >= 0; i-- { // last, since files below change a directory's time
		mode := dirs[i].mode
		if !r.keepMode {
			mode &^= 0o022
		}
		c.Files.Chmod(dirs[i].name, mode)
		if !r.noTimes {
			c.Files.Chtimes(dirs[i].name, time.Now(), dirs[i].time)
		}
	}
	for _, o := range operands {
		if !found[o] {
			r.warn("%s: Not found in archive", o)
		}
	}
	if r.failed {
		return c.Fail("Exiting with failure status due to previous errors")
	}
	return c.Status
}

func (r *tarRun) broken(err error) int {
	c := r.c
	if errors.Is(err, stdtar.ErrHeader) {
		c.Warn("This does not look like a tar archive")
		return c.Fail("Exiting with failure status due to previous errors")
	}
	if errors.Is(err, io.ErrUnexpectedEOF) {
		c.Warn("Unexpected EOF in archive")
		return c.Fail("Error is not recoverable: exiting now")
	}
	c.Warn("%s", err)
	return c.Fail("Error is not recoverable: exiting now")
}

// target is where a member is extracted to. Members never leave the directory by their names.
func (r *tarRun) target(name string) (string, bool) {
	if !r.absolute {
		if strings.HasPrefix(name, "/") && !r.told {
			r.c.Warn("Removing leading `/' from member names")
			r.told = true
		}
		name = strings.TrimLeft(name, "/")
		if slices.Contains(strings.Split(name, "/"), "..") {
			r.warn("%s: Member name contains '..', skipping", name)
			return "", false
		}
	}
	parts := strings.Split(strings.TrimSuffix(name, "/"), "/")
	if r.strip > 0 {
		if len(parts) <= r.strip {
			return "", false
		}
		parts = parts[r.strip:]
	}
	n := strings.Join(parts, "/")
	if strings.HasPrefix(name, "/") {
		return path.Clean("/" + n), true
	}
	return path.Join(r.dir, n), true
}

func (r *tarRun) extract(a io.Reader, h *stdtar.Header, name string) error {
	c := r.c
	if h.Typeflag != stdtar.TypeDir {
		if err := c.Files.MkdirAll(path.Dir(name), 0o755); err != nil {
			return err
		}
		if old, err := c.Files.Lstat(name); err == nil {
			if r.keepOld {
				return fs.ErrExist
			}
			if !old.IsDir() {
				if err := c.Files.Remove(name); err != nil {
					return err
				}
			}
		}
	}
	mode := libc.ModeOf(int(h.Mode))
	switch h.Typeflag {
	case stdtar.TypeDir:
		if err := c.Files.MkdirAll(name, mode.Perm()|0o700); err != nil {
			return err
		}
	case stdtar.TypeSymlink:
		if err := c.Files.Symlink(h.Linkname, name); err != nil {
			return err
		}
		if r.sameOwner {
			uid, gid := r.owner(h)
			c.Files.Lchown(name, uid, gid)
		}
		return nil
	case stdtar.TypeLink:
		from, ok := r.target(h.Linkname)
		if !ok {
			return fs.ErrInvalid
		}
		return c.Files.Link(from, name)
	case stdtar.TypeReg:
		f, err := c.Files.OpenFile(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode.Perm())
		if err != nil {
			return err
		}
		_, err = io.Copy(struct{ io.Writer }{f}, a)
		if cerr := f.Close(); err == nil {
			err = cerr
		}
		if err != nil {
			return err
		}
	default:
		r.warn("%s: ckadrill does not simulate making special files yet", h.Name)
		return nil
	}
	if r.sameOwner {
		uid, gid := r.owner(h)
		c.Files.Chown(name, uid, gid)
	}
	if r.keepMode && h.Typeflag != stdtar.TypeDir {
		c.Files.Chmod(name, mode)
	}
	if !r.noTimes && h.Typeflag != stdtar.TypeDir {
		c.Files.Chtimes(name, time.Now(), h.ModTime)
	}
	return nil
}

// owner is whom a member belongs to here: names count before numbers.
func (r *tarRun) owner(h *stdtar.Header) (uid, gid int) {
	uid, gid = h.Uid, h.Gid
	if u, ok := libc.UserByName(r.c.Files, h.Uname); ok && h.Uname != "" {
		uid = u.UID
	}
	if g, ok := libc.GroupByName(r.c.Files, h.Gname); ok && h.Gname != "" {
		gid = g.GID
	}
	return uid, gid
}
