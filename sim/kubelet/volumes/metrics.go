package volumes

import (
	"errors"
	"io/fs"
	"path"

	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/volume"

	"ckadrill/sim/kernel"
)

// measured says of a kind of volume that its directory belongs to it alone, so that what is in it can be told.
type measured interface{ measured() }

func (emptyDir) measured()     {}
func (configMap) measured()    {}
func (secretVolume) measured() {}
func (downwardAPI) measured()  {}
func (projected) measured()    {}

// SupportsMetrics implements volume.MetricsProvider.
func (m *mounter) SupportsMetrics() bool {
	_, ok := m.p.kind.(measured)
	return ok
}

// GetMetrics implements volume.MetricsProvider as upstream's metricsDu does, on the machine.
func (m *mounter) GetMetrics() (*volume.Metrics, error) {
	r := &volume.Metrics{Time: metav1.Now()}
	if !m.SupportsMetrics() {
		return r, volume.NewNotSupportedError()
	}
	files, dir := m.p.c.Files, m.GetPath()
	bytes, inodes, err := diskUsage(files, dir)
	if err != nil {
		return r, err
	}
	size, free, err := files.Usage(dir)
	if err != nil {
		return r, volume.NewFsInfoFailedError(err)
	}
	all, unused, err := files.InodeUsage(dir)
	if err != nil {
		return r, volume.NewFsInfoFailedError(err)
	}
	quantity := func(n int64) *resource.Quantity { return resource.NewQuantity(n, resource.BinarySI) }
	r.Used, r.InodesUsed = quantity(bytes), quantity(inodes)
	r.Capacity, r.Available = quantity(size), quantity(free)
	r.Inodes, r.InodesFree = quantity(all), quantity(unused)
	return r, nil
}

// diskUsage is what du says of a directory: bytes in blocks of 4 KiB, and inodes. A file with several names counts once.
func diskUsage(files kernel.Files, dir string) (bytes, inodes int64, err error) {
	seen := map[uint64]bool{}
	var walk func(name string) error
	walk = func(name string) error {
		i, err := files.Lstat(name)
		if err != nil {
			return err
		}
		if s := kernel.StatOf(i); s.Nlink > 1 && !i.IsDir() {
			if seen[s.Inode] {
				return nil
			}
			seen[s.Inode] = true
		}
		inodes++
		bytes += kernel.DiskUsage(i.Mode(), i.Size())
		if !i.IsDir() {
			return nil
		}
		entries, err := files.ReadDir(name)
		if err != nil {
			return err
		}
		for _, e := range entries {
			// What has gone meanwhile takes no room.
			if err := walk(path.Join(name, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return err
			}
		}
		return nil
	}
	err = walk(dir)
	return bytes, inodes, err
}
