//go:build unix

package main

import (
	"os"

	"golang.org/x/sys/unix"
)

// wireFiles moves the two ends of the front's pipes away from the numbers 0 and 1, where whoever kept os.Stdin or os.Stdout
// before we could replace them would still find them. What is left there is the null device and standard error.
func wireFiles() (in, out *os.File, err error) {
	if in, err = moved(0, "requests"); err != nil {
		return nil, nil, err
	}
	if out, err = moved(1, "events"); err != nil {
		return nil, nil, err
	}
	null, err := os.Open(os.DevNull)
	if err != nil {
		return nil, nil, err
	}
	defer null.Close()
	if err := unix.Dup2(int(null.Fd()), 0); err != nil {
		return nil, nil, err
	}
	return in, out, unix.Dup2(2, 1)
}

func moved(fd int, name string) (*os.File, error) {
	n, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, 3)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(n), name), nil
}
