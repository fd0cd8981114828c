package kubeadm

import (
	"fmt"
	"io/fs"
	"slices"
	"syscall"

	"github.com/spf13/cobra"
	kubeadmapi "k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm"
	kubeadmapiv1 "k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm/v1beta4"
	configutil "k8s.io/kubernetes/cmd/kubeadm/app/util/config"
)

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
		if cfg, err = c.loadInitConfiguration(cmd); err != nil {
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
	// Upstream would take the copy of an unreadable kubeconfig for one that is missing.
	if name := adminConf; cmd.Name() == "check-expiration" && slices.Contains(c.unreadable, name) {
		return fmt.Errorf("failed to load kubeConfig file %s: %w", name, &fs.PathError{Op: "open", Path: name, Err: syscall.EACCES})
	}
	return c.useInitConfiguration(cmd, cfg)
}

// clusterConfiguration reads the configuration from the cluster and says so. It is nil when the cluster could not be asked:
// certificates can be renewed without it.
func (c *command) clusterConfiguration(cmd *cobra.Command) *kubeadmapi.InitConfiguration {
	kubeconfig := cmd.Flags().Lookup("kubeconfig").Value.String()
	client, err := c.clientSetFromFile(c.p.Path(kubeconfig))
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
	cfg, err := c.fetchConfiguration(client, true, c.isControlPlane(), true)
	if err != nil {
		say("[%s] Error reading configuration from the Cluster. Falling back to default configuration\n\n", prefix)
		return nil
	}
	say("\n")
	return cfg
}

// defaultConfiguration is what kubeadm falls back to.
func (c *command) defaultConfiguration() (*kubeadmapi.InitConfiguration, error) {
	return configutil.DefaultedInitConfiguration(&kubeadmapiv1.InitConfiguration{
		LocalAPIEndpoint: kubeadmapiv1.APIEndpoint{AdvertiseAddress: c.address(), BindPort: 6443},
		NodeRegistration: kubeadmapiv1.NodeRegistrationOptions{Name: c.p.HostName(), CRISocket: CRISocket},
	}, &kubeadmapiv1.ClusterConfiguration{KubernetesVersion: programVersion(c.p)}, configutil.LoadOrDefaultConfigurationOptions{SkipCRIDetect: true})
}
