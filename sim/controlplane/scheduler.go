package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"time"
	_ "unsafe" // for go:linkname

	"ckadrill/sim/kernel"

	corev1 "k8s.io/api/core/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apiserver/pkg/authentication/authenticator"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/server/flagz"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/dynamic/dynamicinformer"
	"k8s.io/client-go/informers"
	clientset "k8s.io/client-go/kubernetes"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/events"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
	"k8s.io/component-base/configz"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-scheduler/app"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/config"
	"k8s.io/kubernetes/cmd/kube-scheduler/app/options"
	"k8s.io/kubernetes/pkg/scheduler"
	kubeschedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
	"k8s.io/kubernetes/pkg/scheduler/apis/config/latest"
)

// What upstream's packages do not export.
//
//go:linkname createClients k8s.io/kubernetes/cmd/kube-scheduler/app/options.createClients
func createClients(*restclient.Config) (clientset.Interface, clientset.Interface, error)

//go:linkname newEndpointsHandler k8s.io/kubernetes/cmd/kube-scheduler/app.newEndpointsHandler
func newEndpointsHandler(*kubeschedulerconfig.KubeSchedulerConfiguration, informers.SharedInformerFactory, func() bool, []healthz.HealthChecker, []healthz.HealthChecker, flagz.Reader) http.Handler

//go:linkname buildHandlerChain k8s.io/kubernetes/cmd/kube-scheduler/app.buildHandlerChain
func buildHandlerChain(http.Handler, authenticator.Request, authorizer.Authorizer) http.Handler

// schedulerProcess is one kube-scheduler process.
type schedulerProcess struct {
	p      *kernel.Process
	files  *private
	events *eventsAPIs
}

// runScheduler is the program kube-scheduler.
func runScheduler(p *kernel.Process, apis *eventsAPIs) int {
	files, err := newPrivate(p)
	if err != nil {
		p.Errorf("ckadrill: %v\n", err)
		return 1
	}
	p.Log, p.Stderr = files.writer(p.Log), files.writer(p.Stderr)
	o := options.NewOptionsWithComponentGlobalsRegistry(newRegistry(p))
	s := &schedulerProcess{p, files, apis}
	upstream := app.NewSchedulerCommand()
	return execute(p, command{name: upstream.Use, long: upstream.Long, flags: o.Flags, registry: o.ComponentGlobalsRegistry,
		run: func() error { return s.run(o) }})
}

func (s *schedulerProcess) run(o *options.Options) error {
	startDelay(s.p, execDelay)
	muteResumed(s.p)
	ctx, stop := context.WithCancel(context.Background())
	s.p.OnExit(stop)
	s.p.Notify(kernel.SIGTERM, stop)
	s.p.Notify(kernel.SIGINT, stop)
	if o.WriteConfigTo != "" {
		return errNotSimulated("write-config-to")
	}
	s.files.delegate(o.Authentication, o.Authorization)
	s.files.set(&o.SecureServing.ServerCert.CertKey.CertFile, &o.SecureServing.ServerCert.CertKey.KeyFile)
	o.ConfigFile = s.files.config(o.ConfigFile, "kubeconfig", "certFile", "keyFile", "caFile")
	o.Deprecated.Kubeconfig = s.files.config(o.Deprecated.Kubeconfig, kubeconfigFiles...)
	c, sched, err := s.setup(ctx, o)
	if err != nil {
		return err
	}
	return s.schedule(ctx, c, sched)
}

