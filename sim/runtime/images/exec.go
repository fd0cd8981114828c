package images

import (
	"ckadrill/sim/kernel"
)

// execProgram replaces the process's program, as execvp does, and returns its exit code.
func execProgram(p *kernel.Process, argv []string) (code int, err error) {
	name, err := kernel.LookPath(p.Files, p.Dir(), p.Getenv("PATH"), argv[0])
	if err != nil {
		return 0, err
	}
	main, argv, err := p.World().Load(p.Files, name, argv)
	if err != nil {
		return 0, err
	}
	s := p.Spec
	s.Argv, s.Env, s.Dir = argv, p.Environ(), p.Dir()
	p.Exec(s)
	return main(p), nil
}

// binaryVersion is the release that the linker has written into the process's own executable, "" if none.
func binaryVersion(p *kernel.Process) string {
	argv := p.CommandLine()
	if len(argv) == 0 {
		return ""
	}
	name, err := kernel.LookPath(p.Files, p.Dir(), p.Getenv("PATH"), argv[0])
	if err != nil {
		return ""
	}
	b, err := p.Files.ReadFile(name)
	if err != nil {
		return ""
	}
	return VersionOf(b)
}
