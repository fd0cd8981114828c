package kubeadm

import (
	"errors"
	"fmt"
	"io/fs"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
	kubeadmapi "k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm"
	kubeadmscheme "k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm/scheme"
	kubeadmapiv1 "k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm/v1beta4"
	kubeadmcmd "k8s.io/kubernetes/cmd/kubeadm/app/cmd"
	"k8s.io/kubernetes/cmd/kubeadm/app/cmd/options"
	"k8s.io/kubernetes/cmd/kubeadm/app/features"
	configutil "k8s.io/kubernetes/cmd/kubeadm/app/util/config"

	"ckadrill/sim/kubeadm/host"
)

// useConfigFile lets --config name a copy.
func (c *command) useConfigFile(cmd *cobra.Command) error {
	name := stringFlag(cmd, options.CfgPath)
	if name == "" {
		return nil
	}
	private, err := c.configuration(name)
	if err != nil {
		return err
	}
	return cmd.Flags().Set(options.CfgPath, private)
}

// printJoinDefaults is upstream's "kubeadm config print join-defaults", which would print the real host's name.
func (c *command) printJoinDefaults(*cobra.Command, []string) error {
	cfg, err := configutil.DefaultedJoinConfiguration(&kubeadmapiv1.JoinConfiguration{
		NodeRegistration: kubeadmapiv1.NodeRegistrationOptions{Name: c.hostName()},
		Discovery: kubeadmapiv1.Discovery{BootstrapToken: &kubeadmapiv1.BootstrapTokenDiscovery{
			Token: configutil.PlaceholderToken.Token.String(), APIServerEndpoint: "kube-apiserver:6443", UnsafeSkipCAVerification: true,
		}},
	}, configutil.LoadOrDefaultConfigurationOptions{SkipCRIDetect: true})
	if err != nil {
		return err
	}
	b, err := configutil.MarshalKubeadmConfigObject(cfg, kubeadmapiv1.SchemeGroupVersion)
	fmt.Print(string(b))
	return err
}

// migrateConfiguration is upstream's "kubeadm config migrate".
func (c *command) migrateConfiguration(cmd *cobra.Command, _ []string) error {
	name := stringFlag(cmd, "old-config")
	if name == "" {
		return errors.New("the --old-config flag is mandatory")
	}
	b, err := c.p.ReadFile(name)
	if err != nil {
		return asGiven(err, name)
	}
	if b, err = configutil.MigrateOldConfig(c.filled(b), boolFlag(cmd, options.AllowExperimentalAPI), nil); err != nil {
		return err
	}
	name = stringFlag(cmd, "new-config")
	if name == "" {
		fmt.Print(string(b))
		return nil
	}
	if err := c.p.Files.WriteFile(c.p.Path(name), c.strip(b), 0o644); err != nil {
		return fmt.Errorf("failed to write the new configuration to the file %q: %w", name, asGiven(err, name))
	}
	return nil
}

// asGiven lets an error call a file what it was asked for by.
func asGiven(err error, name string) error {
	if e := (*fs.PathError)(nil); errors.As(err, &e) {
		e.Path = name
	}
	return err
}

// loadInitConfiguration is the configuration that a command's file or flags make, as LoadOrDefaultInitConfiguration of
// upstream's, and what that would ask its host for is filled in.
func (c *command) loadInitConfiguration(cmd *cobra.Command) (*kubeadmapi.InitConfiguration, error) {
	init, cluster := &kubeadmapiv1.InitConfiguration{}, &kubeadmapiv1.ClusterConfiguration{}
	kubeadmscheme.Scheme.Default(init)
	kubeadmscheme.Scheme.Default(cluster)
	var file, gates string
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	kubeadmcmd.AddImagesCommonConfigFlags(flags, cluster, &file, &gates)
	err := copyFlags(cmd.Flags(), flags)
	if err != nil {
		return nil, err
	}
	if cluster.FeatureGates, err = features.NewFeatureGate(&features.InitFeatureGates, gates); err != nil {
		return nil, err
	}
	if file != "" {
		if file, err = c.configuration(file); err != nil {
			return nil, err
		}
	} else if init.NodeRegistration.CRISocket, err = c.criSocket(cmd); err != nil {
		return nil, err
	}
	c.fillVersioned(init)
	return configutil.LoadOrDefaultInitConfiguration(file, init, cluster, configutil.LoadOrDefaultConfigurationOptions{SkipCRIDetect: true})
}

// fillVersioned names what upstream would ask its host for.
func (c *command) fillVersioned(init *kubeadmapiv1.InitConfiguration) {
	if init.NodeRegistration.Name == "" {
		init.NodeRegistration.Name = c.hostName()
	}
	init.LocalAPIEndpoint.AdvertiseAddress = c.advertised(init.LocalAPIEndpoint.AdvertiseAddress)
}

// useInitConfiguration hands a command its whole configuration by --config.
func (c *command) useInitConfiguration(cmd *cobra.Command, cfg *kubeadmapi.InitConfiguration) error {
	b, err := configutil.MarshalKubeadmConfigObject(cfg, kubeadmapiv1.SchemeGroupVersion)
	if err != nil {
		return err
	}
	private := c.own.path("config.yaml")
	if err := os.WriteFile(private, b, 0o600); err != nil {
		return err
	}
	return cmd.Flags().Set(options.CfgPath, private)
}

// useImages prepares "kubeadm config images list".
func (c *command) useImages(cmd *cobra.Command) error {
	cfg, err := c.loadInitConfiguration(cmd)
	if err != nil {
		return fmt.Errorf("could not convert cfg to an internal cfg: %w", err)
	}
	return c.useInitConfiguration(cmd, cfg)
}

// pullControlPlaneImages is upstream's "kubeadm config images pull".
func (c *command) pullControlPlaneImages(cmd *cobra.Command, _ []string) error {
	cfg, err := c.loadInitConfiguration(cmd)
	if err != nil {
		return err
	}
	r := host.ContainerRuntime(c.p, cfg.NodeRegistration.CRISocket)
	if err := r.Connect(); err != nil {
		return err
	}
	defer r.Close()
	return kubeadmcmd.PullControlPlaneImages(r, &cfg.ClusterConfiguration)
}

// useOwnCertificates prepares commands that sign by the certificates' keys: "kubeadm kubeconfig user" and "kubeadm certs
// generate-csr".
func (c *command) useOwnCertificates(cmd *cobra.Command) error {
	cfg, err := c.loadInitConfiguration(cmd)
	if err != nil {
		return err
	}
	if _, err := c.useDirectory(cmd, options.KubeconfigDir); err != nil {
		return err
	}
	private, err := c.useDirectory(cmd, options.CertificatesDir)
	if err == nil && private == "" {
		dir := c.p.Path(cfg.CertificatesDir)
		private, err = c.d.path(dir), c.mirrorAll(dir)
	}
	if err != nil {
		return err
	}
	cfg.CertificatesDir = private
	return c.useInitConfiguration(cmd, cfg)
}

// useDirectory lets a flag name the copy of a directory of the machine. private is "" where the flag is not given.
func (c *command) useDirectory(cmd *cobra.Command, flag string) (private string, err error) {
	name := stringFlag(cmd, flag)
	if name == "" {
		return "", nil
	}
	if err := c.mirrorAll(c.p.Path(name)); err != nil {
		return "", err
	}
	private = c.d.path(c.p.Path(name))
	c.nameAsGiven(private, name)
	return private, cmd.Flags().Set(flag, private)
}
