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
