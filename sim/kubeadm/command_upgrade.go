package kubeadm

import (
	"errors"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	_ "unsafe" // for go:linkname

	"k8s.io/apimachinery/pkg/util/sets"
	utilversion "k8s.io/apimachinery/pkg/util/version"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	kubeadmapi "k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm"
	commonphases "k8s.io/kubernetes/cmd/kubeadm/app/cmd/phases/upgrade"
	applyphases "k8s.io/kubernetes/cmd/kubeadm/app/cmd/phases/upgrade/apply"
	nodephases "k8s.io/kubernetes/cmd/kubeadm/app/cmd/phases/upgrade/node"
	"k8s.io/kubernetes/cmd/kubeadm/app/cmd/phases/workflow"
	cmdutil "k8s.io/kubernetes/cmd/kubeadm/app/cmd/util"
	"k8s.io/kubernetes/cmd/kubeadm/app/constants"
	"k8s.io/kubernetes/cmd/kubeadm/app/features"
	kubeletphase "k8s.io/kubernetes/cmd/kubeadm/app/phases/kubelet"
	upgradephase "k8s.io/kubernetes/cmd/kubeadm/app/phases/upgrade"
	"k8s.io/kubernetes/cmd/kubeadm/app/preflight"
	kubeadmutil "k8s.io/kubernetes/cmd/kubeadm/app/util"
	configutil "k8s.io/kubernetes/cmd/kubeadm/app/util/config"
	"k8s.io/kubernetes/cmd/kubeadm/app/util/output"

	"ckadrill/sim/kubeadm/host"
)

func init() {
	common := map[string]stage{
		"control-plane":  own(upgradeControlPlane),
		"kubeconfig":     own(upgradeKubeconfig),
		"kubelet-config": onFiles,
		"addon":          onFiles, // for the patches
		"post-upgrade":   own(postUpgrade),
	}
	with := func(more map[string]stage) map[string]stage {
		for name, s := range common {
			more[name] = s
		}
		return more
	}
	flows["kubeadm upgrade apply"] = &flow{
		phases: func() []workflow.Phase {
			return []workflow.Phase{
				applyphases.NewPreflightPhase(), applyphases.NewControlPlanePhase(), applyphases.NewUploadConfigPhase(), applyphases.NewKubeconfigPhase(),
				commonphases.NewKubeletConfigPhase(), applyphases.NewBootstrapTokenPhase(), commonphases.NewAddonPhase(), commonphases.NewPostUpgradePhase(),
			}
		},
		stages: with(map[string]stage{"preflight": own(applyPreflight), "upload-config": asIs, "bootstrap-token": asIs}),
		data:   applyData,
		end: func(_ *command, d workflow.RunData) error {
			u := d.(*upgrade)
			if !upgradeDryRunDone(u) {
				fmt.Println("")
				fmt.Printf("[upgrade] SUCCESS! A control plane node of your cluster was upgraded to %q.\n\n", u.initCfg.KubernetesVersion)
				fmt.Println("[upgrade] Now please proceed with upgrading the rest of the nodes by following the right order.")
			}
			return nil
		},
	}
	flows["kubeadm upgrade node"] = &flow{
		phases: func() []workflow.Phase {
			return []workflow.Phase{
				nodephases.NewPreflightPhase(), nodephases.NewControlPlane(), nodephases.NewKubeconfigPhase(),
				commonphases.NewKubeletConfigPhase(), commonphases.NewAddonPhase(), commonphases.NewPostUpgradePhase(),
			}
		},
		stages: with(map[string]stage{"preflight": own(nodePreflight)}),
		data:   nodeData,
		end: func(_ *command, d workflow.RunData) error {
			upgradeDryRunDone(d.(*upgrade))
			return nil
		},
	}
}

func upgradeDryRunDone(u *upgrade) bool {
	if u.DryRun() {
		fmt.Println("[upgrade/successful] Finished dryrunning successfully!")
	}
	return u.DryRun()
}

