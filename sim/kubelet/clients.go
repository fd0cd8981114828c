package kubelet

import (
	"fmt"
	"net/http"
	goruntime "runtime"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/client-go/kubernetes"
	v1core "k8s.io/client-go/kubernetes/typed/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/kubernetes/cmd/kubelet/app/options"

	"ckadrill/sim/kernel"
	"ckadrill/sim/network/apiclient"
)

// Clients are the kubelet's connections to the API: for work, for events and for heartbeats, as upstream separates them.
type Clients struct {
	Kube      kubernetes.Interface
	Heartbeat kubernetes.Interface
	Events    v1core.EventsGetter
}

// Connector makes clients over a process's network from a configuration whose credentials are data.
type Connector func(p *kernel.Process, c *rest.Config, s *options.KubeletServer) (*Clients, error)

// Connect is the [Connector] of the program: HTTP over TLS over the machine's network.
func Connect(p *kernel.Process, c *rest.Config, s *options.KubeletServer) (*Clients, error) {
	c = rest.CopyConfig(c)
	c.QPS, c.Burst = float32(s.KubeAPIQPS), int(s.KubeAPIBurst)
	c.ContentType = s.ContentType
	if c.ContentType == runtime.ContentTypeProtobuf {
		c.AcceptContentTypes = runtime.ContentTypeProtobuf + "," + runtime.ContentTypeJSON
	}
	c.UserAgent = "kubelet/" + version(p) + " (linux/amd64) kubernetes/" + commit
	c.WarningHandler = rest.NoWarnings{}
	c.Wrap(func(rt http.RoundTripper) http.RoundTripper {
		return lifeline{p, apiclient.Hold(p, apiclient.RememberEvents(p, rt, recorded(p)))}
	})
	if late, ok := c.Transport.(*lateIdentity); ok {
		c.Transport = nil
		apiclient.Use(p, c, late)
	} else if err := apiclient.ConfigureREST(p, c); err != nil {
		return nil, err
	}
	kube, err := kubernetes.NewForConfig(c)
	if err != nil {
		return nil, fmt.Errorf("failed to initialize kubelet client: %w", err)
	}
	e := rest.CopyConfig(c)
	e.QPS, e.Burst = float32(s.EventRecordQPS), int(s.EventBurst)
	events, err := v1core.NewForConfig(e)
	if err != nil {
		return nil, fmt.Errorf("failed to initialize kubelet event client: %w", err)
	}
	h := rest.CopyConfig(c)
	h.QPS = -1
	h.Timeout = min(s.NodeStatusUpdateFrequency.Duration, time.Duration(s.NodeLeaseDurationSeconds)*time.Second)
	heartbeat, err := kubernetes.NewForConfig(h)
	if err != nil {
		return nil, fmt.Errorf("failed to initialize kubelet heartbeat client: %w", err)
	}
	return &Clients{Kube: kube, Heartbeat: heartbeat, Events: events}, nil
}

// lifeline ends the goroutines of a kubelet that has ended: upstream's reflectors and loops know no end of their own, and
// all of them come by here or by the runtime's services.
type lifeline struct {
	p *kernel.Process
	http.RoundTripper
}

func (l lifeline) RoundTrip(r *http.Request) (*http.Response, error) {
	endIfDead(l.p)
	return l.RoundTripper.RoundTrip(r)
}

func endIfDead(p *kernel.Process) {
	if !p.Alive() {
		goruntime.Goexit()
	}
}
