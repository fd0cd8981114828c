package controlplane

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"ckadrill/sim/kernel"
	"ckadrill/sim/network"

	"github.com/emicklei/go-restful/v3"
	"k8s.io/apimachinery/pkg/api/meta"
	metainternalversion "k8s.io/apimachinery/pkg/apis/meta/internalversion"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/managedfields"
	genericapi "k8s.io/apiserver/pkg/endpoints"
	"k8s.io/apiserver/pkg/registry/rest"
	genericapiserver "k8s.io/apiserver/pkg/server"
	serverstorage "k8s.io/apiserver/pkg/server/storage"
	"k8s.io/kubernetes/pkg/api/legacyscheme"
	"k8s.io/kubernetes/pkg/apis/core"
	"k8s.io/kubernetes/pkg/cluster/ports"
	"k8s.io/kubernetes/pkg/probe"
	httpprobe "k8s.io/kubernetes/pkg/probe/http"
	"k8s.io/kubernetes/pkg/registry/core/componentstatus"
	schedulerconfig "k8s.io/kubernetes/pkg/scheduler/apis/config"
)

// dialComponentsAs lets the requests for component statuses probe from the apiserver's place in the world. Upstream's
// storage makes its prober itself, with the host's network, and cannot be given another one; so the same storage is
// installed again elsewhere, with ours, and its handlers take the place of the first ones.
func dialComponentsAs(p *kernel.Process, server *genericapiserver.GenericAPIServer, factory serverstorage.StorageFactory) error {
	const resource = "componentstatuses"
	gv := schema.GroupVersion{Version: "v1"}
	info := genericapiserver.NewDefaultAPIGroupInfo(gv.Group, legacyscheme.Scheme, legacyscheme.ParameterCodec, legacyscheme.Codecs)
	version := &genericapi.APIGroupVersion{
		Storage:                     map[string]rest.Storage{resource: ordered{componentstatus.NewStorage(func() map[string]componentstatus.Server { return components(p, factory) })}},
		Root:                        genericapiserver.DefaultLegacyAPIPrefix,
		GroupVersion:                gv,
		AllServedVersionsByResource: map[string][]string{resource: {gv.Version}},
		MetaGroupVersion:            info.MetaGroupVersion,
		ParameterCodec:              info.ParameterCodec,
		Serializer:                  info.NegotiatedSerializer,
		Creater:                     info.Scheme,
		Convertor:                   info.Scheme,
		ConvertabilityChecker:       info.Scheme,
		UnsafeConvertor:             runtime.UnsafeObjectConvertor(info.Scheme),
		Defaulter:                   info.Scheme,
		Typer:                       info.Scheme,
		Namer:                       runtime.Namer(meta.NewAccessor()),
		TypeConverter:               managedfields.NewDeducedTypeConverter(),
		EquivalentResourceRegistry:  runtime.NewEquivalentResourceRegistry(),
		Authorizer:                  server.Authorizer,
	}
	aside := restful.NewContainer()
	if _, _, err := version.InstallREST(aside); err != nil {
		return fmt.Errorf("component statuses: %w", err)
	}
	ours := map[string]restful.RouteFunction{}
	for _, ws := range aside.RegisteredWebServices() {
		for _, r := range ws.Routes() {
			ours[r.Method+" "+r.Path] = r.Function
		}
	}
	replaced := 0
	for _, ws := range server.Handler.GoRestfulContainer.RegisteredWebServices() {
		if ws.RootPath() != version.Root+"/"+gv.Version {
			continue
		}
		routes := ws.Routes()
		for i := range routes {
			// the list of resources has the same path in both
			if f := ours[routes[i].Method+" "+routes[i].Path]; f != nil && routes[i].Path != ws.RootPath()+"/" {
				routes[i].Function = f
				replaced++
			}
		}
	}
	if replaced == 0 {
		return errors.New("component statuses: the apiserver has no handlers for them")
	}
	return nil
}

// ordered lists by name; upstream's order is that of a map.
type ordered struct{ *componentstatus.REST }

func (o ordered) List(ctx context.Context, options *metainternalversion.ListOptions) (runtime.Object, error) {
	l, err := o.REST.List(ctx, options)
	if l, ok := l.(*core.ComponentStatusList); ok {
		slices.SortFunc(l.Items, func(a, b core.ComponentStatus) int { return strings.Compare(a.Name, b.Name) })
	}
	return l, err
}

// components are what upstream's componentStatusStorage validates.
func components(p *kernel.Process, factory serverstorage.StorageFactory) map[string]componentstatus.Server {
	local := func(port int) componentstatus.Server {
		return &componentstatus.HttpServer{EnableHTTPS: true, Addr: "127.0.0.1", Port: port, Path: "/healthz", Prober: componentProber{p}}
	}
	m := map[string]componentstatus.Server{
		"controller-manager": local(ports.KubeControllerManagerPort),
		"scheduler":          local(schedulerconfig.DefaultKubeSchedulerPort),
	}
	for i, c := range factory.Configs() {
		m[fmt.Sprintf("etcd-%d", i)] = &componentstatus.EtcdServer{Config: c}
	}
	return m
}

// componentProber is upstream's HTTP prober with the process's network.
type componentProber struct{ p *kernel.Process }

func (c componentProber) Probe(r *http.Request, timeout time.Duration) (probe.Result, string, error) {
	t := network.NewTransport(c.p, &tls.Config{InsecureSkipVerify: true})
	defer t.CloseIdleConnections()
	return httpprobe.DoHTTPProbe(r, &http.Client{Timeout: timeout, Transport: t})
}
