package filesystem

import (
	"io/fs"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"ckadrill/sim/kernel"
)

// mu guards all trees: an operation touches one for microseconds, and some touch two.
var mu sync.RWMutex

// rootInode is the number of every tree's root directory, as ext4's.
const rootInode = 2

// chunkSize is the piece in which content is frozen: an appended line does not cost the whole file.
const chunkSize = 64 << 10

// Quota is the space of one device, which several trees may share (the writable layers of a node's containers).
type Quota struct {
	limit  int64
	used   atomic.Int64
	inodes atomic.Int64
}

// NewQuota makes a space of limit bytes; 0 is no limit.
func NewQuota(limit int64) *Quota { return &Quota{limit: limit} }

// Limit is the size in bytes, 0 for none; Used is what is taken of it.
func (q *Quota) Limit() int64 { return q.limit }

// Used is how many bytes are taken.
func (q *Quota) Used() int64 { return q.used.Load() }

// Inodes is how many inodes the space has, 0 for no limit, and how many are taken.
func (q *Quota) Inodes() (limit, used int64) { return kernel.Inodes(q.limit), q.inodes.Load() }

// takeInode takes the room of a new inode without content.
func (q *Quota) takeInode(mode fs.FileMode) error {
	if limit, used := q.Inodes(); q.limit > 0 && used >= limit {
		return syscall.ENOSPC
	}
	if err := q.take(kernel.DiskUsage(mode, 0)); err != nil {
		return err
	}
	q.inodes.Add(1)
	return nil
}

// forceInode counts an inode that is there already.
func (q *Quota) forceInode(i *inode) {
	q.used.Add(kernel.DiskUsage(i.mode, i.size))
	q.inodes.Add(1)
}

// giveInode gives an inode and its content back.
func (q *Quota) giveInode(i *inode) {
	q.used.Add(-kernel.DiskUsage(i.mode, i.size))
	q.inodes.Add(-1)
}

// SetLimit changes the size, as growing a disk does.
func (q *Quota) SetLimit(limit int64) {
	mu.Lock()
	defer mu.Unlock()
	q.limit = limit
}

// resize takes or gives the room between two sizes of a file.
func (q *Quota) resize(i *inode, size int64) error {
	return q.take(kernel.DiskUsage(i.mode, size) - kernel.DiskUsage(i.mode, i.size))
}

func (q *Quota) take(n int64) error {
	if n > 0 && q.limit > 0 && q.used.Load()+n > q.limit {
		return syscall.ENOSPC
	}
	q.used.Add(n)
	return nil
}

// Tree is one file system.
type Tree struct {
	w      *kernel.World
	device string
	quota  *Quota
	base   *Tree // sealed; inodes that are not in this tree are its
	sealed bool
	inodes map[uint64]*inode // nil entries hide the base's
	next   uint64
	headV  uint64
	// generated adds files that are made when they are looked at.
	generated Generator
	// ofKernel says that nobody may add or remove a name.
	ofKernel bool
}

// inode is a file of any kind. All fields are guarded by mu.
type inode struct {
	id       uint64
	version  uint64
	mode     fs.FileMode
	uid, gid int
	nlink    int
	mtime    time.Time
	atime    time.Time
	ctime    time.Time
	size     int64
	chunks   []chunk
	held     int64             // bytes of chunks that were written since it is there
	target   string            // of a symbolic link
	entries  map[string]uint64 // of a directory
	rdev     string
	dynamic  *Dynamic
	open     int // an unlinked inode lives as long as it is open
	watches  []*watch
}

type chunk struct {
	data    []byte
	version uint64
}

// Dynamic is the content of a file that is made when it is read, such as those below /proc. It is not part of a freeze.
type Dynamic struct {
	Read  func() []byte
	Write func([]byte) error // nil: the file cannot be written
}

// NewTree makes an empty file system of limit bytes (0: no limit), whose root belongs to root and has mode 0755.
func NewTree(w *kernel.World, device string, limit int64) *Tree {
	return NewTreeOn(w, device, NewQuota(limit))
}

// NewTreeOn makes an empty file system that shares a space with others.
func NewTreeOn(w *kernel.World, device string, q *Quota) *Tree {
	t := &Tree{w: w, device: device, quota: q, inodes: map[uint64]*inode{}, next: rootInode}
	mu.Lock()
	defer mu.Unlock()
	root := t.newInode(fs.ModeDir|0o755, 0, 0)
	root.nlink = 2
	q.forceInode(root)
	return t
}

// Seal makes the tree unchangeable, so that it can be cloned.
func (t *Tree) Seal() {
	mu.Lock()
	defer mu.Unlock()
	t.sealed = true
}

// Clone makes a tree that begins with the content of this one, which must be sealed. It costs nothing until it is changed;
// only what differs counts against the quota and is part of a freeze.
func (t *Tree) Clone(device string, q *Quota) *Tree {
	mu.Lock()
	defer mu.Unlock()
	if !t.sealed {
		panic("filesystem: only a sealed tree can be cloned")
	}
	return &Tree{w: t.w, device: device, quota: q, base: t, inodes: map[uint64]*inode{}, next: t.next}
}

// Missing says that a name, in which no links are followed, does not exist in the tree.
func (t *Tree) Missing(name string) bool {
	mu.RLock()
	defer mu.RUnlock()
	_, err := t.find(name)
	return err != nil
}

// Quota is the space that the tree lives in.
func (t *Tree) Quota() *Quota { return t.quota }

