// Package metricsserver is metrics-server as a program: upstream's scraper, storage and API, assembled as
// sigs.k8s.io/metrics-server's commands do it, over the process's own network, files and ServiceAccount.
package metricsserver

import (
	"fmt"
	"strings"
	"time"
	_ "unsafe" // for go:linkname

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/labels"
	openapinamer "k8s.io/apiserver/pkg/endpoints/openapi"
	genericapiserver "k8s.io/apiserver/pkg/server"
	utilcompatibility "k8s.io/apiserver/pkg/util/compatibility"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/metadata/metadatainformer"
	"k8s.io/client-go/rest"
	cliflag "k8s.io/component-base/cli/flag"
	"k8s.io/kube-openapi/pkg/common"
	"k8s.io/kube-openapi/pkg/util"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/metrics-server/cmd/metrics-server/app/options"
	"sigs.k8s.io/metrics-server/pkg/api"
	generatedopenapi "sigs.k8s.io/metrics-server/pkg/api/generated/openapi"
	"sigs.k8s.io/metrics-server/pkg/scraper"
	"sigs.k8s.io/metrics-server/pkg/scraper/client/resource"
	"sigs.k8s.io/metrics-server/pkg/server"
	"sigs.k8s.io/metrics-server/pkg/storage"

	"ckadrill/sim/addons/extension"
	"ckadrill/sim/kernel"
	"ckadrill/sim/network/apiclient"
)

// What upstream's packages do not export.
//
//go:linkname validate sigs.k8s.io/metrics-server/cmd/metrics-server/app/options.(*Options).validate
func validate(*options.Options) []error

//go:linkname informerFactory sigs.k8s.io/metrics-server/pkg/server.informerFactory
func informerFactory(*rest.Config) (informers.SharedInformerFactory, error)

//go:linkname runningPodMetadataInformer sigs.k8s.io/metrics-server/pkg/server.runningPodMetadataInformer
func runningPodMetadataInformer(*rest.Config) (metadatainformer.SharedInformerFactory, error)

const defaultVersion = "v0.8.0"

// Register adds the program.
func Register(w *kernel.World) {
	scraped := hold(w)
	w.Programs.Register("metrics-server", func(p *kernel.Process) int { return run(p, scraped) })
}

// run is upstream's main and NewMetricsServerCommand.
func run(p *kernel.Process, scraped *scraped) int {
	o := options.NewOptions()
	sections := o.Flags()
	cmd := &cobra.Command{Use: p.Name(), Short: "Launch metrics-server", Long: "Launch metrics-server"}
	cmd.RunE = func(*cobra.Command, []string) error {
		if o.ShowVersion {
			p.Printf("%s\n", p.Version(defaultVersion))
			return nil
		}
		return start(p, o, scraped)
	}
	for _, f := range sections.FlagSets {
		cmd.Flags().AddFlagSet(f)
	}
	const usage = "Usage:\n  %s\n"
	cmd.SetUsageFunc(func(cmd *cobra.Command) error {
		fmt.Fprintf(p.Stderr, usage, cmd.UseLine())
		cliflag.PrintSections(p.Stderr, sections, 0)
		return nil
	})
	cmd.SetHelpFunc(func(cmd *cobra.Command, _ []string) {
		fmt.Fprintf(p.Stdout, "%s\n\n"+usage, cmd.Long, cmd.UseLine())
		cliflag.PrintSections(p.Stdout, sections, 0)
	})
	cmd.SetOut(p.Stdout)
	cmd.SetErr(p.Stderr)
	cmd.SetArgs(append([]string{}, p.Argv[1:]...))
	if err := cmd.Execute(); err != nil {
		p.Errorf("panic: %v\n\ngoroutine 1 [running]:\nmain.main()\n\t/go/src/sigs.k8s.io/metrics-server/cmd/metrics-server/metrics-server.go:37 +0x8a\n", err)
		return 2
	}
	return 0
}

// start is upstream's runCommand.
func start(p *kernel.Process, o *options.Options, scraped *scraped) error {
	// Not Options.Validate: it sets klog up for the whole host process.
	for _, errs := range [][]error{o.KubeletClient.Validate(), validate(o), o.GenericServerRunOptions.Validate()} {
		if len(errs) > 0 {
			return errs[0]
		}
	}
	stop := extension.Until(p)
	if p.Resumed() {
		until := time.Now().Add(quietAfterThaw)
		p.SetLogFilter(func([]byte) bool { return time.Now().After(until) })
	}
	config, err := apiServerConfig(p, o)
	if err != nil {
		return err
	}
	s, err := assemble(p, o, config, scraped)
	if err != nil {
		return err
	}
	return s.RunUntil(stop.Done())
}

// quietAfterThaw is how long a process that carries on after a thaw says nothing of what it does again.
const quietAfterThaw = 10 * time.Second

