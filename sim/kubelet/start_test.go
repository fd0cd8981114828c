package kubelet

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"ckadrill/sim/kernel"
	"ckadrill/sim/machine"
)

// startFailure is a way in which a kubelet does not come up, and the end of its log; most are recorded from a real one.
type startFailure struct {
	name   string
	break_ func(b *testbed)
	want   string
}

var startFailures = []startFailure{
	{"unknown flag", func(b *testbed) { b.argv = append(b.argv, "--foo=bar") },
		`run.go:72] "command failed" err="failed to parse kubelet flag: unknown flag: --foo"`},
	{"removed flag", func(b *testbed) { b.argv = append(b.argv, "--pod-infra-container-image=x") },
		`run.go:72] "command failed" err="failed to parse kubelet flag: unknown flag: --pod-infra-container-image"`},
	{"stray word", func(b *testbed) { b.argv = append(b.argv, "word") }, `"command failed" err="unknown command word"`},
	{"no configuration", func(b *testbed) { b.argv[3] = "--config=/var/lib/kubelet/nosuch.yaml" },
		`"command failed" err="failed to load kubelet config file, path: /var/lib/kubelet/nosuch.yaml, error: failed to load Kubelet config file /var/lib/kubelet/nosuch.yaml, error failed to read kubelet config file \"/var/lib/kubelet/nosuch.yaml\", error: open /var/lib/kubelet/nosuch.yaml: no such file or directory"`},
	{"yaml syntax", func(b *testbed) { b.write("/var/lib/kubelet/config.yaml", testConfig+"clusterDNS: [10.96.0.10\n") },
		`error failed to decode: yaml: line`},
	{"type error", func(b *testbed) {
		b.write("/var/lib/kubelet/config.yaml", strings.Replace(testConfig, "clusterDNS: [10.96.0.10]", "clusterDNS: 10.96.0.10", 1))
	}, `json: cannot unmarshal string into Go struct field KubeletConfiguration.clusterDNS of type []string`},
	{"port out of range", func(b *testbed) { b.write("/var/lib/kubelet/config.yaml", testConfig+"port: 99999\n") },
		`failed to validate kubelet configuration, error: invalid configuration: port (--port) 99999 must be between 1 and 65535, inclusive, path: &TypeMeta{Kind:,APIVersion:,}`},
	{"client CA missing", func(b *testbed) {
		b.write("/var/lib/kubelet/config.yaml", strings.Replace(testConfig, "/etc/kubernetes/pki/ca.crt", "/etc/kubernetes/pki/WRONG.crt", 1))
	}, `"command failed" err="failed to construct kubelet dependencies: unable to load client CA file /etc/kubernetes/pki/WRONG.crt: open /etc/kubernetes/pki/WRONG.crt: no such file or directory"`},
	{"no kubeconfig, no bootstrap", func(b *testbed) { b.files.Remove("/etc/kubernetes/kubelet.conf") },
		`"command failed" err="failed to run Kubelet: unable to load bootstrap kubeconfig: stat /etc/kubernetes/bootstrap-kubelet.conf: no such file or directory"`},
	{"no server in kubeconfig", func(b *testbed) {
		c, _ := b.files.ReadFile("/etc/kubernetes/kubelet.conf")
		b.write("/etc/kubernetes/kubelet.conf", strings.Replace(string(c), "server: 'https://192.168.122.11:6443'", "certificate-authority: /etc/kubernetes/pki/ca.crt", 1))
	}, `invalid configuration: no server found for cluster \"k\"" logger="UnhandledError"`},
	{"swap on", func(b *testbed) {
		b.write("/swap.img", strings.Repeat("\x00", 4086)+machine.SwapSignature+strings.Repeat("\x00", 60<<10))
		b.m.SwapOn("/swap.img", machine.NoPriority)
	}, `"command failed" err="failed to run Kubelet: running with swap on is not supported, please disable swap or set --fail-swap-on flag to false"`},
	{"runtime socket", func(b *testbed) {
		b.write("/var/lib/kubelet/config.yaml", strings.Replace(testConfig, "/var/run/containerd/containerd.sock", "/run/nosuch.sock", 1))
	}, `"command failed" err="failed to run Kubelet: validate service connection: validate CRI v1 runtime API for endpoint \"unix:///run/nosuch.sock\": rpc error: code = Unavailable desc = connection error: desc = \"transport: Error while dialing: dial unix /run/nosuch.sock: connect: no such file or directory\""`},
	{"eviction", func(b *testbed) {
		b.write("/var/lib/kubelet/config.yaml", testConfig+"evictionHard: {memory.available: lots}\n")
	}, `"command failed" err="failed to run Kubelet: quantities must match the regular expression`},
}

func init() {
	for _, f := range startFailures {
		scenarios["start: "+f.name] = func(b *testbed) error {
			f.break_(b)
			p := b.start()
			time.Sleep(time.Minute)
			if p.Alive() {
				return fmt.Errorf("the kubelet runs")
			}
			if s := p.Wait(); s != (kernel.Status{Code: 1}) {
				return fmt.Errorf("it ended with %+v", s)
			}
			if !strings.Contains(b.log.String(), f.want) {
				return fmt.Errorf("its log has no %s", f.want)
			}
			return nil
		}
	}
	scenarios["start: unknown field"] = func(b *testbed) error {
		b.write("/var/lib/kubelet/config.yaml", testConfig+"nosuchField: 1\n")
		p := b.start()
		time.Sleep(10 * time.Second)
		if !p.Alive() {
			return fmt.Errorf("the kubelet ended")
		}
		if want := `codec.go:102] "Using lenient decoding as strict decoding failed" err="strict decoding error: unknown field \"nosuchField\""`; !strings.Contains(b.log.String(), want) {
			return fmt.Errorf("its log has no %s", want)
		}
		return nil
	}
	scenarios["start: unknown feature gate"] = func(b *testbed) error {
		b.write("/var/lib/kubelet/config.yaml", testConfig+"featureGates: {NoSuchGate: true}\n")
		p := b.start()
		want := "panic: failed to merge global and in-flight KubeletConfiguration while setting defaults, error: unrecognized feature gate: NoSuchGate"
		if s := p.Wait(); s.Code != 2 || !strings.Contains(b.log.String(), want) {
			return fmt.Errorf("it ended with %+v", s)
		}
		return nil
	}
	scenarios["start: port taken"] = func(b *testbed) error {
		first := b.start()
		time.Sleep(10 * time.Second)
		second := b.start()
		time.Sleep(10 * time.Second)
		if !first.Alive() || second.Alive() || !strings.Contains(b.log.String(), "listen tcp 0.0.0.0:10250: bind: address already in use") {
			return fmt.Errorf("the second kubelet took the port")
		}
		return nil
	}
}

func TestStartFailures(t *testing.T) {
	for name := range scenarios {
		if n, ok := strings.CutPrefix(name, "start: "); ok {
			t.Run(n, func(t *testing.T) { runScenario(t, name) })
		}
	}
}