// Device is the name of the tree's device.
func (t *Tree) Device() string { return t.device }

func (t *Tree) newInode(mode fs.FileMode, uid, gid int) *inode {
	now := time.Now()
	i := &inode{id: t.next, version: t.w.Version(), mode: mode, uid: uid, gid: gid, nlink: 1, mtime: now, atime: now, ctime: now}
	if mode.IsDir() {
		i.entries = map[string]uint64{}
	}
	t.next++
	t.headV = i.version
	t.inodes[i.id] = i
	return i
}

// get finds an inode for reading.
func (t *Tree) get(id uint64) *inode {
	if id >= FirstGenerated {
		return t.generate(id)
	}
	for x := t; x != nil; x = x.base {
		if i, ok := x.inodes[id]; ok {
			return i
		}
	}
	return nil
}

// edit finds an inode for writing: one of the base is copied first.
func (t *Tree) edit(id uint64) *inode {
	if id >= FirstGenerated {
		return nil
	}
	if i, ok := t.inodes[id]; ok {
		if i != nil {
			i.version = t.w.Version()
		}
		return i
	}
	old := t.get(id)
	if old == nil {
		return nil
	}
	c := *old
	c.version, c.open, c.watches, c.held = t.w.Version(), 0, nil, 0
	c.chunks = append([]chunk(nil), old.chunks...)
	for k := range c.chunks {
		c.chunks[k].data = slices.Clip(c.chunks[k].data) // so that an append does not write into the base's array
	}
	if old.entries != nil {
		c.entries = make(map[string]uint64, len(old.entries))
		for k, v := range old.entries {
			c.entries[k] = v
		}
	}
	t.inodes[id] = &c
	t.quota.forceInode(&c) // copied up as a whole
	return &c
}

// drop forgets an inode that no name and no open file leads to.
func (t *Tree) drop(i *inode) {
	if i.nlink > 0 || i.open > 0 {
		return
	}
	t.quota.giveInode(i)
	i.release()
	if t.base != nil && t.base.get(i.id) != nil {
		t.inodes[i.id] = nil
		t.headV = t.w.Version()
		return
	}
	delete(t.inodes, i.id)
}

func (i *inode) readAt(b []byte, off int64) int {
	n := 0
	for n < len(b) && off < i.size {
		k := off / chunkSize
		var data []byte
		if k < int64(len(i.chunks)) {
			data = i.chunks[k].data
		}
		in := int(off % chunkSize)
		end := int(min(int64(chunkSize), i.size-k*chunkSize))
		want := b[n:min(len(b), n+end-in)]
		c := 0
		if in < len(data) {
			c = copy(want, data[in:])
		}
		clear(want[c:]) // a hole
		n += len(want)
		off += int64(len(want))
	}
	return n
}

// writeAt writes to an inode that edit returned.
func (t *Tree) writeAt(i *inode, b []byte, off int64) (int, error) {
	end := off + int64(len(b))
	if end < 0 || end > maxSize || end > i.size && (end-1)/chunkSize >= maxPieces {
		return 0, syscall.EFBIG
	}
	before := i.size
	if end > i.size {
		if err := t.quota.resize(i, end); err != nil {
			// as much as fits is written, as a real file system does
			room := t.quota.limit - t.quota.used.Load()
			keep := max(0, min(int64(len(b)), kernel.DiskUsage(i.mode, i.size)+room-off))
			if keep == 0 || keep == int64(len(b)) {
				return 0, err
			}
			n, _ := t.writeAt(i, b[:keep], off)
			return n, err
		}
		i.size = end
	}
	n := 0
	for n < len(b) {
		k := (off + int64(n)) / chunkSize
		for int64(len(i.chunks)) <= k {
			i.chunks = append(i.chunks, chunk{})
		}
		c := &i.chunks[k]
		in := int((off + int64(n)) % chunkSize)
		m := min(len(b)-n, chunkSize-in)
		if in >= len(c.data) && allZero(b[n:n+m]) {
			n += m // a hole reads the same, and a disk full of zeros takes no memory
			continue
		}
		if err := i.hold(int64(max(0, in+m-len(c.data)))); err != nil {
			if reached := max(before, off+int64(n)); reached < i.size {
				t.quota.resize(i, reached)
				i.size = reached
			}
			return n, err
		}
		// Content is never changed in place, since a clone may hold the old one; see edit for why appending is safe.
		if in == len(c.data) {
			c.data = append(c.data, b[n:n+m]...)
		} else {
			d := make([]byte, max(len(c.data), in+m), max(len(c.data), in+m))
			copy(d, c.data)
			copy(d[in:], b[n:n+m])
			c.data = d
		}
		c.version = t.w.Version()
		n += m
	}
	return n, nil
}

func (t *Tree) truncate(i *inode, size int64) error {
	if err := t.quota.resize(i, size); err != nil {
		return err
	}
	if size < i.size {
		i.hold(-min(i.held, i.size-size))
		keep := int((size + chunkSize - 1) / chunkSize)
		if keep < len(i.chunks) {
			i.chunks = append([]chunk(nil), i.chunks[:keep]...)
		}
		if rest := int(size % chunkSize); rest > 0 && keep > 0 && keep <= len(i.chunks) && len(i.chunks[keep-1].data) > rest {
			i.chunks[keep-1] = chunk{append([]byte(nil), i.chunks[keep-1].data[:rest]...), t.w.Version()}
		}
	}
	i.size = size
	return nil
}

func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}
