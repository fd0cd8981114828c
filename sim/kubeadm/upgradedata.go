package kubeadm

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	fakediscovery "k8s.io/client-go/discovery/fake"
	clientset "k8s.io/client-go/kubernetes"
	kubeadmapi "k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm"
	kubeadmapiv1 "k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm/v1beta4"
	"k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm/validation"
	"k8s.io/kubernetes/cmd/kubeadm/app/cmd/options"
	applyphases "k8s.io/kubernetes/cmd/kubeadm/app/cmd/phases/upgrade/apply"
	nodephases "k8s.io/kubernetes/cmd/kubeadm/app/cmd/phases/upgrade/node"
	"k8s.io/kubernetes/cmd/kubeadm/app/cmd/phases/workflow"
	cmdutil "k8s.io/kubernetes/cmd/kubeadm/app/cmd/util"
	"k8s.io/kubernetes/cmd/kubeadm/app/constants"
	"k8s.io/kubernetes/cmd/kubeadm/app/util/apiclient"
	configutil "k8s.io/kubernetes/cmd/kubeadm/app/util/config"
	"k8s.io/kubernetes/cmd/kubeadm/app/util/output"
)

// upgrade is what the phases of "kubeadm upgrade apply" and "kubeadm upgrade node" share, as upstream's applyData and nodeData.
type upgrade struct {
	dirs
	cfg                                         *kubeadmapi.UpgradeConfiguration
	initCfg                                     *kubeadmapi.InitConfiguration
	client                                      clientset.Interface
	ignore                                      sets.Set[string]
	kubeconfig                                  string
	controlPlane, etcdUpgrade, renewCerts       bool
	interactive, force, experimental, candidate bool
	node                                        bool // "upgrade node"
}

var (
	_ applyphases.Data = (*upgrade)(nil)
	_ nodephases.Data  = (*upgrade)(nil)
)

// The methods of upstream's data.

func (u *upgrade) EtcdUpgrade() bool                       { return u.etcdUpgrade }
func (u *upgrade) RenewCerts() bool                        { return u.renewCerts }
func (u *upgrade) Cfg() *kubeadmapi.UpgradeConfiguration   { return u.cfg }
func (u *upgrade) InitCfg() *kubeadmapi.InitConfiguration  { return u.initCfg }
func (u *upgrade) IsControlPlaneNode() bool                { return u.controlPlane }
func (u *upgrade) Client() clientset.Interface             { return u.client }
func (u *upgrade) IgnorePreflightErrors() sets.Set[string] { return u.ignore }
func (u *upgrade) OutputWriter() io.Writer                 { return os.Stdout }
func (u *upgrade) SessionIsInteractive() bool              { return u.interactive }
func (u *upgrade) AllowExperimentalUpgrades() bool         { return u.experimental }
func (u *upgrade) AllowRCUpgrades() bool                   { return u.candidate }
func (u *upgrade) ForceUpgrade() bool                      { return u.force }
func (u *upgrade) KubeConfigPath() string                  { return u.kubeconfig }

// upgradeConfiguration reads --config, or makes the default configuration.
func (c *command) upgradeConfiguration(cmd *cobra.Command) (*kubeadmapi.UpgradeConfiguration, error) {
	file := stringFlag(cmd, options.CfgPath)
	if file != "" {
		var err error
		if file, err = c.configuration(file); err != nil {
			return nil, err
		}
	}
	return configutil.LoadOrDefaultUpgradeConfiguration(file, &kubeadmapiv1.UpgradeConfiguration{}, configutil.LoadOrDefaultConfigurationOptions{})
}

// flagOrConfig is a flag if it was given, else what the configuration says.
func flagOrConfig(cmd *cobra.Command, name string, inConfig *bool) bool {
	flag := boolFlag(cmd, name)
	v, _ := cmdutil.ValueFromFlagsOrConfig(cmd.Flags(), name, inConfig, &flag).(*bool)
	return v != nil && *v
}

// kubeconfigFlag is the flag --kubeconfig, else a file of the machine.
func kubeconfigFlag(cmd *cobra.Command, def string) string {
	if name := stringFlag(cmd, options.KubeconfigPath); name != "" {
		return name
	}
	return def
}

