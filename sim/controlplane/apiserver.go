package controlplane

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"time"

	"ckadrill/sim/kernel"

	noopoteltrace "go.opentelemetry.io/otel/trace/noop"
	apiextensionsapiserver "k8s.io/apiextensions-apiserver/pkg/apiserver"
	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	utilnet "k8s.io/apimachinery/pkg/util/net"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/endpoints/discovery/aggregated"
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/pkg/server/egressselector"
	"k8s.io/apiserver/pkg/server/filters"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/apiserver/pkg/util/openapi"
	"k8s.io/apiserver/pkg/util/webhook"
	clientgoinformers "k8s.io/client-go/informers"
	clientgoclientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	aggregatorapiserver "k8s.io/kube-aggregator/pkg/apiserver"
	aggregatorscheme "k8s.io/kube-aggregator/pkg/apiserver/scheme"
	"k8s.io/kubernetes/cmd/kube-apiserver/app"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/controlplane"
	controlplaneapiserver "k8s.io/kubernetes/pkg/controlplane/apiserver"
	"k8s.io/kubernetes/pkg/controlplane/reconcilers"
	generatedopenapi "k8s.io/kubernetes/pkg/generated/openapi"
	"k8s.io/kubernetes/pkg/kubeapiserver"
	rbacrest "k8s.io/kubernetes/pkg/registry/rbac/rest"
)

const apiServerDescription = `The Kubernetes API server validates and configures data
for the api objects which include pods, services, replicationcontrollers, and
others. The API Server services REST operations and provides the frontend to the
cluster's shared state through which all other components interact.`

// apiServer is one kube-apiserver process.
type apiServer struct {
	p     *kernel.Process
	files *private
	opts  options.CompletedOptions
	audit auditLog

	loopback *loopback
	etcd     *etcdConnection
	listener *facade
	// reconciler keeps this apiserver's address in the kubernetes Service.
	reconciler reconcilers.EndpointReconciler
}

// runAPIServer is the program kube-apiserver.
func runAPIServer(p *kernel.Process) int {
	files, err := newPrivate(p)
	if err != nil {
		p.Errorf("ckadrill: %v\n", err)
		return 1
	}
	p.Log, p.Stderr = files.writer(p.Log), files.writer(p.Stderr)
	asVersion(p, func() {}) // the rest of this start-up sees the process's version
	o := options.NewServerRunOptions()
	registry := newRegistry(p)
	o.GenericServerRunOptions.ComponentGlobalsRegistry = registry
	flags := o.Flags()
	s := &apiServer{p: p, files: files}
	return execute(p, command{name: "kube-apiserver", long: apiServerDescription, silenceUsage: true, flags: &flags, registry: registry,
		run: func() error { return s.run(o) }})
}

func (s *apiServer) run(o *options.ServerRunOptions) error {
	startDelay(s.p, execDelay)
	muteResumed(s.p)
	ctx, stop := context.WithCancel(context.Background())
	s.p.OnExit(stop)
	s.p.Notify(kernel.SIGTERM, stop)
	s.p.Notify(kernel.SIGINT, stop)
	if err := s.takeFiles(o); err != nil {
		return err
	}
	if err := s.completeServing(o); err != nil {
		return err
	}
	var err error
	if s.opts, err = o.Complete(ctx); err != nil {
		return err
	}
	if errs := s.opts.Validate(); len(errs) != 0 {
		return utilerrors.NewAggregate(errs)
	}
	logLine(s.p, 'I', "server.go:150", "Version: "+versionOf(s.p))
	logLine(s.p, 'I', "server.go:152", golangSettings(s.p))
	server, err := s.assemble()
	if err != nil {
		return err
	}
	prepared, err := server.PrepareRun()
	if err != nil {
		return err
	}
	startDelay(s.p, apiServerBuildDelay)
	return s.serve(ctx, server.GenericAPIServer, prepared.Run)
}

