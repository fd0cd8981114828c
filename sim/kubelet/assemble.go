package kubelet

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"slices"
	"time"
	"unsafe"

	"go.opentelemetry.io/otel/trace/noop"
	v1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes"
	corelisters "k8s.io/client-go/listers/core/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/component-helpers/apimachinery/lease"
	internalapi "k8s.io/cri-api/pkg/apis"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kubelet/app/options"
	"k8s.io/kubernetes/pkg/kubelet"
	"k8s.io/kubernetes/pkg/kubelet/allocation"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/clustertrustbundle"
	"k8s.io/kubernetes/pkg/kubelet/config"
	"k8s.io/kubernetes/pkg/kubelet/configmap"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	"k8s.io/kubernetes/pkg/kubelet/eviction"
	"k8s.io/kubernetes/pkg/kubelet/images"
	"k8s.io/kubernetes/pkg/kubelet/kuberuntime"
	"k8s.io/kubernetes/pkg/kubelet/lifecycle"
	kubeletlogs "k8s.io/kubernetes/pkg/kubelet/logs"
	"k8s.io/kubernetes/pkg/kubelet/network/dns"
	"k8s.io/kubernetes/pkg/kubelet/pleg"
	kubepod "k8s.io/kubernetes/pkg/kubelet/pod"
	"k8s.io/kubernetes/pkg/kubelet/podcertificate"
	"k8s.io/kubernetes/pkg/kubelet/preemption"
	"k8s.io/kubernetes/pkg/kubelet/prober"
	proberesults "k8s.io/kubernetes/pkg/kubelet/prober/results"
	"k8s.io/kubernetes/pkg/kubelet/runtimeclass"
	"k8s.io/kubernetes/pkg/kubelet/secret"
	serverstats "k8s.io/kubernetes/pkg/kubelet/server/stats"
	"k8s.io/kubernetes/pkg/kubelet/stats"
	"k8s.io/kubernetes/pkg/kubelet/status"
	"k8s.io/kubernetes/pkg/kubelet/sysctl"
	"k8s.io/kubernetes/pkg/kubelet/token"
	kubetypes "k8s.io/kubernetes/pkg/kubelet/types"
	"k8s.io/kubernetes/pkg/kubelet/userns"
	"k8s.io/kubernetes/pkg/kubelet/util"
	"k8s.io/kubernetes/pkg/kubelet/util/manager"
	"k8s.io/kubernetes/pkg/kubelet/volumemanager"
	volumecache "k8s.io/kubernetes/pkg/kubelet/volumemanager/cache"
	httpprobe "k8s.io/kubernetes/pkg/probe/http"
	"k8s.io/kubernetes/pkg/volume/util/volumepathhandler"
	"k8s.io/mount-utils"
	"k8s.io/utils/clock"
	netutils "k8s.io/utils/net"

	"ckadrill/sim/kernel"
	"ckadrill/sim/kubelet/volumes"
)

// node is one running kubelet: upstream's struct and what was put into it.
type node struct {
	p *kernel.Process
	// registered: a resumed kubelet had registered its Node.
	registered bool
	manifests  *manifests
	before     *memory   // what a resumed kubelet knew
	syncLoop   time.Time // when the sync loop started
	seen       seen
	s          *options.KubeletServer
	name       types.NodeName
	hostname   string
	nodeIPs    []net.IP
	clients    *Clients
	recorder   *recorder
	hw         hardware
	cm         *containerManager
	root       *roots
	clock      clock.RealClock
	tls        *tls.Config

	kl                           *kubelet.Kubelet
	state                        unsafe.Pointer // upstream's runtimeState
	cri                          internalapi.RuntimeService
	images                       images.ImageGCManager
	runtime                      kubecontainer.Runtime
	pods                         kubepod.Manager
	workers                      kubelet.PodWorkers
	work                         *workQueue
	pace                         *volumes.Pace
	rest                         restingPods
	syncs                        syncs
	statuses                     status.Manager
	volumes                      volumemanager.VolumeManager
	probes                       prober.Manager
	pleg                         pleg.PodLifecycleEventGenerator
	lease                        lease.Controller
	eviction                     evictionManager
	analyzer                     serverstats.ResourceAnalyzer
	resourceStats                *stats.Provider
	serving                      *servingCertificate // with serverTLSBootstrap
	classes                      *runtimeclass.Manager
	alloc                        allocation.Manager
	sources                      *config.PodConfig
	crash                        *flowcontrol.Backoff
	pull                         *flowcontrol.Backoff
	liveness, readiness, startup proberesults.Manager
	stopPLEG                     func()
}

