package kubectl

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// pathFlag says how a flag's value names files. Such a flag gets a Value that hands copies to upstream.
type pathFlag func(i *invocation, value string) string

func plainFile(i *invocation, v string) string {
	if v == "" {
		return v
	}
	return i.m.file(v)
}

// keyFile is "path" or "key=path".
func keyFile(i *invocation, v string) string {
	if k, f, ok := strings.Cut(v, "="); ok {
		return k + "=" + plainFile(i, f)
	}
	return plainFile(i, v)
}

// manifests is a list as pflag's string slices are, without quotes.
func manifests(i *invocation, v string) string {
	l := strings.Split(v, ",")
	for n := range l {
		l[n] = i.m.manifest(l[n])
	}
	return strings.Join(l, ",")
}

// templateFile is an output format that may name a file.
func templateFile(i *invocation, v string) string {
	for _, p := range []string{"jsonpath-file=", "go-template-file=", "templatefile=", "custom-columns-file="} {
		if f, ok := strings.CutPrefix(v, p); ok {
			return p + plainFile(i, f)
		}
	}
	return v
}

// outputDirectory is written to by the command.
func outputDirectory(i *invocation, v string) string {
	if v == "" || v == "-" {
		return v
	}
	h := i.m.file(v)
	i.m.writeBack(v)
	return h
}

var pathFlags = map[string]pathFlag{
	"filename":              manifests,
	"kustomize":             func(i *invocation, v string) string { return i.kustomization(v) },
	"from-file":             keyFile,
	"from-env-file":         plainFile,
	"patch-file":            plainFile,
	"certificate-authority": plainFile,
	"client-certificate":    plainFile,
	"client-key":            plainFile,
	"cert":                  plainFile,
	"kuberc":                plainFile,
	"env-file":              plainFile,
	"custom":                plainFile,
	"www":                   plainFile,
	"output":                templateFile,
	"output-directory":      outputDirectory,
	"kubeconfig":            func(i *invocation, v string) string { return i.explicitKubeconfig(v) },
	"cache-dir":             func(i *invocation, v string) string { i.typedCacheDir = v; return noCache },
}

// keyIsFile lists the commands whose flag --key names a file.
var keyIsFile = map[string]bool{"kubectl create secret tls": true}

// mappedValue is a flag's value whose names of files are replaced by those of their copies.
type mappedValue struct {
	pflag.Value
	i  *invocation
	to pathFlag
}

func (v mappedValue) Set(s string) error { return v.Value.Set(v.to(v.i, s)) }

// mapFlags gives every flag of a command that names files a mapped value.
func (i *invocation) mapFlags(c *cobra.Command) {
	replace := func(f *pflag.Flag) {
		if _, ok := f.Value.(mappedValue); ok {
			return
		}
		switch to, ok := pathFlags[f.Name]; {
		case f.Name == "output" && f.Value.Type() != "string":
		case ok && f.Value.Type() != "bool":
			f.Value = mappedValue{f.Value, i, to}
		case f.Name == "key" && keyIsFile[c.CommandPath()]:
			f.Value = mappedValue{f.Value, i, plainFile}
		case f.Name == "v":
			f.Value = &levelValue{i: i}
		case f.Name == "vmodule":
			f.Value = &ignoredValue{kind: f.Value.Type()}
		case f.Name == "enable-helm", f.Name == "enable-alpha-plugins", f.Name == "network":
			f.Value = refusedValue{f.Value, "kubectl kustomize --" + f.Name}
		case f.Name == "profile" && c.Name() != "debug":
			f.Value = refusedValue{f.Value, "kubectl --profile"} // it would be that of the host process, in a file of the host
		}
	}
	c.Flags().VisitAll(replace)
	c.PersistentFlags().VisitAll(replace)
}

// hideForeignFlags keeps flags of other programs in this host process away: cobra adds all of pflag.CommandLine to every
// command, where the real kubectl has nothing.
func (i *invocation) hideForeignFlags() {
	pflag.CommandLine.VisitAll(func(f *pflag.Flag) {
		if i.root.PersistentFlags().Lookup(f.Name) == nil {
			i.root.PersistentFlags().AddFlag(&pflag.Flag{Name: f.Name, Hidden: true, NoOptDefVal: f.NoOptDefVal, Value: unknownValue{f.Name, i}})
		}
	})
}

// unknownValue is a flag that kubectl does not have.
type unknownValue struct {
	name string
	i    *invocation
}

func (v unknownValue) String() string { return "" }
func (v unknownValue) Type() string   { return "string" }

func (v unknownValue) Set(string) error {
	name := "kubectl"
	if c, _, err := v.i.root.Find(v.i.p.Argv[1:]); err == nil {
		name = c.CommandPath()
	}
	fatal(fmt.Sprintf("error: unknown flag: --%s\nSee '%s --help' for usage.", v.name, name), 1)
	return nil
}

// levelValue is -v. klog's own verbosity is that of the host process, so kubectl's is kept with the invocation.
type levelValue struct{ i *invocation }

func (v *levelValue) String() string {
	if v.i == nil {
		return "0"
	}
	return strconv.Itoa(v.i.level)
}

func (v *levelValue) Type() string { return "Level" }

func (v *levelValue) Set(s string) error {
	n, err := strconv.ParseInt(s, 10, 32)
	if err == nil {
		v.i.level = int(n)
	}
	return err
}

// ignoredValue accepts what it does not follow.
type ignoredValue struct{ kind, s string }

func (v *ignoredValue) String() string     { return v.s }
func (v *ignoredValue) Type() string       { return v.kind }
func (v *ignoredValue) Set(s string) error { v.s = s; return nil }

// refusedValue is a flag that would start programs of the host, or write files of it.
type refusedValue struct {
	pflag.Value
	what string
}

func (v refusedValue) Set(s string) error {
	if s == "true" || v.Type() == "string" && s != "" && s != "none" {
		refuse(v.what)
	}
	return v.Value.Set(s)
}