// assemble is app.NewConfig and app.CreateServerChain.
func (s *apiServer) assemble() (*aggregatorapiserver.APIAggregator, error) {
	generic, informers, storageFactory, err := s.genericConfig()
	if err != nil {
		return nil, err
	}
	setCapabilities()
	kube, resolver, initializers, err := app.CreateKubeAPIServerConfig(s.opts, generic, informers, storageFactory)
	if err != nil {
		return nil, err
	}
	c := app.Config{Options: s.opts, KubeAPIs: kube}
	kube.ControlPlane.Generic.DisabledPostStartHooks.Insert(identityLeaseHook, "aggregator-reload-proxy-client-cert")
	resolverWrapper := webhook.NewDefaultAuthenticationInfoResolverWrapper(kube.ControlPlane.ProxyTransport, generic.EgressSelector, generic.LoopbackClientConfig, generic.TracerProvider)
	if c.ApiExtensions, err = controlplaneapiserver.CreateAPIExtensionsConfig(*generic, informers, initializers, s.opts.CompletedOptions, s.opts.MasterCount, resolver, resolverWrapper); err != nil {
		return nil, err
	}
	c.ApiExtensions.GenericConfig.RESTOptionsGetter = sharedClient{c.ApiExtensions.GenericConfig.RESTOptionsGetter, s.etcd}
	c.ApiExtensions.ExtraConfig.CRDRESTOptionsGetter = sharedClient{c.ApiExtensions.ExtraConfig.CRDRESTOptionsGetter, s.etcd}
	if c.Aggregator, err = controlplaneapiserver.CreateAggregatorConfig(*generic, s.opts.CompletedOptions, informers, resolver, kube.ControlPlane.ProxyTransport, kube.ControlPlane.Extra.PeerProxy, initializers); err != nil {
		return nil, err
	}
	c.Aggregator.GenericConfig.RESTOptionsGetter = sharedClient{c.Aggregator.GenericConfig.RESTOptionsGetter, s.etcd}
	kube.ControlPlane.Generic.SkipOpenAPIInstallation = true // installLazyOpenAPI does it
	completed, err := c.Complete()
	if err != nil {
		return nil, err
	}
	s.reconciler = kube.Extra.EndpointReconcilerConfig.Reconciler
	stopReloadersWith(s.p)
	aggregator, err := app.CreateServerChain(completed)
	if err != nil {
		return nil, err
	}
	core, ok := aggregator.GenericAPIServer.NextDelegate().(*genericapiserver.GenericAPIServer)
	if !ok {
		return nil, fmt.Errorf("the aggregator delegates to a %T", aggregator.GenericAPIServer.NextDelegate())
	}
	if err := dialComponentsAs(s.p, core, storageFactory); err != nil {
		return nil, err
	}
	installLazyOpenAPI(core, generic.OpenAPIConfig, generic.OpenAPIV3Config)
	kube.ControlPlane.Generic.DisabledPostStartHooks.Delete(identityLeaseHook)
	s.addIdentityLease(aggregator.GenericAPIServer)
	if err := skipOnceHooks(s.p, aggregator.GenericAPIServer); err != nil {
		return nil, err
	}
	return aggregator, nil
}

