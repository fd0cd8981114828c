package machine

import (
	"io/fs"
	"path"
	"strconv"
	"strings"
	"sync"

	"ckadrill/sim/kernel"
	"ckadrill/sim/machine/filesystem"
)

// kernelTree is a tree of which the kernel adds and removes files while the machine runs.
type kernelTree struct {
	tree  *filesystem.Tree
	files kernel.Files
	mu    sync.Mutex
	shown map[string]bool
}

func newKernelTree(t *filesystem.Tree, f kernel.Files) *kernelTree {
	return &kernelTree{tree: t, files: f, shown: map[string]bool{}}
}

// show lets the tree have a file, or not.
func (k *kernelTree) show(name string, is bool, mode fs.FileMode, d filesystem.Dynamic) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.shown[name] == is {
		return nil
	}
	if !is {
		delete(k.shown, name)
		if err := k.files.Remove(name); err != nil {
			return err
		}
		// a directory goes with its last file
		for dir := path.Dir(name); dir != "/" && k.files.Remove(dir) == nil; {
			dir = path.Dir(dir)
		}
		return nil
	}
	if err := k.files.MkdirAll(path.Dir(name), 0o555); err != nil {
		return err
	}
	k.shown[name] = true
	return k.tree.SetDynamic(k.files, name, mode, d)
}

// showSettings gives /proc/sys a file for each of some settings, or takes it away.
func (m *Machine) showSettings(l map[string]setting, are bool) error {
	for _, n := range sortedKeys(l) {
		d := filesystem.Dynamic{Read: func() []byte { v, _ := m.sysctl.Get(n); return []byte(v + "\n") }}
		if l[n].mode&0o222 != 0 {
			d.Write = func(b []byte) error { return m.sysctl.Set(n, string(b)) }
		}
		if err := m.proc.show(settingFile(n), are, l[n].mode, d); err != nil {
			return err
		}
	}
	return nil
}

func settingFile(name string) string { return "/sys/" + strings.ReplaceAll(name, ".", "/") }

// showModule gives a loaded module its directory below /sys/module.
func (m *Machine) showModule(name string, loaded bool) error {
	for _, f := range []struct {
		name string
		read func(x Module) string
	}{
		{"coresize", func(x Module) string { return strconv.FormatInt(x.Size, 10) }},
		{"initstate", func(Module) string { return "live" }},
		{"refcnt", func(x Module) string { return strconv.Itoa(x.Uses) }},
	} {
		err := m.sys.show("/module/"+name+"/"+f.name, loaded, 0o444, filesystem.Dynamic{Read: func() []byte {
			for _, x := range m.modules.List() {
				if x.Name == name {
					return []byte(f.read(x) + "\n")
				}
			}
			return nil
		}})
		if err != nil {
			return err
		}
	}
	return nil
}
