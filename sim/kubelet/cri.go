package kubelet

import (
	"errors"
	"time"

	internalapi "k8s.io/cri-api/pkg/apis"

	"ckadrill/sim/kernel"
)

// ConnectRuntime is the [RuntimeConnector] of the program.
func ConnectRuntime(p *kernel.Process, endpoint string, timeout time.Duration) (internalapi.RuntimeService, internalapi.ImageManagerService, error) {
	return nil, nil, errors.New("ckadrill does not simulate a container runtime yet")
}

var errNoStreaming = errors.New("ckadrill: this container runtime has no direct way to stream")

// streamerOf is a runtime's direct way of streaming.
func streamerOf(internalapi.RuntimeService) (streamer, error) { return nil, errNoStreaming }
