package userland_test

import (
	"bytes"
	"context"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"ckadrill/sim/kernel"
)

// TestAgainstRealTools runs every script of testdata/oracle.txt with the host's own GNU tools and with ours, as root in an
// empty directory, and compares what is printed.
func TestAgainstRealTools(t *testing.T) {
	if os.Getenv("CKADRILL_ORACLE") == "" {
		t.Skip("it compares with the tools of the host, and takes minutes: set CKADRILL_ORACLE=1")
	}
	if os.Getuid() != 0 {
		t.Skip("needs to be root, as the simulated scripts are")
	}
	for tool, version := range map[string]string{"ls": "(GNU coreutils) 9", "grep": "(GNU grep) 3", "sed": "(GNU sed) 4", "find": "(GNU findutils) 4", "diff": "(GNU diffutils) 3", "jq": "jq-1"} {
		if b, err := exec.Command(tool, "--version").Output(); err != nil || !strings.Contains(string(b), version) {
			t.Skipf("needs %s %s on the host", tool, version)
		}
	}
	b, err := os.ReadFile("testdata/oracle.txt")
	if err != nil {
		t.Fatal(err)
	}
	var scripts []string
	for _, s := range strings.Split(string(b), "\n") {
		if s != "" && s[0] != '#' {
			scripts = append(scripts, s)
		}
	}
	want := make([]string, len(scripts))
	var wait sync.WaitGroup
	places := make(chan struct{}, 4) // most of a script's time is waiting
	for i, s := range scripts {
		wait.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			want[i] = onHost(t, s)
		})
	}
	wait.Wait()
	inLab(t, func(l *lab) {
		for i, s := range scripts {
			if got := l.inEmptyDir(s); got != want[i] {
				l.Errorf("%s\n got:\n%s\nwant:\n%s", s, got, want[i])
			}
		}
	})
}

func onHost(t *testing.T, script string) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	cmd := exec.CommandContext(ctx, "bash", "--norc", "--noprofile", "-c", script)
	cmd.Dir = t.TempDir()
	cmd.Env = []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LANG=C.UTF-8", "USER=root", "TZ=UTC"}
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.Run()
	return out.String() + "[" + strconv.Itoa(cmd.ProcessState.ExitCode()) + "]"
}

func (l *lab) inEmptyDir(script string) string {
	files := l.m.Files(kernel.Root)
	files.RemoveAll("/tmp/work")
	if err := files.Mkdir("/tmp/work", 0o755); err != nil {
		l.Fatal(err)
	}
	var out stream
	p, err := l.m.Start(kernel.Spec{Argv: []string{"bash", "-c", script}, Dir: "/tmp/work", Stdout: &out, Stderr: &out, Parent: l.m.Host().Processes.Find(1),
		Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "LANG=C.UTF-8", "USER=root"}})
	if err != nil {
		l.Fatal(err)
	}
	timer := time.AfterFunc(time.Hour, func() { p.Signal(kernel.SIGKILL) })
	code := p.Wait().ExitCode()
	timer.Stop()
	return out.b.String() + "[" + strconv.Itoa(code) + "]"
}
