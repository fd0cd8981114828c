package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime"
	"time"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// Status implements the CRI.
func (s *service) Status(_ context.Context, r *runtimeapi.StatusRequest) (*runtimeapi.StatusResponse, error) {
	network := &runtimeapi.RuntimeCondition{Type: runtimeapi.NetworkReady, Status: true}
	_, err := s.d.cni.ready()
	if err != nil {
		network.Status, network.Reason, network.Message = false, "NetworkPluginNotReady", fmt.Sprintf("Network plugin returns error: %v", err)
	}
	res := &runtimeapi.StatusResponse{
		Status: &runtimeapi.RuntimeStatus{Conditions: []*runtimeapi.RuntimeCondition{
			{Type: runtimeapi.RuntimeReady, Status: true}, network, {Type: "ContainerdHasNoDeprecationWarnings", Status: true},
		}},
		RuntimeHandlers: []*runtimeapi.RuntimeHandler{
			{Features: &runtimeapi.RuntimeHandlerFeatures{RecursiveReadOnlyMounts: true, UserNamespaces: true}},
			{Name: "runc", Features: &runtimeapi.RuntimeHandlerFeatures{RecursiveReadOnlyMounts: true, UserNamespaces: true}},
		},
		Features: &runtimeapi.RuntimeFeatures{SupplementalGroupsPolicy: true},
	}
	if r.Verbose {
		if res.Info, err = s.statusInfo(); err != nil {
			return nil, err
		}
	}
	return res, nil
}

// statusInfo is what crictl info shows below the conditions: of the configuration only what is simulated.
func (s *service) statusInfo() (map[string]string, error) {
	config := map[string]any{
		"containerd":                       map[string]any{"defaultRuntimeName": s.d.config.Default, "runtimes": map[string]any{"runc": map[string]any{"runtimeType": "io.containerd.runc.v2", "options": map[string]any{"SystemdCgroup": s.d.config.SystemdCgroup}}}},
		"cni":                              map[string]any{"binDirs": s.d.config.CNIBinDirs, "confDir": s.d.config.CNIConfDir, "maxConfNum": 1},
		"containerdRootDir":                s.d.config.Root,
		"containerdEndpoint":               s.d.config.Address,
		"rootDir":                          s.d.config.Root + "/io.containerd.grpc.v1.cri",
		"stateDir":                         s.d.config.State + "/io.containerd.grpc.v1.cri",
		"maxContainerLogSize":              s.d.config.MaxLine,
		"sandboxImage":                     s.d.config.SandboxImage,
		"enableSelinux":                    false,
		"restrictOOMScoreAdj":              false,
		"tolerateMissingHugetlbController": true,
	}
	info := map[string]string{}
	for k, v := range map[string]any{"config": config, "golang": runtime.Version(), "cniconfig": s.d.cni.describe()} {
		b, err := json.Marshal(v)
		if err != nil {
			return nil, err
		}
		info[k] = string(b)
	}
	info["lastCNILoadStatus"] = "OK"
	if err := s.d.cni.lastError(); err != nil {
		info["lastCNILoadStatus"] = err.Error()
	}
	info["lastCNILoadStatus.default"] = info["lastCNILoadStatus"]
	return info, nil
}

func (n *cniPlugin) lastError() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.last
}

// describe is go-cni's ConfigResult.
func (n *cniPlugin) describe() any {
	type plugin struct {
		Network any
		Source  string
	}
	type config struct {
		Name, CNIVersion string
		Plugins          []plugin
		Source           string
	}
	type network struct {
		Config config
		IFName string
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	out := struct {
		Networks         []network
		PluginConfDir    string
		PluginDirs       []string
		PluginMaxConfNum int
		Prefix           string
	}{PluginConfDir: n.confDir, PluginDirs: n.binDirs, PluginMaxConfNum: 1, Prefix: "eth"}
	for _, net := range n.networks {
		c := config{Name: net.config.Name, CNIVersion: net.config.CNIVersion, Source: string(net.config.Bytes)}
		for _, p := range net.config.Plugins {
			c.Plugins = append(c.Plugins, plugin{p.Network, string(p.Bytes)})
		}
		out.Networks = append(out.Networks, network{c, net.ifName})
	}
	return out
}

// RuntimeConfig implements the CRI: the kubelet takes its cgroup driver from it.
func (s *service) RuntimeConfig(context.Context, *runtimeapi.RuntimeConfigRequest) (*runtimeapi.RuntimeConfigResponse, error) {
	driver := runtimeapi.CgroupDriver_CGROUPFS
	if s.d.config.SystemdCgroup {
		driver = runtimeapi.CgroupDriver_SYSTEMD
	}
	return &runtimeapi.RuntimeConfigResponse{Linux: &runtimeapi.LinuxRuntimeConfiguration{CgroupDriver: driver}}, nil
}

// recover does what a containerd does when it starts: it finds out what has become of the tasks that it knew.
func (c *Containerd) recover() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, b := range c.sandboxes {
		if b.Ready && b.pause == nil {
			b.Ready, b.Pid, b.Terminated = false, 0, true
			c.touchSandbox(b)
		}
		if b.NetNS != "" && !b.NetNSClosed && c.network().Namespace(b.NetNS) == nil {
			b.NetNSClosed = true
			c.touchSandbox(b)
		}
	}
	for _, k := range c.containers {
		if k.state() == runtimeapi.ContainerState_CONTAINER_RUNNING && k.proc == nil {
			k.FinishedAt, k.ExitCode, k.Reason, k.Pid = time.Now().UnixNano(), exitUnknown, reasonUnknown, 0
			c.touchContainer(k)
		}
	}
}

// Resume starts the processes of sandboxes and containers that ran when the world was frozen, with their old numbers and
// silently. It is called once the machine's state and the network have been thawed; a containerd that is resumed itself
// calls it too, and only the first call acts.
func (c *Containerd) Resume() error {
	c.mu.Lock()
	if !c.thawed {
		c.mu.Unlock()
		return nil
	}
	c.thawed = false
	var sandboxes []*sandbox
	for _, b := range c.sandboxes {
		if b.Pid != 0 {
			sandboxes = append(sandboxes, b)
		}
	}
	c.mu.Unlock()
	sortSandboxes(sandboxes)
	var errs []error
	for _, b := range sandboxes {
		if err := c.spawnSandbox(b, time.Unix(0, b.CreatedAt)); err != nil {
			errs = append(errs, fmt.Errorf("sandbox %s: %w", b.ID, err))
			continue
		}
		c.mu.Lock()
		containers := c.containersOf(b.ID)
		c.mu.Unlock()
		for _, k := range containers {
			if k.Pid == 0 || k.state() != runtimeapi.ContainerState_CONTAINER_RUNNING {
				continue
			}
			if err := c.resumeContainer(k, b); err != nil {
				errs = append(errs, fmt.Errorf("container %s: %w", k.ID, err))
			}
		}
	}
	return errors.Join(errs...)
}

func (c *Containerd) resumeContainer(k *container, b *sandbox) error {
	if err := c.openIO(k, true); err != nil {
		return err
	}
	files, err := c.mountRoot(k, b)
	if err != nil {
		return err
	}
	main, argv, err := c.loadProgram(files, k.Process)
	if err != nil {
		// The file that it was started from is gone or changed: a process that runs needs it no longer, ours does.
		return err
	}
	c.spawn(k, b, replayFiles{files}, main, argv, time.Unix(0, k.StartedAt))
	return nil
}
