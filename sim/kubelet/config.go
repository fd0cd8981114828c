package kubelet

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"time"

	jsonpatch "gopkg.in/evanphx/json-patch.v4"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/validation/field"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	cliflag "k8s.io/component-base/cli/flag"
	kubeletconfigv1beta1 "k8s.io/kubelet/config/v1beta1"
	"k8s.io/kubernetes/cmd/kubelet/app/options"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	conversion "k8s.io/kubernetes/pkg/kubelet/apis/config/v1beta1"
	"k8s.io/kubernetes/pkg/kubelet/apis/config/validation"
	"k8s.io/kubernetes/pkg/kubelet/eviction"
	"k8s.io/kubernetes/pkg/kubelet/kubeletconfig/configfiles"
	utilfs "k8s.io/kubernetes/pkg/util/filesystem"

	"ckadrill/sim/kernel"
)

// parse reads the command line and the files that it names into upstream's KubeletServer.
func parse(p *kernel.Process, args []string) (*options.KubeletServer, error) {
	flags := pflag.NewFlagSet("kubelet", pflag.ContinueOnError)
	flags.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	flags.SetOutput(p.Stderr)
	flags.Usage = func() {}
	kf := options.NewKubeletFlags()
	kc, err := options.NewKubeletConfiguration()
	if err != nil {
		return nil, err
	}
	kf.AddFlags(flags)
	options.AddKubeletConfigFlags(flags, kc)
	globalFlags(flags)
	help := flags.BoolP("help", "h", false, "help for kubelet")

	if err := flags.Parse(args); err != nil {
		return nil, fmt.Errorf("failed to parse kubelet flag: %w", err)
	}
	if rest := flags.Args(); len(rest) > 0 {
		return nil, fmt.Errorf("unknown command %+s", rest[0])
	}
	if *help {
		printHelp(p.Stdout, flags)
		return nil, finished(0)
	}
	if flags.Changed("version") {
		p.Printf("Kubernetes %s\n", version(p))
		return nil, finished(0)
	}
	if err := checkFeatureGates(kc); err != nil {
		return nil, err
	}
	if err := options.ValidateKubeletFlags(kf); err != nil {
		return nil, fmt.Errorf("failed to validate kubelet flags: %w", err)
	}
	if kf.KubeletConfigFile != "" {
		if kc, err = loadConfigFile(p, kf.KubeletConfigFile); err != nil {
			return nil, fmt.Errorf("failed to load kubelet config file, path: %s, error: %w", kf.KubeletConfigFile, err)
		}
	}
	if kf.KubeletDropinConfigDirectory != "" {
		if err := mergeDropIns(p, kc, kf.KubeletDropinConfigDirectory); err != nil {
			return nil, fmt.Errorf("failed to merge kubelet configs: %w", err)
		}
	}
	if kf.KubeletConfigFile != "" || kf.KubeletDropinConfigDirectory != "" {
		if err := flagPrecedence(kc, args); err != nil {
			return nil, fmt.Errorf("failed to precedence kubeletConfigFlag: %w", err)
		}
		if err := checkFeatureGates(kc); err != nil {
			return nil, err
		}
	}
	if kc.Logging.Format != "text" && kc.Logging.Format != "json" {
		return nil, fmt.Errorf("initialize logging: %v", field.ErrorList{field.Invalid(field.NewPath("logging", "format"), kc.Logging.Format, "Unsupported log format")}.ToAggregate())
	}
	if err := validateConfiguration(p, kc); err != nil {
		return nil, fmt.Errorf("failed to validate kubelet configuration, error: %w, path: %s", err, kc)
	}
	return &options.KubeletServer{KubeletFlags: *kf, KubeletConfiguration: *kc}, nil
}

