package kubeadm

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	_ "unsafe" // for go:linkname

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
	kubeadmapi "k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm"
	"k8s.io/kubernetes/cmd/kubeadm/app/componentconfigs"
	"k8s.io/kubernetes/cmd/kubeadm/app/constants"
	configutil "k8s.io/kubernetes/cmd/kubeadm/app/util/config"
	"sigs.k8s.io/yaml"

	"ckadrill/sim/kubeadm/host"
)

//go:linkname getInitConfigurationFromCluster k8s.io/kubernetes/cmd/kubeadm/app/util/config.getInitConfigurationFromCluster
func getInitConfigurationFromCluster(kubeconfigDir string, client clientset.Interface, getNodeRegistration, getAPIEndpoint, getComponentConfigs bool) (*kubeadmapi.InitConfiguration, error)

const readingConfiguration = "[%[1]s] Reading configuration from the \"kubeadm-config\" ConfigMap in namespace \"kube-system\"...\n" +
	"[%[1]s] Use 'kubeadm init phase upload-config kubeadm --config your-config-file' to re-upload it.\n"

// sayReading is what upstream says before it reads the configuration from the cluster.
func (c *command) sayReading(prefix string) { fmt.Printf(readingConfiguration, prefix) }

// fetchConfiguration is upstream's FetchInitConfigurationFromCluster, but for what it says. Its part about the node is done
// here: upstream's would connect by the host's network and look for the host's sockets.
func (c *command) fetchConfiguration(client clientset.Interface, node, endpoint, componentConfigs bool) (*kubeadmapi.InitConfiguration, error) {
	cfg, err := getInitConfigurationFromCluster("", client, false, false, componentConfigs)
	if err != nil {
		return nil, err
	}
	if node {
		if err := c.nodeRegistration(client, &cfg.NodeRegistration); err != nil {
			return nil, fmt.Errorf("failed to get node registration: %w", err)
		}
	}
	if endpoint {
		if err := configutil.GetAPIEndpoint(client, cfg.NodeRegistration.Name, &cfg.LocalAPIEndpoint); err != nil {
			return nil, fmt.Errorf("failed to getAPIEndpoint: %w", err)
		}
	}
	return cfg, c.complete(cfg)
}

// complete applies upstream's dynamic defaults; what they would ask the host for is filled in first.
func (c *command) complete(cfg *kubeadmapi.InitConfiguration) error {
	if cfg.NodeRegistration.Name == "" {
		cfg.NodeRegistration.Name = c.hostName()
	}
	if cfg.NodeRegistration.CRISocket == "" {
		cfg.NodeRegistration.CRISocket = host.ContainerdSocket
	}
	if cfg.LocalAPIEndpoint.AdvertiseAddress == "" {
		cfg.LocalAPIEndpoint.AdvertiseAddress = c.address()
	}
	if err := configutil.SetInitDynamicDefaults(cfg, true); err != nil {
		return err
	}
	c.askSystemd(&cfg.ClusterConfiguration)
	return nil
}

// askSystemd lets the kubelet's configuration follow the machine's systemd-resolved.
func (c *command) askSystemd(cfg *kubeadmapi.ClusterConfiguration) {
	k, ok := cfg.ComponentConfigs[componentconfigs.KubeletGroup]
	if _, wrapped := k.(machineKubelet); !ok || wrapped {
		return
	}
	s, err := host.InitSystem(c.p)
	cfg.ComponentConfigs[componentconfigs.KubeletGroup] = machineKubelet{k, err == nil && s.ServiceIsActive("systemd-resolved")}
}

// isControlPlane is upstream's IsControlPlaneNode.
func (c *command) isControlPlane() bool {
	_, err := c.p.Files.Stat(path.Join(manifestsDir, "kube-apiserver.yaml"))
	return !errors.Is(err, fs.ErrNotExist)
}

// nodeRegistration is upstream's GetNodeRegistration.
func (c *command) nodeRegistration(client clientset.Interface, reg *kubeadmapi.NodeRegistrationOptions) error {
	name := c.nodeName()
	node, err := client.CoreV1().Nodes().Get(c.p.Context(), name, metav1.GetOptions{})
	if err != nil {
		return fmt.Errorf("failed to get corresponding node: %w", err)
	}
	socket, ok := node.Annotations[constants.AnnotationKubeadmCRISocket]
	if !ok {
		file := path.Join(kubeletDir, constants.KubeletInstanceConfigurationFileName)
		b, err := c.p.Files.ReadFile(file)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			c.warn("cluster.go", 184, "node %q lacks annotation %q and kubelet config file %q; attempting auto-detection", name, constants.AnnotationKubeadmCRISocket, file)
			if socket, err = host.DetectCRISocket(c.p); err != nil {
				c.warn("cluster.go", 187, "auto-detection of CRI socket failed for node %q: %v; falling back to default %q", name, err, host.ContainerdSocket)
				socket = host.ContainerdSocket
			}
		case err != nil:
			return err
		default:
			var k kubeletconfig.KubeletConfiguration
			if err := yaml.Unmarshal(b, &k); err != nil {
				return fmt.Errorf("could not read kubelet instance configuration on node %q: could not parse kubelet configuration file %q: %w", name, file, err)
			}
			socket = k.ContainerRuntimeEndpoint
		}
	}
	reg.Name, reg.Taints, reg.CRISocket = name, node.Spec.Taints, socket
	return nil
}

//go:linkname getNodeNameFromSSR k8s.io/kubernetes/cmd/kubeadm/app/util/config.getNodeNameFromSSR
func getNodeNameFromSSR(client clientset.Interface) (string, error)

//go:linkname getNodeNameFromKubeletConfig k8s.io/kubernetes/cmd/kubeadm/app/util/config.getNodeNameFromKubeletConfig
func getNodeNameFromKubeletConfig(fileName string) (string, error)

// nodeName is upstream's GetNodeName: who the API server says that kubelet.conf is, else whom its certificate names, else
// the host's name.
func (c *command) nodeName() string {
	kubelet, err := loadKubeconfig(c.p, kubernetesDir+"/kubelet.conf")
	if err != nil {
		return c.p.HostName()
	}
	if client, err := c.clientSet(kubelet); err == nil {
		if name, err := getNodeNameFromSSR(client); err == nil {
			return name
		}
	}
	file := c.own.path("kubelet.conf") // with the certificate in it
	if err := clientcmd.WriteToFile(*kubelet, file); err == nil {
		if name, err := getNodeNameFromKubeletConfig(file); err == nil {
			return name
		}
	}
	return c.p.HostName()
}

// address is the machine's address, as kubeadm chooses one to advertise: the first that is not the loopback's.
func (c *command) address() string {
	if c.p.Net != nil {
		for _, i := range c.p.Net.Interfaces() {
			for _, a := range i.Addresses {
				if !a.Addr().IsLoopback() && a.Addr().Is4() {
					return a.Addr().String()
				}
			}
		}
	}
	return "0.0.0.0"
}
