package runtime

import (
	"context"
	"errors"
	"fmt"
	"path"
	"sort"
	"time"

	"github.com/containerd/errdefs"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"ckadrill/sim/kernel"
)

// Exit codes and reasons that containerd gives where no process told one.
const (
	exitStartError   = 128
	reasonStartError = "StartError"
	exitUnknown      = 255
	reasonUnknown    = "Unknown"
	reasonOOM        = "OOMKilled"
)

func isNotFound(err error) bool { return errors.Is(err, errdefs.ErrNotFound) }

// find is containerByID for a method of the CRI, which takes the lock itself.
func (s *service) find(id string) (*container, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, err := s.containerByID(id)
	if err != nil {
		return nil, fmt.Errorf("an error occurred when try to find container %q: %w", id, err)
	}
	return k, nil
}

func (s *service) createContainer(ctx context.Context, r *runtimeapi.CreateContainerRequest) (_ *runtimeapi.CreateContainerResponse, rerr error) {
	config := r.GetConfig()
	s.mu.Lock()
	b, err := s.sandboxByID(r.PodSandboxId)
	s.mu.Unlock()
	if err != nil {
		return nil, fmt.Errorf("failed to find sandbox id %q: %w", r.PodSandboxId, err)
	}
	m, pm := config.GetMetadata(), r.GetSandboxConfig().GetMetadata()
	if m == nil {
		return nil, errors.New("container config must include metadata")
	}
	if pm == nil {
		return nil, errors.New("pod sandbox config must include metadata")
	}
	k := &container{Config: config, Resources: &runtimeapi.ContainerResources{Linux: config.GetLinux().GetResources()}}
	k.ID, k.SandboxID = s.newID(), b.ID
	k.Name = fmt.Sprintf("%s_%s_%s_%s_%d", m.Name, pm.Name, pm.Namespace, pm.Uid, m.Attempt)
	s.mu.Lock()
	err = s.reserve(k.Name, k.ID)
	s.mu.Unlock()
	if err != nil {
		return nil, fmt.Errorf("failed to reserve container name %q: %w", k.Name, err)
	}
	defer func() {
		if rerr != nil {
			s.mu.Lock()
			delete(s.names, k.Name)
			s.mu.Unlock()
		}
	}()
	s.mu.Lock()
	img := s.resolveImage(config.GetImage().GetImage())
	s.mu.Unlock()
	if img == nil {
		return nil, fmt.Errorf("failed to resolve image %q: %w", config.GetImage().GetImage(), errdefs.ErrNotFound)
	}
	k.ImageID = img.ID
	def := s.options.Registries.ByID(img.ID)
	if k.root, err = s.newRoot(k, b, def); err != nil {
		return nil, err
	}
	if err := s.makeProcessSpec(k, b, def); err != nil {
		return nil, fmt.Errorf("failed to generate container %q spec: %w", k.ID, err)
	}
	if config.LogPath != "" && r.SandboxConfig.LogDirectory != "" {
		k.LogPath = path.Join(r.SandboxConfig.LogDirectory, config.LogPath)
	}
	k.StopSignal = def.Config.StopSignal
	if sig := config.GetStopSignal(); sig != runtimeapi.Signal_RUNTIME_DEFAULT {
		k.StopSignal = sig.String()
	}
	if err := kernel.SleepContext(ctx, createDelay); err != nil {
		return nil, err
	}
	s.mu.Lock()
	k.CreatedAt = time.Now().UnixNano()
	s.containers[k.ID] = k
	s.touchContainer(k)
	s.mu.Unlock()
	s.w.Trace.Add(kernel.Step{Verb: "create", Subject: "container/" + k.ID, Detail: k.Name, Cause: "sandbox/" + b.ID})
	s.emit(k.ID, b.ID, runtimeapi.ContainerEventType_CONTAINER_CREATED_EVENT)
	return &runtimeapi.CreateContainerResponse{ContainerId: k.ID}, nil
}

