package runtime

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"sort"
	"strings"
	"time"

	types100 "github.com/containernetworking/cni/pkg/types/100"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"ckadrill/sim/kernel"
	"ckadrill/sim/network"
)

const (
	netnsDir    = "/var/run/netns"
	sandboxRoot = "/var/lib/containerd/io.containerd.grpc.v1.cri/sandboxes"
	sandboxRun  = "/run/containerd/io.containerd.grpc.v1.cri/sandboxes"
)

func hostNetwork(c *runtimeapi.PodSandboxConfig) bool {
	return c.GetLinux().GetSecurityContext().GetNamespaceOptions().GetNetwork() == runtimeapi.NamespaceMode_NODE
}

func (s *service) runPodSandbox(ctx context.Context, r *runtimeapi.RunPodSandboxRequest) (_ *runtimeapi.RunPodSandboxResponse, rerr error) {
	config := r.GetConfig()
	m := config.GetMetadata()
	if m == nil {
		return nil, errors.New("sandbox config must include metadata")
	}
	if r.RuntimeHandler != "" && !s.d.config.Runtimes[r.RuntimeHandler] {
		return nil, fmt.Errorf("unable to get OCI runtime for sandbox %q: no runtime for %q is configured", s.newID(), r.RuntimeHandler)
	}
	b := &sandbox{Config: config}
	b.ID, b.Handler = s.newID(), r.RuntimeHandler
	b.Name = fmt.Sprintf("%s_%s_%s_%d", m.Name, m.Namespace, m.Uid, m.Attempt)
	s.mu.Lock()
	err := s.reserve(b.Name, b.ID)
	s.mu.Unlock()
	if err != nil {
		return nil, fmt.Errorf("failed to reserve sandbox name %q: %w", b.Name, err)
	}
	defer func() {
		if rerr != nil {
			s.discardSandbox(b)
		}
	}()
	if !hostNetwork(config) {
		if err := s.setupNetwork(ctx, b); err != nil {
			return nil, err
		}
	}
	if err := s.applySettings(b); err != nil {
		return nil, fmt.Errorf("failed to start sandbox %q: failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: unable to start container process: error during container init: %w", b.ID, err)
	}
	if err := s.startSandbox(ctx, b); err != nil {
		return nil, fmt.Errorf("failed to start sandbox %q: %w", b.ID, err)
	}
	s.mu.Lock()
	b.Ready = true
	b.CreatedAt = time.Now().UnixNano()
	s.sandboxes[b.ID] = b
	s.touchSandbox(b)
	s.mu.Unlock()
	s.w.Trace.Add(kernel.Step{Verb: "create", Subject: "sandbox/" + b.ID, Detail: b.Name, Cause: podSubject(m)})
	s.emit(b.ID, b.ID, runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT)
	s.emit(b.ID, b.ID, runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT)
	return &runtimeapi.RunPodSandboxResponse{PodSandboxId: b.ID}, nil
}

func podSubject(m *runtimeapi.PodSandboxMetadata) string {
	return "pods/" + m.GetNamespace() + "/" + m.GetName()
}

// discardSandbox undoes what a failed RunPodSandbox has done, as its deferred calls do.
func (s *service) discardSandbox(b *sandbox) {
	if b.NetNS != "" {
		if err := s.d.cni.teardown(context.Background(), s.attachment(b)); err != nil {
			s.d.log.line("error", fmt.Sprintf("Failed to destroy network for sandbox %q", b.ID), "error", err)
		}
		s.removeNetNS(b)
	}
	s.endSandbox(b)
	files := s.files()
	files.RemoveAll(path.Join(sandboxRoot, b.ID))
	files.RemoveAll(path.Join(sandboxRun, b.ID))
	s.mu.Lock()
	delete(s.names, b.Name)
	s.mu.Unlock()
}

