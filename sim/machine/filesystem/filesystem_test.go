package filesystem

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand"
	"os"
	"sort"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"ckadrill/sim/kernel"
)

func world(t *testing.T, f func(w *kernel.World, t *Tree, root kernel.Files)) {
	t.Helper()
	synctest.Test(t, func(*testing.T) {
		w := kernel.NewWorld(1)
		tree := NewTree(w, "/dev/vda1", 1<<20)
		v, err := NewView([]Mount{{Target: "/", Tree: tree}})
		if err != nil {
			t.Fatal(err)
		}
		f(w, tree, v.Files(kernel.Root))
	})
}

func must(t *testing.T, errs ...error) {
	t.Helper()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}

func TestErrorsReadAsLinux(t *testing.T) {
	world(t, func(_ *kernel.World, _ *Tree, f kernel.Files) {
		must(t, f.MkdirAll("/a/b", 0o755), f.WriteFile("/a/file", []byte("x"), 0o600), f.Symlink("loop", "/a/loop"), f.Symlink("/a/none", "/a/dangling"))
		user := f.As(kernel.Credential{UID: 1000, GID: 1000})
		for _, c := range []struct {
			err  error
			want string
		}{
			{second(f.ReadFile("/a/none")), "open /a/none: no such file or directory"},
			{second(f.ReadFile("/a/file/x")), "open /a/file/x: not a directory"},
			{second(f.ReadFile("/a")), "read /a: is a directory"},
			{second(f.ReadFile("/a/loop")), "open /a/loop: too many levels of symbolic links"},
			{second(f.ReadFile("/a/dangling")), "open /a/dangling: no such file or directory"},
			{second(user.ReadFile("/a/file")), "open /a/file: permission denied"},
			{user.WriteFile("/a/new", nil, 0o644), "open /a/new: permission denied"},
			{f.Mkdir("/a", 0o755), "mkdir /a: file exists"},
			{f.Mkdir("/x/y", 0o755), "mkdir /x/y: no such file or directory"},
			{f.Remove("/a"), "remove /a: directory not empty"},
			{f.Rename("/a", "/a/b/c"), "rename /a /a/b/c: invalid argument"},
			{f.WriteFile("/a/"+strings.Repeat("n", 256), nil, 0o644), "open /a/" + strings.Repeat("n", 256) + ": file name too long"},
			{user.Chmod("/a/file", 0o777), "chmod /a/file: operation not permitted"},
			{user.Chown("/a/file", 1000, 1000), "chown /a/file: operation not permitted"},
			{f.Link("/a", "/b"), "link /a /b: operation not permitted"},
			{f.Symlink("x", "/a/file"), "symlink x /a/file: file exists"},
			{second(f.Readlink("/a/file")), "readlink /a/file: invalid argument"},
			{f.WriteFile("/a/big", make([]byte, 2<<20), 0o644), "write /a/big: no space left on device"},
		} {
			if c.err == nil || c.err.Error() != c.want {
				t.Errorf("got %v, want %s", c.err, c.want)
			}
		}
		if _, err := user.ReadFile("/a/file"); !errors.Is(err, fs.ErrPermission) {
			t.Error("fs.ErrPermission is not found in it")
		}
	})
}

func second[T any](_ T, err error) error { return err }

func TestOwnersAndModes(t *testing.T) {
	world(t, func(_ *kernel.World, _ *Tree, f kernel.Files) {
		must(t, f.Mkdir("/tmp", 0o777), f.Chmod("/tmp", fs.ModeSticky|0o777), f.Mkdir("/srv", 0o755), f.Chmod("/srv", fs.ModeSetgid|0o775), f.Chown("/srv", 0, 50))
		a, b := f.As(kernel.Credential{UID: 1000, GID: 1000, Groups: []int{50}}), f.As(kernel.Credential{UID: 1001, GID: 1001})
		must(t, a.WriteFile("/tmp/mine", []byte("x"), 0o666), a.WriteFile("/srv/shared", nil, 0o666))
		if i, _ := f.Stat("/tmp/mine"); i.Mode() != 0o644 || kernel.StatOf(i).UID != 1000 {
			t.Errorf("%v %+v", i.Mode(), kernel.StatOf(i))
		}
		if i, _ := f.Stat("/srv/shared"); kernel.StatOf(i).GID != 50 {
			t.Error("a set-group-id directory does not hand its group down")
		}
		if err := b.Remove("/tmp/mine"); !errors.Is(err, syscall.EPERM) {
			t.Errorf("somebody removed another's file from /tmp: %v", err)
		}
		if err := b.WriteFile("/srv/no", nil, 0o644); !errors.Is(err, syscall.EACCES) {
			t.Errorf("%v", err)
		}
		must(t, a.Chmod("/tmp/mine", 0o600))
		if _, err := b.ReadFile("/tmp/mine"); !errors.Is(err, syscall.EACCES) {
			t.Error("mode 600 was read by another")
		}
		must(t, a.Remove("/tmp/mine"))
	})
}

