package images

import (
	"strings"

	"ckadrill/sim/kernel"
)

// goRunner is the entrypoint of Kubernetes' own images: it runs a command, whose output it may send to a file as well.
func goRunner(p *kernel.Process) int {
	args := p.Argv[1:]
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		if name := strings.TrimLeft(args[0], "-"); !strings.Contains(name, "=") && name != "also-stdout" && name != "redirect-stderr" && len(args) > 1 {
			args = args[1:]
		}
		args = args[1:]
	}
	if len(args) == 0 {
		p.Errorf("2026/01/01 00:00:00 not enough arguments to run\n")
		return 1
	}
	name, err := kernel.LookPath(p.Files, p.Dir(), p.Getenv("PATH"), args[0])
	if err != nil {
		p.Errorf("fork/%v\n", err)
		return 1
	}
	main, argv, err := p.World().Load(p.Files, name, args)
	if err != nil {
		p.Errorf("fork/%v\n", err)
		return 1
	}
	s := p.Spec
	s.Argv, s.Env, s.Dir, s.Parent, s.PID, s.NamespacePID = argv, p.Environ(), p.Dir(), p, 0, 0
	child := p.Host().Processes.Start(s, main)
	for _, sig := range []kernel.Signal{kernel.SIGTERM, kernel.SIGINT, kernel.SIGHUP} {
		p.Notify(sig, func() { child.Signal(sig) })
	}
	p.OnExit(func() { child.Signal(kernel.SIGKILL) })
	return child.Wait().ExitCode()
}
