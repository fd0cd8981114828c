package kubelet

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"net/http"
	"path"
	"strconv"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/client-go/tools/cache"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	"k8s.io/kubernetes/cmd/kubelet/app/options"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	"k8s.io/kubernetes/pkg/kubelet/config"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	"k8s.io/kubernetes/pkg/kubelet/events"
	"k8s.io/kubernetes/pkg/kubelet/eviction"
	evictionapi "k8s.io/kubernetes/pkg/kubelet/eviction/api"
	kubetypes "k8s.io/kubernetes/pkg/kubelet/types"

	"ckadrill/sim/kernel"
	"ckadrill/sim/network"
)

// run is upstream's run and RunKubelet (cmd/kubelet/app/server.go), in their order, on a machine.
func run(p *kernel.Process, s *options.KubeletServer, tlsConfig *tls.Config, seams Seams) error {
	logAt(p, "watchdog_linux.go", 95).Info("Systemd watchdog is not enabled")
	logAt(p, "watchdog_linux.go", 138).Info("Systemd watchdog is not enabled or the interval is invalid, so health checking will not be started.")
	checked := *s
	checked.FailCgroupV1 = false // the host's cgroups are not the machine's, see [validateConfiguration]
	if err := options.ValidateKubeletServer(&checked); err != nil {
		return err
	}
	host, err := hostname(p, s.HostnameOverride)
	if err != nil {
		return err
	}
	n := &node{p: p, s: s, hostname: host, name: types.NodeName(host), hw: hardware{p: p}, tls: tlsConfig}
	if s.KubeConfig == "" {
		logAt(p, "server.go", 583).Info("Standalone mode, no API client")
	} else {
		c, err := clientConfig(p, s, n.name, seams.API)
		if err != nil {
			return err
		}
		if n.clients, err = seams.API(p, c, s); err != nil {
			return err
		}
	}
	auth, err := n.auth()
	if err != nil {
		return err
	}
	cri, images, err := seams.connectRuntime(p, s)
	if err != nil {
		return err
	}
	if err := cgroupDriver(p, s, cri); err != nil {
		return err
	}
	n.recorder = newRecorder(p, string(n.name), n.clients)
	if err := n.containerManager(); err != nil {
		return err
	}
	if n.nodeIPs, err = parseNodeIP(p, s.NodeIP, s.CloudProvider); err != nil {
		return err
	}
	if n.root, err = newRoots(p, s.RootDirectory); err != nil {
		return err
	}
	cri = runtimeService{RuntimeService: cri, p: p, root: n.root}
	if err := n.assemble(cri, images); err != nil {
		return fmt.Errorf("failed to create kubelet: %w", err)
	}
	n.recall()
	if s.ServerTLSBootstrap && n.clients != nil && s.TLSCertFile == "" {
		n.serving = &servingCertificate{n: n}
		if n.before != nil {
			n.serving.pending = n.before.Serving
		}
	}
	n.kl.BirthCry()
	n.collectGarbage()
	if err := n.directories(); err != nil {
		n.recorder.Event(n.ref(), v1.EventTypeWarning, events.KubeletSetupFailed, err.Error())
		logAt(p, "kubelet.go", 1745).Error(err, "Failed to initialize internal modules")
		return finished(1)
	}
	go n.loops()
	if s.EnableServer {
		go n.serve(auth)
	}
	if n.serving != nil {
		go n.serving.keep()
	}
	logAt(p, "server.go", 1257).Info("Started kubelet")
	if s.HealthzPort > 0 {
		go n.serveHealthz()
	}
	p.Notify(kernel.SIGTERM, func() { p.Exit(0) })
	p.Notify(kernel.SIGINT, func() { p.Exit(0) })
	<-p.Done()
	return nil
}

