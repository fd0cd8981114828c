package kubeadm

import (
	"bytes"
	"errors"
	"fmt"
	"net/url"
	"time"
	_ "unsafe" // for go:linkname

	corev1 "k8s.io/api/core/v1"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	bootstrapapi "k8s.io/cluster-bootstrap/token/api"
	bootstraptokenv1 "k8s.io/kubernetes/cmd/kubeadm/app/apis/bootstraptoken/v1"
	kubeadmapi "k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm"
	kubeadmapiv1 "k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm/v1beta4"
	"k8s.io/kubernetes/cmd/kubeadm/app/constants"
	"k8s.io/kubernetes/cmd/kubeadm/app/discovery"
	"k8s.io/kubernetes/cmd/kubeadm/app/discovery/file"
	"k8s.io/kubernetes/cmd/kubeadm/app/discovery/token"
	kubeconfigutil "k8s.io/kubernetes/cmd/kubeadm/app/util/kubeconfig"
	"k8s.io/kubernetes/cmd/kubeadm/app/util/pubkeypin"
)

//go:linkname getClusterInfo k8s.io/kubernetes/cmd/kubeadm/app/discovery/token.getClusterInfo
func getClusterInfo(client clientset.Interface, cfg *kubeadmapi.Discovery, interval, duration time.Duration, dryRun bool) (*corev1.ConfigMap, error)

//go:linkname validateClusterInfoToken k8s.io/kubernetes/cmd/kubeadm/app/discovery/token.validateClusterInfoToken
func validateClusterInfoToken(insecureClusterInfo *corev1.ConfigMap, token *bootstraptokenv1.BootstrapTokenString) ([]byte, error)

//go:linkname validateClusterCA k8s.io/kubernetes/cmd/kubeadm/app/discovery/token.validateClusterCA
func validateClusterCA(insecureConfig *clientcmdapi.Config, pubKeyPins *pubkeypin.Set) ([]byte, error)

//go:linkname buildSecureBootstrapKubeConfig k8s.io/kubernetes/cmd/kubeadm/app/discovery/token.buildSecureBootstrapKubeConfig
func buildSecureBootstrapKubeConfig(endpoint string, caCert []byte, clustername string) *clientcmdapi.Config

// discover is upstream's discovery.For, over the process's network: a kubeconfig that is worthy of trust, with the credentials
// for the TLS bootstrap. discoveryFile is the machine's name of a discovery file.
func (c *command) discover(dryRun clientset.Interface, cfg *kubeadmapi.JoinConfiguration, discoveryFile string) (*clientcmdapi.Config, error) {
	config, err := c.discoverValidated(dryRun, cfg, discoveryFile)
	if err != nil {
		return nil, fmt.Errorf("couldn't validate the identity of the API Server: %w", err)
	}
	if cfg.Discovery.TLSBootstrapToken != "" {
		_, cluster, err := kubeconfigutil.GetClusterFromKubeConfig(config)
		if err != nil {
			return nil, fmt.Errorf("malformed kubeconfig in the %s ConfigMap: %w", bootstrapapi.ConfigMapClusterInfo, err)
		}
		return kubeconfigutil.CreateWithToken(cluster.Server, kubeadmapiv1.DefaultClusterName, discovery.TokenUser, cluster.CertificateAuthorityData, cfg.Discovery.TLSBootstrapToken), nil
	}
	if kubeconfigutil.HasAuthenticationCredentials(config) {
		return config, nil
	}
	return nil, errors.New("couldn't find authentication credentials for the TLS bootstrap process. Please use Token discovery, a discovery file with embedded authentication credentials or a discovery file without authentication credentials but with the TLSBootstrapToken flag")
}

func (c *command) discoverValidated(dryRun clientset.Interface, cfg *kubeadmapi.JoinConfiguration, discoveryFile string) (*clientcmdapi.Config, error) {
	timeout := cfg.Timeouts.Discovery.Duration
	switch {
	case cfg.Discovery.File != nil:
		if u, err := url.Parse(discoveryFile); err == nil && u.Scheme == "https" {
			return nil, notSimulated("ckadrill does not simulate discovery from a URL yet")
		}
		config, err := loadKubeconfig(c.p, discoveryFile)
		if err != nil {
			return nil, err
		}
		if config, err = file.ValidateConfigInfo(c.connected(config), timeout); err != nil {
			return nil, err
		}
		disconnect(config)
		return config, nil
	case cfg.Discovery.BootstrapToken != nil:
		return c.discoverByToken(dryRun, &cfg.Discovery, timeout)
	}
	return nil, errors.New("couldn't find a valid discovery configuration")
}

// discoverByToken is upstream's token.RetrieveValidatedConfigInfo.
func (c *command) discoverByToken(dryRun clientset.Interface, cfg *kubeadmapi.Discovery, timeout time.Duration) (*clientcmdapi.Config, error) {
	interval := min(constants.DiscoveryRetryInterval, timeout)
	ask := func(config *clientcmdapi.Config) (*corev1.ConfigMap, error) {
		client := dryRun
		if client == nil {
			var err error
			if client, err = c.clientSet(config); err != nil {
				return nil, err
			}
		}
		return getClusterInfo(client, cfg, interval, timeout, dryRun != nil)
	}
	endpoint := cfg.BootstrapToken.APIServerEndpoint
	insecure := token.BuildInsecureBootstrapKubeConfig(endpoint)
	info, err := ask(insecure)
	if err != nil {
		return nil, err
	}
	pins := pubkeypin.NewSet()
	if err := pins.Allow(cfg.BootstrapToken.CACertHashes...); err != nil {
		return nil, fmt.Errorf("invalid discovery token CA certificate hash: %w", err)
	}
	t, err := bootstraptokenv1.NewBootstrapTokenString(cfg.BootstrapToken.Token)
	if err != nil {
		return nil, err
	}
	kubeconfig, err := validateClusterInfoToken(info, t)
	if err != nil {
		return nil, err
	}
	config, err := clientcmd.Load(kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("couldn't parse the kubeconfig file in the %s ConfigMap: %w", bootstrapapi.ConfigMapClusterInfo, err)
	}
	if _, _, err := kubeconfigutil.GetClusterFromKubeConfig(config); err != nil {
		return nil, fmt.Errorf("malformed kubeconfig in the %s ConfigMap: %w", bootstrapapi.ConfigMapClusterInfo, err)
	}
	if pins.Empty() {
		return config, nil
	}
	ca, err := validateClusterCA(config, pins)
	if err != nil {
		return nil, err
	}
	// Now that the CA is known, the same again over a connection that is verified.
	info, err = ask(buildSecureBootstrapKubeConfig(endpoint, ca, insecure.Contexts[insecure.CurrentContext].Cluster))
	if err != nil {
		return nil, err
	}
	secure := []byte(info.Data[bootstrapapi.KubeConfigKey])
	if !bytes.Equal(secure, kubeconfig) {
		return nil, fmt.Errorf("the second kubeconfig from the %s ConfigMap (using validated TLS) was different from the first", bootstrapapi.ConfigMapClusterInfo)
	}
	if config, err = clientcmd.Load(secure); err != nil {
		return nil, fmt.Errorf("couldn't parse the kubeconfig file in the %s ConfigMap: %w", bootstrapapi.ConfigMapClusterInfo, err)
	}
	return config, nil
}
