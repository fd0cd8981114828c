package host

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/url"
	"reflect"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/net/http/httpproxy"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/validation"
	kubeadmapi "k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm"
	"k8s.io/kubernetes/cmd/kubeadm/app/images"
	"k8s.io/kubernetes/cmd/kubeadm/app/preflight"
	utilruntime "k8s.io/kubernetes/cmd/kubeadm/app/util/runtime"
	netutils "k8s.io/utils/net"

	"ckadrill/sim/kernel"
	"ckadrill/sim/network"
)

// RootCheck is upstream's RunRootCheckOnly.
func RootCheck(p *kernel.Process, ignore sets.Set[string]) error {
	return preflight.RunChecks([]preflight.Checker{result{preflight.IsPrivilegedUserCheck{}.Name(), func() (warnings, errs []error) {
		if p.Cred.UID != 0 {
			errs = append(errs, errors.New("user is not running as root"))
		}
		return nil, errs
	}}}, p.Stderr, ignore)
}

// InitChecks is upstream's RunInitNodeChecks.
func InitChecks(p *kernel.Process, cfg *kubeadmapi.InitConfiguration, ignore sets.Set[string], secondary, downloadCerts bool) error {
	checks, err := preflight.InitNodeChecks(Exec{p}, cfg, ignore, secondary, downloadCerts)
	if err != nil {
		return err
	}
	return run(p, checks, ignore)
}

// JoinChecks is upstream's RunJoinNodeChecks.
func JoinChecks(p *kernel.Process, cfg *kubeadmapi.JoinConfiguration, ignore sets.Set[string]) error {
	checks, err := preflight.JoinNodeChecks(Exec{p}, cfg, ignore)
	if err != nil {
		return err
	}
	return run(p, checks, ignore)
}

// UpgradeChecks is upstream's RunUpgradeChecks.
func UpgradeChecks(p *kernel.Process, cfg *kubeadmapi.InitConfiguration, ignore sets.Set[string]) error {
	version := preflight.ContainerRuntimeVersionCheck{}
	setField(&version, "criSocket", cfg.NodeRegistration.CRISocket)
	return run(p, []preflight.Checker{systemVerification{p: p, upgrade: true}, version}, ignore)
}

// PullImages is upstream's RunPullImagesCheck.
func PullImages(p *kernel.Process, cfg *kubeadmapi.InitConfiguration, ignore sets.Set[string]) error {
	serial := true
	if s := cfg.NodeRegistration.ImagePullSerial; s != nil {
		serial = *s
	}
	check := preflight.ImagePullCheck{}
	setField(&check, "criSocket", cfg.NodeRegistration.CRISocket)
	setField(&check, "imageList", images.GetControlPlaneImages(&cfg.ClusterConfiguration))
	setField(&check, "sandboxImage", images.GetPauseImage(&cfg.ClusterConfiguration))
	setField(&check, "imagePullPolicy", cfg.NodeRegistration.ImagePullPolicy)
	setField(&check, "imagePullSerial", serial)
	setField(&check, "impl", utilruntime.Impl(cri{p}))
	return run(p, []preflight.Checker{check}, ignore)
}

func run(p *kernel.Process, checks []preflight.Checker, ignore sets.Set[string]) error {
	for i, c := range checks {
		checks[i] = onMachine(p, c)
	}
	return preflight.RunChecks(checks, p.Stderr, ignore)
}

// result is a check of ours in the place of one of upstream's.
type result struct {
	name  string
	check func() (warnings, errs []error)
}

func (r result) Name() string                    { return r.name }
func (r result) Check() (warnings, errs []error) { return r.check() }

func fail(format string, a ...any) (warnings, errs []error) {
	return nil, []error{fmt.Errorf(format, a...)}
}

func warn(format string, a ...any) (warnings, errs []error) {
	return []error{fmt.Errorf(format, a...)}, nil
}

