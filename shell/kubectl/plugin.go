package kubectl

import (
	"bytes"
	"errors"
	"fmt"
	"path"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/kubectl/pkg/cmd"
	"k8s.io/kubectl/pkg/cmd/plugin"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"

	"ckadrill/sim/kernel"
)

// plugins finds plugins on the machine's PATH and runs them there.
type plugins struct {
	i    *invocation
	code int
	ran  bool
}

// Lookup implements upstream's PluginHandler.
func (h *plugins) Lookup(name string) (string, bool) {
	p := h.i.p
	for _, prefix := range plugin.ValidPluginFilenamePrefixes {
		if f, err := kernel.LookPath(p.Files, p.Dir(), p.Getenv("PATH"), prefix+"-"+name); err == nil {
			return f, true
		}
	}
	return "", false
}

// Execute implements upstream's PluginHandler; upstream's replaces kubectl by the plugin, so kubectl ends with its code.
func (h *plugins) Execute(file string, args, _ []string) error {
	st, err := h.i.start(append([]string{file}, args...), h.i.p.Stdin, h.i.p.Stdout, h.i.p.Stderr)
	if err != nil {
		return err
	}
	h.code, h.ran = st.ExitCode(), true
	return nil
}

// plugin runs the plugin that the arguments name, if kubectl has no such command, by the rules of
// NewDefaultKubectlCommandWithArgs.
func (i *invocation) plugin() (code int, done bool) {
	args := i.p.Argv[1:]
	if len(args) == 0 {
		return 0, false
	}
	h := &plugins{i: i}
	handle := func(args []string, least int) {
		if err := cmd.HandlePluginCommand(h, args, least); err != nil {
			fmt.Fprintf(i.streams.ErrOut, "Error: %v\n", err)
			h.code, h.ran = 1, true
		}
	}
	found, rest, err := i.root.Find(args)
	if err != nil {
		name := ""
		for _, a := range args {
			if !strings.HasPrefix(a, "-") {
				name = a
				break
			}
		}
		switch name {
		case "help", cobra.ShellCompRequestCmd, cobra.ShellCompNoDescRequestCmd:
		default:
			handle(args, 1)
		}
	}
	if !h.ran && cmd.IsSubcommandPluginAllowed(found.Name()) && len(rest) >= 1 && !strings.HasPrefix(rest[0], "-") {
		builtin := false
		for _, c := range found.Commands() {
			builtin = builtin || c.Name() == rest[0]
		}
		if !builtin {
			handle(args, len(args)-len(rest)+1)
		}
	}
	return h.code, h.ran
}

// replacePlugin has "kubectl plugin list" look on the machine.
func (i *invocation) replacePlugin() {
	i.find("plugin", "list").Run = func(c *cobra.Command, _ []string) { cmdutil.CheckErr(i.listPlugins(boolFlag(c, "name-only"))) }
}

func (i *invocation) listPlugins(nameOnly bool) error {
	var found []string
	var failures bytes.Buffer
	seenDir := map[string]bool{}
	for _, dir := range strings.Split(i.p.Getenv("PATH"), ":") {
		if strings.TrimSpace(dir) == "" || seenDir[dir] {
			continue
		}
		seenDir[dir] = true
		entries, err := i.p.Files.ReadDir(i.p.Path(dir))
		if err != nil {
			fmt.Fprintf(i.streams.ErrOut, "Unable to read directory %q from your PATH: %v. Skipping...\n", dir, err)
			continue
		}
		for _, e := range entries {
			for _, prefix := range plugin.ValidPluginFilenamePrefixes {
				if !e.IsDir() && strings.HasPrefix(e.Name(), prefix+"-") {
					found = append(found, path.Join(dir, e.Name()))
				}
			}
		}
	}
	if len(found) > 0 {
		fmt.Fprintf(i.streams.Out, "The following compatible plugins are available:\n\n")
	} else {
		fmt.Fprintln(&failures, "error: unable to find any kubectl plugins in your PATH")
	}
	warnings := 0
	seen := map[string]string{}
	for _, f := range found {
		name := path.Base(f)
		if nameOnly {
			fmt.Fprintln(i.streams.Out, name)
		} else {
			fmt.Fprintln(i.streams.Out, f)
		}
		warn := func(format string, a ...any) {
			fmt.Fprintf(i.streams.ErrOut, "  - warning: "+format+"\n", a...)
			warnings++
		}
		if info, err := i.p.Files.Stat(f); err == nil && info.Mode()&0o111 == 0 {
			warn("%s identified as a kubectl plugin, but it is not executable", f)
		}
		if other, ok := seen[name]; ok {
			warn("%s is overshadowed by a similarly named plugin: %s", f, other)
		} else {
			seen[name] = f
		}
		if c, _, err := i.root.Find(strings.Split(name, "-")[1:]); err == nil && c != i.root {
			warn("%s overwrites existing command: %q", name, c.CommandPath())
		}
	}
	switch {
	case warnings == 1:
		fmt.Fprintln(&failures, "error: one plugin warning was found")
	case warnings > 1:
		fmt.Fprintf(&failures, "error: %v plugin warnings were found\n", warnings)
	}
	if failures.Len() > 0 {
		return errors.New(failures.String())
	}
	return nil
}
