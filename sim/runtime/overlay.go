package runtime

import (
	"syscall"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// needOverlay has the kernel load its overlay file system. The error is mount(2)'s without it.
func (c *Containerd) needOverlay() error {
	if c.options.RequestModule != nil && c.options.RequestModule("fs-overlay") != nil {
		return syscall.ENODEV
	}
	return nil
}

// CountModule is how often containers use a module. Of "overlay" there is one mount for each running container, and one for its sandbox's pause.
func (c *Containerd) CountModule(name string) int {
	if name != "overlay" {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	n := 0
	for _, k := range c.containers {
		if k.state() == runtimeapi.ContainerState_CONTAINER_RUNNING {
			n++
		}
	}
	for _, s := range c.sandboxes {
		if s.Ready {
			n++
		}
	}
	return n
}