// onMachine is a check of upstream's that looks at the process's machine: the same one where upstream lets us say what it
// looks at, else one of ours with its name and its words. A check that is not known here would look at the real host, so it is
// not run.
func onMachine(p *kernel.Process, c preflight.Checker) preflight.Checker {
	own := func(check func() (warnings, errs []error)) preflight.Checker { return result{c.Name(), check} }
	switch k := c.(type) {
	case result, systemVerification, preflight.KubernetesVersionCheck, preflight.KubeletVersionCheck, preflight.InPathCheck:
		return c
	case preflight.ContainerRuntimeCheck:
		setField(&k, "impl", utilruntime.Impl(cri{p}))
		return k
	case preflight.ContainerRuntimeVersionCheck:
		setField(&k, "impl", utilruntime.Impl(cri{p}))
		return k
	case preflight.ImagePullCheck:
		return k
	case preflight.SystemVerificationCheck:
		return systemVerification{p: p}
	case preflight.NumCPUCheck:
		return own(func() ([]error, []error) { return numCPU(p, k.NumCPU) })
	case preflight.MemCheck:
		return own(func() ([]error, []error) { return memory(p, k.Mem) })
	case preflight.PortOpenCheck:
		return own(func() ([]error, []error) { return portOpen(p, int(reflect.ValueOf(k).FieldByName("port").Int())) })
	case preflight.FirewalldCheck:
		return own(func() ([]error, []error) { return firewalld(p, reflect.ValueOf(k).FieldByName("ports")) })
	case preflight.ServiceCheck:
		return own(func() ([]error, []error) { return service(p, k) })
	case preflight.FileAvailableCheck:
		return own(func() (w, e []error) {
			if _, err := p.Files.Stat(k.Path); err == nil {
				return fail("%s already exists", k.Path)
			}
			return nil, nil
		})
	case preflight.FileExistingCheck:
		return own(func() (w, e []error) {
			if _, err := p.Files.Stat(k.Path); err != nil {
				return fail("%s doesn't exist", k.Path)
			}
			return nil, nil
		})
	case preflight.DirAvailableCheck:
		return own(func() ([]error, []error) { return dirAvailable(p, k.Path) })
	case preflight.FileContentCheck:
		return own(func() ([]error, []error) { return fileContent(p, k.Path, k.Content) })
	case preflight.HostnameCheck:
		return own(func() ([]error, []error) { return nodeName(p, reflect.ValueOf(k).FieldByName("nodeName").String()) })
	case preflight.SwapCheck:
		return own(func() ([]error, []error) { return swap(p) })
	case preflight.HTTPProxyCheck:
		return own(func() ([]error, []error) { return httpProxy(p, k) })
	case preflight.HTTPProxyCIDRCheck:
		return own(func() ([]error, []error) { return httpProxyCIDR(p, k) })
	}
	return own(func() ([]error, []error) { return fail("ckadrill does not simulate the check %s yet", c.Name()) })
}

// setField sets an unexported field of one of upstream's structs, and panics if it is gone.
func setField(structure any, name string, v any) {
	f := reflect.ValueOf(structure).Elem().FieldByName(name)
	if !f.IsValid() {
		panic(fmt.Sprintf("host: upstream's %T has no field %s", structure, name))
	}
	reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem().Set(reflect.ValueOf(v))
}

func numCPU(p *kernel.Process, want int) (warnings, errs []error) {
	b, err := p.Files.ReadFile("/proc/cpuinfo")
	if err != nil {
		return nil, nil
	}
	if n := bytes.Count(append([]byte("\n"), b...), []byte("\nprocessor\t")); n < want {
		return fail("the number of available CPUs %d is less than the required %d", n, want)
	}
	return nil, nil
}

// memory compares with sysinfo(2)'s totalram, which /proc/meminfo shows.
func memory(p *kernel.Process, wantMB uint64) (warnings, errs []error) {
	b, err := p.Files.ReadFile("/proc/meminfo")
	if err != nil {
		return fail("failed to get system info: %w", err)
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 1 && f[0] == "MemTotal:" {
			kB, _ := strconv.ParseUint(f[1], 10, 64)
			if mb := kB / 1024; mb < wantMB {
				return fail("the system RAM (%d MB) is less than the minimum %d MB", mb, wantMB)
			}
		}
	}
	return nil, nil
}

func portOpen(p *kernel.Process, port int) (warnings, errs []error) {
	l, err := p.Listen("tcp", fmt.Sprintf(":%d", port))
	if err != nil {
		return fail("Port %d is in use", port)
	}
	l.Close()
	return nil, nil
}

func firewalld(p *kernel.Process, ports reflect.Value) (warnings, errs []error) {
	s, err := InitSystem(p)
	if err != nil {
		return []error{err}, nil
	}
	if s.ServiceExists("firewalld") && s.ServiceIsActive("firewalld") {
		return warn("firewalld is active, please ensure ports %v are open or your cluster may not function correctly", ports)
	}
	return nil, nil
}

