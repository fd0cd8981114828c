package controlplane

import (
	"context"
	"time"
	_ "unsafe" // for go:linkname

	"ckadrill/sim/kernel"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/apiserver/pkg/server/mux"
	clientset "k8s.io/client-go/kubernetes"
	v1core "k8s.io/client-go/kubernetes/typed/core/v1"
	restclient "k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/component-base/configz"
	"k8s.io/component-base/metrics/prometheus/slis"
	genericcontrollermanager "k8s.io/controller-manager/app"
	"k8s.io/controller-manager/pkg/clientbuilder"
	controllerhealthz "k8s.io/controller-manager/pkg/healthz"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app/config"
	"k8s.io/kubernetes/cmd/kube-controller-manager/app/options"
	"k8s.io/kubernetes/cmd/kube-controller-manager/names"
)

// What upstream's package does not export.
//
//go:linkname newServiceAccountTokenControllerDescriptor k8s.io/kubernetes/cmd/kube-controller-manager/app.newServiceAccountTokenControllerDescriptor
func newServiceAccountTokenControllerDescriptor(clientbuilder.ControllerClientBuilder) *app.ControllerDescriptor

//go:linkname leaderElectAndRun k8s.io/kubernetes/cmd/kube-controller-manager/app.leaderElectAndRun
func leaderElectAndRun(ctx context.Context, c *config.CompletedConfig, lockIdentity string, electionChecker *leaderelection.HealthzAdaptor, resourceLock, leaseName string, callbacks leaderelection.LeaderCallbacks)

// controllerManager is one kube-controller-manager process.
type controllerManager struct {
	p     *kernel.Process
	files *private
}

// runControllerManager is the program kube-controller-manager.
func runControllerManager(p *kernel.Process) int {
	files, err := newPrivate(p)
	if err != nil {
		p.Errorf("ckadrill: %v\n", err)
		return 1
	}
	p.Log, p.Stderr = files.writer(p.Log), files.writer(p.Stderr)
	o, err := options.NewKubeControllerManagerOptions()
	if err != nil {
		p.Errorf("ckadrill: %v\n", err)
		return 1
	}
	o.ComponentGlobalsRegistry = newRegistry(p)
	flags := o.Flags(app.KnownControllers(), app.ControllersDisabledByDefault(), app.ControllerAliases())
	o.ParsedFlags = &flags
	m := &controllerManager{p, files}
	upstream := app.NewControllerManagerCommand()
	return execute(p, command{name: upstream.Use, long: upstream.Long, flags: &flags, registry: o.ComponentGlobalsRegistry,
		run: func() error { return m.run(o) }})
}

func (m *controllerManager) run(o *options.KubeControllerManagerOptions) error {
	startDelay(m.p, execDelay)
	muteResumed(m.p)
	// It has no handler for SIGTERM, and a Go program that is the first process of its namespace then ends with 2.
	m.p.Notify(kernel.SIGTERM, func() { m.p.Exit(2) })
	ctx, stop := context.WithCancel(context.Background())
	m.p.OnExit(stop)
	if err := m.takeFiles(o); err != nil {
		return err
	}
	c, err := m.config(ctx, o)
	if err != nil {
		return err
	}
	return m.lead(ctx, c.Complete())
}

func (m *controllerManager) takeFiles(o *options.KubeControllerManagerOptions) error {
	f, csr := m.files, o.CSRSigningController
	f.delegate(o.Authentication, o.Authorization)
	f.set(&o.SecureServing.ServerCert.CertKey.CertFile, &o.SecureServing.ServerCert.CertKey.KeyFile,
		&o.SAController.ServiceAccountKeyFile, &o.SAController.RootCAFile, &csr.ClusterSigningCertFile, &csr.ClusterSigningKeyFile)
	f.set(&csr.KubeletServingSignerConfiguration.CertFile, &csr.KubeletServingSignerConfiguration.KeyFile, &csr.KubeletClientSignerConfiguration.CertFile, &csr.KubeletClientSignerConfiguration.KeyFile,
		&csr.KubeAPIServerClientSignerConfiguration.CertFile, &csr.KubeAPIServerClientSignerConfiguration.KeyFile, &csr.LegacyUnknownSignerConfiguration.CertFile, &csr.LegacyUnknownSignerConfiguration.KeyFile)
	o.Generic.ClientConnection.Kubeconfig = f.config(o.Generic.ClientConnection.Kubeconfig, kubeconfigFiles...)
	v := &o.PersistentVolumeBinderController.VolumeConfiguration
	f.set(&v.PersistentVolumeRecyclerConfiguration.PodTemplateFilePathHostPath, &v.PersistentVolumeRecyclerConfiguration.PodTemplateFilePathNFS)
	v.FlexVolumePluginDir = f.path(v.FlexVolumePluginDir) // upstream makes and watches it
	if o.Generic.LeaderMigration.Enabled {
		return errNotSimulated("enable-leader-migration")
	}
	return nil
}

