package kubelet

import (
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	csiplugins "k8s.io/csi-translation-lib/plugins"
	"k8s.io/kubernetes/pkg/volume"
	"k8s.io/kubernetes/pkg/volume/csi/nodeinfomanager"

	"ckadrill/sim/kernel"
)

// initializeCSINode has upstream's manager make the node's CSINode object, as the plugin kubernetes.io/csi does when the
// kubelet starts. That plugin itself, which needs a driver's socket, is not simulated.
func initializeCSINode(p *kernel.Process, host volume.VolumeHost) {
	yes := func() bool { return true }
	m := nodeinfomanager.NewNodeInfoManager(host.GetNodeName(), host, map[string]func() bool{
		csiplugins.GCEPDInTreePluginName: yes, csiplugins.AWSEBSInTreePluginName: yes, csiplugins.CinderInTreePluginName: yes, csiplugins.AzureDiskInTreePluginName: yes,
		csiplugins.AzureFileInTreePluginName: yes, csiplugins.VSphereInTreePluginName: yes, csiplugins.PortworxVolumePluginName: yes,
	})
	go func() {
		b := wait.Backoff{Steps: 60, Duration: 30 * time.Millisecond, Factor: 8, Jitter: 0.1, Cap: 10 * time.Second}
		for p.Alive() && b.Steps > 0 {
			if m.InitializeCSINodeWithAnnotation() == nil {
				return
			}
			if p.Sleep(b.Step()) != nil {
				return
			}
		}
	}()
}