// loops is upstream's Kubelet.Run.
func (n *node) loops() {
	p, kl, kc := n.p, n.kl, &n.s.KubeletConfiguration
	ctx := p.Context()
	n.step()
	n.alloc.Run(ctx)
	n.step()
	go n.volumes.Run(ctx, getField(kl, "sourcesReady").(config.SourcesReady))
	if n.before != nil {
		updateRuntimeUp(kl)
		n.relistAsBefore(n.before.Told, n.before.Relisted)
	}
	if n.clients != nil {
		if p.Resumed() {
			n.settle(ctx)
		}
		n.step()
		go func() {
			updateRuntimeUp(kl)
			wait.JitterUntil(func() { endIfDead(p); syncNodeStatus(kl) }, kc.NodeStatusUpdateFrequency.Duration, nodeStatusJitter, true, p.Done())
		}()
		if !p.Resumed() {
			go fastStatusUpdateOnce(kl)
		} else {
			setField(kl, "containerRuntimeReadyExpected", true)
		}
		n.step()
		go n.lease.Run(ctx)
		go fastStaticPodsRegistration(kl, ctx)
	}
	n.step()
	n.forever(func() { updateRuntimeUp(kl) }, updateRuntimeUpPeriod)
	logAt(p, "kubelet_network_linux.go", 54).Info("Initialized iptables rules.", "protocol", "IPv4")
	logAt(p, "kubelet_network_linux.go", 54).Info("Initialized iptables rules.", "protocol", "IPv6")
	n.step()
	n.analyzer.Start(ctx)
	n.step()
	n.statuses.Start(ctx)
	if n.classes != nil {
		n.classes.Start(p.Done())
	}
	n.step()
	if n.before == nil {
		n.pleg.Start()
		n.step()
	} else {
		go n.relistOn()
		n.awaitPhase(n.before.SyncLoop, housekeepingPeriod)
	}
	n.syncLoop = time.Now()
	syncLoop(kl, context.Background(), n.updates(), handler{kl, n})
}

// step lets the time pass that lies between the starts of two loops.
func (n *node) step() {
	h := fnv.New32a()
	h.Write([]byte(n.hostname))
	n.p.Sleep(startStep + time.Duration(h.Sum32()%1000)*time.Microsecond)
}

// updates hands the sources' changes on until the process ends, which ends upstream's sync loop.
func (n *node) updates() <-chan kubetypes.PodUpdate {
	out := make(chan kubetypes.PodUpdate, 50)
	go func() {
		defer close(out)
		in := n.sources.Updates()
		for {
			select {
			case <-n.p.Done():
				return
			case u := <-in:
				select {
				case out <- u:
				case <-n.p.Done():
					return
				}
			}
		}
	}()
	return out
}

// settle lets a resumed kubelet see its Node before it reports anything: what it then reports is what it reported before.
func (n *node) settle(ctx context.Context) {
	if n.registered {
		setField(n.kl, "registrationCompleted", true)
	}
	synced := getField(n.kl, "nodeHasSynced").(cache.InformerSynced)
	for end := time.Now().Add(settleAfterThaw); !synced() && time.Now().Before(end); {
		if kernel.SleepContext(ctx, 20*time.Millisecond) != nil {
			return
		}
	}
}

// collectGarbage removes dead containers once a minute, and images that nobody needs (StartGarbageCollection).
func (n *node) collectGarbage() {
	gc := getField(n.kl, "containerGC").(kubecontainer.GC)
	n.collect(func() {
		if err := gc.GarbageCollect(n.p.Context()); err != nil && n.p.Alive() {
			logAt(n.p, "kubelet.go", 1594).Error(err, "Container garbage collection failed")
			n.recorder.Event(n.ref(), v1.EventTypeWarning, events.ContainerGCFailed, err.Error())
		}
	}, containerGCPeriod)
	n.collectImages()
}

// collect runs a collection every period. A resumed kubelet's last one was less than a period before the thaw.
func (n *node) collect(f func(), period time.Duration) {
	first := n.p.Resumed()
	n.forever(func() {
		if !first {
			f()
		}
		first = false
	}, period)
}

// ref is what events about the node are of.
func (n *node) ref() *v1.ObjectReference {
	return &v1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: string(n.name)}
}

