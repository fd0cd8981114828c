package network

import (
	"context"
	"errors"
	"io/fs"
	"net"
	"os"
	"syscall"

	"ckadrill/sim/kernel"
)

// inode names a socket file wherever it is mounted on a machine.
type inode struct {
	host   *kernel.Host
	device string
	number uint64
}

func inodeOf(p *kernel.Process, i fs.FileInfo) inode {
	s := kernel.StatOf(i)
	return inode{p.Host(), s.Device, s.Inode}
}

// UnixListener is a listening unix socket.
type UnixListener struct {
	queue
	f     *Fabric
	name  string
	ino   inode
	owner *kernel.Process
	fd    int
}

func errnoOf(err error) syscall.Errno {
	var e syscall.Errno
	switch {
	case errors.As(err, &e):
		return e
	case errors.Is(err, fs.ErrNotExist):
		return syscall.ENOENT
	case errors.Is(err, fs.ErrPermission):
		return syscall.EACCES
	case errors.Is(err, fs.ErrExist):
		return syscall.EEXIST
	}
	return syscall.EIO
}

// listenUnix makes a socket file in the process's tree. Files are made with the type bit [fs.ModeSocket] in OpenFile's
// mode, since package fs knows no mknod.
func (n *Namespace) listenUnix(p *kernel.Process, name string) (net.Listener, error) {
	addr := &net.UnixAddr{Name: name, Net: "unix"}
	fail := func(errno syscall.Errno) (net.Listener, error) {
		return nil, opError("listen", "bind", "unix", nil, addr, errno)
	}
	path := p.Path(name)
	info, err := p.Files.Lstat(path)
	if err == nil {
		// After a thaw a process takes its own socket file over, which a freeze has kept.
		taken := false
		if info.Mode()&fs.ModeSocket != 0 {
			n.f.mu.Lock()
			taken = n.f.unix[inodeOf(p, info)] != nil
			n.f.mu.Unlock()
		}
		if !p.Resumed() || taken || info.Mode()&fs.ModeSocket == 0 {
			return fail(syscall.EADDRINUSE)
		}
	} else {
		file, err := p.Files.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, fs.ModeSocket|0o777)
		if err != nil {
			errno := errnoOf(err)
			if errno == syscall.EEXIST {
				errno = syscall.EADDRINUSE
			}
			return fail(errno)
		}
		file.Close()
		if info, err = p.Files.Lstat(path); err != nil {
			return fail(errnoOf(err))
		}
	}
	f := n.f
	f.mu.Lock()
	defer f.mu.Unlock()
	l := &UnixListener{f: f, name: name, ino: inodeOf(p, info), owner: p}
	l.init()
	fd, ok := f.own(p, l)
	if !ok {
		return nil, kernel.ErrDead
	}
	l.fd = fd
	f.unix[l.ino] = l
	return l, nil
}

// dialUnix connects to the listener behind a socket file.
func (n *Namespace) dialUnix(ctx context.Context, p *kernel.Process, name string) (net.Conn, error) {
	addr := &net.UnixAddr{Name: name, Net: "unix"}
	fail := func(errno syscall.Errno) (net.Conn, error) {
		return nil, opError("dial", "connect", "unix", nil, addr, errno)
	}
	if err := ctx.Err(); err != nil {
		return nil, &net.OpError{Op: "dial", Net: "unix", Addr: addr, Err: contextError(err)}
	}
	info, err := p.Files.Stat(p.Path(name))
	if err != nil {
		return fail(errnoOf(err))
	}
	if !mayWrite(info, p.Cred) {
		return fail(syscall.EACCES)
	}
	f := n.f
	f.mu.Lock()
	defer f.mu.Unlock()
	l := f.unix[inodeOf(p, info)]
	if l == nil || info.Mode()&fs.ModeSocket == 0 {
		return fail(syscall.ECONNREFUSED)
	}
	pr := f.newPair("unix", hintOf(ctx))
	a, b := &pr.side[0], &pr.side[1]
	a.space, b.space, a.path, b.path = n, n, name, l.name
	fd, ok := f.own(p, a)
	if !ok {
		return nil, kernel.ErrDead
	}
	a.owner, a.fd = p, fd
	f.pairs[pr] = true
	if ok, full := l.put(b); !ok {
		delete(f.pairs, pr)
		f.disown(p, a)
		if full {
			return fail(syscall.EAGAIN)
		}
		return fail(syscall.ECONNREFUSED)
	}
	return a, nil
}

// mayWrite checks the permission bits that connect(2) needs on a socket file.
func mayWrite(i fs.FileInfo, c kernel.Credential) bool {
	if c.UID == 0 {
		return true
	}
	s := kernel.StatOf(i)
	m := i.Mode().Perm()
	if c.UID == s.UID {
		return m&0o200 != 0
	}
	for _, g := range append([]int{c.GID}, c.Groups...) {
		if g == s.GID {
			return m&0o020 != 0
		}
	}
	return m&0o002 != 0
}

// Addr implements [net.Listener].
func (l *UnixListener) Addr() net.Addr { return &net.UnixAddr{Name: l.name, Net: "unix"} }

// Accept implements [net.Listener].
func (l *UnixListener) Accept() (net.Conn, error) {
	c, err := l.accept()
	if err != nil {
		return nil, err
	}
	c.p.decide(nil)
	return c, nil
}

func (l *UnixListener) accept() (*Conn, error) {
	for {
		c, ok := l.take()
		if !ok {
			return nil, &net.OpError{Op: "accept", Net: "unix", Addr: l.Addr(), Err: net.ErrClosed}
		}
		if l.f.adopt(c, l.owner) {
			return c, nil
		}
	}
}

// Close implements [net.Listener]. As Go does, it removes the socket file.
func (l *UnixListener) Close() error {
	if !l.end() {
		return &net.OpError{Op: "close", Net: "unix", Addr: l.Addr(), Err: net.ErrClosed}
	}
	path := l.owner.Path(l.name)
	if i, err := l.owner.Files.Lstat(path); err == nil && inodeOf(l.owner, i) == l.ino {
		l.owner.Files.Remove(path)
	}
	return nil
}

// die ends the listener for a process that was killed: its file stays.
func (l *UnixListener) die() { l.end() }

func (l *UnixListener) end() bool {
	waiting, was := l.close()
	if was {
		return false
	}
	l.f.mu.Lock()
	if l.f.unix[l.ino] == l {
		delete(l.f.unix, l.ino)
	}
	l.f.disown(l.owner, l)
	l.f.mu.Unlock()
	for _, c := range waiting {
		c.SetLinger(0)
		c.Close()
	}
	return true
}
