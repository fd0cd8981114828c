package kubeadm

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	_ "unsafe" // for go:linkname

	"github.com/spf13/cobra"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	kubeadmapi "k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm"
	kubeadmapiv1 "k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm/v1beta4"
	configutil "k8s.io/kubernetes/cmd/kubeadm/app/util/config"
)

//go:linkname getInitConfigurationFromCluster k8s.io/kubernetes/cmd/kubeadm/app/util/config.getInitConfigurationFromCluster
func getInitConfigurationFromCluster(kubeconfigDir string, client clientset.Interface, getNodeRegistration, getAPIEndpoint, getComponentConfigs bool) (*kubeadmapi.InitConfiguration, error)

// useCertificates prepares "kubeadm certs check-expiration" and "renew". Upstream reads the configuration from the cluster by
// names of files that cannot be changed, so that is done here first, as upstream's getInternalCfg does it, and handed on
// as --config.
func (c *command) useCertificates(cmd *cobra.Command) error {
	if err := c.mirrorAll(kubernetesDir); err != nil {
		return err
	}
	dir := c.p.Path(cmd.Flags().Lookup("cert-dir").Value.String())
	if err := c.mirrorAll(dir); err != nil {
		return err
	}
	file := cmd.Flags().Lookup("config")
	var cfg *kubeadmapi.InitConfiguration
	var err error
	if file.Value.String() == "" {
		cfg = c.clusterConfiguration(cmd)
	} else {
		var b []byte
		if b, err = c.p.ReadFile(file.Value.String()); err != nil {
			return fmt.Errorf("unable to read config from %q : %w", file.Value.String(), err)
		}
		if cfg, err = configutil.BytesToInitConfiguration(b, true); err != nil {
			return err
		}
		dir = cfg.CertificatesDir
		err = c.mirrorAll(dir)
	}
	if err != nil {
		return err
	}
	if cfg == nil {
		if cfg, err = c.defaultConfiguration(); err != nil {
			return err
		}
	}
	cfg.CertificatesDir = c.d.path(dir)
	cfg.LocalAPIEndpoint = kubeadmapi.APIEndpoint{AdvertiseAddress: c.address(), BindPort: 6443}
	cfg.NodeRegistration = kubeadmapi.NodeRegistrationOptions{Name: c.p.HostName(), CRISocket: CRISocket}
	b, err := configutil.MarshalKubeadmConfigObject(cfg, kubeadmapiv1.SchemeGroupVersion)
	if err != nil {
		return err
	}
	private := c.own.path("config.yaml")
	if err := os.WriteFile(private, b, 0o600); err != nil {
		return err
	}
	return file.Value.Set(private)
}

const readingConfiguration = "[%[1]s] Reading configuration from the \"kubeadm-config\" ConfigMap in namespace \"kube-system\"...\n" +
	"[%[1]s] Use 'kubeadm init phase upload-config kubeadm --config your-config-file' to re-upload it.\n"

// sayReading is what upstream says before it reads the configuration from the cluster.
func (c *command) sayReading(prefix string) { fmt.Printf(readingConfiguration, prefix) }

// clusterConfiguration reads the configuration from the cluster and says so. It is nil when the cluster could not be asked:
// certificates can be renewed without it.
func (c *command) clusterConfiguration(cmd *cobra.Command) *kubeadmapi.InitConfiguration {
	kubeconfig := cmd.Flags().Lookup("kubeconfig").Value.String()
	client, _, err := clients(c.p, c.p.Path(kubeconfig))
	if err != nil {
		return nil
	}
	prefix := "check-expiration"
	say := func(format string, a ...any) { fmt.Printf(format, a...) }
	if cmd.Name() != prefix {
		prefix = "renew"
	} else if o := cmd.Flags().Lookup("output"); o != nil && o.Value.String() != "text" {
		say = func(string, ...any) {} // only the text printer says anything but the result
	}
	say(readingConfiguration, prefix)
	cfg, err := c.fetchConfiguration(client)
	if err != nil {
		say("[%s] Error reading configuration from the Cluster. Falling back to default configuration\n\n", prefix)
		return nil
	}
	say("\n")
	return cfg
}

// fetchConfiguration is upstream's FetchInitConfigurationFromCluster. Its part about the node is done here: upstream's would
// connect by the host's network and look for the host's sockets.
func (c *command) fetchConfiguration(client clientset.Interface) (*kubeadmapi.InitConfiguration, error) {
	cfg, err := getInitConfigurationFromCluster("", client, false, false, true)
	if err != nil {
		return nil, err
	}
	name := c.nodeName()
	node, err := client.CoreV1().Nodes().Get(c.p.Context(), name, metav1.GetOptions{})
	if err != nil {
		return nil, err
	}
	cfg.NodeRegistration.Name, cfg.NodeRegistration.Taints, cfg.NodeRegistration.CRISocket = name, node.Spec.Taints, CRISocket
	if _, err = c.p.Files.Stat(path.Join(manifestsDir, "kube-apiserver.yaml")); !errors.Is(err, fs.ErrNotExist) {
		if err := configutil.GetAPIEndpoint(client, name, &cfg.LocalAPIEndpoint); err != nil {
			return nil, err
		}
	}
	return cfg, nil
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
	if client, _, err := clients(c.p, kubernetesDir+"/kubelet.conf"); err == nil {
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

// defaultConfiguration is what kubeadm falls back to.
func (c *command) defaultConfiguration() (*kubeadmapi.InitConfiguration, error) {
	return configutil.DefaultedInitConfiguration(&kubeadmapiv1.InitConfiguration{
		LocalAPIEndpoint: kubeadmapiv1.APIEndpoint{AdvertiseAddress: c.address(), BindPort: 6443},
		NodeRegistration: kubeadmapiv1.NodeRegistrationOptions{Name: c.p.HostName(), CRISocket: CRISocket},
	}, &kubeadmapiv1.ClusterConfiguration{KubernetesVersion: programVersion(c.p)}, configutil.LoadOrDefaultConfigurationOptions{SkipCRIDetect: true})
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
