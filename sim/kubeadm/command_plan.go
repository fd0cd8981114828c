package kubeadm

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	_ "unsafe" // for go:linkname

	"github.com/pmezard/go-difflib/difflib"
	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	utilversion "k8s.io/apimachinery/pkg/util/version"
	"k8s.io/cli-runtime/pkg/genericclioptions"
	kubeadmapi "k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm"
	"k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm/validation"
	outputapischeme "k8s.io/kubernetes/cmd/kubeadm/app/apis/output/scheme"
	outputapiv1alpha3 "k8s.io/kubernetes/cmd/kubeadm/app/apis/output/v1alpha3"
	"k8s.io/kubernetes/cmd/kubeadm/app/cmd/options"
	cmdutil "k8s.io/kubernetes/cmd/kubeadm/app/cmd/util"
	"k8s.io/kubernetes/cmd/kubeadm/app/componentconfigs"
	"k8s.io/kubernetes/cmd/kubeadm/app/constants"
	"k8s.io/kubernetes/cmd/kubeadm/app/features"
	controlplanephase "k8s.io/kubernetes/cmd/kubeadm/app/phases/controlplane"
	upgradephase "k8s.io/kubernetes/cmd/kubeadm/app/phases/upgrade"
	kubeadmutil "k8s.io/kubernetes/cmd/kubeadm/app/util"
	"k8s.io/kubernetes/cmd/kubeadm/app/util/output"

	"ckadrill/sim/kubeadm/host"
)

//go:linkname printConfiguration k8s.io/kubernetes/cmd/kubeadm/app/cmd/upgrade.printConfiguration
func printConfiguration(clustercfg *kubeadmapi.ClusterConfiguration, w io.Writer, printer output.Printer)

//go:linkname genUpgradePlan k8s.io/kubernetes/cmd/kubeadm/app/cmd/upgrade.genUpgradePlan
func genUpgradePlan(availUpgrades []upgradephase.Upgrade, configVersions []outputapiv1alpha3.ComponentConfigVersionState, etcdUpgrade bool) *outputapiv1alpha3.UpgradePlan

// planPrinter is upstream's upgradePlanTextPrinter.
type planPrinter struct{ output.TextPrinter }

//go:linkname printPlan k8s.io/kubernetes/cmd/kubeadm/app/cmd/upgrade.(*upgradePlanTextPrinter).PrintObj
func printPlan(printer *planPrinter, obj runtime.Object, writer io.Writer) error

func (p *planPrinter) PrintObj(obj runtime.Object, w io.Writer) error { return printPlan(p, obj, w) }

// planPrintFlags is upstream's upgradePlanTextPrintFlags.
type planPrintFlags struct{}

func (planPrintFlags) ToPrinter(format string) (output.Printer, error) {
	if format == output.TextOutput {
		return &planPrinter{}, nil
	}
	return nil, genericclioptions.NoCompatiblePrinterError{OutputFormat: &format, AllowedFormats: []string{output.TextOutput}}
}

// upgradePlan is upstream's runPlan, with its enforceRequirements.
func (c *command) upgradePlan(cmd *cobra.Command, args []string) error {
	printer, err := output.NewOutputFlags(planPrintFlags{}).WithTypeSetter(outputapischeme.Scheme).WithDefaultOutput(stringFlag(cmd, "output")).ToPrinter()
	if err != nil {
		return fmt.Errorf("could not construct output printer: %w", err)
	}
	if err := validation.ValidateMixedArguments(cmd.Flags()); err != nil {
		return err
	}
	cfg, err := c.upgradeConfiguration(cmd)
	if err != nil {
		return fmt.Errorf("[upgrade/upgrade config] FATAL: %w", err)
	}
	plan := &cfg.Plan
	file := kubeconfigFlag(cmd, adminConf)
	client, err := c.upgradeClient(file, false, printer)
	if err != nil {
		return fmt.Errorf("couldn't create a Kubernetes client from file %q: %w", file, err)
	}
	ignore, err := validation.ValidateIgnorePreflightErrors(stringsFlag(cmd, options.IgnorePreflightErrors), plan.IgnorePreflightErrors)
	if err != nil {
		return err
	}
	printer.Printf("[preflight] Running pre-flight checks.\n")
	if err := host.RootCheck(c.p, ignore); err != nil {
		return err
	}
	if err := c.coreDNSChecks(client, ignore); err != nil {
		return err
	}
	printer.Printf(readingConfiguration, "upgrade/config")
	initCfg, err := c.fetchConfiguration(client, true, c.isControlPlane(), true)
	if err != nil {
		return fmt.Errorf("[upgrade/init config] FATAL: %w", err)
	}
	version := plan.KubernetesVersion
	if len(args) == 1 {
		version = args[0]
	}
	if err := c.clusterHealth(client, &initCfg.ClusterConfiguration, ignore, false, printer); err != nil {
		return fmt.Errorf("[upgrade/health] FATAL: %w", err)
	}
	for _, m := range features.CheckDeprecatedFlags(&features.InitFeatureGates, initCfg.FeatureGates) {
		printer.Printf("[upgrade/config] %s\n", m)
	}
	if flagOrConfig(cmd, options.PrintConfig, plan.PrintConfig) {
		printConfiguration(&initCfg.ClusterConfiguration, os.Stdout, printer)
	}
	versions := upgradephase.NewOfflineVersionGetter(upgradephase.NewKubeVersionGetter(client), version)
	available, err := upgradephase.GetAvailableUpgrades(versions, flagOrConfig(cmd, options.AllowExperimentalUpgrades, plan.AllowExperimentalUpgrades),
		flagOrConfig(cmd, options.AllowRCUpgrades, plan.AllowRCUpgrades), printer)
	if err != nil {
		return fmt.Errorf("[upgrade/versions] FATAL: %w", err)
	}
	states, err := componentconfigs.GetVersionStates(&initCfg.ClusterConfiguration, client)
	if err != nil {
		return fmt.Errorf("[upgrade/versions] FATAL: %w", err)
	}
	if len(available) == 0 {
		return nil
	}
	return printer.PrintObj(genUpgradePlan(available, states, flagOrConfig(cmd, options.EtcdUpgrade, plan.EtcdUpgrade)), os.Stdout)
}