// assemble makes the Kubelet in the order of upstream's NewMainKubelet. Every field that upstream's own methods read is set
// here; a comment stands where a part differs from upstream's.
func (n *node) assemble(cri internalapi.RuntimeService, imageService internalapi.ImageManagerService) error {
	p, s, kc := n.p, n.s, &n.s.KubeletConfiguration
	ctx := context.Background()
	logger := klog.Background()
	kl := &kubelet.Kubelet{}
	n.kl, n.cri = kl, cri
	set := func(name string, v any) { setField(kl, name, v) }
	if kc.SyncFrequency.Duration <= 0 {
		return fmt.Errorf("invalid sync frequency %d", kc.SyncFrequency.Duration)
	}

	nodeLister, nodeSynced := n.watchNode()
	if err := n.podSources(nodeSynced); err != nil {
		return err
	}
	gcPolicy := kubecontainer.GCPolicy{MinAge: s.MinimumGCAge.Duration, MaxPerPodContainer: int(s.MaxPerPodContainerCount), MaxContainers: int(s.MaxContainerCount)}
	thresholds, err := eviction.ParseThresholdConfig(kc.EnforceNodeAllocatable, kc.EvictionHard, kc.EvictionSoft, kc.EvictionSoftGracePeriod, kc.EvictionMinimumReclaim)
	if err != nil {
		return err
	}
	serviceLister, servicesSynced := n.watchServices()
	ref := n.ref()
	ready := config.NewSourcesReady(n.sources.SeenAllSources)
	files := machineFiles{p, n.root}
	utils, subs := hostUtils{p, n.root}, subPaths{p, n.root}
	tracer := noop.NewTracerProvider()
	mounter := mount.NewFakeMounter(nil) // nothing is mounted on the host; volumes are directories of the machine
	dnsConfigurer := dns.NewConfigurer(n.recorder, ref, n.nodeIPs, n.clusterDNS(), kc.ClusterDomain, kc.ResolverConfig)
	resolveFromMachine(p, dnsConfigurer)

	set("hostname", n.hostname)
	set("nodeName", n.name)
	if n.clients != nil {
		set("kubeClient", n.clients.Kube)
		set("heartbeatClient", n.clients.Heartbeat)
		set("onRepeatedHeartbeatFailure", func() {})
	}
	set("rootDirectory", n.root.private) // see [roots]
	set("podLogsDirectory", kc.PodLogsDir)
	set("resyncInterval", kc.SyncFrequency.Duration)
	set("sourcesReady", ready)
	set("registerNode", s.RegisterNode)
	set("registerWithTaints", kc.RegisterWithTaints)
	set("dnsConfigurer", dnsConfigurer)
	set("serviceLister", serviceLister)
	set("serviceHasSynced", servicesSynced)
	set("nodeLister", nodeLister)
	set("nodeHasSynced", nodeSynced)
	set("recorder", n.recorder)
	set("cadvisor", n.hw)
	set("externalCloudProvider", s.CloudProvider == "external")
	set("providerID", kc.ProviderID)
	set("nodeRef", ref)
	set("nodeLabels", s.NodeLabels)
	set("nodeStatusUpdateFrequency", kc.NodeStatusUpdateFrequency.Duration)
	set("nodeStatusReportFrequency", kc.NodeStatusReportFrequency.Duration)
	set("os", files)
	set("cgroupsPerQOS", kc.CgroupsPerQOS)
	set("cgroupRoot", kc.CgroupRoot)
	set("mounter", mounter)
	set("hostutil", utils)
	set("subpather", subs)
	set("maxPods", int(kc.MaxPods))
	set("podsPerCore", int(kc.PodsPerCore))
	set("daemonEndpoints", &v1.NodeDaemonEndpoints{KubeletEndpoint: v1.DaemonEndpoint{Port: kc.Port}})
	set("containerManager", n.cm)
	set("nodeIPs", n.nodeIPs)
	set("nodeIPValidator", func(ip net.IP) error { return validateNodeIP(p, ip) })
	set("clock", n.clock)
	set("enableControllerAttachDetach", kc.EnableControllerAttachDetach)
	set("makeIPTablesUtilChains", false) // its lines are printed at the start, its chains are the network's own
	set("nodeStatusMaxImages", kc.NodeStatusMaxImages)
	set("tracer", tracer.Tracer("k8s.io/kubernetes/pkg/kubelet"))
	set("nodeStartupLatencyTracker", util.NewNodeStartupLatencyTracker())

	var secrets secret.Manager
	var configMaps configmap.Manager
	if n.clients != nil {
		api := n.clients.Kube
		switch kc.ConfigMapAndSecretChangeDetectionStrategy {
		case kubeletconfig.WatchChangeDetectionStrategy:
			secrets, configMaps = secret.NewWatchingSecretManager(api, kc.SyncFrequency.Duration), configmap.NewWatchingConfigMapManager(api, kc.SyncFrequency.Duration)
		case kubeletconfig.TTLCacheChangeDetectionStrategy:
			ttl := manager.GetObjectTTLFromNodeFunc(kl.GetNode)
			secrets, configMaps = secret.NewCachingSecretManager(api, ttl), configmap.NewCachingConfigMapManager(api, ttl)
		case kubeletconfig.GetChangeDetectionStrategy:
			secrets, configMaps = secret.NewSimpleSecretManager(api), configmap.NewSimpleConfigMapManager(api)
		default:
			return fmt.Errorf("unknown configmap and secret manager mode: %v", kc.ConfigMapAndSecretChangeDetectionStrategy)
		}
		set("secretManager", secrets)
		set("configMapManager", configMaps)
	}
	machine, err := n.hw.MachineInfo()
	if err != nil {
		return err
	}
	machine.Timestamp = time.Time{}
	set("machineInfo", machine)

	n.pull = flowcontrol.NewBackOff(imageBackOffPeriod, maxImageBackOff)
	n.liveness, n.readiness, n.startup = proberesults.NewManager(), proberesults.NewManager(), proberesults.NewManager()
	podCache := kubecontainer.NewCache()
	n.pods = kubepod.NewBasicPodManager()
	var api kubernetes.Interface
	if n.clients != nil {
		api = n.clients.Kube
	}
	latency := util.NewPodStartupLatencyTracker()
	n.statuses = status.NewManager(api, n.pods, kl, latency)
	n.alloc = allocation.NewManager(n.root.private, n.cm.GetNodeConfig(), n.cm.GetNodeAllocatableAbsolute(), n.statuses,
		func(pod *v1.Pod) { kl.HandlePodSyncs([]*v1.Pod{pod}) }, kl.GetActivePods, n.pods.GetPodByUID, ready, n.recorder)
	set("livenessManager", n.liveness)
	set("readinessManager", n.readiness)
	set("startupManager", n.startup)
	set("podCache", podCache)
	set("mirrorPodClient", kubepod.NewBasicMirrorClient(api, string(n.name), nodeLister))
	set("podManager", n.pods)
	set("statusManager", n.statuses)
	set("allocationManager", n.alloc)
	n.analyzer = n.newAnalyzer(ctx)
	set("resourceAnalyzer", n.analyzer)
	set("runtimeService", cri)
	if api != nil {
		n.classes = runtimeclass.NewManager(api)
		set("runtimeClassManager", n.classes)
	}
	logManager, err := kubeletlogs.NewContainerLogManager(cri, files, kc.ContainerLogMaxSize, int(kc.ContainerLogMaxFiles), int(kc.ContainerLogMaxWorkers), kc.ContainerLogMonitorInterval)
	if err != nil {
		return fmt.Errorf("failed to initialize container log manager: %v", err)
	}
	logs := rotation{ContainerLogManager: logManager, n: n}
	set("containerLogManager", logs)
	set("reasonCache", kubelet.NewReasonCache())
	n.work = newWorkQueue(n.clock)
	set("workQueue", n.work)
	n.workers = newPodWorkers(&podSync{kl, n}, n.recorder, n.work, kc.SyncFrequency.Duration, backOffPeriod, podCache, n.alloc)
	set("podWorkers", n.workers)

	tokens := token.NewManager(api)
	singleOOM := new(bool)
	if kc.SingleProcessOOMKill != nil {
		singleOOM = kc.SingleProcessOOMKill
	}
	hooks := &http.Client{Transport: httpClient(p), CheckRedirect: httpprobe.RedirectChecker(false)}
	env := &environment{Kubelet: kl, p: p, root: n.root, utils: utils, subpaths: subs}
	generic, _, err := kuberuntime.NewKubeGenericRuntimeManager(ctx, kubecontainer.FilterEventRecorder(n.recorder), n.liveness, n.readiness, n.startup,
		n.root.private, kc.PodLogsDir, machine, n.workers, kc.MaxPods, files, env, hooks, n.pull,
		kc.SerializeImagePulls, kc.MaxParallelImagePulls, float32(kc.RegistryPullQPS), int(kc.RegistryBurst),
		kc.ImagePullCredentialsVerificationPolicy, kc.PreloadedImagesVerificationAllowlist, "", "", singleOOM,
		kc.CPUCFSQuota, kc.CPUCFSQuotaPeriod, cri, imageService, n.cm, logs, n.classes,
		s.KubeletFlags.SeccompDefault || kc.SeccompDefault, kc.MemorySwap.SwapBehavior, n.cm.GetNodeAllocatableAbsolute,
		*kc.MemoryThrottlingFactor, latency, tracer, tokens, func(namespace, name string) (*v1.ServiceAccount, error) {
			if api == nil {
				return nil, errors.New("cannot get ServiceAccounts when kubelet is in standalone mode")
			}
			return api.CoreV1().ServiceAccounts(namespace).Get(ctx, name, metav1.GetOptions{})
		})
	if err != nil {
		return err
	}
	forgetHostKeyrings(generic)
	kr := containerRuntime{Runtime: generic, p: p, cri: cri}
	n.runtime = kr
	set("containerRuntime", kr)
	set("streamingRuntime", generic)
	set("runner", generic)
	n.alloc.SetContainerRuntime(kr)
	runtimeCache, err := kubecontainer.NewRuntimeCache(kr, runtimeCacheRefreshPeriod)
	if err != nil {
		return err
	}
	set("runtimeCache", runtimeCache)

	hostStats := stats.NewHostStatsProvider(noHostFiles{files}, func(types.UID) string { return "" }, kc.PodLogsDir)
	cadvisorStats := stats.NewCadvisorStatsProvider(n.hw, n.analyzer, n.pods, kr, n.statuses, hostStats, n.cm)
	set("StatsProvider", stats.NewCRIStatsProvider(n.hw, n.analyzer, n.pods, cri, imageService, hostStats, true, cadvisorStats))
	n.resourceStats = stats.NewCRIStatsProvider(n.hw, n.analyzer, n.pods, cri, imageService, hostStats, false, cadvisorStats)

	plegEvents := make(chan *pleg.PodLifecycleEvent, 1000)
	generator := pleg.NewGenericPLEG(logger, kr, plegEvents, &pleg.RelistDuration{RelistPeriod: genericPlegRelistPeriod, RelistThreshold: genericPlegRelistThreshold}, podCache, n.clock)
	n.pleg = generator
	set("pleg", generator)
	n.state = newRuntimeState(maxWaitForContainerRuntime)
	set("runtimeState", n.state)
	addHealthCheck(n.state, "PLEG", func() (bool, error) {
		endIfDead(p)
		return generator.Healthy()
	})
	if _, err := updatePodCIDR(kl, ctx, kc.PodCIDR); err != nil {
		logAt(p, "kubelet.go", 862).Error(err, "Pod CIDR update failed")
	}
	gc, err := kubecontainer.NewContainerGC(kr, gcPolicy, ready)
	if err != nil {
		return err
	}
	set("containerGC", gc)
	set("containerDeletor", newPodContainerDeletor(kr, max(gcPolicy.MaxPerPodContainer, 1)))
	if n.images, err = n.newImageManager(kr, tracer, ref); err != nil {
		return err
	}
	set("imageManager", n.images)

	n.probes = prober.NewManager(n.statuses, n.liveness, n.readiness, n.startup, generic, n.recorder)
	dialFromMachine(p, n.probes)
	set("probeManager", n.probes)
	logAt(p, "kubelet.go", 943).Info("Not starting ClusterTrustBundle informer because we are in static kubelet mode or the ClusterTrustBundleProjection featuregate is disabled")
	set("podCertificateManager", &podcertificate.NoOpManager{})
	logAt(p, "kubelet.go", 970).Info("Not starting PodCertificateRequest manager because we are in static kubelet mode or the PodCertificateProjection feature gate is disabled")

	plugins, err := kubelet.NewInitializedVolumePluginMgr(kl, secrets, configMaps, tokens, &clustertrustbundle.NoopManager{},
		volumes.Plugins(volumes.Config{Files: p.Files, Root: n.root.machine, Resumed: p.Resumed(),
			Errorf: func(file string, line int, format string, a ...any) { errorfAt(p, file, line, format, a...) }}), nil)
	if err != nil {
		return err
	}
	set("volumePluginMgr", plugins)
	if api != nil {
		initializeCSINode(p, plugins.Host)
	}
	set("pluginManager", noPlugins{p})
	pace := volumes.NewPace(idleVolumeLoop)
	n.pace = pace
	vm := volumemanager.NewVolumeManager(kc.EnableControllerAttachDetach, n.name, pace.Pods(n.pods), n.workers, api, plugins, mounter, utils,
		n.root.private+"/pods", n.recorder, volumepathhandler.NewBlockVolumePathHandler())
	reconciler := getField(vm, "reconciler")
	desired := getField(vm, "desiredStateOfWorld")
	setField(reconciler, "desiredStateOfWorld", pace.Desired(desired.(volumecache.DesiredStateOfWorld)))
	n.volumes = pace.Manager(vm)
	env.volumes = n.volumes
	set("volumeManager", n.volumes)

	initial, most := initialCrashLoopBackOff, maxCrashLoopBackOff
	n.crash = flowcontrol.NewBackOff(initial, most)
	n.crash.HasExpiredFunc = func(at, last time.Time, _ time.Duration) bool { return at.Sub(last) > crashLoopReset }
	set("crashLoopBackOff", n.crash)
	evictionAdmission := n.newEvictionManager(ref, thresholds)
	set("evictionManager", n.eviction)

	handlers := lifecycle.PodAdmitHandlers{evictionAdmission}
	allowed, err := sysctl.NewAllowlist(append(sysctl.SafeSysctlAllowlist(ctx), kc.AllowedUnsafeSysctls...))
	if err != nil {
		return err
	}
	handlers = append(handlers, allowed)
	h, err := newActiveDeadlineHandler(n.statuses, n.recorder, n.clock)
	if err != nil {
		return err
	}
	kl.AddPodSyncLoopHandler(activeDeadline{h})
	kl.AddPodSyncHandler(activeDeadline{h})
	handlers = append(handlers, n.cm.GetAllocateResourcesPodAdmitHandler())
	critical := preemption.NewCriticalPodAdmissionHandler(func() []*v1.Pod { return getAllocatedPods(kl) }, killPodNow(n.workers, n.recorder), n.recorder)
	handlers = append(handlers, lifecycle.NewPredicateAdmitHandler(kl.GetCachedNode, critical, n.cm.UpdatePluginResources),
		lifecycle.NewPodFeaturesAdmitHandler(), noShutdown{})
	set("appArmorValidator", noAppArmor{})

	leaseDuration := time.Duration(kc.NodeLeaseDurationSeconds) * time.Second
	if n.clients != nil {
		n.lease = lease.NewController(n.clock, n.clients.Heartbeat, string(n.name), kc.NodeLeaseDurationSeconds, func() {},
			time.Duration(float64(leaseDuration)*nodeLeaseRenewFraction), string(n.name), v1.NamespaceNodeLease, util.SetNodeOwnerFunc(ctx, n.clients.Heartbeat, string(n.name)))
		set("nodeLeaseController", n.lease)
	}
	set("shutdownManager", noShutdown{})
	n.alloc.AddPodAdmitHandlers(handlers)
	users, err := userns.MakeUserNsManager(logger, userNamespaces{kl}, nil)
	if err != nil {
		return fmt.Errorf("create user namespace manager: %w", err)
	}
	set("usernsManager", users)
	set("kubeletConfiguration", *kc)
	set("setNodeStatusFuncs", n.nodeStatusFuncs(n.state))
	return nil
}