// The checks of an upgrade, which upstream runs by functions that look at its host and write to its standard error.

//go:linkname createJob k8s.io/kubernetes/cmd/kubeadm/app/phases/upgrade.createJob
func createJob(client clientset.Interface, cfg *kubeadmapi.ClusterConfiguration, dryRun bool, printer output.Printer) error

//go:linkname controlPlaneNodesReady k8s.io/kubernetes/cmd/kubeadm/app/phases/upgrade.controlPlaneNodesReady
func controlPlaneNodesReady(client clientset.Interface, cfg *kubeadmapi.ClusterConfiguration, dryRun bool, printer output.Printer) error

//go:linkname checkUnsupportedPlugins k8s.io/kubernetes/cmd/kubeadm/app/phases/upgrade.checkUnsupportedPlugins
func checkUnsupportedPlugins(client clientset.Interface) error

//go:linkname checkMigration k8s.io/kubernetes/cmd/kubeadm/app/phases/upgrade.checkMigration
func checkMigration(client clientset.Interface) error

// check is a preflight check that is one function.
type check struct {
	name string
	f    func() error
}

func (k check) Name() string { return k.name }
func (k check) Check() (warnings, errs []error) {
	if err := k.f(); err != nil {
		errs = append(errs, err)
	}
	return nil, errs
}

func (c *command) runChecks(ignore sets.Set[string], checks ...preflight.Checker) error {
	return preflight.RunChecks(checks, c.p.Stderr, ignore)
}

// coreDNSChecks is upstream's RunCoreDNSMigrationCheck.
func (c *command) coreDNSChecks(client clientset.Interface, ignore sets.Set[string]) error {
	return c.runChecks(ignore,
		check{"CoreDNSUnsupportedPlugins", func() error { return checkUnsupportedPlugins(client) }},
		check{"CoreDNSMigration", func() error { return checkMigration(client) }})
}

// clusterHealth is upstream's CheckClusterHealth.
func (c *command) clusterHealth(client clientset.Interface, cfg *kubeadmapi.ClusterConfiguration, ignore sets.Set[string], dryRun bool, printer output.Printer) error {
	printer.Println("[upgrade] Running cluster health checks")
	return c.runChecks(ignore,
		check{"CreateJob", func() error { return createJob(client, cfg, dryRun, printer) }},
		check{"ControlPlaneNodesReady", func() error { return controlPlaneNodesReady(client, cfg, dryRun, printer) }},
		check{"StaticPodManifest", func() error {
			var missing []string
			for _, component := range constants.ControlPlaneComponents {
				file := path.Join(manifestsDir, component+".yaml")
				if dryRun {
					printer.Printf("[dryrun] would check if %s exists\n", file)
				} else if _, err := c.p.Files.Stat(file); os.IsNotExist(err) {
					missing = append(missing, file)
				}
			}
			if len(missing) > 0 {
				return fmt.Errorf("manifest files not found: %v", missing)
			}
			return nil
		}})
}

//go:linkname enforceVersionPolicies k8s.io/kubernetes/cmd/kubeadm/app/cmd/phases/upgrade/apply.enforceVersionPolicies
func enforceVersionPolicies(newK8sVersionStr string, newK8sVersion *utilversion.Version, allowExperimentalUpgrades, allowRCUpgrades, force bool, versionGetter upgradephase.VersionGetter) error

