package images

import (
	"errors"
	"io/fs"
	"syscall"
)

// errnoText is an error as nginx and other C programs print it, "2: No such file or directory".
func errnoText(err error) string {
	var e syscall.Errno
	if !errors.As(err, &e) {
		switch {
		case errors.Is(err, fs.ErrNotExist):
			e = syscall.ENOENT
		case errors.Is(err, fs.ErrPermission):
			e = syscall.EACCES
		case errors.Is(err, fs.ErrExist):
			e = syscall.EEXIST
		default:
			return err.Error()
		}
	}
	for _, t := range linuxErrors {
		if t.e == e {
			return t.text
		}
	}
	return e.Error()
}

// The numbers are Linux's, whatever the host calls them.
var linuxErrors = []struct {
	e    syscall.Errno
	text string
}{
	{syscall.EPERM, "1: Operation not permitted"}, {syscall.ENOENT, "2: No such file or directory"}, {syscall.EACCES, "13: Permission denied"}, {syscall.EEXIST, "17: File exists"},
	{syscall.ENOTDIR, "20: Not a directory"}, {syscall.EISDIR, "21: Is a directory"}, {syscall.ENOSPC, "28: No space left on device"}, {syscall.EROFS, "30: Read-only file system"},
	{syscall.EADDRINUSE, "98: Address already in use"}, {syscall.EADDRNOTAVAIL, "99: Cannot assign requested address"}, {syscall.ECONNREFUSED, "111: Connection refused"},
	{syscall.EHOSTUNREACH, "113: No route to host"}, {syscall.ETIMEDOUT, "110: Connection timed out"}, {syscall.ENETUNREACH, "101: Network is unreachable"},
}
