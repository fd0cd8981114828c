package controlplane

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"ckadrill/sim/kernel"
)

func init() { worldTests["TestStartUpErrorsAreUpstreams"] = startUpErrors }

// changed is what each recorded start had other than kubeadm's flags: the recordings' own first lines are cut off.
var changed = map[string][]string{
	"apiserver-bad-admission-plugin":        {"--enable-admission-plugins=NodeRestrictions"},
	"apiserver-bad-authorization-mode":      {"--authorization-mode=Node,RBACC"},
	"apiserver-bad-feature-gate":            {"--feature-gates=NoSuchGate=true"},
	"apiserver-bad-runtime-config":          {"--runtime-config=foo"},
	"apiserver-bad-secure-port":             {"--secure-port=99999"},
	"apiserver-bad-service-cidr":            {"--service-cluster-ip-range=10.96.0.0"},
	"apiserver-etcd-down":                   {},
	"apiserver-key-cert-mismatch":           {"--tls-private-key-file=/etc/kubernetes/pki/mismatch.key"},
	"apiserver-missing-client-ca":           {"--client-ca-file=/etc/kubernetes/pki/nosuch.crt"},
	"apiserver-missing-etcd-ca":             {"--etcd-cafile=/etc/kubernetes/pki/nosuch.crt"},
	"apiserver-missing-sa-key":              {"--service-account-key-file=/etc/kubernetes/pki/nosuch.pub"},
	"apiserver-unknown-flag":                {"--allow-privileged", "--alow-privileged=true"},
	"apiserver-wrong-etcd-port":             {"--etcd-servers=https://127.0.0.1:2389"},
	"controller-manager-apiserver-down":     {},
	"controller-manager-bad-cidr":           {"--cluster-cidr=10.244.0.0"},
	"controller-manager-missing-kubeconfig": {"--kubeconfig=/etc/kubernetes/nosuch.conf", "--authentication-kubeconfig=/etc/kubernetes/nosuch.conf", "--authorization-kubeconfig=/etc/kubernetes/nosuch.conf"},
	"controller-manager-missing-sa-key":     {"--service-account-private-key-file=/etc/kubernetes/pki/nosuch.key"},
	"controller-manager-unknown-flag":       {"--foo=bar"},
	"scheduler-apiserver-down":              {},
	"scheduler-bad-config":                  {"only", "--config=sc.yaml"},
	"scheduler-missing-kubeconfig":          {"--kubeconfig=/etc/kubernetes/nosuch.conf", "--authentication-kubeconfig=/etc/kubernetes/nosuch.conf", "--authorization-kubeconfig=/etc/kubernetes/nosuch.conf"},
	"scheduler-unknown-flag":                {"--foo=bar"},
}

// commandLine is the recorded component's with its change: a flag with a value replaces or is added, one without goes.
func commandLine(name string) []string {
	argv := map[string][]string{
		"apiserver":  append([]string{"kube-apiserver"}, strings.Fields(flagsAPIServer)...),
		"controller": append([]string{"kube-controller-manager"}, strings.Fields(flagsControllerManager)...),
		"scheduler":  append([]string{"kube-scheduler"}, strings.Fields(flagsScheduler)...),
	}[strings.SplitN(name, "-", 2)[0]]
	for _, c := range changed[name] {
		if c == "only" {
			argv = argv[:1]
			continue
		}
		flag, _, set := strings.Cut(c, "=")
		found := false
		for i := 0; i < len(argv); i++ {
			if argv[i] != flag && !strings.HasPrefix(argv[i], flag+"=") {
				continue
			}
			if found = true; set {
				argv[i] = c
			} else {
				argv = append(argv[:i], argv[i+1:]...)
				i--
			}
		}
		if set && !found {
			argv = append(argv, c)
		}
	}
	return argv
}

// Every recorded start of a component on an otherwise empty machine, run again here with the same flags, logs the same
// lines and ends with the same code. testdata holds the recordings.
func TestStartUpErrorsAreUpstreams(t *testing.T) { t.Log(inWorker(t)) }

