// Package webhooks is agnhost's admission and conversion webhooks as programs: upstream's handlers over the process's own
// port and files.
package webhooks

import (
	"crypto/tls"
	"fmt"
	"net/http"
	"strconv"
	_ "unsafe" // for go:linkname

	"github.com/spf13/cobra"
	crdconvwebhook "k8s.io/kubernetes/test/images/agnhost/crd-conversion-webhook"
	"k8s.io/kubernetes/test/images/agnhost/crd-conversion-webhook/converter"
	"k8s.io/kubernetes/test/images/agnhost/webhook"

	"ckadrill/sim/kernel"
	"ckadrill/sim/network"
)

// What upstream's package does not export.
//
//go:linkname alwaysAllowDelayFiveSeconds k8s.io/kubernetes/test/images/agnhost/webhook.serveAlwaysAllowDelayFiveSeconds
func alwaysAllowDelayFiveSeconds(http.ResponseWriter, *http.Request)

//go:linkname alwaysDeny k8s.io/kubernetes/test/images/agnhost/webhook.serveAlwaysDeny
func alwaysDeny(http.ResponseWriter, *http.Request)

//go:linkname addLabel k8s.io/kubernetes/test/images/agnhost/webhook.serveAddLabel
func addLabel(http.ResponseWriter, *http.Request)

//go:linkname pods k8s.io/kubernetes/test/images/agnhost/webhook.servePods
func pods(http.ResponseWriter, *http.Request)

//go:linkname attachingPods k8s.io/kubernetes/test/images/agnhost/webhook.serveAttachingPods
func attachingPods(http.ResponseWriter, *http.Request)

//go:linkname mutatePods k8s.io/kubernetes/test/images/agnhost/webhook.serveMutatePods
func mutatePods(http.ResponseWriter, *http.Request)

//go:linkname mutatePodsSidecar k8s.io/kubernetes/test/images/agnhost/webhook.serveMutatePodsSidecar
func mutatePodsSidecar(http.ResponseWriter, *http.Request)

//go:linkname configMaps k8s.io/kubernetes/test/images/agnhost/webhook.serveConfigmaps
func configMaps(http.ResponseWriter, *http.Request)

//go:linkname mutateConfigMaps k8s.io/kubernetes/test/images/agnhost/webhook.serveMutateConfigmaps
func mutateConfigMaps(http.ResponseWriter, *http.Request)

//go:linkname customResource k8s.io/kubernetes/test/images/agnhost/webhook.serveCustomResource
func customResource(http.ResponseWriter, *http.Request)

//go:linkname mutateCustomResource k8s.io/kubernetes/test/images/agnhost/webhook.serveMutateCustomResource
func mutateCustomResource(http.ResponseWriter, *http.Request)

//go:linkname crd k8s.io/kubernetes/test/images/agnhost/webhook.serveCRD
func crd(http.ResponseWriter, *http.Request)

// sidecarImage is process-wide upstream, where one program is one process: the last webhook that was started decides.
//
//go:linkname sidecarImage k8s.io/kubernetes/test/images/agnhost/webhook.sidecarImage
var sidecarImage string

// Admission is `agnhost webhook`; the arguments are those after the subcommand.
func Admission(p *kernel.Process, args []string) int {
	return serve(p, webhook.CmdWebhook, args, map[string]http.HandlerFunc{
		"/always-allow-delay-5s": alwaysAllowDelayFiveSeconds, "/always-deny": alwaysDeny, "/add-label": addLabel, "/pods": pods, "/pods/attach": attachingPods,
		"/mutating-pods": mutatePods, "/mutating-pods-sidecar": mutatePodsSidecar, "/configmaps": configMaps, "/mutating-configmaps": mutateConfigMaps,
		"/custom-resource": customResource, "/mutating-custom-resource": mutateCustomResource, "/crd": crd,
	})
}

// Conversion is `agnhost crd-conversion-webhook`.
func Conversion(p *kernel.Process, args []string) int {
	return serve(p, crdconvwebhook.CmdCrdConversionWebhook, args, map[string]http.HandlerFunc{"/crdconvert": converter.ServeExampleConvert})
}

// serve is the main functions of both: a server over TLS with the pair of files that the flags name.
func serve(p *kernel.Process, upstream *cobra.Command, args []string, handlers map[string]http.HandlerFunc) int {
	cmd := &cobra.Command{Use: "agnhost " + upstream.Use, Short: upstream.Short, Long: upstream.Long, Args: cobra.NoArgs}
	flags := cmd.Flags()
	cert := flags.String("tls-cert-file", "", upstream.Flags().Lookup("tls-cert-file").Usage)
	key := flags.String("tls-private-key-file", "", upstream.Flags().Lookup("tls-private-key-file").Usage)
	port := flags.Int("port", 443, upstream.Flags().Lookup("port").Usage)
	sidecar := ""
	if f := upstream.Flags().Lookup("sidecar-image"); f != nil {
		flags.StringVar(&sidecar, f.Name, "", f.Usage)
	}
	flags.IntP("v", "v", 0, "number for the log level verbosity")
	flags.Bool("alsologtostderr", false, "log to standard error as well as files (no effect when -logtostderr=true)")
	flags.Bool("logtostderr", true, "log to standard error instead of files")
	cmd.SetOut(p.Stdout)
	cmd.SetErr(p.Stderr)
	cmd.SetArgs(append([]string{}, args...))
	run := false
	cmd.Run = func(*cobra.Command, []string) { run = true }
	if err := cmd.Execute(); err != nil {
		return 1
	}
	if !run {
		return 0
	}
	if sidecar != "" {
		sidecarImage = sidecar
	}
	pair, err := loadPair(p, *cert, *key)
	if err != nil {
		fmt.Fprintf(p.Log, "F%s\n", err)
		return 255
	}
	mux := http.NewServeMux()
	for path, h := range handlers {
		mux.HandleFunc(path, h)
	}
	mux.HandleFunc("/readyz", func(w http.ResponseWriter, _ *http.Request) { w.Write([]byte("ok")) })
	l, err := p.Listen("tcp", ":"+strconv.Itoa(*port))
	if err != nil {
		p.Errorf("panic: %v\n\ngoroutine 1 [running]:\n", err)
		return 2
	}
	for _, sig := range []kernel.Signal{kernel.SIGTERM, kernel.SIGINT} {
		p.Notify(sig, func() { p.Exit(2) }) // Go's runtime ends a first process so, which no signal kills
	}
	err = network.Serve(l, &tls.Config{Certificates: []tls.Certificate{pair}}, mux)
	if p.Alive() {
		p.Errorf("panic: %v\n\ngoroutine 1 [running]:\n", err)
	}
	return 2
}

func loadPair(p *kernel.Process, cert, key string) (tls.Certificate, error) {
	c, err := p.ReadFile(cert)
	if err != nil {
		return tls.Certificate{}, err
	}
	k, err := p.ReadFile(key)
	if err != nil {
		return tls.Certificate{}, err
	}
	return tls.X509KeyPair(c, k)
}
