package ssh

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"syscall"
	"time"

	"ckadrill/sim/kernel"
	"ckadrill/sim/userland/libc"
)

// store is one side of a copy: the files of this machine, or of another one through a connection. Errors are those that
// scp prints, such as "No such file or directory".
type store interface {
	stat(name string) (attributes, error)
	list(name string) ([]string, error)
	read(name string, offset int64) ([]byte, error)
	// write puts data at an offset; at offset 0 the file is made with a mode, or emptied.
	write(name string, offset int64, data []byte, mode fs.FileMode) error
	mkdir(name string, mode fs.FileMode) error
	set(name string, a attributes) error // mode and times
	home() string
}

// attributes are what scp wants to know about a file.
type attributes struct {
	Mode         fs.FileMode
	Size         int64
	Atime, Mtime time.Time
}

// local is the files of a process.
type local struct {
	files kernel.Files
	dir   string // names are relative to it
}

func (l local) path(name string) string {
	if !path.IsAbs(name) {
		name = path.Join(l.dir, name)
	}
	return path.Clean(name)
}

func said(err error) error {
	if err == nil {
		return nil
	}
	return errors.New(libc.Strerror(err))
}

func (l local) home() string { return l.dir }

func (l local) stat(name string) (attributes, error) {
	i, err := l.files.Stat(l.path(name))
	if err != nil {
		return attributes{}, said(err)
	}
	return attributes{Mode: i.Mode(), Size: i.Size(), Atime: kernel.StatOf(i).Atime, Mtime: i.ModTime()}, nil
}

func (l local) list(name string) ([]string, error) {
	entries, err := l.files.ReadDir(l.path(name))
	if err != nil {
		return nil, said(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names, nil
}

// transfer is how many bytes of a file go over the connection at once.
const transfer = 256 << 10

func (l local) read(name string, offset int64) ([]byte, error) {
	f, err := l.files.OpenFile(l.path(name), os.O_RDONLY, 0)
	if err != nil {
		return nil, said(err)
	}
	defer f.Close()
	b := make([]byte, transfer)
	n, err := f.ReadAt(b, offset)
	if err != nil && err != io.EOF {
		return nil, said(err)
	}
	return b[:n], nil
}

func (l local) write(name string, offset int64, data []byte, mode fs.FileMode) error {
	flag := os.O_WRONLY | os.O_CREATE
	if offset == 0 {
		flag |= os.O_TRUNC
	}
	f, err := l.files.OpenFile(l.path(name), flag, mode.Perm())
	if err != nil {
		return said(err)
	}
	if _, err = f.Seek(offset, 0); err == nil {
		_, err = f.Write(data)
	}
	if closed := f.Close(); err == nil {
		err = closed
	}
	return said(err)
}

func (l local) mkdir(name string, mode fs.FileMode) error {
	return said(l.files.Mkdir(l.path(name), mode.Perm()))
}

func (l local) set(name string, a attributes) error {
	name = l.path(name)
	if err := l.files.Chmod(name, a.Mode.Perm()); err != nil {
		return said(err)
	}
	return said(l.files.Chtimes(name, a.Atime, a.Mtime))
}

// fileRequest is a call of a [store] on its way to the other machine, fileReply what comes back.
type fileRequest struct {
	Op     string
	Name   string
	Offset int64
	Data   []byte
	Attr   attributes
}

type fileReply struct {
	Error string
	Attr  attributes
	Names []string
	Data  []byte
	Home  string
}

// remote is the files of another machine.
type remote struct {
	l   *link
	dir string
}

// openRemote asks a server for its files.
func openRemote(l *link, user string) (*remote, error) {
	if err := l.open(request{User: user, Files: true}); err != nil {
		return nil, err
	}
	r := &remote{l: l}
	reply, err := r.call(fileRequest{Op: "home"})
	r.dir = reply.Home
	return r, err
}

// errLost is what scp says when the connection to a server is gone.
var errLost = errors.New("Connection closed")

func (r *remote) call(q fileRequest) (fileReply, error) {
	var reply fileReply
	if err := r.l.sendJSON(msgFile, q); err != nil {
		return reply, errLost
	}
	kind, body, err := r.l.receive()
	if err != nil || kind != msgFile || json.Unmarshal(body, &reply) != nil {
		return reply, errLost
	}
	if reply.Error != "" {
		return reply, errors.New(reply.Error)
	}
	return reply, nil
}

func (r *remote) home() string { return r.dir }

func (r *remote) stat(name string) (attributes, error) {
	reply, err := r.call(fileRequest{Op: "stat", Name: name})
	return reply.Attr, err
}

func (r *remote) list(name string) ([]string, error) {
	reply, err := r.call(fileRequest{Op: "list", Name: name})
	return reply.Names, err
}

func (r *remote) read(name string, offset int64) ([]byte, error) {
	reply, err := r.call(fileRequest{Op: "read", Name: name, Offset: offset})
	return reply.Data, err
}

func (r *remote) write(name string, offset int64, data []byte, mode fs.FileMode) error {
	_, err := r.call(fileRequest{Op: "write", Name: name, Offset: offset, Data: data, Attr: attributes{Mode: mode}})
	return err
}

func (r *remote) mkdir(name string, mode fs.FileMode) error {
	_, err := r.call(fileRequest{Op: "mkdir", Name: name, Attr: attributes{Mode: mode}})
	return err
}

func (r *remote) set(name string, a attributes) error {
	_, err := r.call(fileRequest{Op: "set", Name: name, Attr: a})
	return err
}

// serveFiles answers a client's calls with the files as the user sees them. It returns nil when the client has finished.
func (v *visit) serveFiles() error {
	s := local{v.server.machine.Files(v.user.Cred), v.user.Home}
	s.files.SetUmask(0o022)
	if err := v.w.send(msgOpened, nil); err != nil {
		return err
	}
	for {
		kind, body, err := v.w.receive()
		if err != nil {
			if err == io.EOF {
				return nil
			}
			return err
		}
		var q fileRequest
		if kind != msgFile || json.Unmarshal(body, &q) != nil || q.Offset < 0 {
			return syscall.EINVAL
		}
		reply, err := s.answer(q)
		if err != nil {
			reply.Error = err.Error()
		}
		if err := v.w.sendJSON(msgFile, reply); err != nil {
			return err
		}
	}
}

func (l local) answer(q fileRequest) (reply fileReply, err error) {
	switch q.Op {
	case "home":
		reply.Home = l.dir
	case "stat":
		reply.Attr, err = l.stat(q.Name)
	case "list":
		reply.Names, err = l.list(q.Name)
	case "read":
		reply.Data, err = l.read(q.Name, q.Offset)
	case "write":
		err = l.write(q.Name, q.Offset, q.Data, q.Attr.Mode)
	case "mkdir":
		err = l.mkdir(q.Name, q.Attr.Mode)
	case "set":
		err = l.set(q.Name, q.Attr)
	default:
		err = fmt.Errorf("Operation unsupported")
	}
	return reply, err
}
