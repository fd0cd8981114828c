package volumes

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"sort"
	"strings"
	"time"

	"k8s.io/kubernetes/pkg/volume"
	volumeutil "k8s.io/kubernetes/pkg/volume/util"

	"ckadrill/sim/kernel"
)

// The layout of a projected volume is upstream's AtomicWriter's: the files in a directory named by its time, a link
// "..data" to it that is replaced at once, and links to "..data/<name>" that users see.
const (
	dataLink    = "..data"
	newDataLink = "..data_tmp"
	dataStamp   = "..2006_01_02_15_04_05."
)

// project writes a payload into the volume, unless that is what it holds already.
func project(m *mounter, payload map[string]volumeutil.FileProjection, mode fs.FileMode, args volume.MounterArgs) error {
	clean := make(map[string]volumeutil.FileProjection, len(payload))
	for name, p := range payload {
		n, err := cleanName(name)
		if err != nil {
			return err
		}
		clean[n] = p
	}
	if err := makeDir(m, mode); err != nil {
		return err
	}
	files := m.p.c.Files
	old, err := files.Readlink(path.Join(m.dir, dataLink))
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if old != "" && same(files, path.Join(m.dir, old), clean) {
		return nil
	}
	return replace(files, m.dir, old, clean, args)
}

func cleanName(name string) (string, error) {
	clean := path.Clean(name)
	if path.IsAbs(clean) || clean == "." {
		return "", fmt.Errorf("invalid path: must be relative path: %s", name)
	}
	if strings.HasPrefix(clean, "..") {
		return "", fmt.Errorf("invalid path: must not start with '..': %s", name)
	}
	return clean, nil
}

// same says whether a data directory holds exactly the payload.
func same(files kernel.Files, dir string, payload map[string]volumeutil.FileProjection) bool {
	count := 0
	equal := true
	walk(files, dir, func(name string, info fs.FileInfo) error {
		if info.IsDir() {
			return nil
		}
		count++
		p, ok := payload[strings.TrimPrefix(name, dir+"/")]
		if !ok {
			equal = false
			return nil
		}
		b, err := files.ReadFile(name)
		equal = equal && err == nil && bytes.Equal(b, p.Data)
		return nil
	})
	return equal && count == len(payload)
}

// replace writes a new data directory and points the volume at it.
func replace(files kernel.Files, dir, old string, payload map[string]volumeutil.FileProjection, args volume.MounterArgs) error {
	names := make([]string, 0, len(payload))
	for n := range payload {
		names = append(names, n)
	}
	sort.Strings(names)
	stamp := fmt.Sprintf("%s%09d", time.Now().UTC().Format(dataStamp), time.Now().Nanosecond())
	data := path.Join(dir, stamp)
	if err := files.Mkdir(data, 0o755); err != nil {
		return err
	}
	if err := files.Chmod(data, 0o755); err != nil {
		return err
	}
	for _, n := range names {
		f := path.Join(data, n)
		if err := files.MkdirAll(path.Dir(f), 0o755); err != nil {
			return err
		}
		p := payload[n]
		if err := files.WriteFile(f, p.Data, fs.FileMode(p.Mode)); err != nil {
			return err
		}
		if err := files.Chmod(f, fs.FileMode(p.Mode)); err != nil {
			return err
		}
		if p.FsUser != nil {
			if err := files.Chown(f, int(*p.FsUser), -1); err != nil {
				return err
			}
		}
	}
	if err := own(files, data, args.FsGroup, true); err != nil {
		return err
	}
	tmp, link := path.Join(dir, newDataLink), path.Join(dir, dataLink)
	if err := files.RemoveAll(tmp); err != nil {
		return err
	}
	if err := files.Symlink(stamp, tmp); err != nil {
		return err
	}
	if err := files.Rename(tmp, link); err != nil {
		return err
	}
	visible := map[string]bool{}
	for _, n := range names {
		top, _, _ := strings.Cut(n, "/")
		if visible[top] {
			continue
		}
		visible[top] = true
		l := path.Join(dir, top)
		if _, err := files.Lstat(l); err == nil {
			continue
		}
		if err := files.Symlink(path.Join(dataLink, top), l); err != nil {
			return err
		}
	}
	return sweep(files, dir, old, visible)
}

// sweep removes links to what is no longer there, and the old data directory.
func sweep(files kernel.Files, dir, old string, visible map[string]bool) error {
	entries, err := files.ReadDir(dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if !strings.HasPrefix(e.Name(), "..") && !visible[e.Name()] && e.Type()&fs.ModeSymlink != 0 {
			if err := files.Remove(path.Join(dir, e.Name())); err != nil {
				return err
			}
		}
	}
	if old == "" {
		return nil
	}
	return files.RemoveAll(path.Join(dir, old))
}

// own gives a volume to a Pod's fsGroup as upstream's SetVolumeOwnership does: the group may read (and write) everything,
// and new files inherit it.
func own(files kernel.Files, dir string, group *int64, readOnly bool) error {
	if group == nil {
		return nil
	}
	return walk(files, dir, func(name string, info fs.FileInfo) error {
		if err := files.Lchown(name, -1, int(*group)); err != nil {
			return err
		}
		if info.Mode()&fs.ModeSymlink != 0 {
			return nil
		}
		mode := info.Mode().Perm() | 0o440
		if !readOnly {
			mode |= 0o660
		}
		if info.IsDir() {
			mode |= 0o110
			return files.Chmod(name, mode|fs.ModeSetgid)
		}
		return files.Chmod(name, mode)
	})
}

// walk visits a directory and all below it, in order of names.
func walk(files kernel.Files, name string, visit func(string, fs.FileInfo) error) error {
	info, err := files.Lstat(name)
	if err != nil {
		return err
	}
	if err := visit(name, info); err != nil || !info.IsDir() {
		return err
	}
	entries, err := files.ReadDir(name)
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := walk(files, path.Join(name, e.Name()), visit); err != nil {
			return err
		}
	}
	return nil
}
