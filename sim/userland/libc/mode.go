package libc

import (
	"fmt"
	"io/fs"
	"strconv"
	"time"

	"ckadrill/sim/kernel"
)

// ModeBits are the twelve permission bits of a mode as chmod(1) numbers them.
func ModeBits(m fs.FileMode) int {
	n := int(m.Perm())
	if m&fs.ModeSetuid != 0 {
		n |= 0o4000
	}
	if m&fs.ModeSetgid != 0 {
		n |= 0o2000
	}
	if m&fs.ModeSticky != 0 {
		n |= 0o1000
	}
	return n
}

// ModeOf is the mode of twelve permission bits.
func ModeOf(bits int) fs.FileMode {
	m := fs.FileMode(bits & 0o777)
	if bits&0o4000 != 0 {
		m |= fs.ModeSetuid
	}
	if bits&0o2000 != 0 {
		m |= fs.ModeSetgid
	}
	if bits&0o1000 != 0 {
		m |= fs.ModeSticky
	}
	return m
}

// TypeLetter is the first letter of what ls -l shows of a mode.
func TypeLetter(m fs.FileMode) byte {
	switch {
	case m.IsDir():
		return 'd'
	case m&fs.ModeSymlink != 0:
		return 'l'
	case m&fs.ModeNamedPipe != 0:
		return 'p'
	case m&fs.ModeSocket != 0:
		return 's'
	case m&fs.ModeCharDevice != 0:
		return 'c'
	case m&fs.ModeDevice != 0:
		return 'b'
	}
	return '-'
}

// ModeString is a mode as ls -l shows it: "drwxr-xr-t".
func ModeString(m fs.FileMode) string {
	b := []byte("?rwxrwxrwx")
	b[0] = TypeLetter(m)
	for i := range 9 {
		if m&(1<<(8-i)) == 0 {
			b[i+1] = '-'
		}
	}
	special := func(set bool, at int, small, big byte) {
		if set {
			if b[at] == 'x' {
				b[at] = small
			} else {
				b[at] = big
			}
		}
	}
	special(m&fs.ModeSetuid != 0, 3, 's', 'S')
	special(m&fs.ModeSetgid != 0, 6, 's', 'S')
	special(m&fs.ModeSticky != 0, 9, 't', 'T')
	return string(b)
}

// Blocks is how much disk a file takes, in blocks of 1 KiB.
func Blocks(i fs.FileInfo) int64 { return kernel.DiskUsage(i.Mode(), i.Size()) >> 10 }

// HumanSize is a size as ls -h and df -h show it, rounded up: 512, 1.5K, 12M. base is 1024 or 1000.
func HumanSize(n, base int64) string {
	if n < base {
		return strconv.FormatInt(n, 10)
	}
	units := "KMGTPE"
	if base == 1000 {
		units = "kMGTPE"
	}
	f, i := float64(n)/float64(base), 0
	for f >= float64(base) && i < len(units)-1 {
		f /= float64(base)
		i++
	}
	ceil := func(x float64) int64 {
		k := int64(x)
		if float64(k) < x {
			k++
		}
		return k
	}
	if f < 10 {
		if tenths := ceil(f * 10); tenths < 100 {
			return fmt.Sprintf("%d.%d%c", tenths/10, tenths%10, units[i])
		}
	}
	k := ceil(f)
	if k == base && i < len(units)-1 {
		return "1.0" + string(units[i+1])
	}
	return fmt.Sprintf("%d%c", k, units[i])
}

// ListTime is a date as ls -l shows it: with the time of day where it lies in the last six months.
func ListTime(t, now time.Time) string {
	if age := now.Sub(t); age < 31556952/2*time.Second && age >= 0 {
		return t.Format("Jan _2 15:04")
	}
	return t.Format("Jan _2  2006")
}

// Stat is the part of Linux's struct stat that io/fs leaves out.
func Stat(i fs.FileInfo) *kernel.FileStat { return kernel.StatOf(i) }
