package runtime

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"k8s.io/component-base/logs/logreduction"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	utilexec "k8s.io/utils/exec"
)

// RuntimeClient is a client of the CRI's runtime service. Time limits, checks and log lines are k8s.io/cri-client's.
type RuntimeClient struct {
	ch      *channel
	timeout time.Duration
	reduce  *logreduction.LogReduction
}

var _ internalapi.RuntimeService = (*RuntimeClient)(nil)

func newRuntimeClient(ch *channel, timeout time.Duration) *RuntimeClient {
	return &RuntimeClient{ch: ch, timeout: timeout, reduce: logreduction.NewLogReduction(time.Minute)}
}

// ErrCommandTimedOut says that the command of an ExecSync took longer than it was given.
var ErrCommandTimedOut = errors.New("command timed out")

// do calls a method within a time limit and logs its failure.
func do[Q, R any](ctx context.Context, r *RuntimeClient, timeout time.Duration, method func(*service, context.Context, Q) (R, error), q Q, failed string, kv ...any) (R, error) {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	res, err := call(ctx, r.ch, method, q)
	if err != nil && failed != "" {
		logFailure(err, failed, kv...)
	}
	return res, err
}

// Close implements the CRI's client interface.
func (r *RuntimeClient) Close() error { return r.ch.close() }

// Version implements the CRI's client interface.
func (r *RuntimeClient) Version(ctx context.Context, version string) (*runtimeapi.VersionResponse, error) {
	return do(ctx, r, r.timeout, (*service).Version, &runtimeapi.VersionRequest{Version: version}, "Version from runtime service failed")
}

// RunPodSandbox implements the CRI's client interface.
func (r *RuntimeClient) RunPodSandbox(ctx context.Context, config *runtimeapi.PodSandboxConfig, handler string) (string, error) {
	res, err := do(ctx, r, 2*r.timeout, (*service).RunPodSandbox, &runtimeapi.RunPodSandboxRequest{Config: config, RuntimeHandler: handler}, "RunPodSandbox from runtime service failed")
	if err != nil {
		return "", err
	}
	return res.PodSandboxId, nil
}

// StopPodSandbox implements the CRI's client interface.
func (r *RuntimeClient) StopPodSandbox(ctx context.Context, id string) error {
	_, err := do(ctx, r, r.timeout, (*service).StopPodSandbox, &runtimeapi.StopPodSandboxRequest{PodSandboxId: id}, "StopPodSandbox from runtime service failed", "podSandboxID", id)
	return err
}

// RemovePodSandbox implements the CRI's client interface.
func (r *RuntimeClient) RemovePodSandbox(ctx context.Context, id string) error {
	_, err := do(ctx, r, r.timeout, (*service).RemovePodSandbox, &runtimeapi.RemovePodSandboxRequest{PodSandboxId: id}, "RemovePodSandbox from runtime service failed", "podSandboxID", id)
	return err
}

// PodSandboxStatus implements the CRI's client interface.
func (r *RuntimeClient) PodSandboxStatus(ctx context.Context, id string, verbose bool) (*runtimeapi.PodSandboxStatusResponse, error) {
	return do(ctx, r, r.timeout, (*service).PodSandboxStatus, &runtimeapi.PodSandboxStatusRequest{PodSandboxId: id, Verbose: verbose}, "")
}

// ListPodSandbox implements the CRI's client interface.
func (r *RuntimeClient) ListPodSandbox(ctx context.Context, filter *runtimeapi.PodSandboxFilter) ([]*runtimeapi.PodSandbox, error) {
	res, err := do(ctx, r, r.timeout, (*service).ListPodSandbox, &runtimeapi.ListPodSandboxRequest{Filter: filter}, "ListPodSandbox with filter from runtime service failed", "filter", filter)
	return res.GetItems(), err
}

// PortForward implements the CRI's client interface.
func (r *RuntimeClient) PortForward(context.Context, *runtimeapi.PortForwardRequest) (*runtimeapi.PortForwardResponse, error) {
	return nil, errNoStreamingURL
}

// UpdatePodSandboxResources implements the CRI's client interface.
func (r *RuntimeClient) UpdatePodSandboxResources(ctx context.Context, q *runtimeapi.UpdatePodSandboxResourcesRequest) (*runtimeapi.UpdatePodSandboxResourcesResponse, error) {
	return do(ctx, r, r.timeout, (*service).UpdatePodSandboxResources, q, "UpdatePodSandboxResources from runtime service failed", "podSandboxID", q.PodSandboxId)
}

