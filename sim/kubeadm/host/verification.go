package host

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"

	"k8s.io/kubernetes/cmd/kubeadm/app/preflight"
	system "k8s.io/system-validators/validators"

	"ckadrill/sim/kernel"
)

// systemVerification is upstream's SystemVerificationCheck with the validators of k8s.io/system-validators, which look at the
// host alone: the kernel's version and configuration, the operating system, the cgroup controllers.
type systemVerification struct {
	p *kernel.Process
	// upgrade says that the next minor version of the kubelet is checked for.
	upgrade bool
}

func (systemVerification) Name() string { return preflight.SystemVerificationCheck{}.Name() }

// Kinds of results, as system-validators numbers them.
const (
	good system.ValidationResultType = iota
	bad
	questionable
)

// report collects what the validators say. What they report is printed only when one fails.
type report struct {
	system.StreamReporter
	out            bytes.Buffer
	warnings, errs []error
}

func (v systemVerification) Check() (warnings, errs []error) {
	kubelet, err := preflight.GetKubeletVersion(Exec{v.p})
	if err != nil {
		return fail("couldn't get kubelet version: %w", err)
	}
	if v.upgrade {
		kubelet = kubelet.WithMinor(kubelet.Minor() + 1)
	}
	r := &report{}
	r.WriteStream = &r.out
	_, err = v.p.Files.Stat(path.Join(cgroupMount, "cgroup.controllers"))
	unified := !errors.Is(err, fs.ErrNotExist)
	v.kernel(r, unified)
	r.Report("OS", "Linux", good)
	// From 1.35 on a kubelet refuses cgroup v1.
	v.cgroups(r, unified, kubelet.Major() > 1 || kubelet.Minor() >= 35)
	if len(r.errs) > 0 {
		fmt.Println("[preflight] The system verification failed. Printing the output from the verification:")
		fmt.Print(r.out.String())
	}
	return r.warnings, r.errs
}

const cgroupMount = "/sys/fs/cgroup"

// notBuilt are the options that the simulated kernel was built without, of those that are asked for.
var notBuilt = []string{"AUFS_FS", "BLK_DEV_DM"}

func (v systemVerification) kernel(r *report, unified bool) {
	spec := system.DefaultSysSpec.KernelSpec
	b, err := v.p.Files.ReadFile("/proc/sys/kernel/osrelease")
	if err != nil {
		r.errs = append(r.errs, fmt.Errorf("failed to get kernel release: %w", err))
		return
	}
	release := strings.TrimSpace(string(b))
	if slices.ContainsFunc(spec.Versions, func(s string) bool { return regexp.MustCompile(s).MatchString(release) }) {
		r.Report("KERNEL_VERSION", release, good)
	} else {
		r.Report("KERNEL_VERSION", release, bad)
		r.warnings = append(r.warnings, fmt.Errorf("kernel release %s is unsupported. %s", release, spec.VersionsNote))
	}
	required := slices.Clone(spec.Required)
	if unified {
		required = append(required, spec.RequiredCgroupsV2...)
	} else {
		required = append(required, spec.RequiredCgroupsV1...)
	}
	var missing []string
	for i, o := range slices.Concat(required, spec.Optional) {
		name := "CONFIG_" + o.Name
		if !slices.Contains(notBuilt, o.Name) {
			r.Report(name, "enabled", good)
			continue
		}
		kind := questionable
		if i < len(required) {
			kind = bad
			missing = append(missing, name)
		}
		r.Report(name, "not set - "+o.Description, kind)
	}
	if len(missing) > 0 {
		r.errs = append(r.errs, fmt.Errorf("unexpected kernel config: %s", strings.Join(missing, " ")))
	}
}

func (v systemVerification) cgroups(r *report, unified, v1Refused bool) {
	required, optional := system.DefaultSysSpec.Cgroups, system.DefaultSysSpec.CgroupsOptional
	var controllers []string
	if unified {
		required, optional = system.DefaultSysSpec.CgroupsV2, system.DefaultSysSpec.CgroupsV2Optional
		b, err := v.p.Files.ReadFile(path.Join(cgroupMount, "cgroup.controllers"))
		if err != nil {
			r.errs = append(r.errs, fmt.Errorf("failed to get cgroups v2 subsystems: %w", err))
			return
		}
		// The kernel has these two without listing them.
		controllers = append(strings.Fields(string(b)), "devices", "freezer")
	} else {
		err := errors.New("cgroups v1 support is deprecated and will be removed in a future release. " +
			"Please migrate to cgroups v2. To explicitly enable cgroups v1 support for kubelet v1.35 or newer, " +
			"you must set the kubelet configuration option 'FailCgroupV1' to 'false'. You must also explicitly " +
			"skip this validation. For more information, see https://git.k8s.io/enhancements/keps/sig-node/5573-remove-cgroup-v1")
		if v1Refused {
			r.errs = append(r.errs, err)
		} else {
			r.warnings = append(r.warnings, err)
		}
		b, err := v.p.Files.ReadFile("/proc/cgroups")
		if err != nil {
			r.errs = []error{fmt.Errorf("failed to get cgroups v1 subsystems: %w", err)}
			return
		}
		for line := range strings.Lines(string(b)) {
			if f := strings.Fields(line); len(f) >= 4 && f[0][0] != '#' && f[3] != "0" {
				controllers = append(controllers, f[0])
			}
		}
	}
	lacking := func(l []string, kind system.ValidationResultType) (missing []string) {
		for _, c := range l {
			if slices.Contains(controllers, c) {
				r.Report("CGROUPS_"+strings.ToUpper(c), "enabled", good)
				continue
			}
			r.Report("CGROUPS_"+strings.ToUpper(c), "missing", kind)
			missing = append(missing, c)
		}
		return missing
	}
	if l := lacking(required, bad); len(l) > 0 {
		r.errs = []error{fmt.Errorf("missing required cgroups: %s", strings.Join(l, " "))}
	}
	if l := lacking(optional, questionable); len(l) > 0 {
		r.warnings = append(r.warnings, fmt.Errorf("missing optional cgroups: %s", strings.Join(l, " ")))
	}
}
