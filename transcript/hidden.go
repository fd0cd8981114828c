package transcript

import (
	"regexp"
	"strings"
)

// Two kinds of steps were hidden when the recordings were made: a file that a fault was put into was saved and later
// restored, and something was waited for. Where that happened is not written down. It is found by trial: when a command prints
// something else than was recorded, the step is tried again in a world that goes on from before it, with a hidden step in
// between, and the hidden step is taken to have happened if the command then prints what was recorded.

// hiddenStep is something that the recorder may have done without showing it.
type hiddenStep struct {
	// What tells a reader what was done.
	What   string
	Script string
	// plausible says whether it may have happened before a step that printed something else than was recorded.
	plausible func(p *performance, s *Step, printed string) bool
}

// savedTree is where the files are saved that a recording may put a fault into.
const savedTree = "/root/.recorder"

// saveFiles saves them.
const saveFiles = `mkdir -p ` + savedTree + `
for f in /etc/kubernetes/manifests/*.yaml /etc/kubernetes/*.conf /var/lib/kubelet/config.yaml /var/lib/kubelet/kubeadm-flags.env /etc/cni/net.d/* /etc/containerd/config.toml; do
  [ -f $f ] && mkdir -p ` + savedTree + `/$(dirname $f) && cp -p $f ` + savedTree + `$f
done
true`

// changedFiles prints the saved files that have changed.
const changedFiles = `cd ` + savedTree + ` && find . -type f | sort | while read f; do cmp -s $f /${f#./} || echo /${f#./}; done`

// waitHealthy waits until the API server is ready, and every node and every Pod of the system.
const waitHealthy = `for i in $(seq 180); do
  kubectl get --raw /readyz >/dev/null 2>&1 &&
  ! kubectl get nodes --no-headers 2>&1 | grep -qv ' Ready ' &&
  ! kubectl get pods -n kube-system --no-headers 2>&1 | grep -qv '1/1 ' && break
  sleep 1
done`

// restoreFiles restores them, and restarts what reads them only when it starts.
const restoreFiles = `changed=$(` + changedFiles + `)
for f in $changed; do cp -p ` + savedTree + `$f $f; done
case $changed in */var/lib/kubelet/*|*/etc/kubernetes/kubelet.conf*) systemctl restart kubelet;; esac
case $changed in */etc/cni/*|*/etc/containerd/*) systemctl restart containerd;; esac
` + waitHealthy

// waitReady waits for the Pods of the namespace that the recording works in.
const waitReady = `kubectl wait --for=condition=Ready pods --all --timeout=60s >/dev/null 2>&1`

var (
	waits    = regexp.MustCompile(`^(?:sleep|kubectl wait|kubectl rollout status)\b|; *sleep \d+$`)
	notReady = regexp.MustCompile(`\b0/[1-9]|Pending|ContainerCreating|not found|is waiting to start|unable to upgrade|does not have a host assigned|error: `)
)

var hiddenSteps = []hiddenStep{
	{
		What: "the files that were changed are restored, and the cluster is healthy again", Script: restoreFiles,
		plausible: func(p *performance, _ *Step, _ string) bool { return p.changes() != "" },
	},
	{
		What: "the Pods are waited for", Script: waitReady,
		plausible: func(p *performance, s *Step, printed string) bool {
			return p.index > 0 && !waits.MatchString(p.recording.Steps[p.index-1].Command) && strings.Contains(s.Command, "kubectl") && notReady.MatchString(printed)
		},
	},
}

// savedUnder matches a command that takes a saved file from where a hidden step put it.
var savedUnder = regexp.MustCompile(`\b(?:cp|mv) (?:-\w+ )*(/tmp/\S+) (/(?:etc|var)/[^\s;]+)`)

// hiddenCopies are copies that hidden steps made at the recording's beginning: a file of /tmp that is put somewhere although
// nothing shown has made it.
func hiddenCopies(steps []Step) map[string]string {
	m := map[string]string{}
	said := ""
	for _, s := range steps {
		for _, c := range savedUnder.FindAllStringSubmatch(s.Command, -1) {
			made := strings.Contains(said, c[1]) || strings.Contains(said, " /tmp/\n") || strings.Contains(said, " /tmp\n")
			if !made && !strings.HasSuffix(c[2], "/") {
				m[c[1]] = c[2]
			}
		}
		said += strings.ReplaceAll(s.Command, ";", "\n") + "\n"
	}
	return m
}
