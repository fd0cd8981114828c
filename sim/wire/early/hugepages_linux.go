package early

import (
	"runtime"
	"runtime/debug"
	"syscall"
)

// hugeHeap is how much of the heap's address space lies in huge pages: more than a world at work holds.
const hugeHeap = 256 << 20

const madvHugePage = 14 // MADV_HUGEPAGE, which package syscall lacks

// useHugePages has the kernel back the heap with huge pages. A world touches some hundred MiB for the first time while it
// boots; in pages of 4 KiB the kernel would be busy for a third of the boot. Go does not ask for huge pages by itself, but
// memory that it has got once stays its own: so some is allocated, marked and given back before anything else begins. It
// is touched only when it is used, and what is not used long goes back to the system as ever.
func useHugePages() {
	percent := debug.SetGCPercent(-1)
	defer debug.SetGCPercent(percent)
	b := make([]byte, hugeHeap)
	// Where the kernel has no huge pages the boot takes longer, and that is all.
	_ = syscall.Madvise(b, madvHugePage)
	b = nil
	runtime.GC()
}