// clusterDNS reads the configured addresses.
func (n *node) clusterDNS() []net.IP {
	l := []net.IP{}
	for _, s := range n.s.ClusterDNS {
		if ip := netutils.ParseIPSloppy(s); ip != nil {
			l = append(l, ip)
		} else {
			logAt(n.p, "kubelet.go", 576).Info("Invalid clusterDNS IP", "IP", s)
		}
	}
	return l
}

// watchNode follows the kubelet's own Node.
func (n *node) watchNode() (corelisters.NodeLister, cache.InformerSynced) {
	if n.clients == nil {
		logAt(n.p, "kubelet.go", 488).Info("Kubelet is running in standalone mode, will skip API server sync")
		return corelisters.NewNodeLister(cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})), func() bool { return true }
	}
	f := informers.NewSharedInformerFactoryWithOptions(n.clients.Kube, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = fields.Set{metav1.ObjectNameField: string(n.name)}.String()
	}))
	nodes := f.Core().V1().Nodes()
	lister, synced := nodes.Lister(), nodes.Informer().HasSynced
	n.seen.node = nodes.Informer().GetStore()
	f.Start(n.p.Done())
	logAt(n.p, "kubelet.go", 482).Info("Attempting to sync node with API server")
	return lister, synced
}

// watchServices follows the Services that have an address, for environment variables.
func (n *node) watchServices() (corelisters.ServiceLister, cache.InformerSynced) {
	if n.clients == nil {
		return corelisters.NewServiceLister(cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{cache.NamespaceIndex: cache.MetaNamespaceIndexFunc})), func() bool { return true }
	}
	f := informers.NewSharedInformerFactoryWithOptions(n.clients.Kube, 0, informers.WithTweakListOptions(func(o *metav1.ListOptions) {
		o.FieldSelector = fields.OneTermNotEqualSelector("spec.clusterIP", v1.ClusterIPNone).String()
	}))
	services := f.Core().V1().Services()
	lister, synced := services.Lister(), services.Informer().HasSynced
	f.Start(n.p.Done())
	return lister, synced
}