// setup follows app.Setup and Options.Config.
func (s *schedulerProcess) setup(ctx context.Context, o *options.Options) (*config.CompletedConfig, *scheduler.Scheduler, error) {
	var err error
	if o.ComponentConfig, err = latest.Default(); err != nil {
		return nil, nil, err
	}
	if errs := o.Validate(); len(errs) > 0 {
		return nil, nil, utilerrors.NewAggregate(errs)
	}
	c, err := s.config(ctx, o)
	if err != nil {
		return nil, nil, err
	}
	cc := c.Complete()
	sched, err := scheduler.New(ctx, cc.Client, cc.InformerFactory, cc.DynInformerFactory,
		func(name string) events.EventRecorder { return cc.EventBroadcaster.NewRecorder(name) },
		scheduler.WithComponentConfigVersion(cc.ComponentConfig.APIVersion),
		scheduler.WithKubeConfig(cc.KubeConfig),
		scheduler.WithProfiles(cc.ComponentConfig.Profiles...),
		scheduler.WithPercentageOfNodesToScore(cc.ComponentConfig.PercentageOfNodesToScore),
		scheduler.WithPodMaxBackoffSeconds(cc.ComponentConfig.PodMaxBackoffSeconds),
		scheduler.WithPodInitialBackoffSeconds(cc.ComponentConfig.PodInitialBackoffSeconds),
		scheduler.WithPodMaxInUnschedulablePodsDuration(cc.PodMaxInUnschedulablePodsDuration),
		scheduler.WithExtenders(cc.ComponentConfig.Extenders...),
		// One worker looks at the nodes in their order: which of equal nodes is taken then depends on the seed alone.
		scheduler.WithParallelism(1))
	return &cc, sched, err
}

func (s *schedulerProcess) config(ctx context.Context, o *options.Options) (*config.Config, error) {
	if err := s.files.offerSelfSigned(o.SecureServing); err != nil {
		return nil, err
	}
	if err := o.SecureServing.MaybeDefaultWithSelfSignedCerts("localhost", nil, loopbackAddresses); err != nil {
		return nil, fmt.Errorf("error creating self-signed certificates: %v", err)
	}
	c := &config.Config{}
	if o.SecureServing.BindPort > 0 && s.loadable(o) {
		l, err := listenSecure(s.p, o.SecureServing)
		if err != nil {
			return nil, err
		}
		o.SecureServing.Listener = l
	}
	if err := o.ApplyTo(klog.FromContext(ctx), c); err != nil {
		return nil, err
	}
	if err := s.files.useNetwork(c.KubeConfig); err != nil {
		return nil, err
	}
	client, eventClient, err := createClients(c.KubeConfig)
	if err != nil {
		return nil, err
	}
	c.EventBroadcaster = events.NewEventBroadcasterAdapterWithContext(ctx, s.events.client(s.p, eventClient))
	if election := c.ComponentConfig.LeaderElection; election.LeaderElect {
		name := corev1.DefaultSchedulerName
		if len(c.ComponentConfig.Profiles) != 0 {
			name = c.ComponentConfig.Profiles[0].SchedulerName
		}
		lock, err := resourcelock.NewFromKubeconfig(election.ResourceLock, election.ResourceNamespace, election.ResourceName,
			resourcelock.ResourceLockConfig{Identity: s.p.HostName() + "_" + instanceID(s.p), EventRecorder: c.EventBroadcaster.DeprecatedNewLegacyRecorder(name)},
			c.KubeConfig, election.RenewDeadline.Duration)
		if err != nil {
			return nil, fmt.Errorf("couldn't create resource lock: %v", err)
		}
		c.LeaderElection = &leaderelection.LeaderElectionConfig{Lock: lock, LeaseDuration: election.LeaseDuration.Duration, RenewDeadline: election.RenewDeadline.Duration,
			RetryPeriod: election.RetryPeriod.Duration, WatchDog: leaderelection.NewLeaderHealthzAdaptor(20 * time.Second), Name: "kube-scheduler", ReleaseOnCancel: true}
	}
	dyn, err := dynamic.NewForConfig(c.KubeConfig)
	if err != nil {
		return nil, err
	}
	c.Client, c.InformerFactory = client, scheduler.NewInformerFactory(client, 0)
	c.DynInformerFactory = dynamicinformer.NewFilteredDynamicSharedInformerFactory(dyn, 0, corev1.NamespaceAll, nil)
	c.ComponentGlobalsRegistry = o.ComponentGlobalsRegistry
	return c, nil
}

