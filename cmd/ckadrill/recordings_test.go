package main

import (
	"bytes"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ckadrill/transcript"
)

const recordings = "../../transcript/testdata"

// differing are the recordings that the simulation is not equal to yet, and why.
var differing = map[string]string{
	"etcd/backup-and-restore":                  "etcdctl's warnings, and what etcdutl prints",
	"kubeadm/certs":                            "the command kubeadm knows only init's phases yet",
	"kubeadm/init":                             "the command kubeadm knows only init's phases yet",
	"kubeadm/init-again-and-config":            "the command kubeadm knows only init's phases yet",
	"kubeadm/init-control-plane-not-coming-up": "the command kubeadm knows only init's phases yet",
	"kubeadm/join":                             "the command kubeadm knows only init's phases yet",
	"kubeadm/reset":                            "the command kubeadm knows only init's phases yet",
	"kubeadm/tokens":                           "the command kubeadm knows only init's phases yet",
	"kubeadm/version-and-help":                 "the command kubeadm knows only init's phases yet",
	"kubectl/plugin-alpha-completion":          "kubectl's plugins",
	"kubectl/run-and-exec-shortcuts":           "a line on standard error that was lost",
	"kubectl/verbosity-and-output":             "the order of the lines of -v=6",
	"kubectl/version-skew":                     "kubectl of other versions",
	"scheduling/drain":                         "Pods that another recording had left behind",
	"services/endpoint-readiness-and-publish":  "the time of a rollout",
	"services/ingress":                         "the time at which a Pod becomes ready",
	"troubleshooting/containerd-down":          "which of the kubelet's loops misses containerd first",
	"troubleshooting/etcd-wrong-data-dir":      "which of the API server's requests time out first",
	"troubleshooting/kubelet-stopped-short":    "where CoreDNS runs, and events of earlier recordings",
	"troubleshooting/kubelet-wrong-node-name":  "the eviction manager",
	"workloads/hpa-scaling":                    "the metrics API",
	"workloads/pod-evicted-and-ephemeral":      "the eviction manager",
}

// quick are those that every run of the tests plays: one or two of each area.
var quick = []string{
	"cluster/lease-election-failover", "cluster/mirror-pods", "config/apply-replace-patch", "crictl/basic", "storage/pvc-pending-reasons", "troubleshooting/apiserver-bad-etcd-port", "troubleshooting/apiserver-manifest-yaml-error",
	"troubleshooting/controller-manager-bad-flag", "workloads/crashloop", "workloads/daemonset", "workloads/deployment-describe-yaml", "workloads/image-pull-errors", "workloads/rollout-undo",
}

// TestRecordings plays recordings of a real cluster: a few of them, or all in a soak.
func TestRecordings(t *testing.T) {
	files, err := filepath.Glob(recordings + "/*/*" + transcript.Extension)
	if err != nil || len(files) < 100 {
		t.Fatal(len(files), err)
	}
	for name := range differing {
		if !slices.Contains(files, filepath.Join(recordings, name+transcript.Extension)) {
			t.Errorf("there is no recording %s", name)
		}
	}
	var play []string
	for _, f := range files {
		name := strings.TrimSuffix(strings.TrimPrefix(f, recordings+"/"), transcript.Extension)
		if differing[name] == "" && (os.Getenv(soak) != "" || slices.Contains(quick, name)) {
			play = append(play, f)
		}
	}
	f := worldFlags{seed: 1, preset: recordedCluster}
	results, err := playTranscripts(f.boot(), play, 2, 1, nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, r := range results {
		if !r.Equal() {
			var b bytes.Buffer
			printTranscript(&b, r, false)
			t.Error(b.String())
		}
	}
	t.Logf("%d recordings are equal", len(results))
}
