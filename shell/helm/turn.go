package helm

import (
	"os"
	"path/filepath"
	"sync"

	chartutil "helm.sh/helm/v4/pkg/chart/v2/util"
	"helm.sh/helm/v4/pkg/cli"
)

// turns has one helm at a time use what is the whole host process's.
var turns sync.Mutex

// turn is an invocation's hold on the host process's environment, working directory and streams, and on the variables of
// helm's commands. It is given away while helm waits for the cluster, so that another helm can be run meanwhile.
type turn struct {
	i *invocation

	mu      sync.Mutex
	held    bool
	over    bool
	restore []func()
	out     *os.File
	printed int64
}

// take waits for the turn and puts the invocation's world in place.
func (t *turn) take() {
	turns.Lock()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.over {
		turns.Unlock()
		return
	}
	t.held = true
	i := t.i
	for k, v := range i.environment() {
		old, was := os.LookupEnv(k)
		os.Setenv(k, v)
		t.restore = append(t.restore, func() {
			if was {
				os.Setenv(k, old)
			} else {
				os.Unsetenv(k)
			}
		})
	}
	dir, err := os.Getwd()
	if err == nil {
		err = os.Chdir(i.m.workingDirectory())
	}
	if err == nil {
		t.restore = append(t.restore, func() { os.Chdir(dir) })
	}
	in, out, args, stderr := os.Stdin, os.Stdout, os.Args, chartutil.Stderr
	if f, err := os.Open(i.m.standardInput()); err == nil {
		os.Stdin = f
		t.restore = append(t.restore, func() { f.Close() })
	}
	if t.out == nil {
		t.out, _ = os.Create(filepath.Join(i.m.temporary(), "stdout"))
	}
	if t.out != nil {
		os.Stdout = t.out
	}
	os.Args, chartutil.Stderr = i.p.Argv, i.errOut
	t.restore = append(t.restore, func() { os.Stdin, os.Stdout, os.Args, chartutil.Stderr = in, out, args, stderr })
	if i.settings == nil {
		i.settings = cli.New()
	}
	settings = i.settings
}

// drop ends the turn for good.
func (t *turn) drop() {
	t.mu.Lock()
	t.over = true
	t.mu.Unlock()
	t.give()
}

// give puts the host process's own things back. It does nothing if the turn is another's.
func (t *turn) give() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.held {
		return
	}
	t.held = false
	for n := len(t.restore) - 1; n >= 0; n-- {
		t.restore[n]()
	}
	t.restore = nil
	if t.out != nil {
		t.pass()
		if t.over {
			t.out.Close()
		}
	}
	turns.Unlock()
}

// pass hands on what upstream printed to os.Stdout, which is a private file meanwhile.
func (t *turn) pass() {
	b := make([]byte, 32<<10)
	for {
		n, err := t.out.ReadAt(b, t.printed)
		t.printed += int64(n)
		if n > 0 {
			t.i.out.Write(b[:n])
		}
		if err != nil || n == 0 {
			return
		}
	}
}