// loadable says whether upstream will come as far as to listen: it loads the configuration and the kubeconfig before.
func (s *schedulerProcess) loadable(o *options.Options) bool {
	kubeconfig := o.Deprecated.Kubeconfig
	if o.ConfigFile != "" {
		c, err := options.LoadConfigFromFile(klog.Background(), o.ConfigFile)
		if err != nil {
			return false
		}
		kubeconfig = c.ClientConnection.Kubeconfig
	}
	_, err := clientcmd.BuildConfigFromFlags(o.Master, kubeconfig)
	return err == nil
}

// schedule follows app.Run.
func (s *schedulerProcess) schedule(ctx context.Context, c *config.CompletedConfig, sched *scheduler.Scheduler) error {
	logLine(s.p, 'I', "server.go:175", keysAndValues("Starting Kubernetes Scheduler", "version", versionOf(s.p)))
	logLine(s.p, 'I', "server.go:177", golangSettings(s.p))
	configz.Delete("componentconfig")
	z, err := configz.New("componentconfig")
	if err != nil {
		return fmt.Errorf("unable to register configz: %s", err)
	}
	z.Set(c.ComponentConfig)
	c.EventBroadcaster.StartRecordingToSink(ctx.Done())
	defer c.EventBroadcaster.Shutdown()
	var checks, ready []healthz.HealthChecker
	if c.ComponentConfig.LeaderElection.LeaderElect {
		checks, ready = append(checks, c.LeaderElection.WatchDog), append(ready, c.LeaderElection.WatchDog)
	}
	ready = append(ready, healthz.NewShutdownHealthz(ctx.Done()))
	leading, synced := make(chan struct{}), make(chan struct{})
	closed := func(c chan struct{}) bool {
		select {
		case <-c:
			return true
		default:
			return false
		}
	}
	ready = append(ready, healthz.NamedCheck("sched-handler-sync", func(*http.Request) error {
		if closed(synced) {
			return nil
		}
		return errors.New("handlers are not fully synchronized")
	}))
	if c.SecureServing != nil {
		h := newEndpointsHandler(&c.ComponentConfig, c.InformerFactory, func() bool { return closed(leading) }, checks, ready, c.Flagz)
		runtime.SetBlockProfileRate(0) // contention profiling is on by default, and it would profile the whole host process
		if err := serveSecure(ctx, s.p, c.SecureServing, buildHandlerChain(h, c.Authentication.Authenticator, c.Authorization.Authorizer)); err != nil {
			return fmt.Errorf("failed to start secure server: %v", err)
		}
	}
	sync := func(ctx context.Context) {
		c.InformerFactory.Start(ctx.Done())
		c.DynInformerFactory.Start(ctx.Done())
		c.InformerFactory.WaitForCacheSync(ctx.Done())
		c.DynInformerFactory.WaitForCacheSync(ctx.Done())
		if err := sched.WaitForHandlersSync(ctx); err != nil {
			klog.FromContext(ctx).Error(err, "handlers are not fully synchronized")
		}
		close(synced)
	}
	if !c.ComponentConfig.DelayCacheUntilActive || c.LeaderElection == nil {
		sync(ctx)
	}
	if c.LeaderElection == nil {
		close(leading)
		sched.Run(ctx)
		return errors.New("finished without leader elect")
	}
	c.LeaderElection.Callbacks = leaderelection.LeaderCallbacks{
		OnStartedLeading: func(ctx context.Context) {
			close(leading)
			if c.ComponentConfig.DelayCacheUntilActive {
				sync(ctx)
			}
			sched.Run(ctx)
		},
		OnStoppedLeading: func() {
			if ctx.Err() != nil {
				logLine(s.p, 'I', "server.go:315", keysAndValues("Requested to terminate, exiting"))
				s.p.Exit(0)
			}
			logLine(s.p, 'E', "server.go:319", keysAndValues("Leaderelection lost"))
			s.p.Exit(1)
		},
	}
	elector, err := leaderelection.NewLeaderElector(*c.LeaderElection)
	if err != nil {
		return fmt.Errorf("couldn't create leader elector: %v", err)
	}
	elector.Run(ctx)
	return errors.New("lost lease")
}