func (s *service) startContainer(ctx context.Context, r *runtimeapi.StartContainerRequest) (_ *runtimeapi.StartContainerResponse, rerr error) {
	k, err := s.find(r.ContainerId)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	switch st := k.state(); {
	case st != runtimeapi.ContainerState_CONTAINER_CREATED:
		err = fmt.Errorf("container is in %s state", stateName(st))
	case k.removing:
		err = errors.New("container is in removing state, can't be started")
	case k.starting:
		err = errors.New("container is already in starting state")
	default:
		k.starting = true
	}
	b := s.sandboxes[k.SandboxID]
	ready := b != nil && b.Ready
	s.mu.Unlock()
	if err != nil {
		return nil, fmt.Errorf("failed to set starting state for container %q: %w", k.ID, err)
	}
	defer func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		k.starting = false
		if rerr != nil {
			k.Pid, k.FinishedAt, k.ExitCode, k.Reason, k.Message = 0, time.Now().UnixNano(), exitStartError, reasonStartError, rerr.Error()
		}
		s.touchContainer(k)
	}()
	if b == nil {
		return nil, fmt.Errorf("sandbox %q not found: %w", k.SandboxID, errdefs.ErrNotFound)
	}
	if !ready {
		return nil, fmt.Errorf("sandbox container %q is not running", k.SandboxID)
	}
	if o := k.Config.GetLinux().GetSecurityContext().GetNamespaceOptions(); o.GetPid() == runtimeapi.NamespaceMode_TARGET {
		if err := s.checkTarget(k.SandboxID, o.TargetId); err != nil {
			return nil, fmt.Errorf("invalid target container: %w", err)
		}
	}
	if err := kernel.SleepContext(ctx, startDelay); err != nil {
		return nil, err
	}
	if err := s.openIO(k, false); err != nil {
		return nil, fmt.Errorf("failed to create containerd task: %w", err)
	}
	if err := s.runcCreate(k, b); err != nil {
		k.io.close()
		return nil, fmt.Errorf("failed to create containerd task: failed to create shim task: OCI runtime create failed: runc create failed: %w", err)
	}
	s.emit(k.ID, k.SandboxID, runtimeapi.ContainerEventType_CONTAINER_STARTED_EVENT)
	return &runtimeapi.StartContainerResponse{}, nil
}

// checkTarget sees that a container's pid namespace can be joined.
func (s *service) checkTarget(sandboxID, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	t, err := s.containerByID(id)
	switch {
	case err != nil:
		return fmt.Errorf("container %q does not exist: %w", id, err)
	case t.SandboxID != sandboxID:
		return fmt.Errorf("container %q (sandbox %s) does not belong to sandbox %s", id, t.SandboxID, sandboxID)
	case t.state() != runtimeapi.ContainerState_CONTAINER_RUNNING:
		return fmt.Errorf("container %q is not running - in state %s", id, stateName(t.state()))
	}
	return nil
}

// runcCreate is what runc does to start a container: its mounts, its program, its process.
func (s *service) runcCreate(k *container, b *sandbox) error {
	if err := s.checkCgroup(b.Config.GetLinux().GetCgroupParent()); err != nil {
		return err
	}
	files, err := s.mountRoot(k, b)
	if err != nil {
		return fmt.Errorf("unable to start container process: %w", s.duringInit(err))
	}
	main, argv, err := s.loadProgram(files, k.Process)
	var late *lateExecError
	switch {
	case errors.As(err, &late):
		main, argv = late.program, k.Process.Args
	case err != nil:
		return fmt.Errorf("unable to start container process: %w", s.duringInit(err))
	}
	s.spawn(k, b, files, main, argv, time.Time{})
	s.w.Trace.Add(kernel.Step{Verb: "start", Subject: "container/" + k.ID, Detail: k.Name, Cause: "sandbox/" + b.ID})
	return nil
}

// duringInit adds what runc says since 1.2 before an error of the container's init.
func (c *Containerd) duringInit(err error) error {
	if c.options.RuncVersion < "1.2" {
		return err
	}
	return fmt.Errorf("error during container init: %w", err)
}

