package etcdctl

import (
	"bytes"
	"fmt"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	"go.etcd.io/etcd/api/v3/version"
)

// usage prints etcdctl's help, whose layout is pkg/cobrautl's.
func (t *tool) usage(c *cobra.Command, release string) error {
	var b bytes.Buffer
	w := tabwriter.NewWriter(&b, 0, 8, 1, '\t', 0)
	line := func(s string) { fmt.Fprintf(w, "  %s\n", strings.ReplaceAll(s, "\n", "\n  ")) }
	name := c.Name()
	if c.HasParent() {
		name = relativeName(c, c.Root())
	}
	fmt.Fprintln(w, "NAME:")
	line(name + " - " + c.Short)
	fmt.Fprintln(w, "\nUSAGE:")
	line(c.UseLine())
	if !c.HasParent() {
		fmt.Fprintln(w, "\nVERSION:")
		line(release)
	}
	if c.HasSubCommands() {
		fmt.Fprintln(w, "\nAPI VERSION:")
		line(version.APIVersion)
	}
	if c.HasExample() {
		fmt.Fprintf(w, "\nExamples:\n%s\n", c.Example)
	}
	if c.HasSubCommands() {
		fmt.Fprintln(w, "\n\nCOMMANDS:")
		listCommands(w, c, c)
	}
	if c.Long != "" {
		fmt.Fprintln(w, "\nDESCRIPTION:")
		for _, l := range strings.Split(strings.Trim(c.Long, "\n\t "), "\n") {
			line(l)
		}
	}
	if c.HasLocalFlags() {
		fmt.Fprintf(w, "\nOPTIONS:\n%s", flagUsages(c.LocalFlags()))
	}
	if c.HasInheritedFlags() {
		fmt.Fprintf(w, "\nGLOBAL OPTIONS:\n%s", flagUsages(c.InheritedFlags()))
	}
	fmt.Fprintln(w)
	w.Flush()
	_, err := t.Stdout.Write(b.Bytes())
	return err
}

// relativeName is a command's name below another, "endpoint health".
func relativeName(c, below *cobra.Command) string {
	parts := []string{c.Name()}
	for c.HasParent() && c.Parent().Name() != below.Name() {
		c = c.Parent()
		parts = append([]string{c.Name()}, parts...)
	}
	return strings.Join(parts, " ")
}

func listCommands(w *tabwriter.Writer, c, from *cobra.Command) {
	for _, sub := range c.Commands() {
		if sub.Runnable() {
			fmt.Fprintf(w, "  %s\t%s\n", relativeName(sub, from), sub.Short)
		}
		listCommands(w, sub, from)
	}
}

func flagUsages(f *pflag.FlagSet) string {
	var b strings.Builder
	f.VisitAll(func(f *pflag.Flag) {
		format := "   %s   --%s"
		if f.Shorthand != "" {
			format = "  -%s, --%s"
		}
		value := "=%s"
		if f.Value.Type() == "string" {
			value = "=%q"
		}
		if f.NoOptDefVal != "" {
			value = "[" + value + "]"
		}
		fmt.Fprintf(&b, format+value+"\t%s\n", f.Shorthand, f.Name, f.DefValue, f.Usage)
	})
	return b.String()
}
