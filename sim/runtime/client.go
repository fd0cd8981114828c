package runtime

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/containerd/errdefs/pkg/errgrpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"ckadrill/sim/kernel"
)

// Connect is a client's view of a CRI endpoint ("unix:///run/containerd/containerd.sock"): it proves that the socket exists,
// may be opened by the process and leads to a containerd that serves the CRI, by really connecting to it. Calls then go to
// the daemon directly. When the daemon is gone each call connects anew. Errors and the lines logged for them are those of
// k8s.io/cri-client over gRPC; times out after timeout (0: two minutes, as in the kubelet).
func Connect(p *kernel.Process, endpoint string) (internalapi.RuntimeService, internalapi.ImageManagerService, error) {
	return ConnectTimeout(p, endpoint, 2*time.Minute)
}

// ConnectTimeout is [Connect] with the time that a call may take.
func ConnectTimeout(p *kernel.Process, endpoint string, timeout time.Duration) (internalapi.RuntimeService, internalapi.ImageManagerService, error) {
	r, err := ConnectRuntime(p, endpoint, timeout)
	if err != nil {
		return nil, nil, err
	}
	i, err := ConnectImages(p, endpoint, timeout)
	if err != nil {
		return nil, nil, err
	}
	return r, i, nil
}

// ConnectRuntime connects to the runtime service alone.
func ConnectRuntime(p *kernel.Process, endpoint string, timeout time.Duration) (*RuntimeClient, error) {
	ch, err := newChannel(p, endpoint)
	if err != nil {
		return nil, err
	}
	r := newRuntimeClient(ch, timeout)
	ctx, cancel := context.WithTimeout(p.Context(), timeout)
	defer cancel()
	err = validate(p, func() error { _, err := call(ctx, ch, (*service).Version, &runtimeapi.VersionRequest{}); return err })
	if err != nil {
		return nil, fmt.Errorf("validate service connection: validate CRI v1 runtime API for endpoint %q: %w", endpoint, err)
	}
	return r, nil
}

// ConnectImages connects to the image service alone.
func ConnectImages(p *kernel.Process, endpoint string, timeout time.Duration) (*ImageClient, error) {
	ch, err := newChannel(p, endpoint)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(p.Context(), timeout)
	defer cancel()
	err = validate(p, func() error {
		_, err := call(ctx, ch, (*service).ImageFsInfo, &runtimeapi.ImageFsInfoRequest{})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("validate service connection: validate CRI v1 image API for endpoint %q: %w", endpoint, err)
	}
	return &ImageClient{ch: ch, timeout: timeout}, nil
}

// resumedRetry is how often a resumed client looks for its daemon.
const resumedRetry = 20 * time.Millisecond

// validate proves that a service is there. A resumed process has proved it when it began, and does not end because the
// daemon is still about to be resumed itself, or has been stopped since.
func validate(p *kernel.Process, try func() error) error {
	err := try()
	if !p.Resumed() {
		return err
	}
	for err != nil && p.World().Warming() {
		if p.Sleep(resumedRetry) != nil {
			return kernel.ErrDead
		}
		err = try()
	}
	if err != nil && !p.Alive() {
		return kernel.ErrDead
	}
	return nil
}

// channel is a client's connection to an endpoint, made again when it is lost.
type channel struct {
	p    *kernel.Process
	path string

	mu   sync.Mutex
	conn net.Conn
	d    *daemon
}

func newChannel(p *kernel.Process, endpoint string) (*channel, error) {
	u, err := url.Parse(endpoint)
	if err != nil || u.Scheme == "" {
		if u, err = url.Parse("unix://" + endpoint); err != nil {
			return nil, err
		}
	}
	switch u.Scheme {
	case "unix":
		return &channel{p: p, path: u.Path}, nil
	case "tcp":
		return nil, errors.New("only support unix socket endpoint")
	}
	return nil, fmt.Errorf("protocol %q not supported", u.Scheme)
}

func (ch *channel) close() error {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.conn != nil {
		ch.conn.Close()
		ch.conn, ch.d = nil, nil
	}
	return nil
}

// daemon returns the daemon at the other end of the connection.
func (ch *channel) daemon(ctx context.Context) (*daemon, error) {
	ch.mu.Lock()
	defer ch.mu.Unlock()
	if ch.d != nil && ch.d.p.Alive() {
		return ch.d, nil
	}
	if ch.conn != nil {
		ch.conn.Close()
		ch.conn, ch.d = nil, nil
	}
	unavailable := func(format string, a ...any) error { return status.Errorf(codes.Unavailable, format, a...) }
	conn, err := ch.p.Dial(ctx, "unix", ch.path)
	if err != nil {
		return nil, unavailable("connection error: desc = \"transport: Error while dialing: %v\"", err)
	}
	d, err := ask(ctx, ch.p.Host(), conn)
	if err != nil {
		conn.Close()
		return nil, unavailable("connection error: desc = \"error reading server preface: %v\"", err)
	}
	ch.conn, ch.d = conn, d
	return d, nil
}

// The greeting stands for HTTP/2's prefaces: the client sends a number, the daemon notes it and sends it back, and so the
// client knows which daemon of its machine it speaks to.
const greeting = "ckadrill CRI "

var errNoCRI = errors.New("http2: frame too large, note that the frame header looked like an HTTP/1.1 header")

func ask(ctx context.Context, h *kernel.Host, conn net.Conn) (*daemon, error) {
	if t, ok := ctx.Deadline(); ok {
		conn.SetDeadline(t)
	}
	n := h.World.Random("cri-connections").Uint64()
	if _, err := fmt.Fprintf(conn, "%s%d\n", greeting, n); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	if err != nil {
		return nil, err
	}
	conn.SetDeadline(time.Time{})
	c := Of(h)
	if c == nil || line != fmt.Sprintf("%s%d\n", greeting, n) {
		return nil, errNoCRI
	}
	c.mu.Lock()
	daemons := slices.Collect(maps.Keys(c.shims))
	if c.daemon != nil {
		daemons = append(daemons, c.daemon)
	}
	c.mu.Unlock()
	for _, d := range daemons {
		if d.took(n) {
			return d, nil
		}
	}
	return nil, errNoCRI
}

func (d *daemon) greet(conn net.Conn) {
	defer conn.Close()
	r := bufio.NewReader(conn)
	line, err := r.ReadString('\n')
	if err != nil {
		return
	}
	n, err := strconv.ParseUint(strings.TrimSpace(strings.TrimPrefix(line, greeting)), 10, 64)
	if err != nil || !strings.HasPrefix(line, greeting) {
		return // not a client of ours: a gRPC server closes the connection too
	}
	d.mu.Lock()
	d.served[n] = true
	d.mu.Unlock()
	fmt.Fprintf(conn, "%s%d\n", greeting, n)
	r.ReadByte() // until the client goes
}

func (d *daemon) took(n uint64) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	ok := d.served[n]
	delete(d.served, n)
	return ok
}