// CreateContainer implements the CRI's client interface.
func (r *RuntimeClient) CreateContainer(ctx context.Context, sandbox string, config *runtimeapi.ContainerConfig, sandboxConfig *runtimeapi.PodSandboxConfig) (string, error) {
	res, err := do(ctx, r, r.timeout, (*service).CreateContainer, &runtimeapi.CreateContainerRequest{PodSandboxId: sandbox, Config: config, SandboxConfig: sandboxConfig},
		"CreateContainer in sandbox from runtime service failed", "podSandboxID", sandbox)
	return res.GetContainerId(), err
}

// StartContainer implements the CRI's client interface.
func (r *RuntimeClient) StartContainer(ctx context.Context, id string) error {
	_, err := do(ctx, r, r.timeout, (*service).StartContainer, &runtimeapi.StartContainerRequest{ContainerId: id}, "StartContainer from runtime service failed", "containerID", id)
	return err
}

// StopContainer implements the CRI's client interface.
func (r *RuntimeClient) StopContainer(ctx context.Context, id string, timeout int64) error {
	r.reduce.ClearID(id)
	_, err := do(ctx, r, r.timeout+time.Duration(timeout)*time.Second, (*service).StopContainer, &runtimeapi.StopContainerRequest{ContainerId: id, Timeout: timeout},
		"StopContainer from runtime service failed", "containerID", id)
	return err
}

// RemoveContainer implements the CRI's client interface.
func (r *RuntimeClient) RemoveContainer(ctx context.Context, id string) error {
	r.reduce.ClearID(id)
	_, err := do(ctx, r, r.timeout, (*service).RemoveContainer, &runtimeapi.RemoveContainerRequest{ContainerId: id}, "RemoveContainer from runtime service failed", "containerID", id)
	return err
}

// ListContainers implements the CRI's client interface.
func (r *RuntimeClient) ListContainers(ctx context.Context, filter *runtimeapi.ContainerFilter) ([]*runtimeapi.Container, error) {
	res, err := do(ctx, r, r.timeout, (*service).ListContainers, &runtimeapi.ListContainersRequest{Filter: filter}, "ListContainers with filter from runtime service failed", "filter", filter)
	return res.GetContainers(), err
}

// ContainerStatus implements the CRI's client interface.
func (r *RuntimeClient) ContainerStatus(ctx context.Context, id string, verbose bool) (*runtimeapi.ContainerStatusResponse, error) {
	res, err := do(ctx, r, r.timeout, (*service).ContainerStatus, &runtimeapi.ContainerStatusRequest{ContainerId: id, Verbose: verbose}, "")
	if err != nil {
		if r.reduce.ShouldMessageBePrinted(err.Error(), id) {
			logFailure(err, "ContainerStatus from runtime service failed", "containerID", id)
		}
		return nil, err
	}
	r.reduce.ClearID(id)
	return res, nil
}

// UpdateContainerResources implements the CRI's client interface.
func (r *RuntimeClient) UpdateContainerResources(ctx context.Context, id string, resources *runtimeapi.ContainerResources) error {
	_, err := do(ctx, r, r.timeout, (*service).UpdateContainerResources, &runtimeapi.UpdateContainerResourcesRequest{ContainerId: id, Linux: resources.GetLinux()},
		"UpdateContainerResources from runtime service failed", "containerID", id)
	return err
}

// ExecSync implements the CRI's client interface.
func (r *RuntimeClient) ExecSync(ctx context.Context, id string, cmd []string, timeout time.Duration) (stdout, stderr []byte, err error) {
	limit := r.timeout + timeout
	if timeout == 0 {
		limit = 1<<63 - 1
	}
	res, err := do(ctx, r, limit, (*service).ExecSync, &runtimeapi.ExecSyncRequest{ContainerId: id, Cmd: cmd, Timeout: int64(timeout.Seconds())},
		"ExecSync cmd from runtime service failed", "containerID", id, "cmd", cmd)
	if err != nil {
		if status.Code(err) == codes.DeadlineExceeded {
			err = fmt.Errorf("%w: %q timed out after %s", ErrCommandTimedOut, strings.Join(cmd, " "), timeout)
		}
		return nil, nil, err
	}
	if res.ExitCode != 0 {
		err = utilexec.CodeExitError{Err: fmt.Errorf("command '%s' exited with %d: %s", strings.Join(cmd, " "), res.ExitCode, res.Stderr), Code: int(res.ExitCode)}
	}
	return res.Stdout, res.Stderr, err
}

