package etcd

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strings"

	"ckadrill/sim/kernel"
)

// dataDir is a member's data directory as its process sees it.
type dataDir struct {
	p   *kernel.Process
	dir string // as the flag says, for messages
	wal string // --wal-dir, "" for member/wal
}

func (d dataDir) member() string { return path.Join(d.dir, "member") }
func (d dataDir) snap() string   { return path.Join(d.dir, "member", "snap") }
func (d dataDir) db() string     { return path.Join(d.snap(), "db") }
func (d dataDir) walPath() string {
	if d.wal != "" {
		return d.wal
	}
	return path.Join(d.dir, "member", "wal")
}

const firstWAL = "0000000000000000-0000000000000000.wal"

// haveWAL says whether the member has been initialised.
func (d dataDir) haveWAL() bool {
	names, _ := d.p.Files.ReadDir(d.p.Path(d.walPath()))
	for _, n := range names {
		if strings.HasSuffix(n.Name(), ".wal") {
			return true
		}
	}
	return false
}

func (d dataDir) exists(name string) bool {
	_, err := d.p.Files.Stat(d.p.Path(name))
	return err == nil
}

// touch makes a directory that etcd can write to (fileutil.TouchDirAll).
func (d dataDir) touch(name string, log *logger) error {
	info, err := d.p.Files.Stat(d.p.Path(name))
	if err == nil {
		if info.IsDir() && info.Mode().Perm() != 0o700 {
			log.warn("fileutil/fileutil.go:56", "check file permission", "error", fmt.Sprintf(
				"directory %q exist, but the permission is %q. The recommended permission is %q to prevent possible unprivileged access to the data",
				name, info.Mode().String(), fs.FileMode(0o700).String()))
		}
	} else if err := d.p.Files.MkdirAll(d.p.Path(name), 0o700); err != nil {
		return named(err, name)
	}
	probe := path.Join(name, ".touch")
	if err := d.p.Files.WriteFile(d.p.Path(probe), nil, 0o600); err != nil {
		return named(err, d.p.Path(probe))
	}
	return d.p.Files.Remove(d.p.Path(probe))
}

// named gives a file error the name that the program used.
func named(err error, name string) error {
	var pe *fs.PathError
	if errors.As(err, &pe) && pe.Path == "" {
		return &fs.PathError{Op: pe.Op, Path: name, Err: pe.Err}
	}
	return err
}

// kind is what etcdmain finds in the directory: "empty", "member" or "proxy".
func (d dataDir) kind(log *logger) (string, error) {
	names, err := d.p.Files.ReadDir(d.p.Path(d.dir))
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return "empty", nil
		}
		return "", err
	}
	kind := "empty"
	for _, n := range names {
		switch n.Name() {
		case "member", "proxy":
			kind = n.Name()
		default:
			log.warn("etcdmain/etcd.go:247", "found invalid file under data directory", "filename", n.Name(), "data-dir", d.dir)
		}
	}
	return kind, nil
}

// open finds the store that the database file names. An absent or empty file names none: then the log is replayed, which
// in this simulation names it too. The error is ErrInvalidDatabase for a file that is no database.
func (d dataDir) open(ss *Stores) (s *Store, err error) {
	b, err := d.p.ReadFile(d.db())
	switch {
	case errors.Is(err, fs.ErrNotExist), err == nil && len(b) == 0:
		if !d.haveWAL() {
			return ss.New(), nil
		}
		if b, err = d.p.ReadFile(path.Join(d.walPath(), firstWAL)); err != nil {
			return nil, err
		}
	case err != nil:
		return nil, err
	}
	if !strings.HasPrefix(string(b), databaseMagic) {
		db, err := parseSnapshot(b)
		if err != nil {
			return nil, ErrInvalidDatabase
		}
		s := ss.New()
		s.meta = db.head.Store.Meta
		if err := s.fill(db.head.Store, db.head.Leases, db.all); err != nil {
			ss.drop(s)
			return nil, ErrInvalidDatabase
		}
		return s, nil
	}
	id, rev, err := parseDatabaseFile(b)
	if err != nil {
		return nil, err
	}
	return ss.At(id, rev)
}

// write makes the member's files name a store, and returns the open database file.
func (d dataDir) write(s *Store) (kernel.File, error) {
	b := databaseFile(s.id, s.Revision())
	if err := d.writeWAL(s); err != nil {
		return nil, err
	}
	f, err := d.p.Files.OpenFile(d.p.Path(d.db()), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	n, err := f.Write(b)
	if err == nil {
		err = f.Truncate(int64(n))
	}
	return f, err
}

// reopen opens the database file again after a thaw. It is nil if the file was removed, or replaced by that of another
// store, while the process ran: its descriptor would have led to the old file.
func (d dataDir) reopen(s *Store) kernel.File {
	b, err := d.p.ReadFile(d.db())
	if err != nil {
		return nil
	}
	if id, _, err := parseDatabaseFile(b); err != nil || id != s.id {
		return nil
	}
	f, err := d.p.Files.OpenFile(d.p.Path(d.db()), os.O_RDWR, 0)
	if err != nil {
		return nil
	}
	return f
}

// writeWAL writes the first segment of the log, which names the store as the database file does.
func (d dataDir) writeWAL(s *Store) error {
	if err := d.p.Files.MkdirAll(d.p.Path(d.walPath()), 0o700); err != nil {
		return err
	}
	// A log is replayed to its end, which is the store's latest revision.
	return d.p.Files.WriteFile(d.p.Path(path.Join(d.walPath(), firstWAL)), databaseFile(s.id, 1<<62), 0o600)
}

// WriteDataDir writes the files of a data directory that holds a store, as "etcdutl snapshot restore" does. files are
// those of the process that restores; dir and walDir are absolute, walDir may be "".
func WriteDataDir(p *kernel.Process, dir, walDir string, s *Store) error {
	d := dataDir{p: p, dir: dir, wal: walDir}
	if err := p.Files.MkdirAll(p.Path(d.snap()), 0o700); err != nil {
		return err
	}
	f, err := d.write(s)
	if f != nil {
		f.Close()
	}
	return err
}
