package kernel

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
)

// Scratch makes a directory of the host that nobody else uses, for upstream's code that can only open host files. All of
// a host process's lie in one directory, which [Exit] removes; those of host processes that ended otherwise are removed by
// the next one that needs any.
func Scratch(pattern string) (string, error) {
	root, err := scratchRoot()
	if err != nil {
		return "", err
	}
	return os.MkdirTemp(root, pattern)
}

const scratchPrefix = "ckadrill-scratch-"

var scratchRoot = sync.OnceValues(func() (string, error) {
	sweepScratch(os.TempDir())
	scratchMade.Store(true)
	return os.MkdirTemp("", fmt.Sprintf("%s%d-", scratchPrefix, os.Getpid()))
})

// sweepScratch removes what host processes that are gone have left.
func sweepScratch(dir string) {
	l, err := filepath.Glob(filepath.Join(dir, scratchPrefix+"*"))
	if err != nil {
		return
	}
	for _, name := range l {
		number, _, _ := strings.Cut(strings.TrimPrefix(filepath.Base(name), scratchPrefix), "-")
		if pid, err := strconv.Atoi(number); err == nil && !hostProcessLives(pid) {
			os.RemoveAll(name)
		}
	}
}

// hostProcessLives errs on the side of life.
func hostProcessLives(pid int) bool {
	p, err := os.FindProcess(pid)
	if err != nil {
		return false
	}
	if runtime.GOOS == "windows" {
		return true // finding it has opened it
	}
	err = p.Signal(syscall.Signal(0))
	return err == nil || errors.Is(err, fs.ErrPermission)
}

var scratchMade atomic.Bool

// removeScratch removes this host process's own.
func removeScratch() {
	if !scratchMade.Load() {
		return
	}
	root, err := scratchRoot()
	if err != nil {
		return
	}
	for range 3 { // processes of the world may still write
		if os.RemoveAll(root) == nil {
			return
		}
	}
}

// Exit ends the host process and leaves nothing of it on the host.
func Exit(code int) {
	removeScratch()
	os.Exit(code)
}
