package filesystem

import (
	"errors"
	"sync/atomic"
)

// A machine's disk is larger than what the host's memory could hold of it. Zeros are free; the rest is bounded for all
// trees of a host process together, which has one world.

// maxContent is how many bytes of files may be written beyond what images and a thawed state bring along. A freeze copies
// them, and so do the messages to the session on disk.
const maxContent = 256 << 20

// maxSize is ext4's limit of a file with blocks of 4 KiB; the index of a file's pieces is bounded by it where the device has
// no limit.
const maxSize = 16 << 40

// maxPieces bounds the index of a file on a device without a limit.
const maxPieces = 1 << 20

// ErrContent is the error of a write that would take more of the host's memory than simulated disks may have.
var ErrContent = errors.New("ckadrill holds at most 256 MiB of what is written to files")

// content counts what is held.
var content atomic.Int64

// hold accounts for a change of what an inode holds by n bytes.
func (i *inode) hold(n int64) error {
	if n > 0 && content.Load()+n > maxContent {
		return ErrContent
	}
	i.held += n
	content.Add(n)
	return nil
}

// release gives back what an inode held.
func (i *inode) release() {
	content.Add(-i.held)
	i.held = 0
}
