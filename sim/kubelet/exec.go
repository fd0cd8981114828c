package kubelet

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	remotecommandconsts "k8s.io/apimachinery/pkg/util/remotecommand"
	"k8s.io/client-go/tools/remotecommand"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/kubelet/pkg/cri/streaming/portforward"
	streaming "k8s.io/kubelet/pkg/cri/streaming/remotecommand"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
)

// streamer is the runtime's direct way of streaming; container and sandbox are ids.
type streamer interface {
	ExecInContainer(ctx context.Context, container string, cmd []string, in io.Reader, out, err io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize) error
	AttachContainer(ctx context.Context, container string, in io.Reader, out, err io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize) error
	PortForward(ctx context.Context, sandbox string, port int32, stream io.ReadWriteCloser) error
}

// streamRequest is the path of a request: /exec/NAMESPACE/POD[/UID]/CONTAINER, /portForward/NAMESPACE/POD[/UID].
type streamRequest struct {
	verb, namespace, pod, container string
	uid                             types.UID
}

func parseStreamPath(p string) (streamRequest, bool) {
	f := strings.Split(strings.Trim(p, "/"), "/")
	if len(f) < 3 {
		return streamRequest{}, false
	}
	r := streamRequest{verb: f[0], namespace: f[1], pod: f[2]}
	rest := f[3:]
	if r.verb != "portForward" {
		if len(rest) == 0 {
			return r, false
		}
		r.container, rest = rest[len(rest)-1], rest[:len(rest)-1]
	}
	if len(rest) > 1 {
		return r, false
	}
	if len(rest) == 1 {
		r.uid = types.UID(rest[0])
	}
	return r, true
}

// serve is upstream's getExec, getAttach and getPortForward.
func (s streams) serve(w http.ResponseWriter, r *http.Request) {
	q, ok := parseStreamPath(r.URL.Path)
	if !ok {
		http.NotFound(w, r)
		return
	}
	pod, ok := s.n.kl.GetPodByName(q.namespace, q.pod)
	if !ok {
		http.Error(w, "pod does not exist", http.StatusNotFound)
		return
	}
	idle := s.n.s.StreamingConnectionIdleTimeout.Duration
	if q.verb == "portForward" {
		s.portForward(w, r, q, pod)
		return
	}
	opts, err := streaming.NewOptions(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	id, err := s.container(r.Context(), pod, q)
	if err != nil {
		writeError(w, err)
		return
	}
	run := direct{s.n, id}
	if q.verb == "attach" {
		streaming.ServeAttach(w, r, run, q.pod, q.uid, q.container, opts, idle, streamCreationTimeout, remotecommandconsts.SupportedStreamingProtocols)
		return
	}
	streaming.ServeExec(w, r, run, q.pod, q.uid, q.container, r.URL.Query()["command"], opts, idle, streamCreationTimeout, remotecommandconsts.SupportedStreamingProtocols)
}

// container finds the running container's id, and refuses in upstream's and containerd's words.
func (s streams) container(ctx context.Context, pod *v1.Pod, q streamRequest) (string, error) {
	pods, err := s.n.runtime.GetPods(ctx, false)
	if err != nil {
		return "", err
	}
	full := kubecontainer.GetPodFullName(pod)
	running := kubecontainer.Pods(pods).FindPod(full, pod.UID)
	c := running.FindContainerByName(q.container)
	if c == nil {
		return "", fmt.Errorf("container not found (%q)", q.container)
	}
	return c.ID.ID, nil
}

// writeError answers as k8s.io/kubelet/pkg/cri/streaming.WriteError does.
func writeError(w http.ResponseWriter, err error) {
	code := http.StatusInternalServerError
	switch status.Code(err) {
	case codes.NotFound:
		code = http.StatusNotFound
	case codes.ResourceExhausted:
		code = http.StatusTooManyRequests
	}
	http.Error(w, err.Error(), code)
}

func (s streams) portForward(w http.ResponseWriter, r *http.Request, q streamRequest, pod *v1.Pod) {
	opts, err := portforward.NewV4Options(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	if q.uid != "" && q.uid != pod.UID {
		http.Error(w, "pod not found", http.StatusNotFound)
		return
	}
	list, err := s.n.cri.ListPodSandbox(r.Context(), &runtimeapi.PodSandboxFilter{
		LabelSelector: map[string]string{"io.kubernetes.pod.uid": string(pod.UID)},
		State:         &runtimeapi.PodSandboxStateValue{State: runtimeapi.PodSandboxState_SANDBOX_READY},
	})
	if err != nil {
		writeError(w, fmt.Errorf("failed to find sandboxID for pod %s: %v", pod.Name+"_"+pod.Namespace, err))
		return
	}
	if len(list) == 0 {
		writeError(w, fmt.Errorf("failed to find sandboxID for pod %s", pod.Name+"_"+pod.Namespace))
		return
	}
	portforward.ServePortForward(w, r, direct{s.n, list[0].Id}, q.pod, pod.UID, opts, s.n.s.StreamingConnectionIdleTimeout.Duration, streamCreationTimeout, portforward.SupportedProtocols)
}

// direct gives upstream's streaming servers the runtime's direct calls for one container or sandbox.
type direct struct {
	n  *node
	id string
}

func (d direct) runtime() (streamer, error) {
	r := d.n.cri
	if w, ok := r.(runtimeService); ok {
		r = w.RuntimeService
	}
	return streamerOf(r)
}

// ExecInContainer implements upstream's remotecommand.Executor.
func (d direct) ExecInContainer(ctx context.Context, _ string, _ types.UID, _ string, cmd []string, in io.Reader, out, err io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize, _ time.Duration) error {
	r, e := d.runtime()
	if e != nil {
		return e
	}
	return r.ExecInContainer(ctx, d.id, cmd, in, out, err, tty, resize)
}

// AttachContainer implements upstream's remotecommand.Attacher.
func (d direct) AttachContainer(ctx context.Context, _ string, _ types.UID, _ string, in io.Reader, out, err io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize) error {
	r, e := d.runtime()
	if e != nil {
		return e
	}
	return r.AttachContainer(ctx, d.id, in, out, err, tty, resize)
}

// PortForward implements upstream's portforward.PortForwarder.
func (d direct) PortForward(ctx context.Context, _ string, _ types.UID, port int32, stream io.ReadWriteCloser) error {
	r, e := d.runtime()
	if e != nil {
		return e
	}
	return r.PortForward(ctx, d.id, port, stream)
}
