package kubelet

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"

	"k8s.io/kubernetes/pkg/volume/util/hostutil"
	"k8s.io/kubernetes/pkg/volume/util/subpath"

	"ckadrill/sim/kernel"
)

// hostUtils is upstream's hostutil.HostUtils over the machine's tree.
type hostUtils struct {
	p    *kernel.Process
	root *roots
}

func (hostUtils) DeviceOpened(string) (bool, error)             { return false, nil }
func (hostUtils) MakeRShared(string) error                      { return nil }
func (hostUtils) GetSELinuxSupport(string) (bool, error)        { return false, nil }
func (hostUtils) GetSELinuxMountContext(string) (string, error) { return "", nil }

func (h hostUtils) stat(name string) (fs.FileInfo, error) {
	return h.p.Files.Stat(h.root.machinePath(name))
}

func (h hostUtils) PathIsDevice(name string) (bool, error) {
	t, err := h.GetFileType(name)
	return t == hostutil.FileTypeCharDev || t == hostutil.FileTypeBlockDev, err
}

func (h hostUtils) GetFileType(name string) (hostutil.FileType, error) {
	info, err := h.stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return "", fmt.Errorf("path %q does not exist", name)
	}
	if err != nil {
		return "", err
	}
	switch m := info.Mode(); {
	case m&fs.ModeSocket != 0:
		return hostutil.FileTypeSocket, nil
	case m&fs.ModeCharDevice != 0:
		return hostutil.FileTypeCharDev, nil
	case m&fs.ModeDevice != 0:
		return hostutil.FileTypeBlockDev, nil
	case m.IsDir():
		return hostutil.FileTypeDirectory, nil
	case m.IsRegular():
		return hostutil.FileTypeFile, nil
	}
	return "", errors.New("only recognise file, directory, socket, block device and character device")
}

func (h hostUtils) PathExists(name string) (bool, error) {
	_, err := h.stat(name)
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	return err == nil, err
}

func (h hostUtils) EvalHostSymlinks(name string) (string, error) {
	return h.p.Files.EvalSymlinks(h.root.machinePath(name))
}

func (h hostUtils) GetOwner(name string) (int64, int64, error) {
	info, err := h.stat(name)
	if err != nil {
		return -1, -1, err
	}
	s := kernel.StatOf(info)
	return int64(s.UID), int64(s.GID), nil
}

func (h hostUtils) GetMode(name string) (os.FileMode, error) {
	info, err := h.stat(name)
	if err != nil {
		return 0, err
	}
	return info.Mode(), nil
}

// subPaths is upstream's subpath.Interface over the machine's tree.
type subPaths struct {
	p    *kernel.Process
	root *roots
}

func (s subPaths) dir(podDir, volume string) string {
	return path.Join(s.root.machinePath(podDir), "volume-subpaths", volume)
}

// CleanSubPaths implements subpath.Interface.
func (s subPaths) CleanSubPaths(podDir, volume string) error {
	return s.p.Files.RemoveAll(s.dir(podDir, volume))
}

// PrepareSafeSubpath implements subpath.Interface. The real one binds what the path leads to now, so that later changes of
// links do not show in the container: a file gets a second name for that here, a directory is taken as it is resolved.
func (s subPaths) PrepareSafeSubpath(sp subpath.Subpath) (string, func(), error) {
	volume, err := s.p.Files.EvalSymlinks(s.root.machinePath(sp.VolumePath))
	if err != nil {
		return "", nil, fmt.Errorf("error resolving symlinks in %q: %w", sp.VolumePath, err)
	}
	real, err := s.p.Files.EvalSymlinks(s.root.machinePath(sp.Path))
	if err != nil {
		return "", nil, fmt.Errorf("error resolving symlinks in %q: %w", sp.Path, err)
	}
	if real != volume && !strings.HasPrefix(real, strings.TrimSuffix(volume, "/")+"/") {
		return "", nil, fmt.Errorf("subpath %q not within volume path %q", real, volume)
	}
	info, err := s.p.Files.Stat(real)
	if err != nil {
		return "", nil, err
	}
	if !info.Mode().IsRegular() {
		return real, nil, nil
	}
	dir := path.Join(s.dir(sp.PodDir, sp.VolumeName), sp.ContainerName)
	name := path.Join(dir, strconv.Itoa(sp.VolumeMountIndex))
	if err := s.p.Files.MkdirAll(dir, 0o750); err != nil {
		return "", nil, err
	}
	if err := s.p.Files.RemoveAll(name); err != nil {
		return "", nil, err
	}
	if err := s.p.Files.Link(real, name); err != nil {
		return real, nil, nil //nolint:nilerr // another file system: the file itself will do
	}
	return name, nil, nil
}

// SafeMakeDir implements subpath.Interface.
func (s subPaths) SafeMakeDir(sub, base string, perm os.FileMode) error {
	name := path.Join(s.root.machinePath(base), sub)
	if err := s.p.Files.MkdirAll(name, perm); err != nil {
		return err
	}
	return s.p.Files.Chmod(name, perm)
}
