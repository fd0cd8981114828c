package deb

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/md5"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/klauspost/compress/zstd"
)

// Entry is a file, directory or symbolic link that a package brings.
type Entry struct {
	Path    string      // absolute
	Mode    fs.FileMode // with fs.ModeDir or fs.ModeSymlink where it is one
	Content []byte
	Target  string    // of a symbolic link
	Time    time.Time // zero is the package's own
}

// Package is the content of a .deb file.
type Package struct {
	Control Paragraph
	// Info are the other files of the control archive by name: conffiles, postinst, prerm ...
	Info    map[string]string
	Entries []Entry
}

// Name and Version identify the package.
func (p *Package) Name() string    { return p.Control.Get("Package") }
func (p *Package) Version() string { return p.Control.Get("Version") }

// Conffiles are the files that the administrator may change, and which an upgrade leaves alone.
func (p *Package) Conffiles() []string { return strings.Fields(p.Info["conffiles"]) }

// FileName is that of the archive: "kubelet_1.35.9-1.1_amd64.deb".
func (p *Package) FileName() string { return FileName(p.Control) }

// FileName is the usual name of a package's archive; an epoch is left out.
func FileName(p Paragraph) string {
	v := p.Get("Version")
	if _, rest, ok := strings.Cut(v, ":"); ok {
		v = rest
	}
	return p.Get("Package") + "_" + v + "_" + p.Get("Architecture") + ".deb"
}

// Complete adds the directories that the entries lie in, as an archive has them, and orders all by path.
func (p *Package) Complete() {
	has := map[string]bool{}
	for _, e := range p.Entries {
		has[e.Path] = true
	}
	for _, e := range slices.Clone(p.Entries) {
		for d := path.Dir(e.Path); d != "/" && !has[d]; d = path.Dir(d) {
			has[d] = true
			p.Entries = append(p.Entries, Entry{Path: d, Mode: fs.ModeDir | 0o755})
		}
	}
	slices.SortFunc(p.Entries, func(a, b Entry) int { return strings.Compare(a.Path, b.Path) })
}

// Sums is the content of the control file md5sums.
func (p *Package) Sums() string {
	var b strings.Builder
	conf := p.Conffiles()
	for _, e := range p.Entries {
		if e.Mode.IsRegular() && !slices.Contains(conf, e.Path) {
			fmt.Fprintf(&b, "%x  %s\n", md5.Sum(e.Content), strings.TrimPrefix(e.Path, "/"))
		}
	}
	return b.String()
}

const (
	arMagic     = "!<arch>\n"
	arHeaderLen = 60
	formatName  = "debian-binary"
	format      = "2.0\n"
)

// Write is the package as the bytes of a .deb file; date is that of its files.
func (p *Package) Write(date time.Time) []byte {
	control := map[string]string{"control": p.Control.String()}
	for n, c := range p.Info {
		control[n] = c
	}
	if _, ok := control["md5sums"]; !ok {
		control["md5sums"] = p.Sums()
	}
	var l []Entry
	for n, c := range control {
		mode := fs.FileMode(0o644)
		if strings.HasPrefix(c, "#!") {
			mode = 0o755
		}
		l = append(l, Entry{Path: "/" + n, Mode: mode, Content: []byte(c)})
	}
	slices.SortFunc(l, func(a, b Entry) int { return strings.Compare(a.Path, b.Path) })
	var b bytes.Buffer
	b.WriteString(arMagic)
	for _, m := range []struct {
		name string
		data []byte
	}{{formatName, []byte(format)}, {"control.tar.gz", tarball(l, date)}, {"data.tar.gz", tarball(p.Entries, date)}} {
		fmt.Fprintf(&b, "%-16s%-12d%-6d%-6d%-8o%-10d`\n", m.name, date.Unix(), 0, 0, 0o100644, len(m.data))
		b.Write(m.data)
		if len(m.data)%2 == 1 {
			b.WriteByte('\n')
		}
	}
	return b.Bytes()
}

