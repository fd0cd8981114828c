package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"ckadrill/sim/kernel"
	"ckadrill/sim/machine/systemd"
	"ckadrill/sim/network"
	"ckadrill/sim/runtime/docker"
)

// criDockerdSocket is where cri-dockerd listens when systemd's socket unit names no other place.
const criDockerdSocket = "/run/cri-dockerd.sock"

// dockerShim is a cri-dockerd: a CRI endpoint that stands for Docker. It tells what it is; Pods do not run by it.
type dockerShim struct{ version docker.Version }

// criDockerd is the program cri-dockerd.
func criDockerd(p *kernel.Process) int {
	c := Of(p.Host())
	if c == nil {
		p.Errorf("cri-dockerd: ckadrill does not simulate cri-dockerd on this machine\n")
		return 1
	}
	endpoint, engine := "unix://"+criDockerdSocket, "unix:///var/run/docker.sock"
	for i := 1; i < len(p.Argv); i++ {
		name, value, has := strings.Cut(strings.TrimLeft(p.Argv[i], "-"), "=")
		if name == "version" || name == "buildinfo" {
			p.Errorf("cri-dockerd %s (HEAD)\n", p.Version("0.3.21"))
			return 0
		}
		if !has && i+1 < len(p.Argv) {
			i++
			value = p.Argv[i]
		}
		switch name {
		case "container-runtime-endpoint":
			if endpoint = value; value == "fd://" { // the socket that systemd hands over
				endpoint = "unix://" + criDockerdSocket
			}
		case "docker-endpoint":
			engine = value
		case "network-plugin", "cni-bin-dir", "cni-conf-dir", "cni-cache-dir", "pod-infra-container-image", "log-level", "hairpin-mode", "runtime-cgroups", "image-pull-progress-deadline", "streaming-bind-addr", "cri-dockerd-root-directory":
		default:
			p.Errorf("unknown flag: --%s\n", name)
			return 1
		}
	}
	log := logger{p.Stderr}
	quiet := p.Resumed()
	say := func(text string) {
		if !quiet {
			log.line("info", text)
		}
	}
	say("Starting cri-dockerd " + p.Version("0.3.21") + " (HEAD)")
	say("Connecting to docker on the Endpoint " + engine)
	say("Start docker client with request timeout 0s")
	version, err := engineVersion(p, engine)
	for quiet && err != nil && p.World().Warming() { // Docker is being resumed too
		if p.Sleep(resumedRetry) != nil {
			return 1
		}
		version, err = engineVersion(p, engine)
	}
	if err != nil {
		log.line("fatal", "failed to get docker version from dockerd: "+err.Error())
		return 1
	}
	for _, text := range []string{"Hairpin mode is set to none", "Loaded network plugin cni", "Docker cri networking managed by network plugin cni", "Setting cgroupDriver systemd",
		"Docker cri received runtime config &RuntimeConfig{NetworkConfig:&NetworkConfig{PodCidr:,},}", "Starting the GRPC backend for the Docker CRI interface."} {
		say(text)
	}
	path := strings.TrimPrefix(endpoint, "unix://")
	if !quiet {
		p.Files.Remove(path)
	}
	l, err := p.Listen("unix", path)
	if err != nil {
		log.line("fatal", err.Error())
		return 1
	}
	defer l.Close()
	p.Files.Chmod(path, 0o660)
	d := &daemon{c: c, p: p, config: &daemonConfig{CRI: true}, log: log, served: map[uint64]bool{}, docker: &dockerShim{version}}
	c.mu.Lock()
	if c.shims == nil {
		c.shims = map[*daemon]bool{}
	}
	c.shims[d] = true
	c.mu.Unlock()
	p.OnExit(func() {
		c.mu.Lock()
		delete(c.shims, d)
		c.mu.Unlock()
	})
	p.Go(func() { d.serve(l) })
	say("Start cri-dockerd grpc backend")
	systemd.Notify(p, "READY=1")
	<-p.Context().Done()
	return 0
}

// engineVersion asks a Docker Engine what it is. The error is that of Docker's client.
func engineVersion(p *kernel.Process, endpoint string) (v docker.Version, err error) {
	path := strings.TrimPrefix(endpoint, "unix://")
	t := network.NewTransport(p, nil)
	defer t.Close()
	t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return p.Dial(network.ForTransport(ctx, false), "unix", path)
	}
	ctx, cancel := context.WithTimeout(p.Context(), 10*time.Second)
	defer cancel()
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://docker/version", nil)
	if err != nil {
		return v, err
	}
	res, err := t.RoundTrip(r)
	if err != nil {
		return v, fmt.Errorf("Cannot connect to the Docker daemon at %s. Is the docker daemon running?", endpoint)
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(&v); err != nil || res.StatusCode != http.StatusOK {
		return v, errors.New("Error response from daemon: " + res.Status)
	}
	return v, nil
}

// answer is what a cri-dockerd answers to a call.
func (s *dockerShim) answer(request any) (any, error) {
	switch request.(type) {
	case *runtimeapi.VersionRequest:
		return &runtimeapi.VersionResponse{Version: "0.1.0", RuntimeName: "docker", RuntimeVersion: s.version.Version, RuntimeApiVersion: "v1"}, nil
	case *runtimeapi.StatusRequest:
		return &runtimeapi.StatusResponse{Status: &runtimeapi.RuntimeStatus{Conditions: []*runtimeapi.RuntimeCondition{{Type: runtimeapi.RuntimeReady, Status: true}, {Type: runtimeapi.NetworkReady, Status: true}}}}, nil
	case *runtimeapi.ListPodSandboxRequest:
		return &runtimeapi.ListPodSandboxResponse{}, nil
	case *runtimeapi.ListContainersRequest:
		return &runtimeapi.ListContainersResponse{}, nil
	case *runtimeapi.ListImagesRequest:
		return &runtimeapi.ListImagesResponse{}, nil
	case *runtimeapi.ImageFsInfoRequest:
		return &runtimeapi.ImageFsInfoResponse{}, nil
	}
	return nil, status.Error(codes.Unimplemented, "ckadrill does not simulate Pods and images of Docker yet")
}
