package controlplane

import (
	"crypto/tls"
	"sync"

	"ckadrill/sim/etcd"
	"ckadrill/sim/kernel"

	"go.etcd.io/etcd/client/pkg/v3/transport"
	etcdk8s "go.etcd.io/etcd/client/v3/kubernetes"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/registry/generic"
	"k8s.io/apiserver/pkg/storage"
	"k8s.io/apiserver/pkg/storage/etcd3"
	"k8s.io/apiserver/pkg/storage/storagebackend"
	"k8s.io/apiserver/pkg/storage/storagebackend/factory"
	"k8s.io/apiserver/pkg/storage/value/encrypt/identity"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"
)

// etcdConnection is one apiserver's way to etcd. Upstream opens a connection for each resource, 70 of them with 1,700
// goroutines; here its etcd3 storage (encoding, encryption, resource versions, continue tokens, watches) shares one client,
// whose calls go to the simulated store directly once a real connection has proved that etcd is up and the certificates
// are right. The health checks and the lease reconciler keep upstream's own gRPC connections, and with them the lines that
// an apiserver without etcd logs.
type etcdConnection struct {
	p    *kernel.Process
	dial func() (*etcd.Client, error)

	mu         sync.Mutex
	connection *etcd.Client
	client     *etcdk8s.Client
	compactor  interface {
		etcd3.Compactor
		Stop()
	}
}

func newEtcdConnection(p *kernel.Process, c storagebackend.Config) *etcdConnection {
	return &etcdConnection{p: p, dial: func() (*etcd.Client, error) {
		var cfg *tls.Config
		if t := c.Transport; t.CertFile != "" || t.KeyFile != "" || t.TrustedCAFile != "" {
			var err error
			info := transport.TLSInfo{CertFile: t.CertFile, KeyFile: t.KeyFile, TrustedCAFile: t.TrustedCAFile}
			if cfg, err = info.ClientConfig(); err != nil {
				return nil, err
			}
		}
		return etcd.Dial(p.Context(), p, c.Transport.ServerList, cfg)
	}}
}

// open connects at the first use.
func (e *etcdConnection) open(c storagebackend.Config) (*etcdk8s.Client, etcd3.Compactor, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.client != nil {
		return e.client, e.compactor, nil
	}
	cl, err := e.dial()
	if err != nil {
		return nil, nil, err
	}
	e.connection, e.client = cl, cl.Kubernetes()
	e.compactor = etcd3.NewCompactor(cl.Client, c.CompactionInterval, clock.RealClock{}, func() {})
	return e.client, e.compactor, nil
}

// close ends the compactor and the client.
func (e *etcdConnection) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.client == nil {
		return
	}
	e.compactor.Stop()
	e.connection.Close()
	e.client = nil
}

// sharedClient makes upstream's options use the apiserver's one client.
type sharedClient struct {
	generic.RESTOptionsGetter
	etcd *etcdConnection
}

// GetRESTOptions implements [generic.RESTOptionsGetter].
func (g sharedClient) GetRESTOptions(r schema.GroupResource, example runtime.Object) (generic.RESTOptions, error) {
	o, err := g.RESTOptionsGetter.GetRESTOptions(r, example)
	if err == nil {
		o.Decorator = g.storage
	}
	return o, err
}

// storage is generic.UndecoratedStorage over the shared client.
func (g sharedClient) storage(c *storagebackend.ConfigForResource, prefix string, _ func(runtime.Object) (string, error), newFunc, newListFunc func() runtime.Object,
	_ storage.AttrFunc, _ storage.IndexerFuncs, _ *cache.Indexers) (storage.Interface, factory.DestroyFunc, error) {
	client, compactor, err := g.etcd.open(c.Config)
	if err != nil {
		return nil, nil, err
	}
	t := c.Transformer
	if t == nil {
		t = identity.NewEncryptCheckTransformer()
	}
	v := storage.APIObjectVersioner{}
	s, err := etcd3.New(client, compactor, c.Codec, newFunc, newListFunc, c.Prefix, prefix, c.GroupResource, t, c.LeaseManagerConfig, etcd3.NewDefaultDecoder(c.Codec, v), v)
	if err != nil {
		return nil, nil, err
	}
	return tracedStorage{Interface: s, p: g.etcd.p, resource: c.GroupResource}, s.Close, nil
}