// call runs one method of the CRI in the daemon, under its label, and gives errors gRPC's form.
func call[Q, R any](ctx context.Context, ch *channel, method func(*service, context.Context, Q) (R, error), request Q) (R, error) {
	var (
		res  R
		rerr error
		zero R
	)
	d, err := ch.daemon(ctx)
	if err != nil {
		return zero, err
	}
	if !d.config.CRI {
		name := "runtime.v1.RuntimeService"
		if isImageRequest(request) {
			name = "runtime.v1.ImageService"
		}
		return zero, status.Error(codes.Unimplemented, "unknown service "+name)
	}
	if d.docker != nil {
		answer, err := d.docker.answer(request)
		if err != nil {
			return zero, err
		}
		return answer.(R), nil
	}
	err = d.p.Call(ctx, func() { res, rerr = method(&service{d.c, d}, ctx, request) })
	switch {
	case errors.Is(err, kernel.ErrDead):
		return zero, status.Error(codes.Unavailable, "error reading from server: EOF")
	case errors.Is(err, context.DeadlineExceeded):
		return zero, status.Error(codes.DeadlineExceeded, "context deadline exceeded")
	case err != nil:
		return zero, status.Error(codes.Canceled, "context canceled")
	case rerr != nil:
		return zero, toGRPC(rerr)
	}
	return res, nil
}

// toGRPC chooses the code as containerd does: from the kind of error, Unknown for any other.
func toGRPC(err error) error {
	if _, ok := status.FromError(err); ok {
		return err
	}
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return status.Error(codes.DeadlineExceeded, err.Error())
	case errors.Is(err, context.Canceled):
		return status.Error(codes.Canceled, err.Error())
	}
	err = errgrpc.ToGRPC(err)
	if _, ok := status.FromError(err); !ok {
		err = status.Error(codes.Unknown, err.Error())
	}
	return err
}

func isImageRequest(r any) bool {
	switch r.(type) {
	case *runtimeapi.ListImagesRequest, *runtimeapi.ImageStatusRequest, *runtimeapi.PullImageRequest, *runtimeapi.RemoveImageRequest, *runtimeapi.ImageFsInfoRequest:
		return true
	}
	return false
}
