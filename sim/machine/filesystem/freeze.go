package filesystem

import (
	"fmt"
	"io/fs"
	"slices"
	"strconv"
	"strings"
	"time"

	"ckadrill/sim/kernel"
)

// frozenInode is an inode without its content.
type frozenInode struct {
	Mode                fs.FileMode
	UID, GID, Nlink     int
	Mtime, Atime, Ctime time.Time
	Size                int64
	Chunks              int
	Target, Rdev        string
	Entries             []frozenEntry // sorted, so that equal directories are equal bytes
}

type frozenEntry struct {
	Name string
	ID   uint64
}

type frozenHead struct {
	Next   uint64
	Hidden []uint64 // inodes of the base that are gone
}

// Freeze puts what distinguishes the tree from its base into a snapshot: a part for each inode ("<prefix><number>") and
// for each 64 KiB of content ("<prefix><number>.<piece>"). Files that are only open are not kept.
func (t *Tree) Freeze(s *kernel.Snapshot, prefix string) {
	mu.RLock()
	defer mu.RUnlock()
	s.Put(prefix+"head", t.headV+1, func() []byte {
		h := frozenHead{Next: t.next}
		for id, i := range t.inodes {
			if i == nil {
				h.Hidden = append(h.Hidden, id)
			}
		}
		slices.Sort(h.Hidden)
		return encode(h)
	})
	for id, i := range t.inodes {
		if i == nil || i.nlink == 0 || i.dynamic != nil {
			continue
		}
		name := prefix + strconv.FormatUint(id, 10)
		s.Put(name, i.version, func() []byte {
			return encode(frozenInode{i.mode, i.uid, i.gid, i.nlink, i.mtime, i.atime, i.ctime, i.size, len(i.chunks), i.target, i.rdev, i.sortedEntries()})
		})
		for k, c := range i.chunks {
			if len(c.data) > 0 {
				s.Put(name+"."+strconv.Itoa(k), c.version, func() []byte { return c.data })
			}
		}
	}
}

// Thaw gives a new tree the parts that Freeze put under the prefix.
func (t *Tree) Thaw(parts kernel.Parts, prefix string) error {
	mu.Lock()
	defer mu.Unlock()
	head, ok := parts[prefix+"head"]
	if !ok {
		return fmt.Errorf("the file system %s is missing", prefix)
	}
	var h frozenHead
	if err := kernel.Decode(head, &h); err != nil {
		return err
	}
	for _, i := range t.inodes {
		if i != nil {
			t.quota.giveInode(i)
		}
	}
	t.inodes = map[uint64]*inode{}
	t.next = h.Next
	for _, id := range h.Hidden {
		t.inodes[id] = nil
	}
	for name, b := range parts {
		rest, ok := strings.CutPrefix(name, prefix)
		if !ok || rest == "head" || strings.ContainsAny(rest, "./") {
			continue
		}
		id, err := strconv.ParseUint(rest, 10, 64)
		if err != nil {
			return fmt.Errorf("file system %s: inode %q", prefix, rest)
		}
		var f frozenInode
		if err := kernel.Decode(b, &f); err != nil {
			return fmt.Errorf("file system %s: inode %d: %w", prefix, id, err)
		}
		if f.Chunks < 0 || f.Size < 0 || f.Size > maxSize || f.Chunks > maxPieces {
			return fmt.Errorf("file system %s: inode %d: a size of %d bytes in %d pieces is not possible", prefix, id, f.Size, f.Chunks)
		}
		i := &inode{id: id, version: t.w.Version(), mode: f.Mode, uid: f.UID, gid: f.GID, nlink: f.Nlink, mtime: f.Mtime, atime: f.Atime, ctime: f.Ctime,
			size: f.Size, target: f.Target, rdev: f.Rdev, chunks: make([]chunk, f.Chunks)}
		if i.mode.IsDir() {
			i.entries = make(map[string]uint64, len(f.Entries))
			for _, e := range f.Entries {
				i.entries[e.Name] = e.ID
			}
		}
		for k := range i.chunks {
			i.chunks[k] = chunk{parts[name+"."+strconv.Itoa(k)], t.w.Version()}
			i.chunks[k].data = i.chunks[k].data[:len(i.chunks[k].data):len(i.chunks[k].data)]
		}
		t.inodes[id] = i
		t.quota.forceInode(i)
	}
	return nil
}

func (i *inode) sortedEntries() []frozenEntry {
	l := make([]frozenEntry, 0, len(i.entries))
	for n, id := range i.entries {
		l = append(l, frozenEntry{n, id})
	}
	slices.SortFunc(l, func(a, b frozenEntry) int { return strings.Compare(a.Name, b.Name) })
	return l
}

func encode(v any) []byte {
	b, err := kernel.Encode(v)
	if err != nil {
		panic(err)
	}
	return b
}
