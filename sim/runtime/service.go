package runtime

import (
	"context"
	"fmt"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// service is the CRI of a running daemon.
type service struct {
	*Containerd
	d *daemon
}

// logged writes what containerd's instrumented service writes around a call.
func logged[R any](s *service, before string, after func(R) string, failed string, f func() (R, error)) (R, error) {
	s.d.log.line("info", before)
	r, err := f()
	if err != nil {
		s.d.log.line("error", failed, "error", toGRPC(err))
	} else {
		s.d.log.line("info", after(r))
	}
	return r, err
}

// sandboxMetadata and containerMetadata print as a protobuf message's text form, without the fields that are empty.
func sandboxMetadata(m *runtimeapi.PodSandboxMetadata) string {
	return fmt.Sprintf("name:%q uid:%q namespace:%q", m.GetName(), m.GetUid(), m.GetNamespace()) + attempt(m.GetAttempt())
}

func containerMetadata(m *runtimeapi.ContainerMetadata) string {
	return fmt.Sprintf("name:%q", m.GetName()) + attempt(m.GetAttempt())
}

func attempt(n uint32) string {
	if n == 0 {
		return ""
	}
	return fmt.Sprintf(" attempt:%d", n)
}

func (s *service) Version(context.Context, *runtimeapi.VersionRequest) (*runtimeapi.VersionResponse, error) {
	return &runtimeapi.VersionResponse{Version: "0.1.0", RuntimeName: "containerd", RuntimeVersion: s.Containerd.Version(), RuntimeApiVersion: "v1"}, nil
}

func (s *service) RunPodSandbox(ctx context.Context, r *runtimeapi.RunPodSandboxRequest) (*runtimeapi.RunPodSandboxResponse, error) {
	m := sandboxMetadata(r.GetConfig().GetMetadata())
	return logged(s, "RunPodSandbox for "+m, func(r *runtimeapi.RunPodSandboxResponse) string {
		return fmt.Sprintf("RunPodSandbox for %s returns sandbox id %q", m, r.PodSandboxId)
	}, "RunPodSandbox for "+m+" failed, error", func() (*runtimeapi.RunPodSandboxResponse, error) { return s.runPodSandbox(ctx, r) })
}

func (s *service) StopPodSandbox(ctx context.Context, r *runtimeapi.StopPodSandboxRequest) (*runtimeapi.StopPodSandboxResponse, error) {
	n := fmt.Sprintf("StopPodSandbox for %q", r.PodSandboxId)
	return logged(s, n, func(*runtimeapi.StopPodSandboxResponse) string { return n + " returns successfully" }, n+" failed",
		func() (*runtimeapi.StopPodSandboxResponse, error) { return s.stopPodSandbox(ctx, r) })
}

func (s *service) RemovePodSandbox(ctx context.Context, r *runtimeapi.RemovePodSandboxRequest) (*runtimeapi.RemovePodSandboxResponse, error) {
	n := fmt.Sprintf("RemovePodSandbox for %q", r.PodSandboxId)
	return logged(s, n, func(*runtimeapi.RemovePodSandboxResponse) string {
		return fmt.Sprintf("RemovePodSandbox %q returns successfully", r.PodSandboxId)
	}, n+" failed", func() (*runtimeapi.RemovePodSandboxResponse, error) { return s.removePodSandbox(ctx, r) })
}

func (s *service) CreateContainer(ctx context.Context, r *runtimeapi.CreateContainerRequest) (*runtimeapi.CreateContainerResponse, error) {
	m := containerMetadata(r.GetConfig().GetMetadata())
	n := fmt.Sprintf("CreateContainer within sandbox %q for ", r.PodSandboxId)
	return logged(s, n+"container "+m, func(r *runtimeapi.CreateContainerResponse) string {
		return fmt.Sprintf("%s%s returns container id %q", n, m, r.ContainerId)
	}, n+m+" failed", func() (*runtimeapi.CreateContainerResponse, error) { return s.createContainer(ctx, r) })
}

func (s *service) StartContainer(ctx context.Context, r *runtimeapi.StartContainerRequest) (*runtimeapi.StartContainerResponse, error) {
	n := fmt.Sprintf("StartContainer for %q", r.ContainerId)
	return logged(s, n, func(*runtimeapi.StartContainerResponse) string { return n + " returns successfully" }, n+" failed",
		func() (*runtimeapi.StartContainerResponse, error) { return s.startContainer(ctx, r) })
}

func (s *service) StopContainer(ctx context.Context, r *runtimeapi.StopContainerRequest) (*runtimeapi.StopContainerResponse, error) {
	n := fmt.Sprintf("StopContainer for %q", r.ContainerId)
	return logged(s, fmt.Sprintf("%s with timeout %d (s)", n, r.Timeout), func(*runtimeapi.StopContainerResponse) string { return n + " returns successfully" }, n+" failed",
		func() (*runtimeapi.StopContainerResponse, error) { return s.stopContainer(ctx, r) })
}

func (s *service) RemoveContainer(ctx context.Context, r *runtimeapi.RemoveContainerRequest) (*runtimeapi.RemoveContainerResponse, error) {
	n := fmt.Sprintf("RemoveContainer for %q", r.ContainerId)
	return logged(s, n, func(*runtimeapi.RemoveContainerResponse) string { return n + " returns successfully" }, n+" failed",
		func() (*runtimeapi.RemoveContainerResponse, error) { return s.removeContainer(ctx, r) })
}

func (s *service) PullImage(ctx context.Context, r *runtimeapi.PullImageRequest) (*runtimeapi.PullImageResponse, error) {
	n := fmt.Sprintf("PullImage %q", r.GetImage().GetImage())
	return logged(s, n, func(r *runtimeapi.PullImageResponse) string {
		return fmt.Sprintf("%s returns image reference %q", n, r.ImageRef)
	}, n+" failed",
		func() (*runtimeapi.PullImageResponse, error) { return s.pullImage(ctx, r) })
}

func (s *service) RemoveImage(ctx context.Context, r *runtimeapi.RemoveImageRequest) (*runtimeapi.RemoveImageResponse, error) {
	n := fmt.Sprintf("RemoveImage %q", r.GetImage().GetImage())
	return logged(s, n, func(*runtimeapi.RemoveImageResponse) string { return n + " returns successfully" }, n+" failed",
		func() (*runtimeapi.RemoveImageResponse, error) { return s.removeImage(ctx, r) })
}