func (s *service) setupNetwork(ctx context.Context, b *sandbox) error {
	b.NetNS = netnsDir + "/cni-" + s.w.UUID(s.ids)
	if _, err := s.network().AddNamespace(b.NetNS); err != nil {
		return fmt.Errorf("failed to create network namespace for sandbox %q: %w", b.ID, err)
	}
	files := s.files()
	files.MkdirAll(netnsDir, 0o755)
	files.WriteFile(b.NetNS, nil, 0o444)
	results, err := s.d.cni.setup(ctx, s.attachment(b))
	if err != nil {
		return fmt.Errorf("failed to setup network for sandbox %q: %w", b.ID, err)
	}
	b.IP, b.AdditionalIPs = podIPs(results)
	if b.IP == "" {
		return fmt.Errorf("failed to setup network for sandbox %q: failed to find network info for sandbox %q", b.ID, b.ID)
	}
	b.CNIResult = cniResult(results)
	return nil
}

// attachment is what the plugins are told about a sandbox.
func (s *service) attachment(b *sandbox) attachment {
	m := b.Config.GetMetadata()
	a := attachment{id: b.ID, netns: b.NetNS, capabilities: map[string]any{"io.kubernetes.cri.pod-annotations": b.Config.Annotations},
		labels: [][2]string{{"K8S_POD_NAMESPACE", m.GetNamespace()}, {"K8S_POD_NAME", m.GetName()}, {"K8S_POD_INFRA_CONTAINER_ID", b.ID}, {"K8S_POD_UID", m.GetUid()}, {"IgnoreUnknown", "1"}}}
	type portMapping struct {
		HostPort      int32
		ContainerPort int32
		Protocol      string
		HostIP        string
	}
	var ports []portMapping
	for _, p := range b.Config.PortMappings {
		if p.HostPort > 0 {
			ports = append(ports, portMapping{p.HostPort, p.ContainerPort, strings.ToLower(p.Protocol.String()), p.HostIp})
		}
	}
	if len(ports) > 0 {
		a.capabilities["portMappings"] = ports
	}
	if d := b.Config.DnsConfig; d != nil {
		a.capabilities["dns"] = map[string]any{"Servers": d.Servers, "Searches": d.Searches, "Options": d.Options}
	}
	if g := b.Config.GetLinux().GetCgroupParent(); g != "" {
		a.capabilities["cgroupPath"] = g
	}
	return a
}

// linkOf is the interface that has an address; of one that names none it is eth0 (go-cni's getInterfaceName).
func linkOf(r *types100.Result, c *types100.IPConfig) string {
	switch {
	case c.Interface == nil:
		return "eth0"
	case *c.Interface < 0 || *c.Interface >= len(r.Interfaces):
		return ""
	}
	return r.Interfaces[*c.Interface].Name
}

// podIPs takes the addresses of eth0: the first IPv4 one is the Pod's.
func podIPs(results []*types100.Result) (ip string, more []string) {
	for _, r := range results {
		for _, c := range r.IPs {
			if linkOf(r, c) != "eth0" {
				continue
			}
			if a := c.Address.IP; ip == "" && a.To4() != nil {
				ip = a.String()
			} else {
				more = append(more, a.String())
			}
		}
	}
	if ip == "" && len(more) > 0 {
		ip, more = more[0], more[1:]
	}
	return ip, more
}

// cniResult is the merged result as go-cni makes it and crictl inspectp shows it.
func cniResult(results []*types100.Result) []byte {
	type ipConfig struct {
		IP, Gateway string
	}
	type iface struct {
		IPConfigs                       []*ipConfig
		Mac, Sandbox, PciID, SocketPath string
	}
	out := struct {
		Interfaces map[string]*iface
		DNS        []any
		Routes     []any
	}{Interfaces: map[string]*iface{}}
	for _, r := range results {
		for _, n := range r.Interfaces {
			out.Interfaces[n.Name] = &iface{Mac: n.Mac, Sandbox: n.Sandbox}
		}
		for _, c := range r.IPs {
			name := linkOf(r, c)
			if name == "" {
				continue
			}
			if out.Interfaces[name] == nil {
				out.Interfaces[name] = &iface{}
			}
			gw := ""
			if c.Gateway != nil {
				gw = c.Gateway.String()
			}
			out.Interfaces[name].IPConfigs = append(out.Interfaces[name].IPConfigs, &ipConfig{c.Address.IP.String(), gw})
		}
		out.DNS = append(out.DNS, r.DNS)
		for _, route := range r.Routes {
			out.Routes = append(out.Routes, route)
		}
	}
	b, err := json.Marshal(out)
	if err != nil {
		return nil
	}
	return b
}

