// Package kubeproxy is kube-proxy as a program: upstream's flags, configuration, change trackers and topology, and for a back
// end the service rules of the machine's simulated network, which stay when the program ends.
package kubeproxy

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/serializer"
	"k8s.io/client-go/rest"
	cliflag "k8s.io/component-base/cli/flag"
	external "k8s.io/kube-proxy/config/v1alpha1"
	proxyconfig "k8s.io/kubernetes/pkg/proxy/apis/config"
	proxyscheme "k8s.io/kubernetes/pkg/proxy/apis/config/scheme"
	"k8s.io/kubernetes/pkg/proxy/apis/config/v1alpha1"
	"k8s.io/kubernetes/pkg/proxy/apis/config/validation"

	"ckadrill/sim/kernel"
	"ckadrill/sim/network/apiclient"
)

// Register adds the program.
func Register(ps *kernel.Programs) { ps.Register("kube-proxy", Main) }

// Main is the program.
func Main(p *kernel.Process) int {
	if p.Resumed() {
		mute(p)
	}
	// It has no handler for SIGTERM, and a Go program that is the first process of its namespace then ends with 2.
	p.Notify(kernel.SIGTERM, func() { p.Exit(2) })
	err := run(p)
	if errors.Is(err, errDone) {
		return 0
	}
	if err != nil && p.Alive() {
		logAt(p, "run.go", 72).Error(err, "command failed")
		return 1
	}
	return 0
}

var errDone = errors.New("done")

// run is the RunE of upstream's NewProxyCommand (cmd/kube-proxy/app/server.go).
func run(p *kernel.Process) error {
	fs := pflag.NewFlagSet("kube-proxy", pflag.ContinueOnError)
	fs.SetNormalizeFunc(cliflag.WordSepNormalizeFunc)
	fs.Usage = func() {}
	addFlags(fs)
	showVersion := fs.String("version", "false", "--version, --version=raw prints version information and quits; --version=vX.Y.Z... sets the reported version")
	fs.Lookup("version").NoOptDefVal = "true"
	if err := fs.Parse(p.Argv[1:]); err != nil {
		return err
	}
	if *showVersion != "false" {
		p.Printf("Kubernetes %s\n", version(p))
		return errDone
	}
	for _, a := range fs.Args() {
		if a != "" {
			return fmt.Errorf("%q does not take any arguments, got %q", "kube-proxy", fs.Args())
		}
	}
	config, err := complete(p, fs)
	if err != nil {
		return fmt.Errorf("failed complete: %w", err)
	}
	if errs := validation.Validate(config); len(errs) != 0 {
		return fmt.Errorf("failed validate: %w", errs.ToAggregate())
	}
	if fs.Lookup("cleanup").Value.String() == "true" {
		namespaceOf(p).SetServices(nil)
		return errDone
	}
	ctx, cancel := context.WithCancel(p.Context())
	defer cancel()
	s, err := newServer(ctx, p, config, fs.Lookup("master").Value.String())
	if err == nil {
		err = s.run(ctx, fs.Lookup("config").Value.String())
	}
	if err != nil && p.Alive() {
		logAt(p, "server.go", 134).Error(err, "Error running ProxyServer")
	}
	return err
}

// version is what the executable says of itself after its program's name.
func version(p *kernel.Process) string {
	b, err := p.Files.ReadFile(p.Path(p.Argv[0]))
	if err == nil {
		if _, after, ok := strings.Cut(string(b), "\nversion "); ok {
			v, _, _ := strings.Cut(after, "\n")
			return v
		}
	}
	return "v1.35.4"
}

