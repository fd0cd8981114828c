package kernel

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"sort"
	"strings"
	"sync"
	"syscall"
)

// Programs holds the programs of the world by name. Rooms register what they provide; systemd, shells and the container
// runtime start it by name and import none of them.
type Programs struct {
	mu      sync.Mutex
	byName  map[string]Program
	weights map[string]Footprint
}

// Footprint is what a program uses when nobody asks it for anything.
type Footprint struct {
	// Cores are processors.
	Cores float64
	// Memory is in bytes, of its own pages.
	Memory int64
}

// Weigh says what programs use. A program that knows better says so itself, see [Process.SetSteady] and [Process.SetMemory].
func (ps *Programs) Weigh(all map[string]Footprint) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	ps.weights = all
}

// weighed lets a program begin with its footprint. The lock is held.
func (ps *Programs) weighed(name string, main Program) Program {
	f, ok := ps.weights[name]
	if !ok {
		return main
	}
	return func(p *Process) int {
		p.SetMemory(f.Memory)
		p.SetSteady(f.Cores)
		return main(p)
	}
}

// Register adds a program; a name can be taken once.
func (ps *Programs) Register(name string, main Program) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	if _, ok := ps.byName[name]; ok {
		panic("kernel: program " + name + " registered twice")
	}
	ps.byName[name] = main
}

// Find returns a program by its registered name.
func (ps *Programs) Find(name string) (Program, bool) {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	m, ok := ps.byName[name]
	if !ok {
		return nil, false
	}
	return ps.weighed(name, m), true
}

// Names lists what is registered, sorted.
func (ps *Programs) Names() []string {
	ps.mu.Lock()
	defer ps.mu.Unlock()
	l := make([]string, 0, len(ps.byName))
	for n := range ps.byName {
		l = append(l, n)
	}
	sort.Strings(l)
	return l
}

// An executable file of the world begins as a Linux one does and names the registered program that it holds. So a file
// can be moved, copied, overwritten or lose its x bit, and what a shell or systemd then says follows.
const executableMagic = "\x7fELF\x02\x01\x01\x00ckadrill program "

// Executable is the content of an executable file that holds a registered program.
func Executable(program string) []byte { return []byte(executableMagic + program + "\n") }

// ExecutableProgram is the name of the program that an executable file's content holds.
func ExecutableProgram(content []byte) (string, bool) {
	s, ok := bytes.CutPrefix(content, []byte(executableMagic))
	if !ok {
		return "", false
	}
	name, _, _ := bytes.Cut(s, []byte("\n"))
	return string(name), true
}

// VersionedExecutable is [Executable] with the version of the program in it ("v1.35.9"): an upgrade of a package replaces
// the file, and so what the program says of itself.
func VersionedExecutable(program, version string) []byte {
	return append(Executable(program), "version "+version+"\n"...)
}

// ExecutableVersion is the version in an executable file's content, "" if it says none.
func ExecutableVersion(content []byte) string {
	_, rest, _ := bytes.Cut(content, []byte("\n"))
	v, ok := bytes.CutPrefix(rest, []byte("version "))
	if !ok {
		return ""
	}
	v, _, _ = bytes.Cut(v, []byte("\n"))
	return string(v)
}

// Version is the version in the file that the process was started from, or def if it says none.
func (p *Process) Version(def string) string {
	if p.Files == nil || len(p.Argv) == 0 {
		return def
	}
	name, err := LookPath(p.Files, p.Dir(), p.Getenv("PATH"), p.Argv[0])
	if err != nil {
		return def
	}
	b, err := p.Files.ReadFile(name)
	if err != nil {
		return def
	}
	if v := ExecutableVersion(b); v != "" {
		return v
	}
	return def
}

// ErrNoExec is returned for an executable file that is neither a program nor a script with a #! line.
var ErrNoExec error = syscall.ENOEXEC

// Load finds the program that executing a file would run. For a script the returned argv is the interpreter's. Errors
// are those of execve(2), as *fs.PathError with Op "exec".
func (w *World) Load(files Files, name string, argv []string) (Program, []string, error) {
	return w.load(files, name, argv, 4)
}

func (w *World) load(files Files, name string, argv []string, depth int) (Program, []string, error) {
	fail := func(err error) (Program, []string, error) {
		var pe *fs.PathError
		if errors.As(err, &pe) {
			err = pe.Err
		}
		return nil, nil, &fs.PathError{Op: "exec", Path: name, Err: err}
	}
	info, err := files.Stat(name)
	if err != nil {
		return fail(err)
	}
	if info.IsDir() || info.Mode()&0o111 == 0 {
		return fail(syscall.EACCES)
	}
	content, err := files.ReadFile(name)
	if err != nil {
		return fail(err)
	}
	if prog, ok := ExecutableProgram(content); ok {
		main, ok := w.Programs.Find(prog)
		if !ok {
			return fail(fmt.Errorf("ckadrill does not simulate the program %q yet", prog))
		}
		return main, argv, nil
	}
	if !bytes.HasPrefix(content, []byte("#!")) {
		return fail(ErrNoExec)
	}
	if depth == 0 {
		return fail(syscall.ELOOP)
	}
	line, _, _ := bytes.Cut(content[2:], []byte("\n"))
	interp, arg, _ := strings.Cut(strings.TrimSpace(string(line)), " ")
	next := []string{interp}
	if arg = strings.TrimSpace(arg); arg != "" {
		next = append(next, arg)
	}
	next = append(next, name)
	if len(argv) > 1 {
		next = append(next, argv[1:]...)
	}
	main, next, err := w.load(files, interp, next, depth-1)
	if err != nil {
		return fail(err)
	}
	return main, next, nil
}

// LookPath finds an executable as execvp does: a name with a slash is taken as it is (against dir), any other is searched
// for in the directories of pathList. The error is fs.ErrNotExist or fs.ErrPermission in a *fs.PathError.
func LookPath(files Files, dir, pathList, name string) (string, error) {
	usable := func(f string) error {
		info, err := files.Stat(f)
		switch {
		case err != nil:
			return err
		case info.IsDir() || info.Mode()&0o111 == 0:
			return &fs.PathError{Op: "exec", Path: f, Err: syscall.EACCES}
		}
		return nil
	}
	if strings.Contains(name, "/") {
		f := name
		if !path.IsAbs(f) {
			f = path.Join(dir, f)
		}
		return f, usable(f)
	}
	var denied error
	for _, d := range strings.Split(pathList, ":") {
		if d == "" {
			d = dir
		}
		f := path.Join(d, name)
		err := usable(f)
		if err == nil {
			return f, nil
		}
		if errors.Is(err, fs.ErrPermission) {
			denied = err
		}
	}
	if denied != nil {
		return "", denied
	}
	return "", &fs.PathError{Op: "exec", Path: name, Err: syscall.ENOENT}
}