func (s *service) removeNetNS(b *sandbox) {
	if n := s.network().Namespace(b.NetNS); n != nil {
		n.Remove()
	}
	s.files().Remove(b.NetNS)
	b.NetNSClosed = true
}

// startSandbox makes the sandbox's files and starts its shim and its pause process.
func (s *service) startSandbox(ctx context.Context, b *sandbox) error {
	img, err := s.sandboxImage(ctx)
	if err != nil {
		return err
	}
	b.ImageID = img.ID()
	files := s.files()
	root, run := path.Join(sandboxRoot, b.ID), path.Join(sandboxRun, b.ID)
	for _, d := range []string{root, run, path.Join(run, "shm")} {
		if err := files.MkdirAll(d, 0o755); err != nil {
			return fmt.Errorf("failed to create sandbox root directory %q: %w", root, err)
		}
	}
	hostname := s.sandboxHostname(b)
	if err := files.WriteFile(path.Join(root, "hostname"), []byte(hostname+"\n"), 0o644); err != nil {
		return fmt.Errorf("failed to setup sandbox files: failed to write hostname to %q: %w", path.Join(root, "hostname"), err)
	}
	hosts, err := files.ReadFile("/etc/hosts")
	if err != nil {
		return fmt.Errorf("failed to setup sandbox files: failed to generate sandbox hosts file %q: %w", path.Join(root, "hosts"), err)
	}
	files.WriteFile(path.Join(root, "hosts"), hosts, 0o644)
	resolv, err := resolvConf(files, b.Config.DnsConfig)
	if err != nil {
		return fmt.Errorf("failed to setup sandbox files: %w", err)
	}
	files.WriteFile(path.Join(root, "resolv.conf"), resolv, 0o644)
	if err := s.checkCgroup(b.Config.GetLinux().GetCgroupParent()); err != nil {
		return fmt.Errorf("failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: %w", err)
	}
	if err := s.needOverlay(); err != nil {
		return fmt.Errorf("failed to create containerd task: failed to create shim task: failed to mount rootfs component: %w", err)
	}
	if err := kernel.SleepContext(ctx, sandboxDelay); err != nil {
		return err
	}
	return s.spawnSandbox(b, time.Time{})
}

// spawnSandbox starts the sandbox's processes, new ones or, at a thaw, those it had.
func (c *Containerd) spawnSandbox(b *sandbox, since time.Time) error {
	files := c.files()
	spec := kernel.Spec{Argv: []string{"/usr/bin/containerd-shim-runc-v2", "-namespace", "k8s.io", "-id", b.ID, "-address", "/run/containerd/containerd.sock"},
		Files: files, Net: c.network(), Unit: "containerd.service"}
	main, ok := c.w.Programs.Find("containerd-shim-runc-v2")
	pauseMain, ok2 := c.w.Programs.Find("pause")
	if !ok || !ok2 {
		return errors.New("ckadrill: the programs containerd-shim-runc-v2 and pause are not registered")
	}
	if !since.IsZero() {
		spec.PID, spec.Started = b.Shim, time.Unix(0, b.ShimStartedAt)
	}
	shim := c.host.Processes.Start(spec, main)
	pause := kernel.Spec{Argv: []string{"/pause"}, Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}, Cred: kernel.Credential{UID: 65535, GID: 65535},
		Files: files, Net: c.sandboxNetwork(b), Hostname: c.sandboxHostname(b), Container: b.ID, NamespacePID: 1, Parent: shim, Unit: "kubepods.slice"}
	if !since.IsZero() {
		pause.PID, pause.Started = b.Pid, time.Unix(0, b.PauseStartedAt)
	}
	proc := c.host.Processes.Start(pause, pauseMain)
	c.mu.Lock()
	b.shim, b.pause = shim, proc
	b.Shim, b.Pid = shim.ID(), proc.ID()
	b.ShimStartedAt, b.PauseStartedAt = shim.StartTime().UnixNano(), proc.StartTime().UnixNano()
	c.touchSandbox(b)
	c.mu.Unlock()
	shim.OnExit(func() { c.shimEnded(b) })
	proc.OnExit(func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if b.pause == proc {
			b.pause, b.Pid, b.Ready, b.Terminated = nil, 0, false, true
			c.touchSandbox(b)
		}
	})
	return nil
}