func TestMounts(t *testing.T) {
	world(t, func(w *kernel.World, tree *Tree, f kernel.Files) {
		must(t, f.MkdirAll("/var/lib/kubelet/pods/1/vol", 0o755), f.WriteFile("/var/lib/kubelet/pods/1/vol/key", []byte("v1"), 0o644), f.WriteFile("/etc-hosts", []byte("hosts"), 0o644))
		image := NewTree(w, "overlay", 0)
		iv, _ := NewView([]Mount{{Target: "/", Tree: image}})
		must(t, iv.Files(kernel.Root).MkdirAll("/etc", 0o755), iv.Files(kernel.Root).WriteFile("/etc/passwd", []byte("root"), 0o644))
		image.Seal()
		v, err := NewView([]Mount{
			{Target: "/", Tree: image.Clone("overlay", NewQuota(0))},
			{Target: "/etc/cfg", Tree: tree, Root: "/var/lib/kubelet/pods/1/vol", ReadOnly: true},
			{Target: "/etc/hosts", Tree: tree, Root: "/etc-hosts"},
		})
		must(t, err)
		c := v.Files(kernel.Root)
		b, err := c.ReadFile("/etc/cfg/key")
		if string(b) != "v1" {
			t.Error(string(b), err)
		}
		if err := c.WriteFile("/etc/cfg/key", nil, 0); !errors.Is(err, syscall.EROFS) {
			t.Errorf("write to a read-only mount: %v", err)
		}
		must(t, f.WriteFile("/var/lib/kubelet/pods/1/vol/key", []byte("v2"), 0o644), c.WriteFile("/etc/hosts", []byte("more"), 0))
		if b, _ := c.ReadFile("/etc/cfg/../cfg/key"); string(b) != "v2" {
			t.Errorf("a bind mount shows %q", b)
		}
		if b, _ := f.ReadFile("/etc-hosts"); string(b) != "more" {
			t.Errorf("a write through a bind mount: %q", b)
		}
		l, _ := c.ReadDir("/etc")
		var names []string
		for _, e := range l {
			names = append(names, e.Name())
		}
		if d := cmp.Diff([]string{"cfg", "hosts", "passwd"}, names); d != "" {
			t.Error(d)
		}
		if err := c.Remove("/etc/hosts"); !errors.Is(err, syscall.EBUSY) {
			t.Errorf("a mount point was removed: %v", err)
		}
		if err := c.Rename("/etc/passwd", "/etc/cfg/p"); !errors.Is(err, syscall.EROFS) && !errors.Is(err, syscall.EXDEV) {
			t.Errorf("rename across file systems: %v", err)
		}
	})
}

func TestMountTargetsFollowLinks(t *testing.T) {
	world(t, func(w *kernel.World, tree *Tree, f kernel.Files) {
		must(t, f.MkdirAll("/run/secrets/sa", 0o755), f.MkdirAll("/var", 0o755), f.Symlink("/run", "/var/run"), f.MkdirAll("/secret", 0o755), f.WriteFile("/secret/token", []byte("t"), 0o600))
		v, _ := ViewOf(f)
		must(t, v.Mount(Mount{Target: "/var/run/secrets/sa", Tree: tree, Root: "/secret"}))
		for _, name := range []string{"/var/run/secrets/sa/token", "/run/secrets/sa/token"} {
			if b, err := f.ReadFile(name); string(b) != "t" {
				t.Errorf("%s: %q, %v", name, b, err)
			}
		}
		must(t, v.Unmount("/var/run/secrets/sa"))
		if _, err := f.Stat("/run/secrets/sa/token"); err == nil {
			t.Error("it is still mounted")
		}
	})
}

