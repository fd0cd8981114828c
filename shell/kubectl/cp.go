package kubectl

import (
	"path"
	"strings"

	"github.com/spf13/cobra"
)

// replaceCopy has "kubectl cp" read and write the machine's files: what is copied to a Pod is mirrored first, what comes
// from one is written back.
func (i *invocation) replaceCopy() {
	c := i.find("cp")
	run := c.Run
	c.Run = func(c *cobra.Command, args []string) {
		args = append([]string(nil), args...)
		if len(args) == 2 {
			if isLocal(args[0]) {
				args[0] = i.m.file(args[0])
			}
			if isLocal(args[1]) {
				args[1] = i.destination(args[1])
			}
		}
		run(c, args)
	}
}

// isLocal says whether an argument of cp is a file of the machine: one in a Pod has a colon.
func isLocal(arg string) bool { return arg != "" && !strings.Contains(arg, ":") }

// destination prepares the copy of what cp will write to. Only whether it is a directory matters to upstream.
func (i *invocation) destination(name string) string {
	abs := i.p.Path(name)
	host := i.m.hostName(abs)
	info, err := i.p.Files.Stat(abs)
	i.m.note(host, name)
	if err == nil && info.IsDir() {
		i.m.emptyDir(host)
	} else {
		i.m.emptyDir(i.m.hostName(path.Dir(abs)))
	}
	i.m.writeBack(name)
	return host
}
