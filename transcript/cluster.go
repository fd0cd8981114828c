package transcript

import (
	"regexp"
	"strings"
)

// measured are the recordings that were made while metrics-server ran; see the truth's own description.
var measured = map[string]bool{"kubectl/top-with-metrics-server": true, "workloads/hpa-scaling": true}

// withMetrics installs metrics-server, as its manifest says but for what kubelets' certificates need, and has a worker
// not ready.
const withMetrics = `set -e
sed 's/- --metric-resolution=15s/&\n        - --kubelet-insecure-tls/' /opt/manifests/metrics-server.yaml | kubectl apply -f -
kubectl -n kube-system rollout status deploy/metrics-server --timeout=3m
kubectl wait --for=condition=Available apiservice/v1beta1.metrics.k8s.io --timeout=3m
ssh cka-w2 systemctl stop kubelet </dev/null
kubectl wait --for=condition=Ready=Unknown node/cka-w2 --timeout=3m
`

var (
	deletedNamespace = regexp.MustCompile(`(?m)^kubectl delete (?:ns|namespace) (\S+)`)
	createdNamespace = regexp.MustCompile(`(?m)^kubectl create (?:ns|namespace) (\S+)`)
)

// clusterScript makes what the recording found in its cluster: an add-on, and namespaces that earlier recordings had left and
// that this one deletes.
func (r *Recording) clusterScript() string {
	var b strings.Builder
	if measured[r.Area+"/"+r.Name] {
		b.WriteString(withMetrics)
	}
	made := map[string]bool{}
	for _, s := range r.Steps {
		if m := createdNamespace.FindStringSubmatch(s.Command); m != nil {
			made[m[1]] = true
		}
		m := deletedNamespace.FindStringSubmatch(s.Command)
		if m == nil || made[m[1]] || !strings.HasPrefix(s.Output, "namespace \""+m[1]+"\" ") {
			continue
		}
		made[m[1]] = true
		b.WriteString("kubectl create namespace " + m[1] + "\n")
	}
	return b.String()
}