// upgradeDiff is upstream's runDiff. The components come in the order of their names.
func (c *command) upgradeDiff(cmd *cobra.Command, args []string) error {
	for _, component := range constants.ControlPlaneComponents {
		name := path.Join(manifestsDir, component+".yaml")
		switch i, err := c.p.Files.Stat(name); {
		case os.IsNotExist(err):
			return fmt.Errorf("the manifest file %q does not exist: %w", name, err)
		case err != nil:
			return fmt.Errorf("error obtaining stats for manifest file %q: %w", name, err)
		case i.IsDir():
			return fmt.Errorf("%q is a directory", name)
		}
	}
	if err := validation.ValidateMixedArguments(cmd.Flags()); err != nil {
		return err
	}
	cfg, err := c.upgradeConfiguration(cmd)
	if err != nil {
		return err
	}
	file := kubeconfigFlag(cmd, adminConf)
	client, err := c.clientSetFromFile(c.p.Path(file))
	if err != nil {
		return fmt.Errorf("couldn't create a Kubernetes client from file %q: %w", file, err)
	}
	c.sayReading("upgrade/diff")
	initCfg, err := c.fetchConfiguration(client, true, c.isControlPlane(), false)
	if err != nil {
		return err
	}
	version := initCfg.KubernetesVersion
	if cfg.Diff.KubernetesVersion != "" {
		version = cfg.Diff.KubernetesVersion
	}
	if version == "" {
		if err := cmdutil.ValidateExactArgNumber(args, []string{"version"}); err != nil {
			return err
		}
	}
	if len(args) == 1 {
		version = args[0]
	}
	if _, err := utilversion.ParseSemantic(version); err != nil {
		return err
	}
	initCfg.KubernetesVersion = version
	lines, _ := cmd.Flags().GetInt("context-lines")
	lines = cmdutil.ValueFromFlagsOrConfig(cmd.Flags(), "context-lines", cfg.Diff.DiffContextLines, lines).(int)
	full := c.withVolumes(initCfg)
	pods := controlplanephase.GetStaticPodSpecs(&full.ClusterConfiguration, &full.LocalAPIEndpoint, nil)
	for _, component := range constants.ControlPlaneComponents {
		pod, ok := pods[component]
		if !ok {
			return errors.New("no manifest of " + component)
		}
		if err := c.diffManifest(path.Join(manifestsDir, component+".yaml"), &pod, lines); err != nil {
			return err
		}
	}
	return nil
}

func (c *command) diffManifest(name string, pod *corev1.Pod, lines int) error {
	manifest, err := kubeadmutil.MarshalToYaml(pod, corev1.SchemeGroupVersion)
	if err != nil {
		return err
	}
	existing, err := c.p.Files.ReadFile(name)
	if err != nil {
		return err
	}
	err = difflib.WriteUnifiedDiff(os.Stdout, difflib.UnifiedDiff{
		A: difflib.SplitLines(string(existing)), B: difflib.SplitLines(string(manifest)), FromFile: name, ToFile: "new manifest", Context: lines,
	})
	if err != nil {
		return fmt.Errorf("error writing unified diff: %w", err)
	}
	return nil
}