// checkFeatureGates refuses unknown gates in upstream's words. Gates are process-wide in upstream's code, and so would
// change every component of every machine: they are checked on a copy and keep their defaults.
func checkFeatureGates(kc *kubeletconfig.KubeletConfiguration) error {
	if err := utilfeature.DefaultMutableFeatureGate.DeepCopy().SetFromMap(kc.FeatureGates); err != nil {
		return fmt.Errorf("failed to set feature gates from initial flags-based config: %w", err)
	}
	return nil
}

// validateConfiguration is upstream's validation. Upstream asks the host for its cgroup version there; machines of the
// world have version 2 unless their /sys/fs/cgroup says otherwise.
func validateConfiguration(p *kernel.Process, kc *kubeletconfig.KubeletConfiguration) error {
	if kc.FailCgroupV1 && cgroupV1(p) {
		return errors.New("kubelet is configured to not run on a host using cgroup v1. cgroup v1 support is unsupported and will be removed in a future release")
	}
	c := kc.DeepCopy()
	c.FailCgroupV1 = false
	return validation.ValidateKubeletConfiguration(c, utilfeature.DefaultFeatureGate)
}

// cgroupV1 says whether the machine mounts the old, per-controller hierarchy.
func cgroupV1(p *kernel.Process) bool {
	_, err := p.Files.Stat("/sys/fs/cgroup/memory")
	return err == nil
}

func loadConfigFile(p *kernel.Process, name string) (kc *kubeletconfig.KubeletConfiguration, err error) {
	defer func() {
		// Upstream's defaulting panics over an unknown feature gate: the real process dies with status 2.
		if e := recover(); e != nil {
			p.Errorf("panic: %v\n\ngoroutine 1 [running]:\n", e)
			kc, err = nil, finished(2)
		}
	}()
	const errFmt = "failed to load Kubelet config file %s, error %v"
	loader, err := configfiles.NewFsLoader(configFiles{p}, p.Path(name))
	if err != nil {
		return nil, fmt.Errorf(errFmt, name, err)
	}
	kc, err = loader.Load(context.Background())
	if err != nil {
		return nil, fmt.Errorf(errFmt, name, err)
	}
	if kc.EvictionHard == nil {
		kc.EvictionHard = eviction.DefaultEvictionHard
	} else if kc.MergeDefaultEvictionSettings {
		for k, v := range eviction.DefaultEvictionHard {
			if _, ok := kc.EvictionHard[k]; !ok {
				kc.EvictionHard[k] = v
			}
		}
	}
	return kc, nil
}

// mergeDropIns merges the *.conf files of --config-dir into kc, in order of their names.
func mergeDropIns(p *kernel.Process, kc *kubeletconfig.KubeletConfiguration, dir string) error {
	versioned := &kubeletconfigv1beta1.KubeletConfiguration{}
	if err := conversion.Convert_config_KubeletConfiguration_To_v1beta1_KubeletConfiguration(kc, versioned, nil); err != nil {
		return err
	}
	base, err := json.Marshal(versioned)
	if err != nil {
		return fmt.Errorf("failed to marshal base config: %w", err)
	}
	entries, err := p.Files.ReadDir(p.Path(dir))
	if err != nil {
		return fmt.Errorf("failed to walk through kubelet dropin directory %q: %w", dir, err)
	}
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		if e.IsDir() || path.Ext(name) != ".conf" {
			continue
		}
		fail := func(err error) error {
			return fmt.Errorf("failed to walk through kubelet dropin directory %q: failed to load kubelet dropin file, path: %s, error: %w", dir, name, err)
		}
		loader, err := configfiles.NewFsLoader(configFiles{p}, p.Path(name))
		if err != nil {
			return fail(err)
		}
		patch, gvk, err := loader.LoadIntoJSON()
		if err != nil {
			return fail(fmt.Errorf("failed to load drop-in kubelet config file %s, error %v", name, err))
		}
		if gvk == nil || gvk.Empty() {
			return fmt.Errorf("failed to walk through kubelet dropin directory %q: failed to load kubelet dropin file, path: %s, no apiVersion/kind", dir, name)
		}
		if base, err = jsonpatch.MergePatch(base, patch); err != nil {
			return fmt.Errorf("failed to merge drop-in and current config: %w", err)
		}
	}
	versioned = &kubeletconfigv1beta1.KubeletConfiguration{}
	if err := json.Unmarshal(base, versioned); err != nil {
		return fmt.Errorf("failed to unmarshal merged JSON into kubelet configuration: %w", err)
	}
	conversion.SetDefaults_KubeletConfiguration(versioned)
	if err := conversion.Convert_v1beta1_KubeletConfiguration_To_config_KubeletConfiguration(versioned, kc, nil); err != nil {
		return fmt.Errorf("failed to convert merged config to internal kubelet configuration: %w", err)
	}
	return nil
}

