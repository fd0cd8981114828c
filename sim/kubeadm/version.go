package kubeadm

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync/atomic"
	"time"
	_ "unsafe" // for go:linkname

	utilversion "k8s.io/apimachinery/pkg/util/version"
	_ "k8s.io/component-base/version" // owns the variables below
	"k8s.io/kubernetes/cmd/kubeadm/app/constants"

	"ckadrill/sim/kernel"
	"ckadrill/sim/network"
)

// defaultVersion is what kubeadm is when its executable does not say.
const defaultVersion = "v1.35.9"

// programVersion reads the version from the file that the process executes, see executable.
func programVersion(p *kernel.Process) string {
	v := p.Version(defaultVersion)
	if _, err := utilversion.ParseSemantic(v); err != nil {
		return defaultVersion
	}
	return v
}

// Upstream knows its version from the linker, once per host process.
var (
	//go:linkname gitVersion k8s.io/component-base/version.gitVersion
	gitVersion string
	//go:linkname gitMajor k8s.io/component-base/version.gitMajor
	gitMajor string
	//go:linkname gitMinor k8s.io/component-base/version.gitMinor
	gitMinor string
	//go:linkname gitCommit k8s.io/component-base/version.gitCommit
	gitCommit string
	//go:linkname gitTreeState k8s.io/component-base/version.gitTreeState
	gitTreeState string
	//go:linkname dynamicGitVersion k8s.io/component-base/version.dynamicGitVersion
	dynamicGitVersion atomic.Value
)

// setVersion lets upstream take itself for a version, and returns what takes that back.
func setVersion(v string) func() {
	old := []string{gitVersion, gitMajor, gitMinor, gitCommit, gitTreeState}
	dynamic := dynamicGitVersion.Load()
	s := utilversion.MustParseSemantic(v)
	gitVersion, gitMajor, gitMinor = v, utilversion.Itoa(s.Major()), utilversion.Itoa(s.Minor())
	gitCommit, gitTreeState = strings.Repeat("0", 40), "clean"
	dynamicGitVersion.Store(v)
	setSkews()
	return func() {
		gitVersion, gitMajor, gitMinor, gitCommit, gitTreeState = old[0], old[1], old[2], old[3], old[4]
		if dynamic != nil {
			dynamicGitVersion.Store(dynamic)
		}
	}
}

//go:linkname getSkewedKubernetesVersion k8s.io/kubernetes/cmd/kubeadm/app/constants.getSkewedKubernetesVersion
func getSkewedKubernetesVersion(n int) *utilversion.Version

// setSkews computes anew what kubeadm computes from its version when its process starts. The releases of etcd are those of
// the kubeadm that this program is built with.
func setSkews() {
	constants.MinimumControlPlaneVersion = getSkewedKubernetesVersion(-1)
	constants.MinimumKubeletVersion = getSkewedKubernetesVersion(-3)
	constants.CurrentKubernetesVersion = getSkewedKubernetesVersion(0)
	constants.SupportedEtcdVersion = map[uint8]string{}
	for n, etcd := range map[int]string{-2: "3.5.24-0", -1: constants.DefaultEtcdVersion, 0: constants.DefaultEtcdVersion} {
		constants.SupportedEtcdVersion[uint8(getSkewedKubernetesVersion(n).Minor())] = etcd
	}
}

// fetchRelease asks the internet of the world for the text behind a URL, as kubeadm does for "stable-1".
func (c *command) fetchRelease(url string, timeout time.Duration) (string, error) {
	client := &http.Client{Timeout: timeout, Transport: &http.Transport{DialContext: c.dialName, DisableKeepAlives: true}}
	req, err := http.NewRequestWithContext(context.WithoutCancel(c.p.Context()), http.MethodGet, url, nil)
	if err != nil {
		return "", err
	}
	resp, err := client.Do(req)
	if err != nil {
		return "", fmt.Errorf("unable to get URL %q: %w", url, err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return "", fmt.Errorf("unable to fetch file. URL: %q, status: %v", url, resp.Status)
	}
	b, err := io.ReadAll(io.LimitReader(resp.Body, 64<<10))
	return strings.TrimSpace(string(b)), err
}

// dialName connects to a name or address, as net.Dialer does.
func (c *command) dialName(ctx context.Context, proto, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	addrs := []netip.Addr{}
	if a, err := netip.ParseAddr(host); err == nil {
		addrs = append(addrs, a)
	} else if addrs, err = network.Resolve(ctx, c.p, host); err != nil {
		return nil, &net.OpError{Op: "dial", Net: proto, Err: err}
	}
	for _, a := range addrs {
		var conn net.Conn
		if conn, err = c.p.Dial(ctx, proto, net.JoinHostPort(a.String(), port)); err == nil {
			return conn, nil
		}
	}
	return nil, err
}