// directories is upstream's setupDataDirs on the machine.
func (n *node) directories() error {
	for _, d := range []struct{ name, what string }{
		{n.root.machine, "root directory"}, {n.s.PodLogsDir, "pod logs root directory"}, {path.Join(n.root.machine, "pods"), "pods directory"},
		{path.Join(n.root.machine, "plugins"), "plugins directory"}, {path.Join(n.root.machine, "plugins_registry"), "plugins registry directory"},
		{path.Join(n.root.machine, "pod-resources"), "podresources directory"}, {path.Join(n.root.machine, "checkpoints"), "checkpoint directory"},
	} {
		if err := n.p.Files.MkdirAll(d.name, 0o750); err != nil {
			return fmt.Errorf("error creating %s: %v", d.what, err)
		}
	}
	if err := n.p.Files.MkdirAll("/var/log/containers", 0o755); err != nil {
		return fmt.Errorf("failed to create directory %q: %v", "/var/log/containers", err)
	}
	return nil
}

// RuntimeConnector connects to a CRI endpoint; a call may take as long as timeout.
type RuntimeConnector func(p *kernel.Process, endpoint string, timeout time.Duration) (internalapi.RuntimeService, internalapi.ImageManagerService, error)

// connectRuntime is upstream's PreInitRuntimeService.
func (c Seams) connectRuntime(p *kernel.Process, s *options.KubeletServer) (internalapi.RuntimeService, internalapi.ImageManagerService, error) {
	timeout := s.RuntimeRequestTimeout.Duration
	r, i, err := c.CRI(p, s.ContainerRuntimeEndpoint, timeout)
	if err != nil || s.ImageServiceEndpoint == "" || s.ImageServiceEndpoint == s.ContainerRuntimeEndpoint {
		return r, i, err
	}
	_, i, err = c.CRI(p, s.ImageServiceEndpoint, timeout)
	return r, i, err
}

// cgroupDriver is upstream's getCgroupDriverFromCRI.
func cgroupDriver(p *kernel.Process, s *options.KubeletServer, cri internalapi.RuntimeService) error {
	var c *runtimeapi.RuntimeConfigResponse
	var err error
	for range 3 {
		if c, err = cri.RuntimeConfig(p.Context()); err == nil {
			break
		}
		if status.Code(err) == codes.Unimplemented {
			logAt(p, "server.go", 1392).Info("CRI implementation should be updated to support RuntimeConfig. Falling back to using cgroupDriver from kubelet config.")
			return nil
		}
		if p.Sleep(criRuntimeConfigRetryPeriod) != nil {
			return err
		}
	}
	if err != nil {
		return err
	}
	if c.GetLinux() == nil {
		return nil
	}
	switch d := c.GetLinux().GetCgroupDriver(); d {
	case runtimeapi.CgroupDriver_SYSTEMD:
		s.CgroupDriver = "systemd"
	case runtimeapi.CgroupDriver_CGROUPFS:
		s.CgroupDriver = "cgroupfs"
	default:
		return fmt.Errorf("runtime returned an unknown cgroup driver %d", d)
	}
	logAt(p, "server.go", 1418).Info("Using cgroup driver setting received from the CRI runtime", "cgroupDriver", s.CgroupDriver)
	return nil
}