var errNoStreamingURL = errors.New("ckadrill has no streaming server in containerd: its kubelet calls ExecInContainer, AttachContainer and PortForward")

// Exec implements the CRI's client interface.
func (r *RuntimeClient) Exec(context.Context, *runtimeapi.ExecRequest) (*runtimeapi.ExecResponse, error) {
	return nil, errNoStreamingURL
}

// Attach implements the CRI's client interface.
func (r *RuntimeClient) Attach(context.Context, *runtimeapi.AttachRequest) (*runtimeapi.AttachResponse, error) {
	return nil, errNoStreamingURL
}

// ReopenContainerLog implements the CRI's client interface.
func (r *RuntimeClient) ReopenContainerLog(ctx context.Context, id string) error {
	_, err := do(ctx, r, r.timeout, (*service).ReopenContainerLog, &runtimeapi.ReopenContainerLogRequest{ContainerId: id}, "ReopenContainerLog from runtime service failed", "containerID", id)
	return err
}

// CheckpointContainer implements the CRI's client interface.
func (r *RuntimeClient) CheckpointContainer(ctx context.Context, q *runtimeapi.CheckpointContainerRequest) error {
	err := status.Error(codes.Unimplemented, "ckadrill does not simulate checkpoints yet")
	logFailure(err, "CheckpointContainer from runtime service failed", "containerID", q.GetContainerId())
	return err
}

// GetContainerEvents implements the CRI's client interface.
func (r *RuntimeClient) GetContainerEvents(ctx context.Context, events chan *runtimeapi.ContainerEventResponse, established func(runtimeapi.RuntimeService_GetContainerEventsClient)) error {
	d, err := r.ch.daemon(ctx)
	if err != nil {
		logFailure(err, "GetContainerEvents failed to get streaming client")
		return err
	}
	w := d.c.watchEvents()
	defer d.c.unwatchEvents(w)
	if established != nil {
		established(nil)
	}
	for {
		e, err := w.next(ctx)
		if err != nil {
			logFailure(err, "failed to receive streaming container event")
			return err
		}
		events <- e
	}
}

// ContainerStats implements the CRI's client interface.
func (r *RuntimeClient) ContainerStats(ctx context.Context, id string) (*runtimeapi.ContainerStats, error) {
	res, err := do(ctx, r, r.timeout, (*service).ContainerStats, &runtimeapi.ContainerStatsRequest{ContainerId: id}, "ContainerStats from runtime service failed", "containerID", id)
	return res.GetStats(), err
}

// ListContainerStats implements the CRI's client interface.
func (r *RuntimeClient) ListContainerStats(ctx context.Context, filter *runtimeapi.ContainerStatsFilter) ([]*runtimeapi.ContainerStats, error) {
	res, err := do(ctx, r, r.timeout, (*service).ListContainerStats, &runtimeapi.ListContainerStatsRequest{Filter: filter}, "ListContainerStats with filter from runtime service failed", "filter", filter)
	return res.GetStats(), err
}

// PodSandboxStats implements the CRI's client interface.
func (r *RuntimeClient) PodSandboxStats(ctx context.Context, id string) (*runtimeapi.PodSandboxStats, error) {
	res, err := do(ctx, r, r.timeout, (*service).PodSandboxStats, &runtimeapi.PodSandboxStatsRequest{PodSandboxId: id}, "PodSandbox from runtime service failed", "podSandboxID", id)
	return res.GetStats(), err
}

// ListPodSandboxStats implements the CRI's client interface.
func (r *RuntimeClient) ListPodSandboxStats(ctx context.Context, filter *runtimeapi.PodSandboxStatsFilter) ([]*runtimeapi.PodSandboxStats, error) {
	res, err := do(ctx, r, r.timeout, (*service).ListPodSandboxStats, &runtimeapi.ListPodSandboxStatsRequest{Filter: filter}, "ListPodSandboxStats with filter from runtime service failed", "filter", filter)
	return res.GetStats(), err
}

// ListMetricDescriptors implements the CRI's client interface.
func (r *RuntimeClient) ListMetricDescriptors(context.Context) ([]*runtimeapi.MetricDescriptor, error) {
	return nil, status.Error(codes.Unimplemented, "ckadrill does not simulate the CRI's metrics yet")
}

