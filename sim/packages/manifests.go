package packages

import (
	_ "embed"
	"fmt"
)

// metricsServer is the manifest of metrics-server's release, as its maintainers publish it.
//
//go:embed files/metrics-server.yaml
var metricsServer []byte

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
