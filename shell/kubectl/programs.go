package kubectl

import (
	"errors"
	"io"
	"io/fs"
	"path"
	"strings"

	"ckadrill/sim/kernel"
)

// start runs a program of the machine as a child of kubectl, found as a shell would find it, and waits for it.
func (i *invocation) start(argv []string, stdin io.Reader, stdout, stderr io.Writer) (kernel.Status, error) {
	p := i.p
	file, err := kernel.LookPath(p.Files, p.Dir(), p.Getenv("PATH"), argv[0])
	if err != nil {
		return kernel.Status{}, err
	}
	main, argv2, err := p.World().Load(p.Files, file, append([]string{file}, argv[1:]...))
	if err != nil {
		return kernel.Status{}, err
	}
	child := p.Host().Processes.Start(kernel.Spec{Argv: argv2, Env: p.Environ(), Dir: p.Dir(), Cred: p.Cred, Hostname: p.Spec.Hostname,
		Files: p.Files, Net: p.Net, Stdin: stdin, Stdout: stdout, Stderr: stderr, TTY: p.TTY, Container: p.Container, Parent: p}, main)
	forget := p.OnExit(func() { child.Signal(kernel.SIGKILL) })
	s := child.Wait()
	forget()
	return s, nil
}

// isMissing says that a program was not found.
func isMissing(err error) bool { return errors.Is(err, fs.ErrNotExist) }

// shellWords splits a command line that has no quotes, as upstream does with $EDITOR.
func shellWords(s string) []string { return strings.Fields(s) }

// temporary makes an empty directory in the machine's /tmp.
func (i *invocation) temporary(prefix string) (string, error) {
	r := i.p.World().Rand("kubectl")
	for range 100 {
		b := make([]byte, 0, 10)
		for range 10 {
			b = append(b, byte('0'+r.IntN(10)))
		}
		dir := i.p.Getenv("TMPDIR")
		if dir == "" {
			dir = "/tmp"
		}
		name := path.Join(dir, prefix+string(b))
		err := i.p.Files.Mkdir(name, 0o700)
		if err == nil {
			return name, nil
		}
		if !errors.Is(err, fs.ErrExist) {
			return "", err
		}
	}
	return "", errors.New("no free name in the temporary directory")
}
