package kubelet

import (
	"context"

	v1 "k8s.io/api/core/v1"
	"k8s.io/kubernetes/pkg/credentialprovider"
	"k8s.io/kubernetes/pkg/kubelet"
	"k8s.io/kubernetes/pkg/kubelet/config"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	"k8s.io/kubernetes/pkg/kubelet/pluginmanager/cache"

	"ckadrill/sim/kernel"
)

// noShutdown is a nodeshutdown.Manager without systemd-logind: kubeadm leaves graceful node shutdown off.
type noShutdown struct{}

// Admit implements nodeshutdown.Manager.
func (noShutdown) Admit(*lifecycle.PodAdmitAttributes) lifecycle.PodAdmitResult {
	return lifecycle.PodAdmitResult{Admit: true}
}

// Start implements nodeshutdown.Manager.
func (noShutdown) Start() error { return nil }

// ShutdownStatus implements nodeshutdown.Manager.
func (noShutdown) ShutdownStatus() error { return nil }

// noPlugins is a pluginmanager.PluginManager that finds no registration sockets: there are no device or CSI plugins yet.
type noPlugins struct{ p *kernel.Process }

// Run implements pluginmanager.PluginManager.
func (n noPlugins) Run(ctx context.Context, _ config.SourcesReady, _ <-chan struct{}) {
	logAt(n.p, "plugin_manager.go", 121).Info("Starting Kubelet Plugin Manager")
	<-n.p.Done()
}

// AddHandler implements pluginmanager.PluginManager.
func (noPlugins) AddHandler(string, cache.PluginHandler) {}

// noAppArmor is an apparmor.Validator of a machine without AppArmor: profiles are accepted and not enforced.
type noAppArmor struct{}

// Validate implements apparmor.Validator.
func (noAppArmor) Validate(*v1.Pod) error { return nil }

// ValidateHost implements apparmor.Validator.
func (noAppArmor) ValidateHost() error { return nil }

// userNamespaces is what upstream's user namespace manager asks its kubelet, with the default mapping in the place of
// getsubids.
type userNamespaces struct{ *kubelet.Kubelet }

// GetKubeletMappings implements userns' interface: a first id and a length that leave room for maxPods.
func (u userNamespaces) GetKubeletMappings(idsPerPod uint32) (uint32, uint32, error) {
	return idsPerPod, idsPerPod * uint32(u.GetMaxPods()), nil
}

// forgetHostKeyrings takes the registry credentials of the host that runs the world away from upstream's image puller.
func forgetHostKeyrings(kuberuntime any) {
	setField(getField(kuberuntime, "imagePuller"), "nodeKeyring", &credentialprovider.BasicDockerKeyring{})
}
