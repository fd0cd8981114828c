package filesystem

import "ckadrill/sim/kernel"

// Own is what the tree holds itself, beside its base: bytes of content and number of inodes. It is what df and a container
// runtime call the use of a writable layer.
func (t *Tree) Own() (bytes, inodes uint64) {
	mu.RLock()
	defer mu.RUnlock()
	for _, i := range t.inodes {
		if i != nil {
			bytes += uint64(kernel.DiskUsage(i.mode, i.size))
			inodes++
		}
	}
	return bytes, inodes
}
