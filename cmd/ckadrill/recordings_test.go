package main

import (
	"bytes"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"ckadrill/transcript"
)

const recordings = "../../transcript/testdata"

// recordingFiles are all recordings, by area and name.
func recordingFiles(t *testing.T) map[string]string {
	t.Helper()
	files, err := filepath.Glob(recordings + "/*/*" + transcript.Extension)
	if err != nil || len(files) < 100 {
		t.Fatal(len(files), err)
	}
	m := map[string]string{}
	for _, f := range files {
		m[strings.TrimSuffix(strings.TrimPrefix(f, recordings+"/"), transcript.Extension)] = f
	}
	return m
}

// differing are the recordings that the simulation is not equal to yet, and why.
var differing = map[string]string{
	"etcd/backup-and-restore":                  "the size of the data, the order of crictl ps, and restarts of earlier recordings",
	"kubeadm/init":                             "the recorded machine was not in a cluster yet",
	"kubeadm/init-control-plane-not-coming-up": "the recorded machine was not in a cluster yet, and its runtime could not start containers",
	"kubeadm/join":                             "the recorded machine was not in a cluster yet",
	"kubeadm/reset":                            "the recorded machine had left a cluster that was gone",
	"kubectl/plugin-alpha-completion":          "an old kubectl that the recorded machine had as a plugin",
	"kubectl/run-and-exec-shortcuts":           "how fast Pods become ready",
	"kubectl/verbosity-and-output":             "the lines of kubectl -v=6 about its configuration and its feature gates",
	"kubectl/version-skew":                     "an old kubectl that the recorded machine had",
	"scheduling/drain":                         "a Pod of another recording, and where CoreDNS runs",
	"services/endpoint-readiness-and-publish":  "an annotation of Endpoints, and how fast a rollout goes",
	"services/ingress":                         "how fast a Pod becomes ready",
	"troubleshooting/containerd-down":          "which of the kubelet's loops misses containerd first",
	"troubleshooting/etcd-wrong-data-dir":      "the recorded container was not created yet; what a request that times out says; restarts and Pods of earlier recordings",
	"troubleshooting/kubelet-stopped-short":    "where CoreDNS runs, and events of earlier recordings",
	"troubleshooting/kubelet-wrong-node-name":  "the eviction manager, and the order of the kubelet's first errors",
	"workloads/pod-evicted-and-ephemeral":      "the eviction manager",
}

// quick are those that every run of the tests plays: one or two of each area.
var quick = []string{
	"cluster/lease-election-failover", "cluster/mirror-pods", "config/apply-replace-patch", "config/kustomize", "create/rbac-dry-run", "crictl/basic", "kubectl/help-and-usage-errors", "storage/pvc-pending-reasons",
	"troubleshooting/apiserver-manifest-yaml-error", "workloads/crashloop", "workloads/daemonset", "workloads/deployment-describe-yaml", "workloads/image-pull-errors", "workloads/rollout-undo",
}

// thawed are those that every run of the tests plays with a thaw after each command.
var thawed = []string{"storage/projected-downward-subpath", "troubleshooting/kubelet-wrong-ca"}

// thawDiffers are the recordings that do not stay as recorded when the world is thawed after each command, and why.
var thawDiffers = map[string]string{
	"config/quota-exceeded":                           "the back-off of a controller's queue begins anew",
	"scheduling/priority-preemption":                  "a resumed scheduler tries a Pod that does not fit once more",
	"services/nodeport-loadbalancer":                  "a resumed kube-proxy programs a new Service at once",
	"troubleshooting/apiserver-bad-etcd-port":         "a handshake that was under way is refused instead",
	"troubleshooting/apiserver-wrong-cert-path":       "a container is restarted up to a second sooner",
	"troubleshooting/node-notready-eviction-timeline": "a resumed taint manager says that it does not delete what it has deleted",
	"workloads/crashloop":                             "a Pod that is synced when the world is frozen is synced anew, which may forget the run before the last",
	"workloads/pod-lifecycle-hooks-termination":       "a hook that was under way is taken for done",
}

// TestRecordings plays recordings of a real cluster: a few of them, or all in a soak.
func TestRecordings(t *testing.T) {
	playRecordings(t, quick, differing, playing{jobs: 2, draws: 1})
}

// A freeze and a thaw in a new worker after every command of a recording changes nothing that follows: it stays as it was
// recorded.
func TestThawsChangeNothingInRecordings(t *testing.T) {
	left := maps.Clone(differing)
	maps.Copy(left, thawDiffers)
	playRecordings(t, thawed, left, playing{jobs: 2, draws: 1, thaw: true})
}

// playRecordings plays some recordings, in a soak all but those that are left out for a reason.
func playRecordings(t *testing.T, some []string, left map[string]string, how playing) {
	t.Helper()
	files := recordingFiles(t)
	for name := range left {
		if files[name] == "" {
			t.Errorf("there is no recording %s", name)
		}
	}
	var play []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if left[name] == "" && (os.Getenv(soak) != "" || slices.Contains(some, name)) {
			play = append(play, files[name])
		}
	}
	f := worldFlags{seed: 1, preset: recordedCluster}
	results, err := playTranscripts(f.boot(), play, how, nil)
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
