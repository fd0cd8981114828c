package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"sync"
	"syscall"
)

// suite is upstream's end-to-end suite and where it runs.
type suite struct {
	dir, ckadrill string
	speed         float64
}

func newSuite(dir, ckadrill string, speed float64) (*suite, error) {
	abs, err := filepath.Abs(ckadrill)
	if err != nil {
		return nil, err
	}
	return &suite{dir: dir, ckadrill: abs, speed: speed}, os.MkdirAll(filepath.Join(dir, "module"), 0o755)
}

func (s *suite) binary() string  { return filepath.Join(s.dir, "e2e.test") }
func (s *suite) reports() string { return filepath.Join(s.dir, "reports") }

// build builds e2e.test of the release that the project uses, unless it is there.
func (s *suite) build() error {
	if _, err := os.Stat(s.binary()); err == nil {
		return nil
	}
	mod, err := os.ReadFile("go.mod")
	if err != nil {
		return err
	}
	version := regexp.MustCompile(`(?m)^\s+k8s\.io/kubernetes (v\S+)`).FindSubmatch(mod)
	if version == nil {
		return errors.New("go.mod does not name k8s.io/kubernetes")
	}
	// The staging modules are replaced as in the project, its own replacements are not the suite's.
	replace := regexp.MustCompile(`(?m)^\s+k8s\.io/\S+ => k8s\.io/\S+ v\S+$`).FindAll(mod, -1)
	var text strings.Builder
	fmt.Fprintf(&text, "module conformance\n\ngo 1.26.0\n\nrequire k8s.io/kubernetes %s\n\nreplace (\n", version[1])
	for _, r := range replace {
		fmt.Fprintf(&text, "%s\n", r)
	}
	text.WriteString(")\n")
	module := filepath.Join(s.dir, "module")
	if err := os.WriteFile(filepath.Join(module, "go.mod"), []byte(text.String()), 0o644); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(module, "doc.go"), []byte("package conformance\n\nimport (\n\t_ \"k8s.io/kubernetes/cmd/kubectl\"\n\t_ \"k8s.io/kubernetes/test/e2e\"\n)\n"), 0o644); err != nil {
		return err
	}
	for _, args := range [][]string{{"mod", "tidy", "-e"}, {"build", "-o", filepath.Join(s.dir, "kubectl"), "k8s.io/kubernetes/cmd/kubectl"}, {"test", "-c", "-o", s.binary(), "k8s.io/kubernetes/test/e2e"}} {
		c := exec.Command("go", args...)
		c.Dir, c.Stdout, c.Stderr = module, os.Stderr, os.Stderr
		c.Env = append(os.Environ(), "GOFLAGS=")
		if err := c.Run(); err != nil {
			return fmt.Errorf("go %s: %w", strings.Join(args, " "), err)
		}
	}
	return nil
}

// group is a part of the specs.
type group struct{ name, focus, skip string }

const serial = `\[Serial\]|\[Disruptive\]`

// groups are about as long as each other.
var groups = []group{
	{"node", `\[sig-node\]`, serial + `|\[sig-node\] Pod |\[sig-node\] Variable|Lifecycle`},
	{"pods", `\[sig-node\] (Pod |Variable|.*Lifecycle)`, serial},
	{"projected", `\[sig-storage\] (Projected|EmptyDir)`, serial},
	{"storage", `\[sig-storage\]`, serial + `|\[sig-storage\] (Projected|EmptyDir)`},
	{"api", `\[sig-api-machinery\]`, serial + `|chunking|ebhook`},
	{"chunking", `chunking`, serial},
	{"webhooks", `ebhook`, serial + `|chunking`},
	{"auth", `\[sig-(auth|instrumentation|architecture|scheduling|autoscaling)\]`, serial},
	{"stateful", `\[sig-apps\] (StatefulSet|Daemon)`, serial},
	{"apps", `\[sig-apps\]`, serial + `|StatefulSet|CronJob|Daemon`},
	{"cronjobs", `\[sig-apps\] CronJob`, serial},
	{"cli", `\[sig-cli\]`, serial},
	{"services", `\[sig-network\] (Services|Networking)`, serial},
	{"network", `\[sig-network\]`, serial + `|\[sig-network\] (Services|Networking)`},
	{"serial", serial, `NOTHING`},
}

// run runs the groups, or the one that is named.
func (s *suite) run(jobs int, only string) error {
	turns := make(chan struct{}, max(jobs, 1))
	var wg sync.WaitGroup
	var mu sync.Mutex
	var failed error
	for _, g := range groups {
		if only != "" && g.name != only {
			continue
		}
		turns <- struct{}{}
		wg.Go(func() {
			defer func() { <-turns }()
			if err := s.runGroup(g); err != nil {
				mu.Lock()
				failed = errors.Join(failed, fmt.Errorf("%s: %w", g.name, err))
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return failed
}

// runGroup runs a group against a new cluster. Specs that fail are no error.
func (s *suite) runGroup(g group) error {
	session := filepath.Join(s.dir, "sessions", g.name)
	if err := os.RemoveAll(session); err != nil {
		return err
	}
	report := filepath.Join(s.reports(), g.name)
	if err := os.MkdirAll(report, 0o755); err != nil {
		return err
	}
	serve := exec.Command(s.ckadrill, "serve", "--session", session, "--speed", strconv.FormatFloat(s.speed, 'g', -1, 64))
	serve.Stderr = os.Stderr
	out, err := serve.StdoutPipe()
	if err != nil {
		return err
	}
	if err := serve.Start(); err != nil {
		return err
	}
	defer func() {
		serve.Process.Signal(syscall.SIGTERM)
		serve.Wait()
	}()
	kubeconfig := ""
	for lines := bufio.NewScanner(out); kubeconfig == "" && lines.Scan(); {
		_, kubeconfig, _ = strings.Cut(lines.Text(), "KUBECONFIG=")
	}
	if kubeconfig == "" {
		return errors.New("ckadrill serve does not say where its kubeconfig is")
	}
	log, err := os.Create(filepath.Join(report, "log"))
	if err != nil {
		return err
	}
	defer log.Close()
	test := exec.Command(s.binary(), "--ginkgo.focus=("+g.focus+`).*\[Conformance\]|\[Conformance\].*(`+g.focus+")", "--ginkgo.skip="+g.skip, "--ginkgo.v", "--ginkgo.no-color", "--ginkgo.timeout=3h",
		"--kubeconfig="+kubeconfig, "--kubectl-path="+filepath.Join(s.dir, "kubectl"), "--provider=skeleton", "--num-nodes=2", "--dump-logs-on-failure=false", "--report-dir="+report)
	test.Dir, test.Stdout, test.Stderr = s.dir, log, log
	var exit *exec.ExitError
	if err := test.Run(); err != nil && !errors.As(err, &exit) {
		return err
	}
	return nil
}