// upgradeClient is upstream's getClient.
func (c *command) upgradeClient(file string, dryRun bool, printer output.Printer) (clientset.Interface, error) {
	file = c.p.Path(file)
	if !dryRun {
		return c.clientSetFromFile(file)
	}
	version := constants.CurrentKubernetesVersion.Info()
	dry := apiclient.NewDryRun()
	dry.WithDefaultMarshalFunction().WithWriter(os.Stdout).PrependReactor(dry.HealthCheckJobReactor()).PrependReactor(dry.PatchNodeReactor())
	_, err := c.p.Files.Stat(file)
	switch {
	case err == nil:
		printer.Printf("[dryrun] Creating a real client from %q\n", file)
		cfg, err := loadKubeconfig(c.p, file)
		if err != nil {
			return nil, fmt.Errorf("failed to load kubeconfig: %w", err)
		}
		if err := dry.WithKubeConfig(c.connected(cfg)); err != nil {
			return nil, err
		}
		if version, err = dry.Client().Discovery().ServerVersion(); err != nil {
			return nil, fmt.Errorf("failed to get server version: %w", err)
		}
	case os.IsNotExist(err):
		printer.Printf("[dryrun] Dryrunning without a real client\n")
		dry.PrependReactor(dry.GetKubeadmConfigReactor()).PrependReactor(dry.GetKubeletConfigReactor()).PrependReactor(dry.GetKubeProxyConfigReactor()).
			PrependReactor(dry.GetNodeReactor()).PrependReactor(dry.ListPodsReactor(c.nodeName())).
			PrependReactor(dry.GetCoreDNSConfigReactor()).PrependReactor(dry.ListDeploymentsReactor())
	default:
		return nil, fmt.Errorf("could not create a client from %q: %w", file, err)
	}
	client := dry.FakeClient()
	if d, ok := client.Discovery().(*fakediscovery.FakeDiscovery); ok {
		d.FakedServerVersion = version
	}
	return client, nil
}

// start makes what apply and node have in common: the client, the cluster's configuration and the directories.
func (u *upgrade) start(cmd *cobra.Command, dryRun bool, dryRunName, patchesFlag string, patches *kubeadmapi.Patches, ignore []string) error {
	c := u.c
	var err error
	if dryRun {
		if u.dryRun, err = c.dryRunDir(constants.EnvVarUpgradeDryRunDir, dryRunName); err != nil {
			return fmt.Errorf("could not create a temporary directory on dryrun: %w", err)
		}
	}
	if u.client, err = c.upgradeClient(u.kubeconfig, dryRun, &output.TextPrinter{}); err != nil {
		return fmt.Errorf("couldn't create a Kubernetes client from file %q: %w", u.kubeconfig, err)
	}
	if u.ignore, err = validation.ValidateIgnorePreflightErrors(stringsFlag(cmd, options.IgnorePreflightErrors), ignore); err != nil {
		return err
	}
	c.sayReading("upgrade")
	if u.initCfg, err = c.fetchConfiguration(u.client, true, u.controlPlane, true); err != nil {
		return unreadable{err}
	}
	u.initCfg.NodeRegistration.IgnorePreflightErrors = sets.List(u.ignore)
	u.certificates, u.kubeconfigs = u.initCfg.CertificatesDir, kubernetesDir
	if u.patches = patchesFlag; u.patches == "" && patches != nil {
		u.patches = patches.Directory
	}
	if u.patches != "" {
		u.patches = c.p.Path(u.patches)
	}
	return nil
}