// spawn starts the container's process: a new one, or at a thaw the one that ran since then.
func (c *Containerd) spawn(k *container, b *sandbox, files kernel.Files, main kernel.Program, argv []string, since time.Time) {
	spec := kernel.Spec{
		Argv: argv, Env: c.processEnv(files, k.Process), Dir: k.Process.Cwd, Cred: kernel.Credential{UID: k.Process.UID, GID: k.Process.GID, Groups: k.Process.Groups},
		Hostname: c.sandboxHostname(b), Files: files, Net: c.sandboxNetwork(b), Container: k.ID, Parent: b.shim, Unit: "cri-containerd-" + k.ID + ".scope", Cgroup: k.cgroup,
	}
	k.io.fill(&spec)
	c.joinPIDs(&spec, k, b)
	if !since.IsZero() {
		spec.PID, spec.Started = k.Pid, since
	}
	stopped := make(chan struct{})
	c.mu.Lock()
	k.stopped = stopped
	c.mu.Unlock()
	begin := make(chan struct{}) // the program must not run before the state says so
	proc := c.host.Processes.Start(spec, func(p *kernel.Process) int {
		<-begin
		if p.Sleep(time.Until(p.StartTime())) != nil { // a thawed world warms up before it began
			return 1
		}
		return main(p)
	})
	c.mu.Lock()
	k.proc, k.Pid = proc, proc.ID()
	if since.IsZero() {
		// not the time now: it may have passed while we waited for the lock, and a thaw gives the process its start back
		k.StartedAt = proc.StartTime().UnixNano()
	}
	c.touchContainer(k)
	c.mu.Unlock()
	on := c.m.PoweredOn()
	proc.OnExit(func() {
		cut := on && !c.m.PoweredOn()
		kernel.Outside(func() { c.exited(k, b, proc, stopped, cut) })
	})
	close(begin)
}

// joinPIDs puts a process into the pid namespace that its container asks for: its own, its Pod's, another container's or
// the machine's.
func (c *Containerd) joinPIDs(spec *kernel.Spec, k *container, b *sandbox) {
	o := k.Config.GetLinux().GetSecurityContext().GetNamespaceOptions()
	switch o.GetPid() {
	case runtimeapi.NamespaceMode_CONTAINER:
		spec.NamespacePID = 1
	case runtimeapi.NamespaceMode_POD:
		spec.Parent = b.pause
	case runtimeapi.NamespaceMode_TARGET:
		c.mu.Lock()
		defer c.mu.Unlock()
		if t := c.containers[o.TargetId]; t != nil && t.proc != nil {
			spec.Parent = t.proc
		}
	}
}

// exited notes the end of a container's process, as its shim reports it; cut says that the machine has lost its power, so
// that nobody is left to report it.
func (c *Containerd) exited(k *container, b *sandbox, proc *kernel.Process, stopped chan struct{}, cut bool) {
	status := proc.Wait()
	// The kernel kills what is left of a pid namespace with its first process; with a shared one runc kills the cgroup.
	for _, p := range c.host.Processes.List() {
		if p.Container == k.ID {
			p.Signal(kernel.SIGKILL)
		}
	}
	k.io.close()
	c.mu.Lock()
	if k.proc != proc {
		c.mu.Unlock()
		return
	}
	k.proc, k.Pid = nil, 0
	reported := !cut && (b.shim != nil && b.shim.Alive() || c.daemon != nil && c.daemon.p.Alive())
	if reported {
		k.FinishedAt, k.ExitCode = time.Now().UnixNano(), int32(status.ExitCode())
		if k.cgroup.killed() {
			k.Reason = reasonOOM
		}
	}
	d := c.daemon
	c.touchContainer(k)
	c.mu.Unlock()
	close(stopped)
	if reported {
		c.w.Trace.Add(kernel.Step{Host: c.host.Name(), Actor: "containerd-shim", Verb: "stop", Subject: "container/" + k.ID, Detail: fmt.Sprintf("%s exit code %d %s", k.Name, k.ExitCode, k.Reason)})
		if d != nil {
			c.emit(k.ID, k.SandboxID, runtimeapi.ContainerEventType_CONTAINER_STOPPED_EVENT)
		}
	}
}

