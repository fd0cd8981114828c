package helm

import (
	"fmt"
	"text/template"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// goVersion is what the release was built with.
const goVersion = "go1.25.8"

// refused are commands that would reach what is not simulated.
var refused = map[string]string{
	"helm plugin install": "plugins of helm", "helm plugin update": "plugins of helm", "helm plugin uninstall": "plugins of helm", "helm plugin package": "plugins of helm",
	"helm plugin verify": "plugins of helm", "helm registry login": "OCI registries", "helm registry logout": "OCI registries", "helm push": "OCI registries",
	"helm verify": "signatures of charts", "helm docs": "the generation of helm's documentation", "helm search hub": "the Artifact Hub",
}

// replaceCommands puts our own run in the place of upstream's where that would touch the host. Flags, help and completion
// stay upstream's.
func (i *invocation) replaceCommands() {
	var all func(c *cobra.Command)
	all = func(c *cobra.Command) {
		if what, ok := refused[c.CommandPath()]; ok {
			c.RunE = func(*cobra.Command, []string) error { return notSimulated(what) }
		}
		if c.CommandPath() == "helm version" {
			c.RunE = i.version
		}
		for _, sub := range c.Commands() {
			all(sub)
		}
	}
	all(i.root)
}

// refuseFlags refuses what a flag asks for and is not simulated.
func refuseFlags(c *cobra.Command) (err error) {
	c.Flags().Visit(func(f *pflag.Flag) {
		switch f.Name {
		case "verify", "sign", "prov":
			if f.Value.String() == "true" {
				err = notSimulated("signatures of charts")
			}
		case "post-renderer":
			err = notSimulated("post-renderers")
		}
	})
	return err
}

// version is upstream's "helm version", which looks into the host's program for what it was built with.
func (i *invocation) version(c *cobra.Command, _ []string) error {
	type BuildInfo struct{ Version, GitCommit, GitTreeState, GoVersion, KubeClientVersion string }
	v := BuildInfo{i.p.Version(DefaultVersion), commit, "clean", goVersion, "v1.35"}
	if text, _ := c.Flags().GetString("template"); text != "" {
		t, err := template.New("_").Parse(text)
		if err != nil {
			return err
		}
		return t.Execute(i.out, v)
	}
	if short, _ := c.Flags().GetBool("short"); short {
		fmt.Fprintf(i.out, "%s+g%s\n", v.Version, v.GitCommit[:7])
		return nil
	}
	fmt.Fprintf(i.out, "version.BuildInfo{Version:%q, GitCommit:%q, GitTreeState:%q, GoVersion:%q, KubeClientVersion:%q}\n", v.Version, v.GitCommit, v.GitTreeState, v.GoVersion, v.KubeClientVersion)
	return nil
}
