package libc

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"syscall"

	"ckadrill/sim/kernel"
)

// texts are glibc's, which begin with a capital letter; Go's do not, and differ on other systems.
var texts = []struct {
	err  error
	text string
}{
	{syscall.ENOENT, "No such file or directory"},
	{syscall.EACCES, "Permission denied"},
	{syscall.EPERM, "Operation not permitted"},
	{syscall.EEXIST, "File exists"},
	{syscall.ENOTDIR, "Not a directory"},
	{syscall.EISDIR, "Is a directory"},
	{syscall.ENOTEMPTY, "Directory not empty"},
	{syscall.ENOSPC, "No space left on device"},
	{syscall.EROFS, "Read-only file system"},
	{syscall.EXDEV, "Invalid cross-device link"},
	{syscall.EINVAL, "Invalid argument"},
	{syscall.ELOOP, "Too many levels of symbolic links"},
	{syscall.ENAMETOOLONG, "File name too long"},
	{syscall.ENOEXEC, "Exec format error"},
	{syscall.EPIPE, "Broken pipe"},
	{syscall.EBADF, "Bad file descriptor"},
	{syscall.EBUSY, "Device or resource busy"},
	{syscall.ETXTBSY, "Text file busy"},
	{syscall.EFBIG, "File too large"},
	{syscall.EMFILE, "Too many open files"},
	{syscall.ENOTTY, "Inappropriate ioctl for device"},
	{syscall.ESRCH, "No such process"},
	{syscall.ENXIO, "No such device or address"},
	{syscall.ENODEV, "No such device"},
	{syscall.EIO, "Input/output error"},
	{syscall.ESPIPE, "Illegal seek"},
	{syscall.EMLINK, "Too many links"},
	{syscall.EDQUOT, "Disk quota exceeded"},
	{syscall.ECONNREFUSED, "Connection refused"},
	{syscall.EHOSTUNREACH, "No route to host"},
	{syscall.ENETUNREACH, "Network is unreachable"},
	{syscall.ETIMEDOUT, "Connection timed out"},
	{syscall.EADDRINUSE, "Address already in use"},
	{syscall.EAGAIN, "Resource temporarily unavailable"},
	{syscall.ENOMEM, "Cannot allocate memory"},
	{syscall.ENOSYS, "Function not implemented"},
	{fs.ErrNotExist, "No such file or directory"},
	{fs.ErrPermission, "Permission denied"},
	{fs.ErrExist, "File exists"},
	{fs.ErrClosed, "Bad file descriptor"},
	{context.DeadlineExceeded, "Connection timed out"},
	{kernel.ErrDead, "Interrupted system call"},
	{io.ErrUnexpectedEOF, "Input/output error"},
}

// Strerror is the text that a C program prints for an error of [kernel.Files] or of the network.
func Strerror(err error) string {
	for _, t := range texts {
		if errors.Is(err, t.err) {
			return t.text
		}
	}
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	return err.Error()
}
