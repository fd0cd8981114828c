package ssh

import (
	"errors"
	"fmt"
	"path"
	"sort"
	"strings"
	"time"

	"ckadrill/sim/userland/libc"
)

const scpUsage = `usage: scp [-346ABCOpqRrsTv] [-c cipher] [-D sftp_server_path] [-F ssh_config]
           [-i identity_file] [-J destination] [-l limit] [-o ssh_option]
           [-P port] [-S program] [-X sftp_option] source ... target
`

// copier is one run of scp.
type copier struct {
	*libc.Prog
	settings         settings
	recursive, times bool
	quiet            bool
	stores           map[string]store
	failed           bool
}

// place is a file on one of the machines.
type place struct {
	store
	name   string
	remote bool
}

var scp = libc.Main("scp", func(c *libc.Prog) int {
	k := &copier{Prog: c, stores: map[string]store{}}
	opts, args, err := libc.Getopt(c.Args, "+12346ABCOTdfpqRrstvD:F:J:M:P:S:X:c:i:l:o:")
	if err != nil {
		c.Errorf("scp: %v\n%s", err, scpUsage)
		return 1
	}
	for _, o := range opts {
		switch o.Name {
		case "r":
			k.recursive = true
		case "p":
			k.times = true
		case "q":
			k.quiet = true
		case "P":
			err = k.settings.setPort(o.Value)
		case "o", "i", "F", "v", "4", "6":
			err = k.settings.option(c, o.Name, o.Value)
		case "J", "S", "f", "t", "R":
			err = fmt.Errorf("scp: ckadrill does not simulate scp -%s yet", o.Name)
		}
		if err != nil {
			return fail(c, err, "")
		}
	}
	if len(args) < 2 {
		c.Errorf("%s", scpUsage)
		return 1
	}
	target, err := k.place(args[len(args)-1])
	if err != nil {
		return k.lost(err)
	}
	sources := args[:len(args)-1]
	if len(sources) > 1 && !k.isDir(target) {
		if target.remote {
			return k.fatal("Target is not a directory, but more files selected for upload")
		}
		c.Errorf("%s: Not a directory\n", target.name)
		return 1
	}
	for _, s := range sources {
		source, err := k.place(s)
		if err != nil {
			return k.lost(err)
		}
		for _, one := range k.expand(source) {
			k.copy(one, target)
		}
	}
	if k.failed {
		return 1
	}
	return 0
})

// lost is for a server that cannot be reached.
func (k *copier) lost(err error) int {
	k.Out.Flush()
	k.Errorf("%v\n", err)
	if !errors.Is(err, errLost) {
		k.Errorf("scp: Connection closed\n")
	}
	return failure
}

func (k *copier) fatal(format string, a ...any) int {
	k.error(format, a...)
	return failure
}

func (k *copier) error(format string, a ...any) {
	k.Out.Flush()
	k.Errorf("scp: %s\n", fmt.Sprintf(format, a...))
	k.failed = true
}

// place reads an operand: a name of this machine, or [user@]host:name.
func (k *copier) place(s string) (place, error) {
	uri, isURI := strings.CutPrefix(s, "scp://")
	i := strings.IndexByte(s, ':')
	host, name := "", s
	switch {
	case isURI:
		host, name, _ = strings.Cut(uri, "/")
	case i > 0 && !strings.Contains(s[:i], "/"):
		host, name = s[:i], s[i+1:]
	default:
		return place{store: local{k.Files, k.Dir()}, name: s}, nil
	}
	st, ok := k.stores[host]
	if !ok {
		w := k.settings
		if err := w.destination(host); err != nil {
			return place{}, fmt.Errorf("scp: invalid destination %q", host)
		}
		l, err := dial(k.Prog, &w)
		if err != nil {
			return place{}, err
		}
		r, err := openRemote(l, w.user)
		if err != nil {
			return place{}, err
		}
		k.stores[host], st = r, r
	}
	switch {
	case name == "" || name == "~":
		name = "."
	case strings.HasPrefix(name, "~/"):
		name = name[2:]
	}
	return place{store: st, name: name, remote: true}, nil
}

func (k *copier) isDir(p place) bool {
	a, err := p.stat(p.name)
	return err == nil && a.Mode.IsDir()
}

// expand finds the files of another machine that a pattern stands for; this machine's shell has done that for its own.
func (k *copier) expand(p place) []place {
	if !p.remote || !strings.ContainsAny(p.name, "*?[") {
		return []place{p}
	}
	found := []string{"."}
	if path.IsAbs(p.name) {
		found = []string{"/"}
	}
	for _, part := range strings.Split(strings.Trim(p.name, "/"), "/") {
		var next []string
		for _, dir := range found {
			if !strings.ContainsAny(part, "*?[") {
				if n := path.Join(dir, part); exists(p, n) {
					next = append(next, n)
				}
				continue
			}
			names, _ := p.list(dir)
			for _, n := range names {
				if ok, _ := path.Match(part, n); ok && (n[0] != '.' || part[0] == '.') {
					next = append(next, path.Join(dir, n))
				}
			}
		}
		found = next
	}
	if len(found) == 0 {
		k.error("%s: No such file or directory", p.name)
		return nil
	}
	sort.Strings(found)
	var l []place
	for _, n := range found {
		l = append(l, place{store: p.store, name: n, remote: true})
	}
	return l
}

func exists(p place, name string) bool {
	_, err := p.stat(name)
	return err == nil
}