func (s *service) stopContainer(ctx context.Context, r *runtimeapi.StopContainerRequest) (*runtimeapi.StopContainerResponse, error) {
	k, err := s.find(r.ContainerId)
	if err != nil {
		if isNotFound(err) {
			return &runtimeapi.StopContainerResponse{}, nil
		}
		return nil, err
	}
	if err := s.stop(ctx, k, time.Duration(r.Timeout)*time.Second); err != nil {
		return nil, err
	}
	return &runtimeapi.StopContainerResponse{}, nil
}

// stop sends the stop signal and, when that has had no effect for the timeout, SIGKILL.
func (s *service) stop(ctx context.Context, k *container, timeout time.Duration) error {
	s.mu.Lock()
	proc, stopped, state := k.proc, k.stopped, k.state()
	first := !k.StopSignalled
	if timeout > 0 {
		k.StopSignalled = true
	}
	name := k.StopSignal
	s.touchContainer(k)
	s.mu.Unlock()
	if state != runtimeapi.ContainerState_CONTAINER_RUNNING || proc == nil {
		s.d.log.infof("Container to stop %q must be in running or unknown state, current state %q", k.ID, stateName(state))
		return nil
	}
	if timeout > 0 {
		if name == "" {
			name = "SIGTERM"
		}
		sig, err := parseSignal(name)
		if err != nil {
			return fmt.Errorf("failed to parse stop signal %q: %w", name, err)
		}
		if first {
			s.d.log.infof("Stop container %q with signal %s", k.ID, signalText(sig))
			proc.Signal(sig)
		} else {
			s.d.log.infof("Skipping the sending of signal %s to container %q because a prior stop with timeout>0 request already sent the signal", signalText(sig), k.ID)
		}
		t := time.NewTimer(timeout)
		defer t.Stop()
		select {
		case <-stopped:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-t.C:
		}
	}
	s.d.log.infof("Kill container %q", k.ID)
	proc.Signal(kernel.SIGKILL)
	select {
	case <-stopped:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("an error occurs during waiting for container %q to be killed: wait container %q: %w", k.ID, k.ID, ctx.Err())
	}
}

