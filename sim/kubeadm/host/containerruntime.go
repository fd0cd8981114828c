package host

import (
	"context"
	"net/url"
	"time"
	_ "unsafe" // for go:linkname

	criapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	utilruntime "k8s.io/kubernetes/cmd/kubeadm/app/util/runtime"

	"ckadrill/sim/kernel"
	"ckadrill/sim/runtime"
)

// The sockets of container runtimes that kubeadm looks for, on Linux.
const (
	ContainerdSocket = "unix:///var/run/containerd/containerd.sock"
	crioSocket       = "unix:///var/run/crio/crio.sock"
	dockerSocket     = "unix:///var/run/cri-dockerd.sock"
)

//go:linkname detectCRISocketImpl k8s.io/kubernetes/cmd/kubeadm/app/util/runtime.detectCRISocketImpl
func detectCRISocketImpl(isSocket func(string) bool, knownCRISockets []string) (string, error)

// DetectCRISocket is upstream's function of that name: the socket that somebody listens on, containerd's if there is none, an
// error if there are several.
func DetectCRISocket(p *kernel.Process) (string, error) {
	return detectCRISocketImpl(func(endpoint string) bool {
		u, err := url.Parse(endpoint)
		if err != nil {
			return false
		}
		conn, err := p.Dial(p.Context(), u.Scheme, u.Path)
		if err != nil {
			return false
		}
		conn.Close()
		return true
	}, []string{ContainerdSocket, crioSocket, dockerSocket})
}

// ContainerRuntime is upstream's client of a CRI endpoint, over the process's network.
func ContainerRuntime(p *kernel.Process, endpoint string) utilruntime.ContainerRuntime {
	r := utilruntime.NewContainerRuntime(endpoint)
	r.SetImpl(cri{p})
	return r
}

// cri is upstream's defaultImpl but for the connection.
type cri struct{ p *kernel.Process }

func (c cri) NewRemoteRuntimeService(endpoint string, timeout time.Duration) (criapi.RuntimeService, error) {
	return runtime.ConnectRuntime(c.p, endpoint, timeout)
}

func (c cri) NewRemoteImageService(endpoint string, timeout time.Duration) (criapi.ImageManagerService, error) {
	return runtime.ConnectImages(c.p, endpoint, timeout)
}

func (cri) RuntimeConfig(ctx context.Context, s criapi.RuntimeService) (*runtimeapi.RuntimeConfigResponse, error) {
	return s.RuntimeConfig(ctx)
}

func (cri) Status(ctx context.Context, s criapi.RuntimeService, verbose bool) (*runtimeapi.StatusResponse, error) {
	return s.Status(ctx, verbose)
}

func (cri) ListPodSandbox(ctx context.Context, s criapi.RuntimeService, filter *runtimeapi.PodSandboxFilter) ([]*runtimeapi.PodSandbox, error) {
	return s.ListPodSandbox(ctx, filter)
}

func (cri) StopPodSandbox(ctx context.Context, s criapi.RuntimeService, id string) error {
	return s.StopPodSandbox(ctx, id)
}

func (cri) RemovePodSandbox(ctx context.Context, s criapi.RuntimeService, id string) error {
	return s.RemovePodSandbox(ctx, id)
}

func (cri) PullImage(ctx context.Context, s criapi.ImageManagerService, image *runtimeapi.ImageSpec, auth *runtimeapi.AuthConfig, pod *runtimeapi.PodSandboxConfig) (string, error) {
	return s.PullImage(ctx, image, auth, pod)
}

func (cri) ImageStatus(ctx context.Context, s criapi.ImageManagerService, image *runtimeapi.ImageSpec, verbose bool) (*runtimeapi.ImageStatusResponse, error) {
	return s.ImageStatus(ctx, image, verbose)
}