// complete loads the configuration: the file's, or without a file what flags and defaults say.
func complete(p *kernel.Process, fs *pflag.FlagSet) (*proxyconfig.KubeProxyConfiguration, error) {
	get := func(name string) string { return fs.Lookup(name).Value.String() }
	var config *proxyconfig.KubeProxyConfiguration
	if file := get("config"); file != "" {
		data, err := p.ReadFile(file)
		if err != nil {
			return nil, err
		}
		if config, err = decode(p, data); err != nil {
			return nil, err
		}
	} else {
		versioned := &external.KubeProxyConfiguration{}
		proxyscheme.Scheme.Default(versioned)
		internal, err := proxyscheme.Scheme.ConvertToVersion(versioned, proxyconfig.SchemeGroupVersion)
		if err != nil {
			return nil, err
		}
		config = internal.(*proxyconfig.KubeProxyConfiguration)
		config.ClientConnection.Kubeconfig = get("kubeconfig")
		config.Mode = proxyconfig.ProxyMode(get("proxy-mode"))
		config.HealthzBindAddress, config.MetricsBindAddress = get("healthz-bind-address"), get("metrics-bind-address")
		config.BindAddress = get("bind-address")
		config.DetectLocalMode = proxyconfig.LocalMode(get("detect-local-mode"))
		if fs.Changed("cluster-cidr") {
			config.DetectLocal.ClusterCIDRs = strings.Split(get("cluster-cidr"), ",")
		}
	}
	if config.Mode == "" {
		logAt(p, "server_linux.go", 53).Info("Using iptables proxy")
		config.Mode = proxyconfig.ProxyModeIPTables
	}
	if config.DetectLocalMode == "" {
		config.DetectLocalMode = proxyconfig.LocalModeClusterCIDR
	}
	if name := get("hostname-override"); name != "" {
		if name = strings.TrimSpace(name); name == "" {
			return nil, fmt.Errorf("empty hostname-override is invalid")
		}
		config.HostnameOverride = strings.ToLower(name)
	}
	return config, nil
}

// decode reads a configuration strictly, and if that fails leniently, as upstream does.
func decode(p *kernel.Process, data []byte) (*proxyconfig.KubeProxyConfiguration, error) {
	o, gvk, err := proxyscheme.Codecs.UniversalDecoder().Decode(data, nil, nil)
	if err != nil {
		if !runtime.IsStrictDecodingError(err) {
			return nil, fmt.Errorf("failed to decode: %w", err)
		}
		scheme := runtime.NewScheme()
		if err := errors.Join(proxyconfig.AddToScheme(scheme), v1alpha1.AddToScheme(scheme)); err != nil {
			return nil, err
		}
		var lenient error
		if o, gvk, lenient = serializer.NewCodecFactory(scheme, serializer.DisableStrict).UniversalDecoder().Decode(data, nil, nil); lenient != nil {
			return nil, fmt.Errorf("failed lenient decoding: %w", err)
		}
		logAt(p, "options.go", 497).Info("Using lenient decoding as strict decoding failed", "err", err)
	}
	c, ok := o.(*proxyconfig.KubeProxyConfiguration)
	if !ok {
		return nil, fmt.Errorf("got unexpected config type: %v", gvk)
	}
	return c, nil
}

// client makes the client configuration that the kubeconfig, or the Pod's ServiceAccount, gives.
func client(p *kernel.Process, config *proxyconfig.KubeProxyConfiguration, master string) (*rest.Config, error) {
	c := config.ClientConnection
	var r *rest.Config
	var err error
	if c.Kubeconfig == "" && master == "" {
		logAt(p, "server.go", 404).Info("Neither kubeconfig file nor master URL was specified, falling back to in-cluster config")
		r, err = apiclient.InCluster(p)
	} else {
		if _, err := p.Files.Stat(p.Path(c.Kubeconfig)); err != nil {
			return nil, err
		}
		if r, err = apiclient.Kubeconfig(p, c.Kubeconfig); err == nil && master != "" {
			r.Host = master
		}
	}
	if err != nil {
		return nil, err
	}
	r.AcceptContentTypes, r.ContentType, r.QPS, r.Burst = c.AcceptContentTypes, c.ContentType, c.QPS, int(c.Burst)
	r.UserAgent = "kube-proxy/" + version(p) + " (linux/amd64) kubernetes/0000000"
	return r, nil
}