// config is KubeControllerManagerOptions.Config, with the network and the certificate of the process.
func (m *controllerManager) config(ctx context.Context, o *options.KubeControllerManagerOptions) (*config.Config, error) {
	if err := o.Validate(app.KnownControllers(), app.ControllersDisabledByDefault(), app.ControllerAliases()); err != nil {
		return nil, err
	}
	sec := o.SecureServing
	if err := m.files.offerSelfSigned(sec); err != nil {
		return nil, err
	}
	if sec.BindPort > 0 {
		if _, err := clientcmd.BuildConfigFromFlags(o.Master, o.Generic.ClientConnection.Kubeconfig); err == nil {
			l, err := listenSecure(m.p, sec)
			if err != nil {
				return nil, err
			}
			sec.Listener = l
		}
	}
	c, err := o.Config(ctx, app.KnownControllers(), app.ControllersDisabledByDefault(), app.ControllerAliases())
	if err != nil {
		return nil, err
	}
	if err := m.files.useNetwork(c.Kubeconfig); err != nil {
		return nil, err
	}
	c.Client, err = clientset.NewForConfig(restclient.AddUserAgent(c.Kubeconfig, options.KubeControllerManagerUserAgent))
	return c, err
}

// lead follows app.Run.
func (m *controllerManager) lead(ctx context.Context, c *config.CompletedConfig) error {
	logLine(m.p, 'I', "controllermanager.go:189", keysAndValues("Starting", "version", versionOf(m.p)))
	logLine(m.p, 'I', "controllermanager.go:191", golangSettings(m.p))
	c.EventBroadcaster.StartStructuredLogging(0)
	c.EventBroadcaster.StartRecordingToSink(&v1core.EventSinkImpl{Interface: c.Client.CoreV1().Events("")})
	context.AfterFunc(ctx, c.EventBroadcaster.Shutdown)
	configz.Delete(app.ConfigzName)
	if z, err := configz.New(app.ConfigzName); err == nil {
		z.Set(c.ComponentConfig)
	}
	c.ComponentConfig.KubeCloudShared.NodeMonitorPeriod.Duration += nodeMonitorWork
	election := c.ComponentConfig.Generic.LeaderElection
	var checks []healthz.HealthChecker
	var electionChecker *leaderelection.HealthzAdaptor
	if election.LeaderElect {
		electionChecker = leaderelection.NewLeaderHealthzAdaptor(20 * time.Second)
		checks = append(checks, electionChecker)
	}
	health := controllerhealthz.NewMutableHealthzHandler(checks...)
	var unsecured *mux.PathRecorderMux
	if c.SecureServing != nil {
		unsecured = genericcontrollermanager.NewBaseHandler(&c.ComponentConfig.Generic.Debugging, health)
		slis.SLIMetricsWithReset{}.Install(unsecured)
		handler := genericcontrollermanager.BuildHandlerChain(unsecured, &c.Authorization, &c.Authentication)
		if err := serveSecure(ctx, m.p, c.SecureServing, handler); err != nil {
			return err
		}
	}
	root, builder, err := m.clientBuilders(c)
	if err != nil {
		return err
	}
	run := func(ctx context.Context) {
		controllers := app.NewControllerDescriptors()
		controllers[names.ServiceAccountTokenController] = newServiceAccountTokenControllerDescriptor(root)
		keepGracePeriods(m.p, controllers)
		m.runControllers(ctx, c, root, builder, controllers, unsecured, health)
	}
	if !election.LeaderElect {
		run(ctx)
		return nil
	}
	go leaderElectAndRun(ctx, c, m.p.HostName()+"_"+instanceID(m.p), electionChecker, election.ResourceLock, election.ResourceName,
		leaderelection.LeaderCallbacks{
			OnStartedLeading: run,
			OnStoppedLeading: func() {
				logLine(m.p, 'E', "controllermanager.go:368", keysAndValues("leaderelection lost"))
				m.p.Exit(1)
			},
		})
	<-ctx.Done()
	return nil
}

// clientBuilders follows app.createClientBuilders.
func (m *controllerManager) clientBuilders(c *config.CompletedConfig) (root, builder clientbuilder.ControllerClientBuilder, err error) {
	root = clientbuilder.SimpleControllerClientBuilder{ClientConfig: c.Kubeconfig}
	if !c.ComponentConfig.KubeCloudShared.UseServiceAccountCredentials {
		return root, root, nil
	}
	anonymous := restclient.AnonymousClientConfig(c.Kubeconfig)
	if err := m.files.useNetwork(anonymous); err != nil {
		return nil, nil, err
	}
	return root, clientbuilder.NewDynamicClientBuilder(anonymous, c.Client.CoreV1(), metav1.NamespaceSystem), nil
}

// runControllers follows run in app.Run.
func (m *controllerManager) runControllers(ctx context.Context, c *config.CompletedConfig, root, builder clientbuilder.ControllerClientBuilder,
	descriptors map[string]*app.ControllerDescriptor, unsecured *mux.PathRecorderMux, health *controllerhealthz.MutableHealthzHandler) {
	logger := klog.FromContext(ctx)
	cc, err := app.CreateControllerContext(ctx, c, root, builder)
	if err != nil {
		logger.Error(err, "Error building controller context")
		klog.FlushAndExit(klog.ExitFlushTimeout, 1)
	}
	controllers, err := app.BuildControllers(ctx, cc, descriptors, unsecured, health)
	if err != nil {
		logger.Error(err, "Error building controllers")
		klog.FlushAndExit(klog.ExitFlushTimeout, 1)
	}
	cc.InformerFactory.Start(ctx.Done())
	cc.ObjectOrMetadataInformerFactory.Start(ctx.Done())
	close(cc.InformersStarted)
	context.AfterFunc(ctx, func() {
		cc.InformerFactory.Shutdown()
	})
	if len(controllers) == 0 {
		<-ctx.Done()
		return
	}
	if !app.RunControllers(ctx, cc, controllers, app.ControllerStartJitter, c.ControllerShutdownTimeout) {
		klog.FlushAndExit(klog.ExitFlushTimeout, 1)
	}
}