// podSources makes the sources of Pods: manifests of the machine, and the API.
func (n *node) podSources(nodeSynced cache.InformerSynced) error {
	kc := &n.s.KubeletConfiguration
	n.sources = config.NewPodConfig(config.PodConfigNotificationIncremental, n.recorder, util.NewPodStartupLatencyTracker())
	ctx := n.p.Context()
	if kc.StaticPodPath != "" {
		logAt(n.p, "kubelet.go", 383).Info("Adding static pod path", "path", kc.StaticPodPath)
		n.manifests = watchManifests(n.p, kc.StaticPodPath, n.name, kc.FileCheckFrequency.Duration, n.sources.Channel(ctx, kubetypes.FileSource))
	}
	if kc.StaticPodURL != "" {
		return errors.New("ckadrill does not simulate staticPodURL yet")
	}
	if n.clients != nil {
		logAt(n.p, "kubelet.go", 394).Info("Adding apiserver pod source")
		n.watchPods(nodeSynced, n.sources.Channel(ctx, kubetypes.ApiserverSource))
	}
	return nil
}

// watchPods is upstream's NewSourceApiserver, which ends with the process.
func (n *node) watchPods(nodeSynced cache.InformerSynced, updates chan<- any) {
	p := n.p
	n.seen.updates = updates
	mine := fields.OneTermEqualSelector("spec.nodeName", string(n.name)).String()
	pods := n.clients.Kube.CoreV1().Pods(metav1.NamespaceAll)
	lw := &cache.ListWatch{
		ListWithContextFunc: func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = mine
			return pods.List(ctx, o)
		},
		WatchFuncWithContext: func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = mine
			return pods.Watch(ctx, o)
		},
	}
	logAt(p, "apiserver.go", 42).Info("Waiting for node sync before watching apiserver pods")
	go func() {
		for !nodeSynced() {
			if p.Sleep(waitForAPIServerSyncPeriod) != nil {
				return
			}
		}
		logAt(p, "apiserver.go", 52).Info("Watching apiserver")
		send := func(objs []any) {
			pods := make([]*v1.Pod, 0, len(objs))
			for _, o := range objs {
				pods = append(pods, o.(*v1.Pod))
			}
			// The store lists its map.
			slices.SortFunc(pods, func(a, b *v1.Pod) int {
				return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
			})
			n.seen.setPods(pods)
			select {
			case updates <- kubetypes.PodUpdate{Pods: pods, Op: kubetypes.SET, Source: kubetypes.ApiserverSource}:
			case <-p.Done():
			}
		}
		cache.NewReflector(cache.ToListWatcherWithWatchListSemantics(lw, n.clients.Kube), &v1.Pod{}, cache.NewUndeltaStore(send, cache.MetaNamespaceKeyFunc), 0).Run(p.Done())
	}()
}

// forever runs f every period until the process ends.
func (n *node) forever(f func(), period time.Duration) {
	go wait.Until(f, period, n.p.Done())
}
