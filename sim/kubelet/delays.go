package kubelet

import "time"

// Delays that our code waits because upstream's does, under upstream's names. Whatever is not here is upstream's own
// timer in upstream's own code.
const (
	// pkg/kubelet/kubelet.go
	maxWaitForContainerRuntime  = 30 * time.Second
	backOffPeriod               = 10 * time.Second
	initialCrashLoopBackOff     = 10 * time.Second
	maxCrashLoopBackOff         = 300 * time.Second
	crashLoopReset              = 600 * time.Second // HasExpiredFunc: a container that ran this long starts over
	imageBackOffPeriod          = 10 * time.Second
	maxImageBackOff             = 300 * time.Second
	genericPlegRelistPeriod     = time.Second
	genericPlegRelistThreshold  = 3 * time.Minute
	housekeepingPeriod          = 2 * time.Second
	containerGCPeriod           = time.Minute
	imageGCPeriod               = 5 * time.Minute
	runtimeCacheRefreshPeriod   = 10 * time.Second
	nodeLeaseRenewFraction      = 0.25
	nodeStatusJitter            = 0.04
	updateRuntimeUpPeriod       = 5 * time.Second
	evictionMonitoringPeriod    = 10 * time.Second
	waitForAPIServerSyncPeriod  = time.Second // pkg/kubelet/config/apiserver.go
	fileWatchRetryPeriod        = time.Second // retryPeriod of pkg/kubelet/config/file_linux.go
	fileWatchMaxRetryPeriod     = 20 * time.Second
	serverRetryPeriod           = 5 * time.Second // healthz, cmd/kubelet/app/server.go
	criRuntimeConfigRetryPeriod = 2 * time.Second // getCgroupDriverFromCRI

	// client-go/util/certificate/certificate_manager.go: certificateWaitTimeout and its retry back-off
	certificateWait     = 15 * time.Minute
	certificateRetry    = 2 * time.Second
	certificateRetryMax = 32 * time.Second

	firstCertificateCheck = time.Second // addCertRotation, pkg/kubelet/certificate/transport.go
)

// Delays that are ours alone.
const (
	// idleVolumeLoop is how long the volume manager's two loops sleep while no Pod waits for a volume. Upstream's turn ten
	// times a second for ever; what they find out in between shows only when somebody waits.
	idleVolumeLoop = 30 * time.Second
	// podReaction is what a Pod worker needs before a change of its Pod has an effect: upstream's bookkeeping of cgroups,
	// directories and volumes is system calls, which take no simulated time here. Without it a Pod would be gone in the very
	// instant in which its deletion was asked for, and a client that looks, then lists, then watches would miss it.
	podReaction = 8 * time.Millisecond
	// startStep is the least time that passes between the starts of two loops of a kubelet; each machine takes up to a
	// millisecond longer, always as long. Upstream's start is system calls in between. Without it loops of one period would
	// turn in the same instant for ever, in an order that nothing decides: a Pod would be restarted now or a second later.
	startStep = 3 * time.Millisecond
	// settleAfterThaw is how long a resumed kubelet stays mute at most about Pods that it knew: it re-reads what it knows.
	settleAfterThaw = 3 * time.Second
)