// applyData is upstream's newApplyData.
func applyData(c *command, cmd *cobra.Command, args []string) (workflow.RunData, []string, error) {
	if err := validation.ValidateMixedArguments(cmd.Flags()); err != nil {
		return nil, nil, err
	}
	cfg, err := c.upgradeConfiguration(cmd)
	if err != nil {
		return nil, nil, err
	}
	version := cfg.Apply.KubernetesVersion
	if version == "" {
		if err := cmdutil.ValidateExactArgNumber(args, []string{"version"}); err != nil {
			return nil, nil, err
		}
	}
	if len(args) == 1 {
		version = args[0]
	}
	a := &cfg.Apply
	u := &upgrade{dirs: dirs{c: c}, cfg: cfg, controlPlane: true, kubeconfig: kubeconfigFlag(cmd, adminConf)}
	u.force = flagOrConfig(cmd, options.Force, a.ForceUpgrade)
	dryRun := flagOrConfig(cmd, options.DryRun, a.DryRun)
	u.etcdUpgrade = flagOrConfig(cmd, options.EtcdUpgrade, a.EtcdUpgrade)
	u.renewCerts = flagOrConfig(cmd, options.CertificateRenewal, a.CertificateRenewal)
	u.experimental = flagOrConfig(cmd, options.AllowExperimentalUpgrades, a.AllowExperimentalUpgrades)
	u.candidate = flagOrConfig(cmd, options.AllowRCUpgrades, a.AllowRCUpgrades)
	u.interactive = !(boolFlag(cmd, "yes") || dryRun || u.force)
	err = u.start(cmd, dryRun, "kubeadm-upgrade-apply-dryrun", stringFlag(cmd, options.Patches), a.Patches, a.IgnorePreflightErrors)
	var config unreadable
	if errors.As(err, &config) {
		if apierrors.IsNotFound(err) {
			fmt.Printf("[upgrade] In order to upgrade, a ConfigMap called %q in the %q namespace must exist.\n", constants.KubeadmConfigConfigMap, metav1.NamespaceSystem)
			fmt.Printf("[upgrade/config] Use 'kubeadm init phase upload-config kubeadm --config your-config-file' to re-upload it.\n")
			err = fmt.Errorf("the ConfigMap %q in the %q namespace was not found", constants.KubeadmConfigConfigMap, metav1.NamespaceSystem)
		}
		err = fmt.Errorf("[upgrade] FATAL: %w", err)
	}
	if err != nil {
		return nil, nil, err
	}
	u.initCfg.NodeRegistration.ImagePullPolicy, u.initCfg.NodeRegistration.ImagePullSerial = a.ImagePullPolicy, a.ImagePullSerial
	u.initCfg.KubernetesVersion = version
	if flagOrConfig(cmd, options.PrintConfig, a.PrintConfig) {
		printConfiguration(&u.initCfg.ClusterConfiguration, os.Stdout, &output.TextPrinter{})
	}
	return u, a.SkipPhases, nil
}

// unreadable says that the cluster's configuration could not be read.
type unreadable struct{ error }

func (u unreadable) Unwrap() error { return u.error }

// nodeData is upstream's newNodeData.
func nodeData(c *command, cmd *cobra.Command, _ []string) (workflow.RunData, []string, error) {
	if err := validation.ValidateMixedArguments(cmd.Flags()); err != nil {
		return nil, nil, err
	}
	u := &upgrade{dirs: dirs{c: c}, node: true, controlPlane: c.isControlPlane()}
	u.kubeconfig = kubeconfigFlag(cmd, kubernetesDir+"/kubelet.conf")
	if u.controlPlane {
		u.kubeconfig = kubeconfigFlag(cmd, adminConf)
	}
	var err error
	if u.cfg, err = c.upgradeConfiguration(cmd); err != nil {
		return nil, nil, err
	}
	n := &u.cfg.Node
	u.etcdUpgrade = flagOrConfig(cmd, options.EtcdUpgrade, n.EtcdUpgrade)
	u.renewCerts = flagOrConfig(cmd, options.CertificateRenewal, n.CertificateRenewal)
	err = u.start(cmd, flagOrConfig(cmd, options.DryRun, n.DryRun), "kubeadm-upgrade-node-dryrun", stringFlag(cmd, options.Patches), n.Patches, n.IgnorePreflightErrors)
	var config unreadable
	if errors.As(err, &config) {
		err = fmt.Errorf("unable to fetch the kubeadm-config ConfigMap: %w", err)
	}
	return u, n.SkipPhases, err
}
