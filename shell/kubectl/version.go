package kubectl

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"

	"github.com/spf13/cobra"
	utilversion "k8s.io/apimachinery/pkg/util/version"
	apiversion "k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/tools/clientcmd"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/kubectl/pkg/cmd/version"
	"sigs.k8s.io/yaml"

	"ckadrill/sim/kernel"
)

// DefaultVersion is the release of kubectl whose executable does not say.
const DefaultVersion = "v1.35.9"

// kustomizeVersion is what kubectl v1.35 embeds.
const kustomizeVersion = "v5.7.1"

const versionLine = "version "

// Executable is the content of kubectl's executable file in a release ("v1.35.9"): what it reports is in the file, so it
// changes when another release is installed.
func Executable(version string) []byte {
	return append(kernel.Executable("kubectl"), versionLine+version+"\n"...)
}

// versionOf reads the release from the file that the process executes.
func versionOf(p *kernel.Process) string {
	if len(p.Argv) == 0 {
		return DefaultVersion
	}
	name, err := kernel.LookPath(p.Files, p.Dir(), p.Getenv("PATH"), p.Argv[0])
	if err != nil {
		return DefaultVersion
	}
	b, err := p.Files.ReadFile(name)
	if err != nil {
		return DefaultVersion
	}
	_, rest, _ := strings.Cut(string(b), "\n")
	if v, ok := strings.CutPrefix(rest, versionLine); ok {
		v, _, _ = strings.Cut(v, "\n")
		if _, err := utilversion.ParseSemantic(v); err == nil {
			return v
		}
	}
	return DefaultVersion
}

// clientVersion is the build information of the machine's kubectl.
func (i *invocation) clientVersion() *apiversion.Info {
	v := versionOf(i.p)
	info := &apiversion.Info{GitVersion: v, GitCommit: strings.Repeat("0", 40), GitTreeState: "clean", BuildDate: "2026-11-10T12:00:00Z",
		GoVersion: "go1.25.11", Compiler: "gc", Platform: "linux/amd64"}
	if p, err := utilversion.ParseSemantic(v); err == nil {
		info.Major, info.Minor = fmt.Sprint(p.Major()), fmt.Sprint(p.Minor())
	}
	return info
}

// replaceVersion makes "kubectl version" report the machine's kubectl instead of the code that this process was built of.
func (i *invocation) replaceVersion() {
	i.find("version").Run = func(c *cobra.Command, args []string) {
		cmdutil.CheckErr(i.printVersion(boolFlag(c, "client"), stringFlag(c, "output"), stringFlag(c, "warnings-as-errors") == "true", args))
	}
}

func (i *invocation) printVersion(clientOnly bool, output string, warningsAsErrors bool, args []string) error {
	v := version.Version{ClientVersion: i.clientVersion(), KustomizeVersion: kustomizeVersion}
	if m, ok := version.GetKustomizeModVersion(); ok {
		v.KustomizeVersion = m
	}
	var serverErr error
	if !clientOnly {
		d, err := i.f.ToDiscoveryClient()
		if err != nil && !clientcmd.IsEmptyConfig(err) {
			return err
		}
		if len(args) != 0 {
			return fmt.Errorf("extra arguments: %v", args)
		}
		if d != nil && err == nil && (output == "" || output == "yaml" || output == "json") {
			d.Invalidate()
			v.ServerVersion, serverErr = d.ServerVersion()
		}
	}
	switch output {
	case "":
		fmt.Fprintf(i.streams.Out, "Client Version: %s\nKustomize Version: %s\n", v.ClientVersion.GitVersion, v.KustomizeVersion)
		if v.ServerVersion != nil {
			fmt.Fprintf(i.streams.Out, "Server Version: %s\n", v.ServerVersion.GitVersion)
		}
	case "yaml":
		b, err := yaml.Marshal(&v)
		if err != nil {
			return err
		}
		fmt.Fprintln(i.streams.Out, string(b))
	case "json":
		b, err := json.MarshalIndent(&v, "", "  ")
		if err != nil {
			return err
		}
		fmt.Fprintln(i.streams.Out, string(b))
	default:
		return errors.New(`--output must be 'yaml' or 'json'`)
	}
	if v.ServerVersion != nil {
		w, err := skew(v.ClientVersion, v.ServerVersion)
		switch {
		case err != nil:
			return err
		case w != "" && warningsAsErrors:
			return errors.New(w)
		case w != "":
			fmt.Fprintf(i.streams.ErrOut, "Warning: %s\n", w)
		}
	}
	return serverErr
}

// skew warns of a client and a server that are more than one minor release apart.
func skew(client, server *apiversion.Info) (string, error) {
	c, err := utilversion.ParseSemantic(client.GitVersion)
	if err != nil {
		return "", fmt.Errorf("client version error: %w", err)
	}
	s, err := utilversion.ParseSemantic(server.GitVersion)
	if err != nil {
		return "", fmt.Errorf("server version error: %w", err)
	}
	if c.Major() != s.Major() || math.Abs(float64(c.Minor())-float64(s.Minor())) > 1 {
		return fmt.Sprintf("version difference between client (%d.%d) and server (%d.%d) exceeds the supported minor version skew of +/-1",
			c.Major(), c.Minor(), s.Major(), s.Minor()), nil
	}
	return "", nil
}
