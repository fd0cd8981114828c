package kubelet

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	grpchealth "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"k8s.io/kubernetes/pkg/kubelet/prober"
	"k8s.io/kubernetes/pkg/probe"
	httpprobe "k8s.io/kubernetes/pkg/probe/http"

	"ckadrill/sim/kernel"
	"ckadrill/sim/network"
)

// dialFromMachine gives upstream's probe manager probes that dial from the machine's network. When to probe, thresholds,
// results and events stay upstream's.
func dialFromMachine(p *kernel.Process, m prober.Manager) {
	pb := getField(m, "prober")
	setField(pb, "http", newHTTPProbe(p))
	setField(pb, "tcp", tcpProbe{p})
	setField(pb, "grpc", grpcProbe{p})
}

// httpClient is an HTTP client of the kubelet towards containers: no proxy, no verification, a fresh connection each time.
func httpClient(p *kernel.Process) *http.Transport {
	return &http.Transport{
		TLSClientConfig:       &tls.Config{InsecureSkipVerify: true},
		DisableKeepAlives:     true,
		DisableCompression:    true,
		DialContext:           p.Dial,
		TLSHandshakeTimeout:   10 * time.Second, // as apimachinery's SetTransportDefaults
		IdleConnTimeout:       90 * time.Second,
		ForceAttemptHTTP2:     true,
		ResponseHeaderTimeout: 0,
	}
}

type httpProbe struct {
	p        *kernel.Process
	sessions *network.TLSSessions
}

// maxProbeSessions is how many servers' TLS sessions a kubelet keeps. A machine has at most 110 Pods, and few of them are
// probed over TLS.
const maxProbeSessions = 64

func newHTTPProbe(p *kernel.Process) httpprobe.Prober {
	return httpProbe{p, network.NewTLSSessions(maxProbeSessions)}
}

// Probe implements httpprobe.Prober. Each probe has a connection of its own, as upstream's do; but where the last one to a
// server used TLS, the next resumes its session: readiness of kube-apiserver alone is 3,600 handshakes in an hour.
func (h httpProbe) Probe(req *http.Request, timeout time.Duration) (probe.Result, string, error) {
	endIfDead(h.p)
	t := network.NewTransport(h.p, &tls.Config{InsecureSkipVerify: true})
	t.Sessions = h.sessions
	defer t.Close()
	return httpprobe.DoHTTPProbe(req, &http.Client{Timeout: timeout, Transport: t, CheckRedirect: httpprobe.RedirectChecker(false)})
}

type tcpProbe struct{ p *kernel.Process }

// Probe implements tcpprobe.Prober.
func (t tcpProbe) Probe(host string, port int, timeout time.Duration) (probe.Result, string, error) {
	endIfDead(t.p)
	ctx, cancel := context.WithTimeout(t.p.Context(), timeout)
	defer cancel()
	conn, err := t.p.Dial(ctx, "tcp", net.JoinHostPort(host, strconv.Itoa(port)))
	if err != nil {
		return probe.Failure, err.Error(), nil
	}
	conn.Close()
	return probe.Success, "", nil
}

type grpcProbe struct{ p *kernel.Process }

// Probe implements grpcprobe.Prober as upstream's does, but for the dialling.
func (g grpcProbe) Probe(host, service string, port int, timeout time.Duration) (probe.Result, string, error) {
	endIfDead(g.p)
	ctx, cancel := context.WithTimeout(g.p.Context(), timeout)
	defer cancel()
	addr := net.JoinHostPort(host, strconv.Itoa(port))
	//nolint:staticcheck // upstream's probe blocks in DialContext, and its error texts come from there
	conn, err := grpc.DialContext(ctx, addr, grpc.WithUserAgent("kube-probe/1.35"), grpc.WithBlock(),
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) { return g.p.Dial(ctx, "tcp", addr) }))
	switch {
	case errors.Is(err, context.DeadlineExceeded):
		return probe.Failure, fmt.Sprintf("timeout: failed to connect service %q within %v: %+v", addr, timeout, err), nil
	case err != nil:
		return probe.Failure, fmt.Sprintf("error: failed to connect service at %q: %+v", addr, err), nil
	}
	defer conn.Close()
	resp, err := grpchealth.NewHealthClient(conn).Check(metadata.NewOutgoingContext(ctx, metadata.MD{}), &grpchealth.HealthCheckRequest{Service: service})
	if err != nil {
		s, _ := status.FromError(err)
		switch s.Code() {
		case codes.Unimplemented:
			return probe.Failure, "error: this server does not implement the grpc health protocol (grpc.health.v1.Health): " + s.Message(), nil
		case codes.DeadlineExceeded:
			return probe.Failure, fmt.Sprintf("timeout: health rpc did not complete within %v", timeout), nil
		}
		return probe.Failure, fmt.Sprintf("error: health rpc probe failed: %+v", err), nil
	}
	if resp.GetStatus() != grpchealth.HealthCheckResponse_SERVING {
		return probe.Failure, fmt.Sprintf("service unhealthy (responded with %q)", resp.GetStatus().String()), nil
	}
	return probe.Success, "service healthy", nil
}
