package runtime

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"sort"
	"strings"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"ckadrill/sim/kernel"
	"ckadrill/sim/machine/filesystem"
	"ckadrill/sim/runtime/registry"
)

// imageTree is an image unpacked: a sealed tree that containers clone.
type imageTree struct{ tree *filesystem.Tree }

// rootfs is a container's root: its writable layer over its image, and what is mounted into it.
type rootfs struct {
	layer *filesystem.Tree
	view  *filesystem.View // nil until the container is started
}

// files is the root as a process of the container sees it. Before the container starts, only the image shows.
func (r *rootfs) files(p processSpec) kernel.Files {
	return r.view.Files(kernel.Credential{UID: p.UID, GID: p.GID, Groups: p.Groups})
}

func (r *rootfs) usage() (bytes, inodes uint64) { return r.layer.Own() }

func (r *rootfs) freeze(s *kernel.Snapshot, prefix string) { r.layer.Freeze(s, prefix) }

// unpack makes an image's tree, once.
func (c *Containerd) unpack(def *registry.Image) (*imageTree, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.unpackLocked(def)
}

func (c *Containerd) unpackLocked(def *registry.Image) (*imageTree, error) {
	id := def.ID()
	if t := c.trees[id]; t != nil {
		return t, nil
	}
	tree := filesystem.NewTree(c.w, "overlay", 0)
	v, err := filesystem.NewView([]filesystem.Mount{{Target: "/", Tree: tree}})
	if err != nil {
		return nil, err
	}
	files := v.Files(kernel.Root)
	files.SetUmask(0)
	when, _ := time.Parse(time.RFC3339, def.Created)
	for _, set := range def.Base {
		for _, f := range registry.Set(set) {
			if err := unpackFile(files, f, when); err != nil {
				return nil, fmt.Errorf("unpack %s: %w", def.Repository, err)
			}
		}
	}
	for _, f := range def.Files {
		if err := unpackFile(files, f, when); err != nil {
			return nil, fmt.Errorf("unpack %s: %w", def.Repository, err)
		}
	}
	for _, d := range []string{"/proc", "/dev", "/sys", "/etc"} {
		files.MkdirAll(d, 0o755)
	}
	tree.Seal()
	t := &imageTree{tree}
	c.trees[id] = t
	return t, nil
}

func unpackFile(files kernel.Files, f registry.File, when time.Time) error {
	if err := files.MkdirAll(path.Dir(f.Path), 0o755); err != nil {
		return err
	}
	mode := f.Mode
	switch {
	case f.Link != "":
		files.Remove(f.Path)
		return files.Symlink(f.Link, f.Path)
	case mode.IsDir():
		if err := files.MkdirAll(f.Path, mode.Perm()); err != nil {
			return err
		}
	default:
		content := []byte(f.Content)
		if f.Program != "" {
			content = kernel.Executable(f.Program)
			if f.Version != "" {
				content = append(content, "version "+f.Version+"\n"...)
			}
			if mode == 0 {
				mode = 0o755
			}
		}
		if mode == 0 {
			mode = 0o644
		}
		if err := files.WriteFile(f.Path, content, mode.Perm()); err != nil {
			return err
		}
	}
	if err := files.Chmod(f.Path, mode&(fs.ModePerm|fs.ModeSticky|fs.ModeSetuid|fs.ModeSetgid)); err != nil {
		return err
	}
	if f.UID != 0 || f.GID != 0 {
		if err := files.Chown(f.Path, f.UID, f.GID); err != nil {
			return err
		}
	}
	return files.Chtimes(f.Path, when, when)
}

// newRoot makes a container's writable layer over its image.
func (c *Containerd) newRoot(k *container, b *sandbox, def *registry.Image) (*rootfs, error) {
	t, err := c.unpack(def)
	if err != nil {
		return nil, err
	}
	r := &rootfs{layer: t.tree.Clone("overlay", c.diskQuota())}
	k.ReadOnly = k.Config.GetLinux().GetSecurityContext().GetReadonlyRootfs()
	k.cgroup = newCgroup(c.w, k.Resources.GetLinux(), 0)
	if r.view, err = filesystem.NewView([]filesystem.Mount{{Target: "/", Tree: r.layer, ReadOnly: k.ReadOnly, Source: "overlay", Type: "overlay"}}); err != nil {
		return nil, err
	}
	return r, nil
}