// genericConfig follows controlplaneapiserver.BuildGenericConfig, which would make two RSA keys for the loopback
// connection, and is otherwise the same.
func (s *apiServer) genericConfig() (*genericapiserver.Config, clientgoinformers.SharedInformerFactory, *serverstorage.DefaultStorageFactory, error) {
	fail := func(err error) (*genericapiserver.Config, clientgoinformers.SharedInformerFactory, *serverstorage.DefaultStorageFactory, error) {
		return nil, nil, nil, err
	}
	o := s.opts
	resources := controlplane.DefaultAPIResourceConfigSource()
	c := genericapiserver.NewConfig(legacyscheme.Codecs)
	c.APIServerID = apiServerID(s.p.HostName())
	c.Flagz = o.Flagz
	c.MergedResourceConfig = resources
	var err error
	asVersion(s.p, func() { err = o.GenericServerRunOptions.ApplyTo(c) })
	if err != nil {
		return fail(err)
	}
	if o.SecureServing.Listener, err = s.listen(); err != nil {
		return fail(err)
	}
	if err := o.SecureServing.SecureServingOptions.ApplyTo(&c.SecureServing); err != nil {
		return fail(err)
	}
	if c.LoopbackClientConfig, err = s.loopbackConfig(c.SecureServing); err != nil {
		return fail(err)
	}
	client, err := clientgoclientset.NewForConfig(c.LoopbackClientConfig)
	if err != nil {
		return fail(fmt.Errorf("failed to create real external clientset: %w", err))
	}
	trim := func(obj any) (any, error) {
		if a, err := meta.Accessor(obj); err == nil && a.GetManagedFields() != nil {
			a.SetManagedFields(nil)
		}
		return obj, nil
	}
	informers := clientgoinformers.NewSharedInformerFactoryWithOptions(client, 10*time.Minute, clientgoinformers.WithTransform(trim))
	if err := o.Features.ApplyTo(c, client, informers); err != nil {
		return fail(err)
	}
	if err := o.APIEnablement.ApplyTo(c, resources, legacyscheme.Scheme); err != nil {
		return fail(err)
	}
	// An egress selector makes all of upstream dial through the process's network.
	dial := utilnet.DialFunc(dialer(s.p))
	c.EgressSelector = egressselector.NewEgressSelectorWithMap(map[egressselector.EgressType]utilnet.DialFunc{
		egressselector.ControlPlane: dial, egressselector.Etcd: dial, egressselector.Cluster: dial})
	schemes := []*runtime.Scheme{legacyscheme.Scheme, apiextensionsapiserver.Scheme, aggregatorscheme.Scheme}
	definitions := openapi.GetOpenAPIDefinitionsWithoutDisabledFeatures(generatedopenapi.GetOpenAPIDefinitions)
	namer := openapinamer.NewDefinitionNamer(schemes...)
	c.OpenAPIConfig = genericapiserver.DefaultOpenAPIConfig(definitions, namer)
	c.OpenAPIConfig.Info.Title = "Kubernetes"
	c.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(definitions, namer)
	c.OpenAPIV3Config.Info.Title = "Kubernetes"
	c.LongRunningFunc = filters.BasicLongRunningRequestCheck(sets.NewString("watch", "proxy"), sets.NewString("attach", "exec", "proxy", "log", "portforward"))

	restartChannelNumbers()
	o.Etcd.StorageConfig.Transport.EgressLookup = c.EgressSelector.Lookup
	o.Etcd.StorageConfig.Transport.TracerProvider = noopoteltrace.NewTracerProvider()
	s.etcd = newEtcdConnection(s.p, o.Etcd.StorageConfig)
	o.Etcd.StorageConfig.CompactionInterval = 0 // only upstream's own connections see this: the shared client compacts
	o.Etcd.EnableWatchCache = false             // see watchcache.go
	factoryConfig := kubeapiserver.NewStorageFactoryConfigEffectiveVersion(c.EffectiveVersion)
	factoryConfig.APIResourceConfig = c.MergedResourceConfig
	factoryConfig.DefaultResourceEncoding.SetEffectiveVersion(c.EffectiveVersion)
	factory, err := factoryConfig.Complete(o.Etcd).New()
	if err != nil {
		return fail(err)
	}
	factory.StorageConfig.StorageObjectCountTracker = c.StorageObjectCountTracker
	if err := o.Etcd.ApplyWithStorageFactoryTo(factory, c); err != nil {
		return fail(err)
	}
	c.RESTOptionsGetter = sharedClient{c.RESTOptionsGetter, s.etcd}

	ctx := wait.ContextForChannel(c.DrainedNotify())
	if err := o.Authentication.ApplyTo(ctx, &c.Authentication, c.SecureServing, c.EgressSelector, c.OpenAPIConfig, c.OpenAPIV3Config, client, informers, c.APIServerID); err != nil {
		return fail(err)
	}
	var rbac bool
	c.Authorization.Authorizer, c.RuleResolver, rbac, err = controlplaneapiserver.BuildAuthorizer(ctx, o.CompletedOptions, c.EgressSelector, c.APIServerID, informers)
	if err != nil {
		return fail(fmt.Errorf("invalid authorization config: %w", err))
	}
	if o.Authorization != nil && !rbac {
		c.DisabledPostStartHooks.Insert(rbacrest.PostStartHookName)
	}
	if err := o.Audit.ApplyTo(c); err != nil {
		return fail(err)
	}
	if err := s.audit.applyTo(c); err != nil {
		return fail(err)
	}
	c.AggregatedDiscoveryGroupManager = aggregated.NewResourceManager("apis")
	return c, informers, factory, nil
}

