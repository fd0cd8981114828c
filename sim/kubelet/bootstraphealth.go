package kubelet

import (
	"net"
	"net/http"
	"strconv"

	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/kubernetes/cmd/kubelet/app/options"

	"ckadrill/sim/kernel"
	"ckadrill/sim/network"
)

// serveHealthzMeanwhile answers on the health port until the returned function is called. Upstream's kubelet requests its
// first certificate in the background and is healthy meanwhile, here the request comes before everything else.
func serveHealthzMeanwhile(p *kernel.Process, s *options.KubeletServer) (stop func()) {
	if s.HealthzPort <= 0 {
		return func() {}
	}
	l, err := p.Listen("tcp", net.JoinHostPort(s.HealthzBindAddress, strconv.Itoa(int(s.HealthzPort))))
	if err != nil {
		return func() {}
	}
	mux := http.NewServeMux()
	healthz.InstallHandler(mux)
	go network.Serve(l, nil, mux)
	return func() { l.Close() }
}
