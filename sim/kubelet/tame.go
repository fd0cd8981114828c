package kubelet

import (
	"sync"

	"k8s.io/kubernetes/pkg/capabilities"
)

// Upstream's process-wide state that a kubelet touches, and what is done about each:
//   - nodestatus.rebootEvent lets one process say "Rebooted" once: each simulated kubelet gets a fresh one.
//   - capabilities.Initialize is the same for every kubelet.
//   - feature gates stay at their defaults, see [checkFeatureGates]; klog's flags are swallowed, see [globalFlags].
func tame() {
	rebootEvent = sync.Once{}
	capabilities.Initialize(capabilities.Capabilities{AllowPrivileged: true})
}