// loopbackConfig is the client that the apiserver uses for itself, as SecureServingInfo.NewLoopbackClientConfig makes it.
func (s *apiServer) loopbackConfig(info *genericapiserver.SecureServingInfo) (*rest.Config, error) {
	host, port, err := net.SplitHostPort(info.Listener.Addr().String())
	if err != nil {
		return nil, err
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "::1"
		if ip.To4() != nil {
			host = "127.0.0.1"
		}
	}
	s.loopback = &loopback{host: net.JoinHostPort(host, "0"), done: s.p.Done()}
	c := &rest.Config{Host: "https://" + net.JoinHostPort(host, port), QPS: -1, BearerToken: s.p.World().UUID("loopback"), Transport: s.loopback,
		UserAgent: userAgent(s.p), DisableCompression: true, WarningHandler: rest.NoWarnings{}}
	c.ContentType = "application/vnd.kubernetes.protobuf"
	return c, nil
}

// serve runs the server until the process is told to end.
func (s *apiServer) serve(ctx context.Context, g *genericapiserver.GenericAPIServer, run func(context.Context) error) error {
	info := g.SecureServingInfo
	tlsConfig, err := servingTLS(ctx, info)
	if err != nil {
		return err
	}
	s.loopback.serve(g.Handler)
	server := serveHTTP(s.p, s.listener.Listener, tlsConfig, g.Handler)
	// Upstream's own server gets a listener on which nobody ever calls, and ends it when it is time. It then waits until
	// the requests that are under way have been answered: watches are not, so that it rarely ends before it is killed.
	s.listener.drain = func() {
		c, cancel := context.WithTimeout(s.p.Context(), g.ShutdownTimeout)
		defer cancel()
		_ = server.Shutdown(c)
	}
	g.SecureServingInfo = &genericapiserver.SecureServingInfo{Listener: s.listener}
	defer s.etcd.close()
	// A killed process cannot run its shutdown to the end: the hooks wait for an etcd that it no longer reaches. What they
	// wait for is taken from them; that they fail no longer matters.
	s.p.OnExit(func() {
		go func() {
			defer func() { _ = recover() }() // it may be destroyed already
			if s.reconciler != nil {
				s.reconciler.Destroy()
			}
			g.Destroy()
			s.etcd.close()
		}()
	})
	return run(ctx)
}

// facade is a listener that only closes another one and has its server drained.
type facade struct {
	net.Listener
	closed chan struct{}
	drain  func()
}

func newFacade(l net.Listener) *facade { return &facade{Listener: l, closed: make(chan struct{})} }

func (f *facade) Accept() (net.Conn, error) {
	<-f.closed
	return nil, http.ErrServerClosed
}

func (f *facade) Close() error {
	select {
	case <-f.closed:
		return net.ErrClosed
	default:
	}
	close(f.closed)
	err := f.Listener.Close()
	if f.drain != nil {
		f.drain()
	}
	return err
}