func startUpErrors(w *kernel.World) error {
	names, err := filepath.Glob("testdata/*.log")
	if err != nil || len(names) == 0 {
		return fmt.Errorf("no recordings: %v", err)
	}
	m := newTestMachine(w)
	m.put("/root/sc.yaml", "apiVersion: kubescheduler.config.k8s.io/v1\nkind: KubeSchedulerConfiguration\nprofiles:\n- schedulerNam: x\n", 0o644)
	m.put("/etc/kubernetes/pki/mismatch.key", string(otherKey()), 0o600)
	failed := 0
	for _, name := range names {
		if err := sameStart(m, name); err != nil {
			failed++
			fmt.Printf("%s: %v\n", filepath.Base(name), err)
		}
	}
	if failed > 0 {
		return fmt.Errorf("%d of %d starts differ", failed, len(names))
	}
	fmt.Println(len(names), "starts are the same")
	return nil
}

func sameStart(m *testMachine, name string) error {
	b, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	recorded := strings.TrimSuffix(string(b), "\n")
	_, recorded, _ = strings.Cut(recorded, "\n")
	argv := commandLine(strings.TrimSuffix(filepath.Base(name), ".log"))
	i := strings.LastIndex(recorded, "[exit ")
	code, recorded := recorded[i:], recorded[:i]
	log := &logBuffer{}
	p := m.startIn(log, "/root", argv...)
	got := ""
	if code == "[exit 137]" { // it was killed after some seconds
		time.Sleep(12 * time.Second)
		p.Signal(kernel.SIGKILL)
		got = "[exit 137]"
		p.Wait()
	} else {
		select {
		case <-p.Done():
		case <-time.After(2 * time.Minute):
			p.Signal(kernel.SIGKILL)
			p.Wait()
			return fmt.Errorf("it runs on\n%s", log)
		}
		if c := p.Wait().ExitCode(); c != 0 {
			got = fmt.Sprintf("[exit %d]", c)
		}
	}
	if got != code {
		return fmt.Errorf("%s, recorded %s\n%s", got, code, log)
	}
	want, have := normalLines(recorded), normalLines(log.String())
	if !strings.Contains(recorded, "grpc:") { // the recorded one ended before its first attempt to reach etcd had failed
		have = slices.DeleteFunc(have, func(l string) bool { return strings.Contains(l, "grpc:") })
	}
	if d := difference(want, have); d != "" {
		return fmt.Errorf("\n%s", d)
	}
	return nil
}

var (
	logHeader = regexp.MustCompile(`(?m)^([IWEF])\d{4} [\d:.]+ +\d+ `)
	channels  = regexp.MustCompile(`\[Channel #\d+ SubChannel #\d+\]`)
)

// normalLines are the distinct lines of a log, without what differs from run to run: times, process ids, channel numbers,
// how often something is tried again, which of two attempts to one address is called off,
// whether an informer came to speak before the end.
func normalLines(log string) []string {
	log = channels.ReplaceAllString(logHeader.ReplaceAllString(log, "$1 "), "[Channel]")
	seen := map[string]bool{}
	for _, l := range strings.Split(log, "\n") {
		if l = strings.TrimRight(l, " "); l != "" && !strings.Contains(l, "operation was canceled") && !strings.Contains(l, "context canceled") && !strings.Contains(l, "shared_informer.go") {
			seen[l] = true
		}
	}
	var l []string
	for s := range seen {
		l = append(l, s)
	}
	sort.Strings(l)
	return l
}

func difference(want, have []string) string {
	in := func(l []string, s string) bool { i := sort.SearchStrings(l, s); return i < len(l) && l[i] == s }
	var d []string
	for _, s := range want {
		if !in(have, s) {
			d = append(d, "- "+s)
		}
	}
	for _, s := range have {
		if !in(want, s) {
			d = append(d, "+ "+s)
		}
	}
	return strings.Join(d, "\n")
}