// flagPrecedence parses the command line over the configuration that came from files: a flag wins.
func flagPrecedence(kc *kubeletconfig.KubeletConfiguration, args []string) error {
	flags := pflag.NewFlagSet("", pflag.ContinueOnError)
	flags.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	globalFlags(flags)
	options.NewKubeletFlags().AddFlags(flags)
	options.AddKubeletConfigFlags(flags, kc)
	flags.BoolP("help", "h", false, "")
	flags.SetOutput(io.Discard)
	gates := kc.FeatureGates
	if err := flags.Parse(args); err != nil {
		return err
	}
	for k, v := range gates {
		if _, ok := kc.FeatureGates[k]; !ok {
			kc.FeatureGates[k] = v
		}
	}
	return nil
}

// configFiles shows the machine's files to upstream's configuration loader, which only reads.
type configFiles struct{ p *kernel.Process }

var errReadOnly = errors.New("ckadrill: the kubelet's configuration loader only reads")

func (f configFiles) Stat(name string) (os.FileInfo, error) {
	return f.p.Files.Stat(filepath.ToSlash(name))
}
func (f configFiles) ReadFile(name string) ([]byte, error) {
	return f.p.Files.ReadFile(filepath.ToSlash(name))
}
func (f configFiles) ReadDir(name string) ([]os.DirEntry, error) {
	return f.p.Files.ReadDir(filepath.ToSlash(name))
}
func (configFiles) Create(string) (utilfs.File, error)           { return nil, errReadOnly }
func (configFiles) Rename(string, string) error                  { return errReadOnly }
func (configFiles) MkdirAll(string, os.FileMode) error           { return errReadOnly }
func (configFiles) Chtimes(string, time.Time, time.Time) error   { return errReadOnly }
func (configFiles) RemoveAll(string) error                       { return errReadOnly }
func (configFiles) Remove(string) error                          { return errReadOnly }
func (configFiles) TempDir(string, string) (string, error)       { return "", errReadOnly }
func (configFiles) TempFile(string, string) (utilfs.File, error) { return nil, errReadOnly }
func (configFiles) Walk(string, filepath.WalkFunc) error         { return errReadOnly }

// hostname is upstream's nodeutil.GetHostname over the machine's name.
func hostname(p *kernel.Process, override string) (string, error) {
	name := override
	if name == "" {
		name = p.HostName()
	}
	name = strings.ToLower(strings.TrimSpace(name))
	if name == "" {
		return "", errors.New("empty hostname is invalid")
	}
	return name, nil
}

// swapOn is upstream's swap.IsSwapOn over the machine's /proc/swaps.
func swapOn(p *kernel.Process) (bool, error) {
	b, err := p.Files.ReadFile("/proc/swaps")
	if errors.Is(err, fs.ErrNotExist) {
		logAt(p, "swap_util.go", 152).Info("File does not exist, assuming that swap is disabled", "path", "/proc/swaps")
		return false, nil
	}
	if err != nil {
		return false, err
	}
	content := strings.TrimSpace(string(b))
	on := strings.Count(content, "\n") > 0
	if on {
		logAt(p, "swap_util.go", 119).Info("Swap is on", "/proc/swaps contents", content)
	}
	return on, nil
}