// diskQuota is the space of the machine's disk, on which the layers lie.
func (c *Containerd) diskQuota() *filesystem.Quota {
	for _, m := range c.m.View().Mounts() {
		if m.Target == "/" {
			return m.Tree.Quota()
		}
	}
	return filesystem.NewQuota(0)
}

// thawRoot gives a thawed container its layer back.
func (c *Containerd) thawRoot(k *container, parts kernel.Parts) error {
	k.cgroup = newCgroup(c.w, k.Resources.GetLinux(), k.CPU)
	def := c.options.Registries.ByID(k.ImageID)
	if def == nil {
		return fmt.Errorf("image %s is not known", k.ImageID)
	}
	t, err := c.unpackLocked(def)
	if err != nil {
		return err
	}
	r := &rootfs{layer: t.tree.Clone("overlay", c.diskQuota())}
	if err := r.layer.Thaw(parts, ""); err != nil {
		return err
	}
	if r.view, err = filesystem.NewView([]filesystem.Mount{{Target: "/", Tree: r.layer, ReadOnly: k.ReadOnly, Source: "overlay", Type: "overlay"}}); err != nil {
		return err
	}
	k.root = r
	return nil
}

// mountRoot mounts into a container's root what its OCI spec lists, in runc's order: kernel file systems, then the CRI's
// mounts by the depth of their paths.
func (c *Containerd) mountRoot(k *container, b *sandbox) (kernel.Files, error) {
	r := k.root
	layer := r.layer
	view, err := filesystem.NewView([]filesystem.Mount{{Target: "/", Tree: layer, Source: "overlay", Type: "overlay"}})
	if err != nil {
		return nil, err
	}
	inside := view.Files(kernel.Root)
	kernelMounts, err := c.kernelMounts(k, b)
	if err != nil {
		return nil, err
	}
	for _, m := range kernelMounts {
		inside.MkdirAll(m.Target, 0o755)
		if err := view.Mount(m); err != nil {
			return nil, err
		}
	}
	for _, m := range c.bindMounts(k, b) {
		if err := c.bind(view, inside, m); err != nil {
			return nil, err
		}
	}
	if k.Process.Cwd != "/" {
		inside.MkdirAll(k.Process.Cwd, 0o755)
	}
	if k.ReadOnly { // only now: runc makes mount points before it seals the root
		mounts := view.Mounts()
		mounts[0].ReadOnly = true
		if view, err = filesystem.NewView(mounts); err != nil {
			return nil, err
		}
	}
	r.view = view
	return r.files(k.Process), nil
}

// bindMounts lists the host's files and directories in a container: those that containerd adds where the CRI's list has none.
func (c *Containerd) bindMounts(k *container, b *sandbox) []*runtimeapi.Mount {
	l := append([]*runtimeapi.Mount(nil), k.Config.Mounts...)
	has := func(target string) bool {
		for _, m := range l {
			if path.Clean(m.ContainerPath) == target {
				return true
			}
		}
		return false
	}
	for _, m := range c.sandboxMounts(k, b) {
		if !has(m.ContainerPath) {
			l = append(l, m)
		}
	}
	sort.SliceStable(l, func(i, j int) bool { return depth(l[i].ContainerPath) < depth(l[j].ContainerPath) })
	return l
}

func depth(p string) int { return strings.Count(path.Clean(p), "/") }

func (c *Containerd) sandboxMounts(k *container, b *sandbox) []*runtimeapi.Mount {
	dir := path.Join(sandboxRoot, b.ID)
	l := []*runtimeapi.Mount{
		{ContainerPath: "/etc/hostname", HostPath: path.Join(dir, "hostname"), Readonly: k.ReadOnly},
		{ContainerPath: "/etc/hosts", HostPath: path.Join(dir, "hosts"), Readonly: k.ReadOnly},
		{ContainerPath: "/etc/resolv.conf", HostPath: path.Join(dir, "resolv.conf"), Readonly: k.ReadOnly},
	}
	if k.Config.GetLinux().GetSecurityContext().GetNamespaceOptions().GetIpc() != runtimeapi.NamespaceMode_NODE {
		l = append(l, &runtimeapi.Mount{ContainerPath: "/dev/shm", HostPath: path.Join(sandboxRun, b.ID, "shm")})
	}
	return l
}

