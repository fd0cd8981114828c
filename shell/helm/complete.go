package helm

import (
	"bytes"
	"strings"

	"ckadrill/sim/kernel"
	"ckadrill/sim/userland/bash"
)

// completionFunction is the shell function that the script of "helm completion bash" defines.
const completionFunction = "__start_helm"

// complete asks the machine's helm how a command line could go on, as that function does.
func complete(p *kernel.Process, words []string, cword int) []string {
	if cword < 1 || cword >= len(words) {
		return nil
	}
	file, err := kernel.LookPath(p.Files, p.Dir(), p.Getenv("PATH"), "helm")
	if err != nil {
		return nil
	}
	main, argv, err := p.World().Load(p.Files, file, append([]string{file, "__completeNoDesc"}, words[1:cword+1]...))
	if err != nil {
		return nil
	}
	var out bytes.Buffer
	p.Host().Processes.Start(kernel.Spec{Argv: argv, Env: p.Environ(), Dir: p.Dir(), Cred: p.Cred, Hostname: p.Spec.Hostname, Files: p.Files, Net: p.Net,
		Stdout: &out, Container: p.Container, Parent: p}, main).Wait()
	var l []string
	for _, s := range strings.Split(out.String(), "\n") {
		// The last line is the directive (":4"), lines with an underscore in front are hints for the user.
		if s != "" && !strings.HasPrefix(s, ":") && !strings.HasPrefix(s, "_activeHelp_ ") && strings.HasPrefix(s, words[cword]) {
			l = append(l, s)
		}
	}
	return l
}

func registerCompletion() { bash.RegisterCompleter(completionFunction, complete) }