// ListPodSandboxMetrics implements the CRI's client interface.
func (r *RuntimeClient) ListPodSandboxMetrics(context.Context) ([]*runtimeapi.PodSandboxMetrics, error) {
	return nil, status.Error(codes.Unimplemented, "ckadrill does not simulate the CRI's metrics yet")
}

// UpdateRuntimeConfig implements the CRI's client interface.
func (r *RuntimeClient) UpdateRuntimeConfig(context.Context, *runtimeapi.RuntimeConfig) error {
	return nil
}

// Status implements the CRI's client interface.
func (r *RuntimeClient) Status(ctx context.Context, verbose bool) (*runtimeapi.StatusResponse, error) {
	return do(ctx, r, r.timeout, (*service).Status, &runtimeapi.StatusRequest{Verbose: verbose}, "Status from runtime service failed")
}

// RuntimeConfig implements the CRI's client interface.
func (r *RuntimeClient) RuntimeConfig(ctx context.Context) (*runtimeapi.RuntimeConfigResponse, error) {
	return do(ctx, r, r.timeout, (*service).RuntimeConfig, &runtimeapi.RuntimeConfigRequest{}, "RuntimeConfig from runtime service failed")
}

// ImageClient is a client of the CRI's image service. Time limits, checks and log lines are k8s.io/cri-client's.
type ImageClient struct {
	ch      *channel
	timeout time.Duration
}

var _ internalapi.ImageManagerService = (*ImageClient)(nil)

// Close implements the CRI's client interface.
func (i *ImageClient) Close() error { return i.ch.close() }

// ListImages implements the CRI's client interface.
func (i *ImageClient) ListImages(ctx context.Context, filter *runtimeapi.ImageFilter) ([]*runtimeapi.Image, error) {
	ctx, cancel := context.WithTimeout(ctx, i.timeout)
	defer cancel()
	res, err := call(ctx, i.ch, (*service).ListImages, &runtimeapi.ListImagesRequest{Filter: filter})
	if err != nil {
		logFailure(err, "ListImages with filter from image service failed", "filter", filter)
	}
	return res.GetImages(), err
}

// ImageStatus implements the CRI's client interface.
func (i *ImageClient) ImageStatus(ctx context.Context, image *runtimeapi.ImageSpec, verbose bool) (*runtimeapi.ImageStatusResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, i.timeout)
	defer cancel()
	res, err := call(ctx, i.ch, (*service).ImageStatus, &runtimeapi.ImageStatusRequest{Image: image, Verbose: verbose})
	if err != nil {
		logFailure(err, "Get ImageStatus from image service failed", "image", image.Image)
	}
	return res, err
}

// PullImage implements the CRI's client interface.
func (i *ImageClient) PullImage(ctx context.Context, image *runtimeapi.ImageSpec, auth *runtimeapi.AuthConfig, sandbox *runtimeapi.PodSandboxConfig) (string, error) {
	res, err := call(ctx, i.ch, (*service).PullImage, &runtimeapi.PullImageRequest{Image: image, Auth: auth, SandboxConfig: sandbox})
	if err != nil {
		logFailure(err, "PullImage from image service failed", "image", image.Image)
		if s, ok := status.FromError(err); ok && s.Code() == codes.Unknown {
			return "", errors.New(s.Message()) // so that the kubelet recognises its own kinds of errors
		}
		return "", err
	}
	return res.ImageRef, nil
}

// RemoveImage implements the CRI's client interface.
func (i *ImageClient) RemoveImage(ctx context.Context, image *runtimeapi.ImageSpec) error {
	ctx, cancel := context.WithTimeout(ctx, i.timeout)
	defer cancel()
	_, err := call(ctx, i.ch, (*service).RemoveImage, &runtimeapi.RemoveImageRequest{Image: image})
	if err != nil {
		logFailure(err, "RemoveImage from image service failed", "image", image.Image)
	}
	return err
}

// ImageFsInfo implements the CRI's client interface.
func (i *ImageClient) ImageFsInfo(ctx context.Context) (*runtimeapi.ImageFsInfoResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, i.timeout)
	defer cancel()
	res, err := call(ctx, i.ch, (*service).ImageFsInfo, &runtimeapi.ImageFsInfoRequest{})
	if err != nil {
		logFailure(err, "ImageFsInfo from image service failed")
	}
	return res, err
}