func TestCloneIsCopyOnWrite(t *testing.T) {
	world(t, func(w *kernel.World, tree *Tree, f kernel.Files) {
		must(t, f.MkdirAll("/d", 0o755), f.WriteFile("/d/log", []byte("base"), 0o644), f.WriteFile("/d/gone", nil, 0o644))
		tree.Seal()
		if err := f.WriteFile("/x", nil, 0o644); !errors.Is(err, syscall.EROFS) {
			t.Errorf("a sealed tree was written: %v", err)
		}
		var views []kernel.Files
		var trees []*Tree
		for range 2 {
			c := tree.Clone("overlay", NewQuota(0))
			v, _ := NewView([]Mount{{Target: "/", Tree: c}})
			views, trees = append(views, v.Files(kernel.Root)), append(trees, c)
		}
		for i, v := range views {
			o, err := v.OpenFile("/d/log", os.O_APPEND|os.O_WRONLY, 0)
			must(t, err)
			fmt.Fprintf(o, " of %d", i)
			must(t, o.Close())
		}
		must(t, views[0].Remove("/d/gone"))
		for i, v := range views {
			if b, _ := v.ReadFile("/d/log"); string(b) != fmt.Sprintf("base of %d", i) {
				t.Errorf("clone %d reads %q", i, b)
			}
		}
		if b, _ := f.ReadFile("/d/log"); string(b) != "base" {
			t.Errorf("the base reads %q", b)
		}
		if _, err := views[1].Stat("/d/gone"); err != nil {
			t.Error("a removal in one clone shows in the other")
		}
		// a thawed clone is the same
		w.Hold("c", holder{trees[0]})
		parts := kernel.Parts{}
		w.Freeze(kernel.NewRecorder(nil)).Apply(parts)
		again := tree.Clone("overlay", NewQuota(0))
		own := kernel.Parts{}
		for n, b := range parts {
			if r, ok := strings.CutPrefix(n, "c/"); ok {
				own[r] = b
			}
		}
		must(t, again.Thaw(own, ""))
		v, _ := NewView([]Mount{{Target: "/", Tree: again}})
		if d := cmp.Diff(dump(t, views[0]), dump(t, v.Files(kernel.Root))); d != "" {
			t.Error(d)
		}
	})
}

type holder struct{ t *Tree }

func (h holder) Freeze(s *kernel.Snapshot)     { h.t.Freeze(s, "") }
func (h holder) Thaw(parts kernel.Parts) error { return h.t.Thaw(parts, "") }

func dump(t *testing.T, f kernel.Files) map[string]string {
	t.Helper()
	m := map[string]string{}
	var walk func(string)
	walk = func(dir string) {
		l, err := f.ReadDir(dir)
		must(t, err)
		for _, e := range l {
			name := strings.TrimSuffix(dir, "/") + "/" + e.Name()
			i, _ := e.Info()
			s := kernel.StatOf(i)
			text := fmt.Sprintf("%v %d:%d nlink %d size %d %v", i.Mode(), s.UID, s.GID, s.Nlink, i.Size(), i.ModTime().UTC())
			switch {
			case e.IsDir():
				walk(name)
			case e.Type()&fs.ModeSymlink != 0:
				l, _ := f.Readlink(name)
				text += " -> " + l
			default:
				b, err := f.ReadFile(name)
				must(t, err)
				text += fmt.Sprintf(" %x", b)
			}
			m[name] = text
		}
	}
	walk("/")
	return m
}