// sandboxNetwork is the network namespace that the sandbox's processes are in.
func (c *Containerd) sandboxNetwork(b *sandbox) *network.Namespace {
	if b.NetNS == "" {
		return c.network()
	}
	return c.network().Namespace(b.NetNS)
}

func (c *Containerd) sandboxHostname(b *sandbox) string {
	if h := b.Config.GetHostname(); h != "" && !hostNetwork(b.Config) {
		return h
	}
	return c.host.Name()
}

// shimEnded ends what the shim kept: its containers die with it, as containerd kills them when it loses their shim.
func (c *Containerd) shimEnded(b *sandbox) {
	c.mu.Lock()
	procs := []*kernel.Process{b.pause}
	for _, k := range c.containersOf(b.ID) {
		procs = append(procs, k.proc)
	}
	b.shim, b.Shim = nil, 0
	c.touchSandbox(b)
	c.mu.Unlock()
	for _, p := range procs {
		if p != nil {
			p.Signal(kernel.SIGKILL)
		}
	}
}

// endSandbox kills the pause process and the shim.
func (c *Containerd) endSandbox(b *sandbox) {
	c.mu.Lock()
	pause, shim := b.pause, b.shim
	c.mu.Unlock()
	if pause != nil {
		pause.Signal(kernel.SIGKILL)
		<-pause.Done()
	}
	if shim != nil {
		shim.Signal(kernel.SIGKILL)
		<-shim.Done()
	}
}

// checkCgroup is runc's check that the cgroup's name is of the form that its driver wants.
func (s *service) checkCgroup(parent string) error {
	slice := strings.HasSuffix(parent, ".slice")
	if parent == "" || s.d.config.SystemdCgroup == slice {
		return nil
	}
	if s.d.config.SystemdCgroup {
		return fmt.Errorf("expected cgroupsPath to be of format \"slice:prefix:name\" for systemd cgroups, got %q instead", parent)
	}
	return nil // cgroupfs takes any path
}

// resolvConf makes a sandbox's resolv.conf from its DNS configuration, or takes the machine's.
func resolvConf(files kernel.Files, d *runtimeapi.DNSConfig) ([]byte, error) {
	if len(d.GetServers())+len(d.GetSearches())+len(d.GetOptions()) == 0 {
		b, err := files.ReadFile("/etc/resolv.conf")
		if err != nil {
			return nil, fmt.Errorf("failed to copy host's resolv.conf to %q: %w", "resolv.conf", err)
		}
		return b, nil
	}
	var b strings.Builder
	if len(d.Searches) > 0 {
		fmt.Fprintf(&b, "search %s\n", strings.Join(d.Searches, " "))
	}
	if len(d.Servers) > 0 {
		fmt.Fprintf(&b, "nameserver %s\n", strings.Join(d.Servers, "\nnameserver "))
	}
	if len(d.Options) > 0 {
		fmt.Fprintf(&b, "options %s\n", strings.Join(d.Options, " "))
	}
	return []byte(b.String()), nil
}