// containerManager checks what upstream's run and NewContainerManager check, and prints their lines.
func (n *node) containerManager() error {
	p, s := n.p, n.s
	if s.CgroupsPerQOS && s.CgroupRoot == "" {
		logAt(p, "server.go", 775).Info("--cgroups-per-qos enabled, but --cgroup-root was not specified.  Defaulting to /")
		s.CgroupRoot = "/"
	}
	kubeReserved, err := parseResources(s.KubeReserved)
	if err != nil {
		return fmt.Errorf("--kube-reserved value failed to parse: %w", err)
	}
	systemReserved, err := parseResources(s.SystemReserved)
	if err != nil {
		return fmt.Errorf("--system-reserved value failed to parse: %w", err)
	}
	n.hw.reserved = uint64(kubeReserved.Memory().Value() + systemReserved.Memory().Value())
	var thresholds []evictionapi.Threshold
	if !s.ExperimentalNodeAllocatableIgnoreEvictionThreshold {
		if thresholds, err = eviction.ParseThresholdConfig([]string{}, s.EvictionHard, nil, nil, nil); err != nil {
			return err
		}
	}
	qos, err := cm.ParseQOSReserved(s.QOSReserved)
	if err != nil {
		return fmt.Errorf("--qos-reserved value failed to parse: %w", err)
	}
	on, err := swapOn(p)
	if err != nil {
		return fmt.Errorf("failed to determine if swap is on: %w", err)
	}
	if on && s.FailSwapOn {
		return errors.New("running with swap on is not supported, please disable swap or set --fail-swap-on flag to false")
	}
	c := cm.NodeConfig{
		NodeName:              n.name,
		RuntimeCgroupsName:    s.RuntimeCgroups,
		SystemCgroupsName:     s.SystemCgroups,
		KubeletCgroupsName:    s.KubeletCgroups,
		KubeletOOMScoreAdj:    s.OOMScoreAdj,
		CgroupsPerQOS:         s.CgroupsPerQOS,
		CgroupRoot:            s.CgroupRoot,
		CgroupDriver:          s.CgroupDriver,
		CgroupVersion:         2,
		KubeletRootDir:        s.RootDirectory,
		ProtectKernelDefaults: s.ProtectKernelDefaults,
		NodeAllocatableConfig: cm.NodeAllocatableConfig{
			KubeReservedCgroupName: s.KubeReservedCgroup, SystemReservedCgroupName: s.SystemReservedCgroup,
			EnforceNodeAllocatable: sets.New(s.EnforceNodeAllocatable...), KubeReserved: kubeReserved, SystemReserved: systemReserved,
			HardEvictionThresholds: thresholds,
		},
		QOSReserved:                 *qos,
		CPUManagerPolicy:            s.CPUManagerPolicy,
		CPUManagerPolicyOptions:     s.CPUManagerPolicyOptions,
		CPUManagerReconcilePeriod:   s.CPUManagerReconcilePeriod.Duration,
		MemoryManagerPolicy:         s.MemoryManagerPolicy,
		MemoryManagerReservedMemory: s.ReservedMemory,
		PodPidsLimit:                s.PodPidsLimit,
		EnforceCPULimits:            s.CPUCFSQuota,
		CPUCFSQuotaPeriod:           s.CPUCFSQuotaPeriod.Duration,
		TopologyManagerPolicy:       s.TopologyManagerPolicy,
		TopologyManagerScope:        s.TopologyManagerScope,
	}
	logAt(p, "container_manager_linux.go", 272).Info("Container manager verified user specified cgroup-root exists", "cgroupRoot", []string{})
	logAt(p, "container_manager_linux.go", 277).Info("Creating Container Manager object based on Node Config", "nodeConfig", c)
	logAt(p, "topology_manager.go", 143).Info("Creating topology manager with none policy")
	logAt(p, "container_manager_linux.go", 308).Info("Creating device plugin manager")
	logAt(p, "container_manager_linux.go", 317).Info("Creating Dynamic Resource Allocation (DRA) manager")
	logAt(p, "state_mem.go", 41).WithName("CPUManager state memory").Info("Initialized")
	n.cm, err = newContainerManager(p, c, n.hw, n.recorder)
	return err
}

// parseResources is upstream's parseResourceList.
func parseResources(m map[string]string) (v1.ResourceList, error) {
	if len(m) == 0 {
		return nil, nil
	}
	l := v1.ResourceList{}
	for k, v := range m {
		switch v1.ResourceName(k) {
		case v1.ResourceCPU, v1.ResourceMemory, v1.ResourceEphemeralStorage, "pid":
		default:
			return nil, fmt.Errorf("cannot reserve %q resource", k)
		}
		q, err := resource.ParseQuantity(v)
		if err != nil {
			return nil, fmt.Errorf("failed to parse quantity %q for %q resource: %w", v, k, err)
		}
		if q.Sign() == -1 {
			return nil, fmt.Errorf("resource quantity for %q cannot be negative: %v", k, v)
		}
		l[v1.ResourceName(k)] = q
	}
	return l, nil
}

// serveHealthz answers on the health port, 127.0.0.1:10248.
func (n *node) serveHealthz() {
	mux := http.NewServeMux()
	healthz.InstallHandler(mux)
	address := net.JoinHostPort(n.s.HealthzBindAddress, strconv.Itoa(int(n.s.HealthzPort)))
	for n.p.Alive() {
		l, err := n.p.Listen("tcp", address)
		if err == nil {
			err = network.Serve(l, nil, mux)
		}
		if err != nil && n.p.Alive() {
			logAt(n.p, "server.go", 908).Error(err, "Failed to start healthz server")
		}
		n.p.Sleep(serverRetryPeriod)
	}
}