func TestWatchLosesNothing(t *testing.T) {
	world(t, func(_ *kernel.World, _ *Tree, f kernel.Files) {
		must(t, f.MkdirAll("/etc/kubernetes/manifests", 0o755))
		w, err := f.Watch("/etc/kubernetes/manifests")
		must(t, err)
		dir := "/etc/kubernetes/manifests/"
		must(t, f.WriteFile(dir+"sedAb12", []byte("x"), 0o600), f.Chmod(dir+"sedAb12", 0o644), f.Rename(dir+"sedAb12", dir+"a.yaml"), f.WriteFile(dir+"a.yaml", []byte("y"), 0), f.Remove(dir+"a.yaml"))
		var got []string
		for range 7 {
			e := <-w.Events()
			got = append(got, fmt.Sprint(strings.TrimPrefix(e.Name, dir), " ", e.Op))
		}
		want := []string{
			fmt.Sprint("sedAb12 ", kernel.FileCreate), fmt.Sprint("sedAb12 ", kernel.FileWrite), fmt.Sprint("sedAb12 ", kernel.FileChmod), fmt.Sprint("sedAb12 ", kernel.FileRename),
			fmt.Sprint("a.yaml ", kernel.FileCreate), fmt.Sprint("a.yaml ", kernel.FileWrite), fmt.Sprint("a.yaml ", kernel.FileRemove),
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
		must(t, w.Close())
		if _, ok := <-w.Events(); ok {
			t.Error("events after Close")
		}
	})
}

func TestUnlinkedFileLivesWhileOpen(t *testing.T) {
	world(t, func(_ *kernel.World, tree *Tree, f kernel.Files) {
		used := tree.Quota().Used()
		o, err := f.OpenFile("/log", os.O_CREATE|os.O_RDWR, 0o644)
		must(t, err)
		must(t, f.Remove("/log"))
		if _, err := o.Write(bytes.Repeat([]byte("x"), 100<<10)); err != nil {
			t.Error(err)
		}
		b := make([]byte, 10)
		if n, err := o.ReadAt(b, 90<<10); n != 10 || string(b) != "xxxxxxxxxx" {
			t.Error(n, err)
		}
		must(t, o.Close())
		if now := tree.Quota().Used(); now != used {
			t.Errorf("%d bytes are lost", now-used)
		}
	})
}

// Random operations do the same to a tree as to a map.
func TestAgainstAModel(t *testing.T) {
	world(t, func(_ *kernel.World, tree *Tree, f kernel.Files) {
		r := rand.New(rand.NewSource(7))
		model := map[string][]byte{}
		used := tree.Quota().Used()
		name := func() string { return fmt.Sprintf("/f%d", r.Intn(12)) }
		for step := range 4000 {
			a, b := name(), name()
			switch r.Intn(6) {
			case 0:
				data := bytes.Repeat([]byte{byte(step)}, r.Intn(3*chunkSize/4))
				if f.WriteFile(a, data, 0o644) == nil {
					model[a] = data
				} else {
					delete(model, a)
					f.Remove(a)
				}
			case 1:
				if o, err := f.OpenFile(a, os.O_APPEND|os.O_WRONLY, 0); err == nil {
					data := []byte(fmt.Sprint("line ", step, "\n"))
					if n, err := o.Write(data); err == nil {
						model[a] = append(append([]byte(nil), model[a]...), data[:n]...)
					}
					o.Close()
				}
			case 2:
				if f.Remove(a) == nil {
					delete(model, a)
				}
			case 3:
				if f.Rename(a, b) == nil && a != b {
					model[b] = model[a]
					delete(model, a)
				}
			case 4:
				n := int64(r.Intn(2 * chunkSize))
				if f.Truncate(a, n) == nil {
					d := make([]byte, n)
					copy(d, model[a])
					model[a] = d
				}
			case 5:
				if o, err := f.OpenFile(a, os.O_RDWR, 0); err == nil {
					off := r.Intn(len(model[a]) + 100)
					o.Seek(int64(off), 0)
					if _, err := o.Write([]byte("patch")); err == nil {
						d := append([]byte(nil), model[a]...)
						for len(d) < off+5 {
							d = append(d, 0)
						}
						copy(d[off:], "patch")
						model[a] = d
					}
					o.Close()
				}
			}
			time.Sleep(time.Millisecond)
		}
		var names []string
		total := used
		for n, want := range model {
			names = append(names, n)
			got, err := f.ReadFile(n)
			if err != nil || !bytes.Equal(got, want) {
				t.Errorf("%s: %d bytes, want %d, %v", n, len(got), len(want), err)
			}
			total += kernel.DiskUsage(0, int64(len(want)))
		}
		sort.Strings(names)
		l, _ := f.ReadDir("/")
		if len(l) != len(names) {
			t.Errorf("%d files, want %v", len(l), names)
		}
		if tree.Quota().Used() != total {
			t.Errorf("quota says %d, the files are %d", tree.Quota().Used(), total)
		}
	})
}

func TestSpaceIsTheSameAfterAThaw(t *testing.T) {
	parts := kernel.Parts{}
	var used, inodes int64
	world(t, func(w *kernel.World, tree *Tree, f kernel.Files) {
		w.Hold("tree", holder{tree})
		must(t, f.WriteFile("/a", make([]byte, 100_000), 0o644), f.Mkdir("/d", 0o755), f.Symlink("a", "/d/l"), f.WriteFile("/b", nil, 0o644), f.Remove("/b"))
		used = tree.Quota().Used()
		_, inodes = tree.Quota().Inodes()
		w.Freeze(kernel.NewRecorder(nil)).Apply(parts)
	})
	world(t, func(w *kernel.World, tree *Tree, f kernel.Files) {
		w.Hold("tree", holder{tree})
		must(t, f.WriteFile("/template", make([]byte, 5000), 0o644))
		must(t, w.Thaw(parts))
		if _, n := tree.Quota().Inodes(); tree.Quota().Used() != used || n != inodes {
			t.Errorf("%d bytes in %d inodes became %d in %d", used, inodes, tree.Quota().Used(), n)
		}
	})
}

func TestInodesRunOut(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tree := NewTree(kernel.NewWorld(1), "disk", 64<<14)
		v, err := NewView([]Mount{{Target: "/", Tree: tree}})
		if err != nil {
			t.Fatal(err)
		}
		f := v.Files(kernel.Root)
		for i := range 63 {
			must(t, f.WriteFile(fmt.Sprintf("/%d", i), nil, 0o644))
		}
		if err := f.WriteFile("/more", nil, 0o644); !errors.Is(err, syscall.ENOSPC) {
			t.Errorf("%v", err)
		}
		must(t, f.Remove("/7"), f.WriteFile("/more", nil, 0o644))
	})
}