// applyPreflight is upstream's runPreflight of "upgrade apply".
func applyPreflight(c *command, u *upgrade) error {
	fmt.Println("[upgrade/preflight] Running preflight checks")
	printer := &output.TextPrinter{}
	cfg := &u.initCfg.ClusterConfiguration
	if err := host.RootCheck(c.p, u.ignore); err != nil {
		return err
	}
	if err := host.UpgradeChecks(c.p, u.initCfg, u.ignore); err != nil {
		return err
	}
	if err := c.coreDNSChecks(u.client, u.ignore); err != nil {
		return err
	}
	if err := c.clusterHealth(u.client, cfg, u.ignore, u.DryRun(), printer); err != nil {
		return err
	}
	for _, m := range features.CheckDeprecatedFlags(&features.InitFeatureGates, cfg.FeatureGates) {
		printer.Printf("[upgrade/preflight] %s\n", m)
	}
	if err := configutil.NormalizeKubernetesVersion(cfg); err != nil {
		return err
	}
	version, err := utilversion.ParseSemantic(cfg.KubernetesVersion)
	if err != nil {
		return fmt.Errorf("unable to parse normalized version %q as a semantic version", cfg.KubernetesVersion)
	}
	if err := features.ValidateVersion(features.InitFeatureGates, cfg.FeatureGates, cfg.KubernetesVersion); err != nil {
		return err
	}
	versions := upgradephase.NewOfflineVersionGetter(upgradephase.NewKubeVersionGetter(u.client), cfg.KubernetesVersion)
	if err := enforceVersionPolicies(cfg.KubernetesVersion, version, u.experimental, u.candidate, u.force, versions); err != nil {
		return err
	}
	if u.interactive {
		if err := cmdutil.InteractivelyConfirmAction("upgrade", "Are you sure you want to proceed?", c.stdin()); err != nil {
			return err
		}
	}
	if u.DryRun() {
		fmt.Println("[dryrun] Would pull the required images (like 'kubeadm config images pull')")
		return nil
	}
	return u.pullImages()
}

func (u *upgrade) pullImages() error {
	fmt.Println("[upgrade/preflight] Pulling images required for setting up a Kubernetes cluster")
	fmt.Println("[upgrade/preflight] This might take a minute or two, depending on the speed of your internet connection")
	fmt.Println("[upgrade/preflight] You can also perform this action beforehand using 'kubeadm config images pull'")
	return host.PullImages(u.c.p, u.initCfg, u.ignore)
}

// nodePreflight is upstream's runPreflight of "upgrade node".
func nodePreflight(c *command, u *upgrade) error {
	fmt.Println("[upgrade/preflight] Running pre-flight checks")
	if err := host.RootCheck(c.p, u.ignore); err != nil {
		return err
	}
	if err := host.UpgradeChecks(c.p, u.initCfg, u.ignore); err != nil {
		return err
	}
	if !u.controlPlane {
		fmt.Println("[upgrade/preflight] Skipping prepull. Not a control plane node.")
		return nil
	}
	u.initCfg.NodeRegistration.ImagePullPolicy, u.initCfg.NodeRegistration.ImagePullSerial = u.cfg.Node.ImagePullPolicy, u.cfg.Node.ImagePullSerial
	if u.DryRun() {
		fmt.Println("[upgrade/preflight] Would pull the required images (like 'kubeadm config images pull')")
		return nil
	}
	return u.pullImages()
}

// upgradeControlPlane is upstream's runControlPlane of "upgrade apply" and "upgrade node".
func upgradeControlPlane(c *command, u *upgrade) error {
	version := u.initCfg.KubernetesVersion
	timeout := u.cfg.Timeouts.UpgradeManifests.Duration
	if !u.controlPlane {
		fmt.Println("[upgrade/control-plane] Skipping phase. Not a control plane node.")
		return nil
	}
	if u.node {
		fmt.Printf("[upgrade/control-plane] Upgrading your Static Pod-hosted control plane instance to version %q...\n", version)
	}
	if u.DryRun() {
		fmt.Printf("[dryrun] Would upgrade your static Pod-hosted control plane to version %q", version)
		return c.dryRunStaticPods(u)
	}
	if !u.node {
		fmt.Printf("[upgrade/control-plane] Upgrading your static Pod-hosted control plane to version %q (timeout: %v)...\n", version, timeout)
	}
	if err := c.upgradeStaticPods(u, timeout); err != nil {
		return fmt.Errorf("couldn't complete the static pod upgrade: %w", err)
	}
	fmt.Println("[upgrade/control-plane] The control plane instance for this node was successfully upgraded!")
	return nil
}