// apiServerConfig is Options.ApiserverConfig.
func apiServerConfig(p *kernel.Process, o *options.Options) (*genericapiserver.Config, error) {
	if err := o.GenericServerRunOptions.ComponentGlobalsRegistry.Set(); err != nil {
		return nil, err
	}
	c := genericapiserver.NewConfig(api.Codecs)
	if err := o.GenericServerRunOptions.ApplyTo(c); err != nil {
		return nil, err
	}
	e := extension.Options{Serving: o.SecureServing.SecureServingOptions, Authentication: o.Authentication, Authorization: o.Authorization}
	if err := e.Apply(p, c); err != nil {
		return nil, err
	}
	if o.Audit.LogOptions.Path != "" || o.Audit.WebhookOptions.ConfigFile != "" {
		return nil, fmt.Errorf("ckadrill does not simulate audit logs of metrics-server yet")
	}
	namer := openapinamer.NewDefinitionNamer(api.Scheme)
	c.OpenAPIConfig = genericapiserver.DefaultOpenAPIConfig(definitions, namer)
	c.OpenAPIV3Config = genericapiserver.DefaultOpenAPIV3Config(definitions, namer)
	c.OpenAPIConfig.Info.Title = "Kubernetes metrics-server"
	c.OpenAPIV3Config.Info.Title = "Kubernetes metrics-server"
	c.OpenAPIConfig.Info.Version, c.OpenAPIV3Config.Info.Version = p.Version(defaultVersion), p.Version(defaultVersion)
	c.EffectiveVersion = utilcompatibility.DefaultBuildEffectiveVersion()
	c.EnableProfiling, c.EnableMetrics = false, false // they show the host process
	return c, nil
}

// definitions are metrics-server's, by the names that types have in Kubernetes since v1.35 instead of their Go names.
func definitions(ref common.ReferenceCallback) map[string]common.OpenAPIDefinition {
	m := map[string]common.OpenAPIDefinition{}
	for name, d := range generatedopenapi.GetOpenAPIDefinitions(func(name string) spec.Ref { return ref(util.ToRESTFriendlyName(name)) }) {
		for i, on := range d.Dependencies {
			d.Dependencies[i] = util.ToRESTFriendlyName(on)
		}
		m[util.ToRESTFriendlyName(name)] = d
	}
	return m
}

// apiServer is upstream's server, whose type is not exported.
type apiServer interface {
	RunUntil(stop <-chan struct{}) error
}

// assemble is Options.ServerConfig and Config.Complete.
func assemble(p *kernel.Process, o *options.Options, config *genericapiserver.Config, scraped *scraped) (apiServer, error) {
	raw, err := restConfig(p, o.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("unable to construct lister client config: %v", err)
	}
	kubelets := o.KubeletClient.Config(raw)
	if err := apiclient.ConfigureREST(p, &kubelets.Client); err != nil {
		return nil, fmt.Errorf("unable to construct a client to connect to the kubelets: unable to construct transport: %v", err)
	}
	raw.ContentType = "application/vnd.kubernetes.protobuf"
	if err := rest.SetKubernetesDefaults(raw); err != nil {
		return nil, fmt.Errorf("unable to construct lister client config: %v", err)
	}
	if err := apiclient.ConfigureREST(p, raw); err != nil {
		return nil, fmt.Errorf("unable to construct lister client: %v", err)
	}
	podFactory, err := runningPodMetadataInformer(raw)
	if err != nil {
		return nil, err
	}
	pods := podFactory.ForResource(corev1.SchemeGroupVersion.WithResource("pods"))
	factory, err := informerFactory(raw)
	if err != nil {
		return nil, err
	}
	nodes := factory.Core().V1().Nodes()
	getter, err := resource.NewForConfig(kubelets)
	if err != nil {
		return nil, fmt.Errorf("unable to construct a client to connect to the kubelets: %v", err)
	}
	var requirement []labels.Requirement
	if selector := strings.TrimSpace(o.KubeletClient.NodeSelector); selector != "" {
		if requirement, err = labels.ParseToRequirements(selector); err != nil {
			return nil, err
		}
	}
	generic, err := config.Complete(nil).New("metrics-server", genericapiserver.NewEmptyDelegate())
	if err != nil {
		return nil, err
	}
	memory := scraped.of(p)
	store := &rememberedStorage{Storage: storage.NewStorage(o.MetricResolution), memory: memory}
	store.replay()
	if err := api.Install(store, pods.Lister(), nodes.Lister(), generic, requirement); err != nil {
		return nil, err
	}
	scrape := newSteadyScraper(p, scraper.NewScraper(nodes.Lister(), getter, o.KubeletClient.KubeletRequestTimeout, requirement), o.MetricResolution, memory)
	s := server.NewServer(nodes.Informer(), pods.Informer(), generic, store, scrape, o.MetricResolution)
	return s, s.RegisterProbes(podFactory)
}

// restConfig is Options.restConfig, before the network of the world is set.
func restConfig(p *kernel.Process, kubeconfig string) (*rest.Config, error) {
	if kubeconfig == "" {
		return apiclient.LoadInCluster(p)
	}
	return nil, fmt.Errorf("ckadrill does not simulate --kubeconfig of metrics-server yet")
}