func service(p *kernel.Process, c preflight.ServiceCheck) (warnings, errs []error) {
	s, err := InitSystem(p)
	if err != nil {
		return []error{err}, nil
	}
	if !s.ServiceExists(c.Service) {
		return warn("%s service does not exist", c.Service)
	}
	if !s.ServiceIsEnabled(c.Service) {
		warnings = append(warnings, fmt.Errorf("%s service is not enabled, please run '%s'", c.Service, s.EnableCommand(c.Service)))
	}
	if c.CheckIfActive && !s.ServiceIsActive(c.Service) {
		errs = append(errs, fmt.Errorf("%s service is not active, please run 'systemctl start %s.service'", c.Service, c.Service))
	}
	return warnings, errs
}

func dirAvailable(p *kernel.Process, name string) (warnings, errs []error) {
	if i, err := p.Files.Stat(name); err != nil || !i.IsDir() {
		return nil, nil
	}
	l, err := p.Files.ReadDir(name)
	if err != nil {
		return fail("unable to check if %s is empty: %w", name, err)
	}
	if len(l) > 0 {
		return fail("%s is not empty", name)
	}
	return nil, nil
}

func fileContent(p *kernel.Process, name string, want []byte) (warnings, errs []error) {
	f, err := p.Files.OpenFile(name, 0, 0)
	if err != nil {
		return fail("%s does not exist", name)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, int64(len(want))))
	if err != nil {
		return fail("%s could not be read", name)
	}
	if !bytes.Equal(b, want) {
		return fail("%s contents are not set to %s", name, want)
	}
	return nil, nil
}

func nodeName(p *kernel.Process, name string) (warnings, errs []error) {
	for _, msg := range validation.IsQualifiedName(name) {
		warnings = append(warnings, fmt.Errorf("invalid node name format %q: %s", name, msg))
	}
	l, err := network.Resolve(p.Context(), p, name)
	if len(l) == 0 {
		warnings = append(warnings, fmt.Errorf("hostname \"%s\" could not be reached", name))
	}
	if err != nil {
		warnings = append(warnings, fmt.Errorf("hostname \"%s\": %w", name, err))
	}
	return warnings, nil
}

func swap(p *kernel.Process) (warnings, errs []error) {
	b, err := p.Files.ReadFile("/proc/swaps")
	if err != nil {
		return nil, nil
	}
	lines := 0
	for s := bufio.NewScanner(bytes.NewReader(b)); s.Scan(); {
		lines++
	}
	if lines > 1 {
		return warn("swap is supported for cgroup v2 only. " +
			"The kubelet must be properly configured to use swap. Please refer to https://kubernetes.io/docs/concepts/architecture/nodes/#swap-memory, " +
			"or disable swap on the node")
	}
	return nil, nil
}

// proxyOf is the proxy that Go's HTTP client would use with the process's environment.
func proxyOf(p *kernel.Process, u *url.URL) (*url.URL, error) {
	env := func(name string) string {
		if v := p.Getenv(name); v != "" {
			return v
		}
		return p.Getenv(strings.ToLower(name))
	}
	c := httpproxy.Config{HTTPProxy: env("HTTP_PROXY"), HTTPSProxy: env("HTTPS_PROXY"), NoProxy: env("NO_PROXY")}
	return c.ProxyFunc()(u)
}

func httpProxy(p *kernel.Process, c preflight.HTTPProxyCheck) (warnings, errs []error) {
	u := &url.URL{Scheme: c.Proto, Host: c.Host}
	if netutils.IsIPv6String(c.Host) {
		u.Host = net.JoinHostPort(c.Host, "1234")
	}
	proxy, err := proxyOf(p, u)
	if err != nil {
		return nil, []error{err}
	}
	if proxy != nil {
		return warn("Connection to %q uses proxy %q. If that is not intended, adjust your proxy settings", u, proxy)
	}
	return nil, nil
}

func httpProxyCIDR(p *kernel.Process, c preflight.HTTPProxyCIDRCheck) (warnings, errs []error) {
	if c.CIDR == "" {
		return nil, nil
	}
	_, cidr, err := netutils.ParseCIDRSloppy(c.CIDR)
	if err != nil {
		return fail("error parsing CIDR %q: %w", c.CIDR, err)
	}
	ip, err := netutils.GetIndexedIP(cidr, 1)
	if err != nil {
		return fail("unable to get first IP address from the given CIDR (%s): %w", cidr, err)
	}
	proxy, err := proxyOf(p, &url.URL{Scheme: c.Proto, Host: net.JoinHostPort(ip.String(), "1234"), Path: "/"})
	if err != nil {
		return nil, []error{err}
	}
	if proxy != nil {
		return warn("connection to %q uses proxy %q. This may lead to malfunctional cluster setup. Make sure that Pod and Services IP ranges specified correctly as exceptions in proxy configuration", c.CIDR, proxy)
	}
	return nil, nil
}