func TestCopyUpTakesSpace(t *testing.T) {
	world(t, func(w *kernel.World, tree *Tree, f kernel.Files) {
		must(t, f.WriteFile("/big", make([]byte, 10_000), 0o644))
		tree.Seal()
		q := NewQuota(0)
		clone := tree.Clone("overlay", q)
		v, err := NewView([]Mount{{Target: "/", Tree: clone}})
		must(t, err)
		c := v.Files(kernel.Root)
		must(t, c.Chmod("/big", 0o600))
		if q.Used() != 12<<10 {
			t.Errorf("a file of 10,000 bytes that was copied up takes %d bytes", q.Used())
		}
		must(t, c.Remove("/big"))
		if q.Used() != 4<<10 {
			t.Errorf("the directory without the file takes %d bytes", q.Used())
		}
	})
}

// An open file of a base must not take the place of another opener's.
func TestUncountedOpenFile(t *testing.T) {
	world(t, func(w *kernel.World, tree *Tree, f kernel.Files) {
		must(t, f.WriteFile("/x", []byte("content"), 0o644))
		tree.Seal()
		v, err := NewView([]Mount{{Target: "/", Tree: tree.Clone("overlay", NewQuota(0))}})
		must(t, err)
		c := v.Files(kernel.Root)
		reader, err := c.OpenFile("/x", os.O_RDONLY, 0)
		must(t, err)
		writer, err := c.OpenFile("/x", os.O_RDWR, 0)
		must(t, err, c.Remove("/x"), reader.Close())
		if _, err := writer.Write([]byte("more")); err != nil {
			t.Errorf("the file is gone while it is open: %v", err)
		}
		must(t, writer.Close())
	})
}

// What a session costs that does nothing: three machines' trees, frozen again.
func BenchmarkFreezeUnchanged(b *testing.B) {
	w := kernel.NewWorld(1)
	for k := range 3 {
		tree := NewTree(w, "disk", 1<<30)
		v, _ := NewView([]Mount{{Target: "/", Tree: tree}})
		f := v.Files(kernel.Root)
		for i := range 600 {
			f.MkdirAll(fmt.Sprintf("/d%d", i/20), 0o755)
			f.WriteFile(fmt.Sprintf("/d%d/f%d", i/20, i), make([]byte, 2000), 0o644)
		}
		w.Hold(fmt.Sprint("tree", k), holder{tree})
	}
	r := kernel.NewRecorder(nil)
	w.Freeze(r)
	for b.Loop() {
		w.Freeze(r)
	}
}
