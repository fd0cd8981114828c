package kubectl

import (
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/kubectl/pkg/cmd/diff"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
	"k8s.io/utils/exec"
)

// replaceDiff has "kubectl diff" compare with the machine's diff, or with $KUBECTL_EXTERNAL_DIFF.
func (i *invocation) replaceDiff() {
	i.find("diff").Run = func(c *cobra.Command, args []string) {
		o := diff.NewDiffOptions(i.streams)
		o.Diff.Exec = simulated{exec.New(), i}
		o.ShowManagedFields = boolFlag(c, "show-managed-fields")
		o.Concurrency, _ = c.Flags().GetInt("concurrency")
		o.FieldManager, o.Selector = stringFlag(c, "field-manager"), stringFlag(c, "selector")
		o.FilenameOptions.Filenames, _ = c.Flags().GetStringSlice("filename")
		o.FilenameOptions.Kustomize, o.FilenameOptions.Recursive = stringFlag(c, "kustomize"), boolFlag(c, "recursive")
		cmdutil.CheckDiffErr(o.Complete(i.f, c, args))
		cmdutil.CheckDiffErr(o.Validate())
		err := o.Run()
		if e, ok := err.(exec.ExitError); ok && e.ExitStatus() <= 1 {
			cmdutil.CheckErr(cmdutil.ErrExit)
		}
		cmdutil.CheckDiffErr(err)
	}
}

// simulated runs commands on the simulated machine. Upstream's own files among the arguments, which lie on the host, are
// copied to the machine's /tmp first.
type simulated struct {
	exec.Interface
	i *invocation
}

func (s simulated) Command(name string, args ...string) exec.Cmd {
	if ext := s.i.p.Getenv("KUBECTL_EXTERNAL_DIFF"); ext != "" {
		w := shellWords(ext)
		dirs := args[max(0, len(args)-2):]
		name, args = w[0], append(append([]string{}, w[1:]...), dirs...)
	}
	return &command{i: s.i, argv: append([]string{name}, args...)}
}

func (s simulated) CommandContext(_ context.Context, name string, args ...string) exec.Cmd {
	return s.Command(name, args...)
}

func (s simulated) LookPath(string) (string, error) { return "", exec.ErrExecutableNotFound }

// command is the part of exec.Cmd that DiffProgram uses.
type command struct {
	exec.Cmd
	i              *invocation
	argv           []string
	stdout, stderr io.Writer
}

func (c *command) SetStdout(w io.Writer) { c.stdout = w }
func (c *command) SetStderr(w io.Writer) { c.stderr = w }

// Run copies upstream's directories to the machine, runs the program there and removes them.
func (c *command) Run() error {
	argv := append([]string(nil), c.argv...)
	for n, a := range argv[1:] {
		if !filepath.IsAbs(a) || !strings.HasPrefix(a, os.TempDir()) {
			continue
		}
		name, err := c.i.temporary(strings.SplitAfter(filepath.Base(a), "-")[0])
		if err != nil {
			return err
		}
		defer c.i.p.Files.RemoveAll(name)
		if err := c.i.copyOut(a, name); err != nil {
			return err
		}
		argv[n+1] = name
	}
	st, err := c.i.start(argv, nil, c.stdout, c.stderr)
	switch {
	case isMissing(err):
		return fmt.Errorf("exec: %q: executable file not found in $PATH", argv[0])
	case err != nil:
		return err
	case st.ExitCode() != 0:
		return exec.CodeExitError{Err: fmt.Errorf("exit status %d", st.ExitCode()), Code: st.ExitCode()}
	}
	return nil
}

// copyOut copies a directory of the host's private files to the machine.
func (i *invocation) copyOut(host, name string) error {
	return filepath.WalkDir(host, func(f string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, _ := filepath.Rel(host, f)
		to := path.Join(name, filepath.ToSlash(rel))
		if d.IsDir() {
			return i.p.Files.MkdirAll(to, 0o700)
		}
		b, err := os.ReadFile(f)
		if err != nil {
			return err
		}
		return i.p.Files.WriteFile(to, b, 0o700)
	})
}