// upgradeKubeconfig is upstream's runKubeconfig, with its UpdateKubeletKubeconfigServer.
func upgradeKubeconfig(c *command, u *upgrade) error {
	if !u.controlPlane {
		fmt.Println("[upgrade/kubeconfig] Skipping phase. Not a control plane node.")
		return nil
	}
	if err := c.localKubeconfig(u); err != nil {
		return fmt.Errorf("failed to update kubelet local mode: %w", err)
	}
	fmt.Println("[upgrade/kubeconfig] The kubeconfig files for this node were successfully upgraded!")
	return nil
}

func (c *command) localKubeconfig(u *upgrade) error {
	name := path.Join(kubernetesDir, constants.KubeletKubeConfigFileName)
	b, err := c.p.Files.ReadFile(name)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	cfg, err := clientcmd.Load(b)
	if err != nil {
		return err
	}
	ctx, ok := cfg.Contexts[cfg.CurrentContext]
	if !ok {
		return fmt.Errorf("cannot find cluster for active context in kubeconfig %q", name)
	}
	local, err := kubeadmutil.GetLocalAPIEndpoint(&u.initCfg.LocalAPIEndpoint)
	if err != nil {
		return err
	}
	shared, err := kubeadmutil.GetControlPlaneEndpoint(u.initCfg.ControlPlaneEndpoint, &u.initCfg.LocalAPIEndpoint)
	if err != nil {
		return err
	}
	cluster := cfg.Clusters[ctx.Cluster]
	if cluster == nil || cluster.Server != shared || shared == local {
		return nil
	}
	if u.DryRun() {
		fmt.Printf("[dryrun] Would change the Server URL from %q to %q in %s and try to restart kubelet\n", cluster.Server, local, name)
		return nil
	}
	cluster.Server = local
	if b, err = clientcmd.Write(*cfg); err != nil {
		return err
	}
	if err := c.p.Files.WriteFile(name, b, 0o600); err != nil {
		return err
	}
	c.restartKubelet()
	return nil
}

// unwantedKubeletFlags are what upstream's post-upgrade phase removes.
var unwantedKubeletFlags = []string{"pod-infra-container-image"}

// postUpgrade is upstream's runPostUpgrade, with its RemoveKubeletArgsFromFile.
func postUpgrade(c *command, u *upgrade) error {
	if u.DryRun() {
		fmt.Printf("[dryrun] Would remove unwanted kubelet flags %v from %s\n", unwantedKubeletFlags, constants.KubeletEnvFileName)
		return nil
	}
	backup, err := c.newTempDir("kubeadm-kubelet-env")
	if err != nil {
		return err
	}
	c.warn("postupgrade.go", 203, "Using temporary directory %s for kubelet env file. To override it set the environment variable %s", backup, constants.EnvVarUpgradeDryRunDir)
	fmt.Printf("[upgrade] Backing up kubelet env file to %s\n", path.Join(backup, constants.KubeletEnvFileName))
	return c.onMirror(append(u.files(), backup), func() error {
		src := filepath.Join(u.KubeletDir(), constants.KubeletEnvFileName)
		if err := kubeadmutil.CopyFile(src, c.d.path(path.Join(backup, constants.KubeletEnvFileName))); err != nil {
			return fmt.Errorf("error backing up the kubelet env file: %w", err)
		}
		given, err := kubeletphase.ReadKubeletDynamicEnvFile(src)
		if err != nil {
			return fmt.Errorf("error reading kubelet env file: %w", err)
		}
		args := kubeadmutil.ArgumentsFromCommand(given)
		wanted := slices.DeleteFunc(slices.Clone(args), func(a kubeadmapi.Arg) bool { return slices.Contains(unwantedKubeletFlags, a.Name) })
		if len(wanted) == len(args) {
			return nil
		}
		if err := kubeletphase.WriteKubeletArgsToFile(wanted, nil, u.KubeletDir()); err != nil {
			return fmt.Errorf("error writing kubelet env file: %w", err)
		}
		return nil
	})
}
