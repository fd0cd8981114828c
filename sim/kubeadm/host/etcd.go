package host

import (
	"context"
	"fmt"
	"net"
	"path/filepath"
	"reflect"
	"time"
	_ "unsafe" // for go:linkname

	"go.etcd.io/etcd/client/pkg/v3/logutil"
	"go.etcd.io/etcd/client/pkg/v3/transport"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	"google.golang.org/grpc"
	clientset "k8s.io/client-go/kubernetes"
	etcdutil "k8s.io/kubernetes/cmd/kubeadm/app/util/etcd"

	"ckadrill/sim/kernel"
)

//go:linkname getEtcdEndpoints k8s.io/kubernetes/cmd/kubeadm/app/util/etcd.getEtcdEndpoints
func getEtcdEndpoints(client clientset.Interface) ([]string, error)

// etcdTimeout is upstream's constant of that name (util/etcd).
const etcdTimeout = 2 * time.Second

// EtcdFromCluster is upstream's NewFromCluster: a client for the members of etcd, which are found by their Pods and then by
// each other. certificates is a directory of the real host with copies of the machine's files.
func EtcdFromCluster(p *kernel.Process, client clientset.Interface, certificates string) (*etcdutil.Client, error) {
	endpoints, err := getEtcdEndpoints(client)
	if err != nil {
		return nil, err
	}
	info := transport.TLSInfo{
		TrustedCAFile: filepath.Join(certificates, "etcd", "ca.crt"),
		CertFile:      filepath.Join(certificates, "etcd", "healthcheck-client.crt"),
		KeyFile:       filepath.Join(certificates, "etcd", "healthcheck-client.key"),
	}
	c, err := etcdutil.New(endpoints, info.TrustedCAFile, info.CertFile, info.KeyFile)
	if err != nil {
		return nil, fmt.Errorf("error creating etcd client for %v endpoints: %w", endpoints, err)
	}
	tlsConfig, err := info.ClientConfig()
	if err != nil {
		return nil, err
	}
	// The client's own goes to the host's standard error.
	encoder := zapcore.NewJSONEncoder(logutil.DefaultZapLoggerConfig.EncoderConfig)
	logger := zap.New(zapcore.NewCore(encoder, zapcore.AddSync(p.Stderr), zap.InfoLevel), zap.AddCaller()).Named("etcd-client")
	connect := func(endpoints []string) (*clientv3.Client, error) {
		return clientv3.New(clientv3.Config{
			Context: p.Context(), Endpoints: endpoints, DialTimeout: etcdTimeout, TLS: tlsConfig, Logger: logger,
			DialOptions: []grpc.DialOption{
				grpc.WithBlock(), //nolint:staticcheck // as upstream
				grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) { return p.Dial(ctx, "tcp", addr) }),
			},
		})
	}
	// Upstream's function that connects has a result of a type that cannot be named here.
	kind := reflect.TypeOf(*c)
	field, _ := kind.FieldByName("newEtcdClient")
	setField(c, "newEtcdClient", reflect.MakeFunc(field.Type, func(args []reflect.Value) []reflect.Value {
		cli, err := connect(args[0].Interface().([]string))
		results := []reflect.Value{reflect.Zero(field.Type.Out(0)), reflect.Zero(field.Type.Out(1))}
		if err != nil {
			results[1] = reflect.ValueOf(&err).Elem()
		} else {
			results[0] = reflect.ValueOf(cli).Convert(field.Type.Out(0))
		}
		return results
	}).Interface())
	if err := c.Sync(); err != nil {
		return nil, fmt.Errorf("error syncing endpoints with etcd: %w", err)
	}
	return c, nil
}