// bind mounts one host path. containerd makes a missing source a directory; runc makes the mount point.
func (c *Containerd) bind(view *filesystem.View, inside kernel.Files, m *runtimeapi.Mount) error {
	if m.Image.GetImage() != "" {
		return c.bindImage(view, inside, m)
	}
	host := c.files()
	source := path.Clean(m.HostPath)
	target := path.Clean(m.ContainerPath)
	info, err := host.Stat(source)
	if errors.Is(err, fs.ErrNotExist) {
		if err := host.MkdirAll(source, 0o755); err != nil {
			return fmt.Errorf("failed to mkdir %q: %w", source, err)
		}
		info, err = host.Stat(source)
	}
	if err != nil {
		return fmt.Errorf("failed to stat %q: %w", source, err)
	}
	real, err := host.EvalSymlinks(source)
	if err != nil {
		return fmt.Errorf("failed to resolve symlink %q: %w", source, err)
	}
	// A link in the image's own path is followed within its root, as securejoin does.
	at := target
	if dir, err := inside.EvalSymlinks(path.Dir(target)); err == nil {
		at = path.Join(dir, path.Base(target))
	}
	if to, err := inside.EvalSymlinks(target); err == nil {
		at = to
	}
	switch there, err := inside.Stat(at); {
	case err == nil && there.IsDir() != info.IsDir():
		return fmt.Errorf("error mounting %q to rootfs at %q: create mountpoint for %s mount: cannot create subdirectories in %q: not a directory: Are you trying to mount a directory onto a file (or vice-versa)? Check if the specified host path exists and is the expected type",
			source, target, target, "rootfs"+at)
	case err == nil:
	case info.IsDir():
		if err := inside.MkdirAll(at, 0o755); err != nil {
			return fmt.Errorf("error mounting %q to rootfs at %q: create mountpoint for %s mount: make mountpoint %q: %w", source, target, target, target, cause(err))
		}
	default:
		if err := inside.MkdirAll(path.Dir(at), 0o755); err == nil {
			err = inside.WriteFile(at, nil, 0o755)
		}
	}
	tree, root := c.locate(real)
	if tree == nil {
		return fmt.Errorf("error mounting %q to rootfs at %q: no such file or directory", source, target)
	}
	if err := view.Mount(filesystem.Mount{Target: at, Tree: tree, Root: root, ReadOnly: m.Readonly, Source: source, Type: "bind"}); err != nil {
		return err
	}
	// containerd's bind mounts are recursive: what is mounted below comes along.
	for _, below := range c.m.View().Mounts() {
		rest, ok := strings.CutPrefix(below.Target, strings.TrimSuffix(real, "/")+"/")
		if !ok || rest == "" {
			continue
		}
		below.Target = path.Join(at, rest)
		if err := view.Mount(below); err != nil {
			return err
		}
	}
	return nil
}

func cause(err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return pe.Err
	}
	return err
}

// bindImage mounts an image's files, as an OCI volume.
func (c *Containerd) bindImage(view *filesystem.View, inside kernel.Files, m *runtimeapi.Mount) error {
	c.mu.Lock()
	i := c.resolveImage(m.Image.Image)
	c.mu.Unlock()
	if i == nil {
		return fmt.Errorf("failed to mount image volume: image %q not found", m.Image.Image)
	}
	t, err := c.unpack(c.options.Registries.ByID(i.ID))
	if err != nil {
		return err
	}
	if err := inside.MkdirAll(m.ContainerPath, 0o755); err != nil {
		return err
	}
	return view.Mount(filesystem.Mount{Target: m.ContainerPath, Tree: t.tree, Root: m.ImageSubPath, ReadOnly: true, Source: "overlay", Type: "overlay"})
}

// locate finds the tree that holds a path of the machine, without symbolic links, and the path within it.
func (c *Containerd) locate(name string) (*filesystem.Tree, string) {
	var best filesystem.Mount
	found := false
	for _, m := range c.m.View().Mounts() {
		if (m.Target == "/" || name == m.Target || strings.HasPrefix(name, m.Target+"/")) && (!found || len(m.Target) >= len(best.Target)) {
			best, found = m, true
		}
	}
	if !found {
		return nil, ""
	}
	return best.Tree, path.Join("/", best.Root, strings.TrimPrefix(name, strings.TrimSuffix(best.Target, "/")))
}