// tarball packs entries; writing to memory cannot fail.
func tarball(l []Entry, date time.Time) []byte {
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	t := tar.NewWriter(z)
	t.WriteHeader(&tar.Header{Typeflag: tar.TypeDir, Name: "./", Mode: 0o755, ModTime: date, Format: tar.FormatGNU})
	for _, e := range l {
		if e.Time.IsZero() {
			e.Time = date
		}
		h := &tar.Header{Typeflag: tar.TypeReg, Name: "." + e.Path, Mode: int64(e.Mode.Perm()), Size: int64(len(e.Content)), ModTime: e.Time, Format: tar.FormatGNU, Uname: "root", Gname: "root"}
		switch {
		case e.Mode.IsDir():
			h.Typeflag, h.Name = tar.TypeDir, h.Name+"/"
		case e.Mode&fs.ModeSymlink != 0:
			h.Typeflag, h.Linkname, h.Mode = tar.TypeSymlink, e.Target, 0o777
		}
		t.WriteHeader(h)
		t.Write(e.Content)
	}
	t.Close()
	z.Close()
	return b.Bytes()
}

// ErrFormat is returned for a file that is no Debian package.
var ErrFormat = errors.New("not a Debian format archive")

// maxUnpacked bounds what an archive may hold, in bytes.
const maxUnpacked = 64 << 20

// Read takes a .deb file apart.
func Read(b []byte) (*Package, error) {
	if !bytes.HasPrefix(b, []byte(arMagic)) {
		return nil, ErrFormat
	}
	p := &Package{Info: map[string]string{}}
	first := true
	for rest := b[len(arMagic):]; len(rest) >= arHeaderLen; {
		name := strings.TrimRight(strings.TrimSpace(string(rest[:16])), "/")
		size, err := strconv.Atoi(strings.TrimSpace(string(rest[48:58])))
		if err != nil || size < 0 || size > len(rest)-arHeaderLen {
			return nil, errors.New("unexpected end of file")
		}
		data := rest[arHeaderLen : arHeaderLen+size]
		if first && (name != formatName || !bytes.HasPrefix(data, []byte("2."))) {
			return nil, ErrFormat
		}
		first = false
		if kind, _, _ := strings.Cut(name, "."); kind == "control" || kind == "data" {
			l, err := untar(name, data)
			if err != nil {
				return nil, fmt.Errorf("%s: %w", name, err)
			}
			if kind == "data" {
				p.Entries = l
			} else if err := p.takeControl(l); err != nil {
				return nil, err
			}
		}
		rest = rest[min(len(rest), arHeaderLen+size+size%2):]
	}
	if p.Name() == "" || p.Version() == "" {
		return nil, errors.New("missing control information")
	}
	return p, nil
}

func (p *Package) takeControl(l []Entry) error {
	for _, e := range l {
		if !e.Mode.IsRegular() {
			continue
		}
		if e.Path != "/control" {
			p.Info[e.Path[1:]] = string(e.Content)
			continue
		}
		c, err := Parse(string(e.Content))
		if err != nil {
			return err
		}
		if len(c) > 0 {
			p.Control = c[0]
		}
	}
	return nil
}

func untar(name string, data []byte) ([]Entry, error) {
	var r io.Reader = bytes.NewReader(data)
	switch path.Ext(name) {
	case ".gz":
		z, err := gzip.NewReader(r)
		if err != nil {
			return nil, err
		}
		r = z
	case ".zst":
		z, err := zstd.NewReader(r)
		if err != nil {
			return nil, err
		}
		defer z.Close()
		r = z
	case ".tar":
	default:
		return nil, errors.New("ckadrill does not simulate this compression of a package yet")
	}
	t := tar.NewReader(io.LimitReader(r, maxUnpacked))
	var l []Entry
	for {
		h, err := t.Next()
		if err == io.EOF {
			return l, nil
		}
		if err != nil {
			return nil, err
		}
		e := Entry{Path: path.Clean("/" + h.Name), Mode: fs.FileMode(h.Mode).Perm(), Time: h.ModTime}
		switch h.Typeflag {
		case tar.TypeDir:
			e.Mode |= fs.ModeDir
		case tar.TypeSymlink:
			e.Mode, e.Target = fs.ModeSymlink|0o777, h.Linkname
		default:
			if e.Content, err = io.ReadAll(t); err != nil {
				return nil, err
			}
		}
		if e.Path != "/" {
			l = append(l, e)
		}
	}
}
