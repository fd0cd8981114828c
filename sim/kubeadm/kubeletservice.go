package kubeadm

import (
	"fmt"
	"strings"

	kubeletconfig "k8s.io/kubelet/config/v1beta1"
	kubeadmapi "k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm"
	"k8s.io/kubernetes/cmd/kubeadm/app/features"
	kubeletphase "k8s.io/kubernetes/cmd/kubeadm/app/phases/kubelet"
	"k8s.io/kubernetes/cmd/kubeadm/app/util/initsystem"

	"ckadrill/sim/kubeadm/host"
)

// startKubelet, stopKubelet and restartKubelet are upstream's TryStartKubelet, TryStopKubelet and TryRestartKubelet.

func (c *command) startKubelet() {
	s, err := host.InitSystem(c.p)
	if err != nil {
		fmt.Println("[kubelet-start] No supported init system detected, won't make sure the kubelet is running properly.")
		return
	}
	if !s.ServiceExists("kubelet") {
		fmt.Println("[kubelet-start] Couldn't detect a kubelet service, can't make sure the kubelet is running properly.")
	}
	if err := s.ServiceRestart("kubelet"); err != nil {
		c.warn("kubelet.go", 43, "[kubelet-start] WARNING: unable to start the kubelet service: [%v]\n", err)
		fmt.Printf("[kubelet-start] Please ensure kubelet is reloaded and running manually.\n")
	}
}

func (c *command) stopKubelet() {
	if s := c.kubeletService(); s != nil {
		if err := s.ServiceStop("kubelet"); err != nil {
			c.warn("kubelet.go", 63, "[kubelet-start] WARNING: unable to stop the kubelet service momentarily: [%v]\n", err)
		}
	}
}

func (c *command) restartKubelet() {
	if s := c.kubeletService(); s != nil {
		if err := s.ServiceRestart("kubelet"); err != nil {
			c.warn("kubelet.go", 82, "[kubelet-start] WARNING: unable to restart the kubelet service momentarily: [%v]\n", err)
		}
	}
}

func (c *command) kubeletService() initsystem.InitSystem {
	s, err := host.InitSystem(c.p)
	if err != nil {
		fmt.Println("[kubelet-start] No supported init system detected, won't make sure the kubelet not running for a short period of time while setting up configuration for it.")
		return nil
	}
	if !s.ServiceExists("kubelet") {
		fmt.Println("[kubelet-start] Couldn't detect a kubelet service, can't make sure the kubelet not running for a short period of time while setting up configuration for it.")
	}
	return s
}

// kubeletNode is the name under which a kubelet registers, as upstream's GetNodeNameAndHostname.
func (c *command) kubeletNode(reg *kubeadmapi.NodeRegistrationOptions) string {
	if name, i := kubeadmapi.GetArgValue(reg.KubeletExtraArgs, "hostname-override", -1); i > -1 {
		return name
	}
	if reg.Name != "" {
		return reg.Name
	}
	return c.hostName()
}

// writeKubeletFlags is upstream's WriteKubeletDynamicEnvFile, which would compare with the real host's name. dir is a
// directory of the real host.
func (c *command) writeKubeletFlags(cfg *kubeadmapi.ClusterConfiguration, reg *kubeadmapi.NodeRegistrationOptions, registerTaints bool, dir string) error {
	var args []kubeadmapi.Arg
	if !features.Enabled(cfg.FeatureGates, features.NodeLocalCRISocket) {
		args = append(args, kubeadmapi.Arg{Name: "container-runtime-endpoint", Value: reg.CRISocket})
	}
	if registerTaints && len(reg.Taints) > 0 {
		var l []string
		for _, t := range reg.Taints {
			l = append(l, t.ToString())
		}
		args = append(args, kubeadmapi.Arg{Name: "register-with-taints", Value: strings.Join(l, ",")})
	}
	if name := c.kubeletNode(reg); name != c.hostName() {
		args = append(args, kubeadmapi.Arg{Name: "hostname-override", Value: name})
	}
	return kubeletphase.WriteKubeletArgsToFile(args, reg.KubeletExtraArgs, dir)
}

// writeInstanceConfig writes the kubelet's configuration of this machine alone.
func writeInstanceConfig(cfg *kubeadmapi.ClusterConfiguration, socket, dir string) error {
	if !features.Enabled(cfg.FeatureGates, features.NodeLocalCRISocket) {
		return nil
	}
	if err := kubeletphase.WriteInstanceConfigToDisk(&kubeletconfig.KubeletConfiguration{ContainerRuntimeEndpoint: socket}, dir); err != nil {
		return fmt.Errorf("error writing instance kubelet configuration to disk: %w", err)
	}
	return nil
}
