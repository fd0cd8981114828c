package packages

import (
	_ "embed"
	"fmt"
)

// metricsServer is the manifest of metrics-server's release, as its maintainers publish it.
//
//go:embed files/metrics-server.yaml
var metricsServer []byte

// Flannel is flannel's own manifest for Kubernetes.
//
//go:embed files/kube-flannel.yml
var Flannel []byte

// calico is the manifest of a CNI that has the parts of Calico's, with addresses by the nodes' Pod CIDRs and VXLAN.
//
//go:embed files/calico.yaml
var calico []byte

const metricsServerVersion = "v0.8.0"

// manifestDir is where a machine has the manifests of add-ons that are not installed.
const manifestDir = "/opt/manifests"

// manifest finds a manifest of an add-on by its path on GitHub.
func manifest(path string) ([]byte, bool) {
	const releases = "/kubernetes-sigs/metrics-server/releases/"
	switch path {
	case releases + "latest/download/components.yaml", fmt.Sprintf("%sdownload/%s/components.yaml", releases, metricsServerVersion):
		return metricsServer, true
	}
	return nil, false
}