func (s *service) removeContainer(ctx context.Context, r *runtimeapi.RemoveContainerRequest) (*runtimeapi.RemoveContainerResponse, error) {
	k, err := s.find(r.ContainerId)
	if err != nil {
		if isNotFound(err) {
			return &runtimeapi.RemoveContainerResponse{}, nil
		}
		return nil, err
	}
	s.mu.Lock()
	running := k.state() == runtimeapi.ContainerState_CONTAINER_RUNNING
	s.mu.Unlock()
	if running {
		s.d.log.infof("Forcibly stopping container %q", k.ID)
		if err := s.stop(ctx, k, 0); err != nil {
			return nil, fmt.Errorf("failed to forcibly stop container %q: %w", k.ID, err)
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case k.starting:
		return nil, fmt.Errorf("failed to set removing state for container %q: container is in starting state, can't be removed", k.ID)
	case k.removing:
		return nil, fmt.Errorf("failed to set removing state for container %q: container is already in removing state", k.ID)
	}
	k.removing = true
	delete(s.containers, k.ID)
	delete(s.names, k.Name)
	go s.emit(k.ID, k.SandboxID, runtimeapi.ContainerEventType_CONTAINER_DELETED_EVENT)
	return &runtimeapi.RemoveContainerResponse{}, nil
}

// ListContainers implements the CRI. The order is that of creation.
func (s *service) ListContainers(_ context.Context, r *runtimeapi.ListContainersRequest) (*runtimeapi.ListContainersResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	res := &runtimeapi.ListContainersResponse{}
	for _, k := range s.filterContainers(r.GetFilter()) {
		res.Containers = append(res.Containers, &runtimeapi.Container{Id: k.ID, PodSandboxId: k.SandboxID, Metadata: k.Config.Metadata, Image: k.Config.Image, ImageRef: k.ImageID,
			State: k.state(), CreatedAt: k.CreatedAt, Labels: k.Config.Labels, Annotations: k.Config.Annotations})
	}
	return res, nil
}

// filterContainers lists the containers that a filter lets through. The lock is held.
func (c *Containerd) filterContainers(f *runtimeapi.ContainerFilter) (l []*container) {
	id, pod := f.GetId(), f.GetPodSandboxId()
	if k, err := c.containerByID(id); err == nil {
		id = k.ID
	}
	if b, err := c.sandboxByID(pod); err == nil {
		pod = b.ID
	}
	for _, k := range c.containers {
		if id != "" && k.ID != id || pod != "" && k.SandboxID != pod || f.GetState() != nil && f.GetState().State != k.state() || !matchLabels(k.Config.Labels, f.GetLabelSelector()) {
			continue
		}
		l = append(l, k)
	}
	sort.Slice(l, func(i, j int) bool {
		return l[i].CreatedAt < l[j].CreatedAt || l[i].CreatedAt == l[j].CreatedAt && l[i].ID < l[j].ID
	})
	return l
}

// ContainerStatus implements the CRI.
func (s *service) ContainerStatus(_ context.Context, r *runtimeapi.ContainerStatusRequest) (*runtimeapi.ContainerStatusResponse, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	k, err := s.containerByID(r.ContainerId)
	if err != nil {
		return nil, fmt.Errorf("an error occurred when try to find container %q: %w", r.ContainerId, err)
	}
	res := &runtimeapi.ContainerStatusResponse{Status: s.containerStatus(k)}
	if r.Verbose {
		res.Info = s.containerInfo(k)
	}
	return res, nil
}

// containerStatus is the CRI's status of a container. The lock is held.
func (c *Containerd) containerStatus(k *container) *runtimeapi.ContainerStatus {
	spec, ref := k.Config.GetImage(), k.ImageID
	if i := c.images[k.ImageID]; i != nil {
		tags, digests := i.split()
		if len(tags) > 0 {
			spec = &runtimeapi.ImageSpec{Image: tags[0]}
		}
		if len(digests) > 0 {
			ref = digests[0]
		}
	}
	st := &runtimeapi.ContainerStatus{
		Id: k.ID, Metadata: k.Config.Metadata, State: k.state(), CreatedAt: k.CreatedAt, ExitCode: k.ExitCode, Image: spec, ImageRef: ref, Reason: k.Reason, Message: k.Message,
		Labels: k.Config.Labels, Annotations: k.Config.Annotations, Mounts: k.Config.Mounts, LogPath: k.LogPath, Resources: k.Resources,
		User: &runtimeapi.ContainerUser{Linux: &runtimeapi.LinuxContainerUser{Uid: int64(k.Process.UID), Gid: int64(k.Process.GID), SupplementalGroups: int64s(k.Process.Groups)}},
	}
	switch st.State {
	case runtimeapi.ContainerState_CONTAINER_RUNNING:
		st.StartedAt = k.StartedAt
	case runtimeapi.ContainerState_CONTAINER_EXITED:
		st.StartedAt, st.FinishedAt = k.StartedAt, k.FinishedAt
		if st.Reason == "" {
			st.Reason = "Error"
			if k.ExitCode == 0 {
				st.Reason = "Completed"
			}
		}
	}
	return st
}

func int64s(l []int) (r []int64) {
	for _, n := range l {
		r = append(r, int64(n))
	}
	return r
}

// UpdateContainerResources implements the CRI.
func (s *service) UpdateContainerResources(_ context.Context, r *runtimeapi.UpdateContainerResourcesRequest) (*runtimeapi.UpdateContainerResourcesResponse, error) {
	k, err := s.find(r.ContainerId)
	if err != nil {
		return nil, fmt.Errorf("failed to find container: %w", errors.Unwrap(err))
	}
	s.mu.Lock()
	if k.removing || k.state() == runtimeapi.ContainerState_CONTAINER_EXITED {
		st := k.state()
		s.mu.Unlock()
		return nil, fmt.Errorf("failed to update resources: container is in %s state", stateName(st))
	}
	merged := &runtimeapi.LinuxContainerResources{}
	if old := k.Resources.GetLinux(); old != nil {
		merged = protoClone(old)
	}
	mergeResources(merged, r.Linux)
	k.Resources = &runtimeapi.ContainerResources{Linux: merged}
	s.touchContainer(k)
	cg := k.cgroup
	s.mu.Unlock()
	if cg != nil {
		cg.set(merged)
	}
	return &runtimeapi.UpdateContainerResourcesResponse{}, nil
}