func (s *service) stopPodSandbox(ctx context.Context, r *runtimeapi.StopPodSandboxRequest) (*runtimeapi.StopPodSandboxResponse, error) {
	s.mu.Lock()
	b, err := s.sandboxByID(r.PodSandboxId)
	s.mu.Unlock()
	if err != nil {
		if isNotFound(err) {
			return &runtimeapi.StopPodSandboxResponse{}, nil
		}
		return nil, fmt.Errorf("an error occurred when try to find sandbox %q: %w", r.PodSandboxId, err)
	}
	if err := s.stopSandbox(ctx, b); err != nil {
		return nil, err
	}
	return &runtimeapi.StopPodSandboxResponse{}, nil
}

func (s *service) stopSandbox(ctx context.Context, b *sandbox) error {
	s.mu.Lock()
	containers := s.containersOf(b.ID)
	s.mu.Unlock()
	for _, k := range containers {
		if err := s.stop(ctx, k, 0); err != nil {
			return fmt.Errorf("failed to stop container %q: %w", k.ID, err)
		}
	}
	s.endSandbox(b)
	s.mu.Lock()
	was := b.Ready
	b.Ready = false
	s.touchSandbox(b)
	attached := b.CNIResult != nil && !b.Detached
	at := s.attachment(b)
	if b.NetNSClosed {
		at.netns = "" // after a reboot: the plugins give their addresses back all the same
	}
	s.mu.Unlock()
	if attached {
		if err := s.d.cni.teardown(ctx, at); err != nil {
			return fmt.Errorf("failed to destroy network for sandbox %q: %w", b.ID, err)
		}
	}
	if b.NetNS != "" {
		s.mu.Lock()
		b.Detached = true
		s.removeNetNS(b)
		s.touchSandbox(b)
		s.mu.Unlock()
	}
	if was {
		s.w.Trace.Add(kernel.Step{Verb: "stop", Subject: "sandbox/" + b.ID, Detail: b.Name, Cause: podSubject(b.Config.GetMetadata())})
		s.emit(b.ID, b.ID, runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT)
	}
	s.d.log.infof("TearDown network for sandbox %q successfully", b.ID)
	return nil
}

func (s *service) removePodSandbox(ctx context.Context, r *runtimeapi.RemovePodSandboxRequest) (*runtimeapi.RemovePodSandboxResponse, error) {
	s.mu.Lock()
	b, err := s.sandboxByID(r.PodSandboxId)
	s.mu.Unlock()
	if err != nil {
		if isNotFound(err) {
			return &runtimeapi.RemovePodSandboxResponse{}, nil
		}
		return nil, fmt.Errorf("an error occurred when try to find sandbox %q: %w", r.PodSandboxId, err)
	}
	s.d.log.infof("Forcibly stopping sandbox %q", b.ID)
	if err := s.stopSandbox(ctx, b); err != nil {
		return nil, fmt.Errorf("failed to forcibly stop sandbox %q: %w", b.ID, err)
	}
	s.mu.Lock()
	containers := s.containersOf(b.ID)
	s.mu.Unlock()
	for _, k := range containers {
		if _, err := s.removeContainer(ctx, &runtimeapi.RemoveContainerRequest{ContainerId: k.ID}); err != nil {
			return nil, fmt.Errorf("failed to remove container %q: %w", k.ID, err)
		}
	}
	files := s.files()
	files.RemoveAll(path.Join(sandboxRoot, b.ID))
	files.RemoveAll(path.Join(sandboxRun, b.ID))
	s.emit(b.ID, b.ID, runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT)
	s.mu.Lock()
	delete(s.sandboxes, b.ID)
	delete(s.names, b.Name)
	s.mu.Unlock()
	return &runtimeapi.RemovePodSandboxResponse{}, nil
}