// copy copies one operand to the target, or into it when that is a directory.
func (k *copier) copy(from, to place) {
	a, err := from.stat(from.name)
	if err != nil {
		if from.remote {
			k.error("%s: %v", from.name, err)
			return
		}
		k.error("stat local \"%s\": %v", from.name, err)
		k.failedUpload("file", from, to)
		return
	}
	dst := to.name
	if k.isDir(to) {
		base := path.Base(path.Clean(from.name))
		if base == "." || base == ".." || base == "/" {
			base = ""
		}
		dst = strings.TrimSuffix(to.name, "/") + "/" + base
	} else if strings.HasSuffix(to.name, "/") && !a.Mode.IsDir() {
		k.error("%s open \"%s\": %s", k.side(to, "dest", "local"), to.name, "Failure")
		k.failedUpload("file", from, to)
		return
	}
	switch {
	case a.Mode.IsDir() && k.recursive:
		if !k.tree(from.store, from.name, to, dst, a) {
			k.failedUpload("directory", from, to)
		}
	case !a.Mode.IsRegular() && from.remote:
		k.error("download \"%s\": not a regular file", from.name)
	case !a.Mode.IsRegular():
		k.error("local \"%s\" is not a regular file", from.name)
		k.failedUpload("file", from, to)
	default:
		if !k.file(from, from.name, to, dst, a) {
			k.failedUpload("file", from, to)
		}
	}
}

func (k *copier) side(p place, far, near string) string {
	if p.remote {
		return far
	}
	return near
}

func (k *copier) failedUpload(what string, from, to place) {
	if !from.remote && to.remote {
		k.error("failed to upload %s %s to %s", what, from.name, to.name)
	}
}

// tree copies a directory with all that is in it.
func (k *copier) tree(from store, name string, to place, dst string, a attributes) bool {
	if have, err := to.stat(dst); err != nil {
		if err := to.mkdir(dst, a.Mode|0o700); err != nil {
			k.error("%s mkdir \"%s\": %v", k.side(to, "remote", "local"), dst, err)
			return false
		}
	} else if !have.Mode.IsDir() {
		k.error("%s exists but is not a directory", dst)
		return false
	}
	names, err := from.list(name)
	if err != nil {
		k.error("%s: %v", name, err)
		return false
	}
	ok := true
	for _, n := range names {
		child := strings.TrimSuffix(name, "/") + "/" + n
		c, err := from.stat(child)
		if err != nil {
			k.error("stat \"%s\": %v", child, err)
			ok = false
			continue
		}
		source := place{store: from, name: child}
		if _, isRemote := from.(*remote); isRemote {
			source.remote = true
		}
		switch {
		case c.Mode.IsDir():
			ok = k.tree(from, child, to, dst+"/"+n, c) && ok
		case c.Mode.IsRegular():
			ok = k.file(source, child, to, dst+"/"+n, c) && ok
		default:
			k.error("\"%s\" is not a regular file", child)
		}
	}
	if k.times {
		to.set(dst, a)
	}
	return ok
}

// file copies one regular file.
func (k *copier) file(from place, name string, to place, dst string, a attributes) bool {
	mode := a.Mode.Perm()
	if !k.times {
		mode &= 0o777
	}
	start := time.Now()
	for offset := int64(0); ; {
		b, err := from.read(name, offset)
		if err != nil {
			if from.remote {
				k.error("remote open \"%s\": %v", name, err)
			} else {
				k.error("open local \"%s\": %v", name, err)
			}
			return false
		}
		if len(b) == 0 && offset > 0 {
			break
		}
		if err := to.write(dst, offset, b, mode); err != nil {
			if to.remote {
				k.error("dest open \"%s\": %v", dst, err)
			} else {
				k.error("open local \"%s\": %v", dst, err)
			}
			return false
		}
		offset += int64(len(b))
		k.Wait(time.Duration(len(b))*time.Second/bandwidth + roundTrip)
		if len(b) < transfer {
			break
		}
	}
	if k.times {
		to.set(dst, a)
	}
	k.meter(path.Base(name), a.Size, time.Since(start))
	return true
}

// A lab's network: bytes per second, and the time to the other machine and back.
const (
	bandwidth = 100 << 20
	roundTrip = 500 * time.Microsecond
)

// meter shows a finished transfer on a terminal.
func (k *copier) meter(name string, size int64, took time.Duration) {
	if k.quiet || !k.IsTerminal(k.Stdout) {
		return
	}
	columns, _ := k.TTY.Size()
	room := columns - 35
	if room < 1 {
		return
	}
	if len(name) > room {
		name = name[:room]
	}
	rate := float64(size) / max(took.Seconds(), 1e-6)
	k.Put("\r%-*s 100%% %s %s/s   00:00    \n", room, name, meterSize(size), meterRate(rate))
	k.Out.Flush()
}

// meterSize and meterRate write numbers as scp's progress meter does.
func meterSize(n int64) string {
	units := " KMGT"
	i := 0
	for ; n >= 10000 && i < len(units)-1; i++ {
		n = (n + 512) / 1024
	}
	suffix := "B"
	if i == 0 {
		suffix = " "
	}
	return fmt.Sprintf("%4d%c%s", n, units[i], suffix)
}

func meterRate(n float64) string {
	units := "KMGT"
	i := 0
	for n = n / 1024; n >= 1000 && i < len(units)-1; i++ {
		n /= 1024
	}
	return fmt.Sprintf("%5.1f%cB", n, units[i])
}
