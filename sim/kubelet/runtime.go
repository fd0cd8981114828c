package kubelet

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"time"

	v1 "k8s.io/api/core/v1"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"

	"ckadrill/sim/kernel"
)

// runtimeService is the CRI as upstream's kuberuntime sees it: containerd's answers, plus what kuberuntime would read
// from host files itself.
type runtimeService struct {
	internalapi.RuntimeService
	p    *kernel.Process
	root *roots
}

// Annotations of a container that say where its termination message is (kuberuntime/labels.go).
const (
	terminationMessagePath   = "io.kubernetes.container.terminationMessagePath"
	terminationMessagePolicy = "io.kubernetes.container.terminationMessagePolicy"
)

// ListPodSandbox implements the CRI. Upstream's PLEG comes by here each second, also after its kubelet has ended.
func (r runtimeService) ListPodSandbox(ctx context.Context, f *runtimeapi.PodSandboxFilter) ([]*runtimeapi.PodSandbox, error) {
	endIfDead(r.p)
	return r.RuntimeService.ListPodSandbox(ctx, f)
}

// Status implements the CRI.
func (r runtimeService) Status(ctx context.Context, verbose bool) (*runtimeapi.StatusResponse, error) {
	endIfDead(r.p)
	return r.RuntimeService.Status(ctx, verbose)
}

// ListContainers implements the CRI.
func (r runtimeService) ListContainers(ctx context.Context, f *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	endIfDead(r.p)
	return r.RuntimeService.ListContainers(ctx, f)
}

// ExecSync implements the CRI.
func (r runtimeService) ExecSync(ctx context.Context, id string, cmd []string, timeout time.Duration) (stdout, stderr []byte, err error) {
	endIfDead(r.p)
	return r.RuntimeService.ExecSync(ctx, id, cmd, timeout)
}

// ContainerStatus implements the CRI. For an exited container it reads the termination message from the machine's files
// and puts it where kuberuntime would have put it, since kuberuntime opens that file on the host.
func (r runtimeService) ContainerStatus(ctx context.Context, id string, verbose bool) (*runtimeapi.ContainerStatusResponse, error) {
	resp, err := r.RuntimeService.ContainerStatus(ctx, id, verbose)
	if err != nil || resp.GetStatus().GetState() != runtimeapi.ContainerState_CONTAINER_EXITED {
		return resp, err
	}
	old := resp.Status
	s := &runtimeapi.ContainerStatus{Id: old.Id, Metadata: old.Metadata, State: old.State, CreatedAt: old.CreatedAt, StartedAt: old.StartedAt,
		FinishedAt: old.FinishedAt, ExitCode: old.ExitCode, Image: old.Image, ImageRef: old.ImageRef, Reason: old.Reason, Message: old.Message,
		Labels: old.Labels, Mounts: old.Mounts, LogPath: old.LogPath, Resources: old.Resources, ImageId: old.ImageId, User: old.User, StopSignal: old.StopSignal}
	s.Annotations = make(map[string]string, len(old.Annotations))
	for k, v := range old.Annotations {
		s.Annotations[k] = v
	}
	target := s.Annotations[terminationMessagePath]
	fallback := s.Annotations[terminationMessagePolicy] == string(v1.TerminationMessageFallbackToLogsOnError) && s.ExitCode != 0 && s.Reason != "ContainerCannotRun"
	s.Mounts = nil
	message := ""
	for _, m := range old.Mounts {
		if target == "" || m.ContainerPath != target {
			s.Mounts = append(s.Mounts, m)
			continue
		}
		b, err := readAtMost(r.p.Files, r.root.machinePath(m.HostPath), kubecontainer.MaxContainerTerminationMessageLength)
		switch {
		case err == nil:
			message, fallback = string(b), fallback && len(b) == 0
		case !errors.Is(err, fs.ErrNotExist):
			message, fallback = fmt.Sprintf("Error on reading termination log %s: %v", m.HostPath, err), false
		}
	}
	if fallback {
		message = lastLogs(ctx, r.p, s.LogPath)
	}
	if message != "" {
		if s.Message != "" {
			s.Message += ": "
		}
		s.Message += message
	}
	s.Annotations[terminationMessagePolicy] = string(v1.TerminationMessageReadFile)
	return &runtimeapi.ContainerStatusResponse{Status: s, Info: resp.Info}, nil
}

// readAtMost returns the last max bytes of a file, as upstream's tail.ReadAtMost does.
func readAtMost(files kernel.Files, name string, max int64) ([]byte, error) {
	f, err := files.OpenFile(name, 0, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if off := info.Size() - max; off > 0 {
		if _, err := f.Seek(off, io.SeekStart); err != nil {
			return nil, err
		}
	}
	return io.ReadAll(io.LimitReader(f, max))
}

// containerRuntime is upstream's kuberuntime but for the reading of container logs, which are the machine's files.
type containerRuntime struct {
	kubecontainer.Runtime
	p   *kernel.Process
	cri internalapi.RuntimeService
}

// GetContainerLogs implements kubecontainer.Runtime.
func (r containerRuntime) GetContainerLogs(ctx context.Context, pod *v1.Pod, id kubecontainer.ContainerID, o *v1.PodLogOptions, stdout, stderr io.Writer) error {
	resp, err := r.cri.ContainerStatus(ctx, id.ID, false)
	if err != nil {
		return fmt.Errorf("unable to retrieve container logs for %v", id.String())
	}
	if resp.GetStatus() == nil {
		return errors.New("runtime status is nil")
	}
	return readLogs(ctx, r.p, resp.Status.LogPath, id.ID, o, r.cri, stdout, stderr)
}