// PodSandboxStatus implements the CRI.
func (s *service) PodSandboxStatus(_ context.Context, r *runtimeapi.PodSandboxStatusRequest) (*runtimeapi.PodSandboxStatusResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, err := s.sandboxByID(r.PodSandboxId)
	if err != nil {
		return nil, fmt.Errorf("an error occurred when try to find sandbox: %w", err)
	}
	res := &runtimeapi.PodSandboxStatusResponse{Status: s.sandboxStatus(b)}
	if r.Verbose {
		res.Info = s.sandboxInfo(b)
	}
	return res, nil
}

// sandboxStatus is the CRI's status of a sandbox. The lock is held.
func (c *Containerd) sandboxStatus(b *sandbox) *runtimeapi.PodSandboxStatus {
	st := &runtimeapi.PodSandboxStatus{
		Id: b.ID, Metadata: b.Config.Metadata, State: b.criState(), CreatedAt: b.CreatedAt, Network: &runtimeapi.PodSandboxNetworkStatus{},
		Linux:  &runtimeapi.LinuxPodSandboxStatus{Namespaces: &runtimeapi.Namespace{Options: b.Config.GetLinux().GetSecurityContext().GetNamespaceOptions()}},
		Labels: b.Config.Labels, Annotations: b.Config.Annotations, RuntimeHandler: b.Handler,
	}
	if !hostNetwork(b.Config) && !b.NetNSClosed {
		st.Network.Ip = b.IP
		for _, ip := range b.AdditionalIPs {
			st.Network.AdditionalIps = append(st.Network.AdditionalIps, &runtimeapi.PodIP{Ip: ip})
		}
	}
	return st
}

func (b *sandbox) criState() runtimeapi.PodSandboxState {
	if b.Ready {
		return runtimeapi.PodSandboxState_SANDBOX_READY
	}
	return runtimeapi.PodSandboxState_SANDBOX_NOTREADY
}

// ListPodSandbox implements the CRI. The order is that of creation.
func (s *service) ListPodSandbox(_ context.Context, r *runtimeapi.ListPodSandboxRequest) (*runtimeapi.ListPodSandboxResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f := r.GetFilter()
	id := f.GetId()
	if b, err := s.sandboxByID(id); err == nil {
		id = b.ID
	}
	res := &runtimeapi.ListPodSandboxResponse{}
	for _, b := range s.sandboxes {
		if id != "" && b.ID != id || f.GetState() != nil && f.GetState().State != b.criState() || !matchLabels(b.Config.Labels, f.GetLabelSelector()) {
			continue
		}
		res.Items = append(res.Items, &runtimeapi.PodSandbox{Id: b.ID, Metadata: b.Config.Metadata, State: b.criState(), CreatedAt: b.CreatedAt, Labels: b.Config.Labels,
			Annotations: b.Config.Annotations, RuntimeHandler: b.Handler})
	}
	sort.Slice(res.Items, func(i, j int) bool {
		a, b := res.Items[i], res.Items[j]
		return a.CreatedAt < b.CreatedAt || a.CreatedAt == b.CreatedAt && a.Id < b.Id
	})
	return res, nil
}

func matchLabels(labels, selector map[string]string) bool {
	for k, v := range selector {
		if got, ok := labels[k]; !ok || got != v {
			return false
		}
	}
	return true
}

// UpdatePodSandboxResources implements the CRI: containerd itself does nothing with it, its plugins would.
func (s *service) UpdatePodSandboxResources(_ context.Context, r *runtimeapi.UpdatePodSandboxResourcesRequest) (*runtimeapi.UpdatePodSandboxResourcesResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := s.sandboxByID(r.PodSandboxId); err != nil {
		return nil, fmt.Errorf("failed to find sandbox: %w", err)
	}
	return &runtimeapi.UpdatePodSandboxResourcesResponse{}, nil
}

func sortSandboxes(l []*sandbox) {
	sort.Slice(l, func(i, j int) bool {
		return l[i].CreatedAt < l[j].CreatedAt || l[i].CreatedAt == l[j].CreatedAt && l[i].ID < l[j].ID
	})
}
