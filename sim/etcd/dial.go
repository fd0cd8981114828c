package etcd

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	etcdk8s "go.etcd.io/etcd/client/v3/kubernetes"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/connectivity"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"ckadrill/sim/kernel"
	"ckadrill/sim/network"
)

// Client is a connected client of etcd.
//
// It has one real gRPC connection, made through the process's network and with its certificates. While that is up, the
// calls of KV, Watcher and Lease go to the store of the server at its other end directly, which costs no marshalling and
// no goroutine. While it is not, they go through the real client, so they wait, retry and fail as upstream's do. Maintenance,
// Cluster and Auth always use the connection.
type Client struct {
	*clientv3.Client
	p      *kernel.Process
	stores *Stores
	real   pb.KVClient
	lease  clientv3.Lease

	mu     sync.Mutex
	up     chan struct{} // closed while server is set
	server atomic.Pointer[Server]
	cancel context.CancelFunc
	forget func()
}

// Option changes the configuration of the real client, as its own Config says.
type Option func(*clientv3.Config)

// What kube-apiserver sets (storagebackend/factory/etcd3.go).
const (
	dialTimeout      = 20 * time.Second
	keepAliveTime    = 30 * time.Second
	keepAliveTimeout = 10 * time.Second
)

// Dial connects to etcd as kube-apiserver does: it blocks until a connection stands, 20 s at most, and then returns
// "context deadline exceeded"; a resumed process does not wait. endpoints are URLs or addresses; tlsConfig is nil for plain
// text. The client ends with the process.
func Dial(ctx context.Context, p *kernel.Process, endpoints []string, tlsConfig *tls.Config, opts ...Option) (*Client, error) {
	ss := Of(p.World())
	if ss == nil {
		return nil, errors.New("etcd: no etcd is registered in this world")
	}
	base, cancel := context.WithCancel(p.Context())
	cfg := clientv3.Config{
		Context:              base,
		Endpoints:            endpoints,
		TLS:                  tlsConfig,
		DialTimeout:          dialTimeout,
		DialKeepAliveTime:    keepAliveTime,
		DialKeepAliveTimeout: keepAliveTimeout,
		Logger:               zap.NewNop(),
		DialOptions: []grpc.DialOption{
			grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) { return dialName(ctx, p, addr) }),
			grpc.WithIdleTimeout(0), // direct calls would not count as use
		},
	}
	if !p.Resumed() { // one that is had its connection when it began, and keeps its own requests waiting if it has none now
		cfg.DialOptions = append(cfg.DialOptions, grpc.WithBlock()) //nolint:staticcheck // upstream's behaviour
	}
	for _, o := range opts {
		o(&cfg)
	}
	stop := context.AfterFunc(ctx, cancel)
	real, err := clientv3.New(cfg)
	if !stop() && err == nil {
		real.Close()
		err = ctx.Err()
	}
	if err != nil {
		cancel()
		return nil, err
	}
	c := &Client{Client: real, p: p, stores: ss, real: clientv3.RetryKVClient(real), lease: real.Lease, up: make(chan struct{}), cancel: cancel}
	real.KV = clientv3.NewKVFromKVClient(directKV{c}, real)
	real.Lease = directLease{c}
	real.Watcher = &directWatch{c: c, watches: map[string]map[*clientWatch]bool{}}
	c.forget = p.OnExit(func() { real.Close() })
	if real.ActiveConnection().GetState() == connectivity.Ready {
		c.find(base)
	}
	go c.follow(base)
	return c, nil
}

// dialName connects to an endpoint whose host is an address or a name that the process can resolve.
func dialName(ctx context.Context, p *kernel.Process, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil || isIP(host) {
		return p.Dial(ctx, "tcp", address)
	}
	addrs, err := network.Resolve(ctx, p, host)
	if err != nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: err}
	}
	for _, a := range addrs {
		var c net.Conn
		if c, err = p.Dial(ctx, "tcp", net.JoinHostPort(a.String(), port)); err == nil {
			return c, nil
		}
	}
	return nil, err
}

// Kubernetes is the client as kube-apiserver's storage wants it.
func (c *Client) Kubernetes() *etcdk8s.Client {
	k := &etcdk8s.Client{Client: c.Client}
	k.Kubernetes = k
	return k
}

// Close ends the client and its connection.
func (c *Client) Close() error {
	c.forget()
	c.cancel()
	return c.Client.Close()
}

// follow keeps server what the connection leads to.
func (c *Client) follow(ctx context.Context) {
	conn := c.ActiveConnection()
	for ctx.Err() == nil {
		state := conn.GetState()
		if state == connectivity.Ready && c.direct() == nil {
			if !c.find(ctx) {
				kernel.SleepContext(ctx, 100*time.Millisecond)
				continue
			}
		}
		if state != connectivity.Ready {
			c.set(nil)
		}
		if state == connectivity.Idle {
			conn.Connect()
		}
		if !conn.WaitForStateChange(ctx, state) {
			return
		}
	}
}

// find asks the other end of the connection who it is.
func (c *Client) find(ctx context.Context) bool {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	var header metadata.MD
	if _, err := pb.NewMaintenanceClient(c.ActiveConnection()).Status(ctx, &pb.StatusRequest{}, grpc.Header(&header)); err != nil {
		return false
	}
	token := header.Get(tokenHeader)
	if len(token) == 0 {
		return false
	}
	srv := c.stores.server(token[0])
	if srv == nil || !srv.alive() {
		return false
	}
	c.set(srv)
	return true
}

func (c *Client) set(srv *Server) {
	c.mu.Lock()
	defer c.mu.Unlock()
	old := c.server.Swap(srv)
	switch {
	case srv != nil && old == nil:
		close(c.up)
	case srv == nil && old != nil:
		c.up = make(chan struct{})
	}
}

// direct is the server that calls can go to directly, nil if the connection must be used.
func (c *Client) direct() *Server {
	srv := c.server.Load()
	if srv == nil || !srv.alive() || !c.p.Alive() || c.ActiveConnection().GetState() != connectivity.Ready {
		return nil
	}
	return srv
}

// wait waits for a server.
func (c *Client) wait(ctx context.Context) (*Server, error) {
	for {
		if srv := c.direct(); srv != nil {
			return srv, nil
		}
		c.mu.Lock()
		up := c.up
		if c.server.Load() != nil { // it is gone, but the connection has not noticed yet
			up = nil
		}
		c.mu.Unlock()
		t := time.NewTimer(100 * time.Millisecond)
		select {
		case <-up:
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil, ctx.Err()
		case <-c.Ctx().Done():
			t.Stop()
			return nil, c.Ctx().Err()
		}
		t.Stop()
	}
}

// directKV is etcd's KV service without a connection.
type directKV struct{ c *Client }

func (d directKV) Range(ctx context.Context, r *pb.RangeRequest, o ...grpc.CallOption) (*pb.RangeResponse, error) {
	if srv := d.c.direct(); srv != nil && ctx.Err() == nil {
		// A read that the member can't answer is one that the client library tries again, here or at another member.
		if res, err := srv.Range(ctx, r); status.Code(err) != codes.Unavailable {
			return res, err
		}
	}
	return d.c.real.Range(ctx, r, o...)
}

func (d directKV) Put(ctx context.Context, r *pb.PutRequest, o ...grpc.CallOption) (*pb.PutResponse, error) {
	if srv := d.c.direct(); srv != nil && ctx.Err() == nil {
		return srv.Put(ctx, r)
	}
	return d.c.real.Put(ctx, r, o...)
}

func (d directKV) DeleteRange(ctx context.Context, r *pb.DeleteRangeRequest, o ...grpc.CallOption) (*pb.DeleteRangeResponse, error) {
	if srv := d.c.direct(); srv != nil && ctx.Err() == nil {
		return srv.DeleteRange(ctx, r)
	}
	return d.c.real.DeleteRange(ctx, r, o...)
}

func (d directKV) Txn(ctx context.Context, r *pb.TxnRequest, o ...grpc.CallOption) (*pb.TxnResponse, error) {
	if srv := d.c.direct(); srv != nil && ctx.Err() == nil {
		return srv.Txn(ctx, r)
	}
	return d.c.real.Txn(ctx, r, o...)
}

func (d directKV) Compact(ctx context.Context, r *pb.CompactionRequest, o ...grpc.CallOption) (*pb.CompactionResponse, error) {
	if srv := d.c.direct(); srv != nil && ctx.Err() == nil {
		return srv.Compact(ctx, r)
	}
	return d.c.real.Compact(ctx, r, o...)
}

// directLease is etcd's Lease service without a connection.
type directLease struct{ c *Client }

func (d directLease) Grant(ctx context.Context, ttl int64) (*clientv3.LeaseGrantResponse, error) {
	srv := d.c.direct()
	if srv == nil {
		return d.c.lease.Grant(ctx, ttl)
	}
	r, err := srv.LeaseGrant(ctx, &pb.LeaseGrantRequest{TTL: ttl})
	if err != nil {
		return nil, clientv3.ContextError(ctx, err)
	}
	return &clientv3.LeaseGrantResponse{ResponseHeader: r.Header, ID: clientv3.LeaseID(r.ID), TTL: r.TTL, Error: r.Error}, nil
}

func (d directLease) Revoke(ctx context.Context, id clientv3.LeaseID) (*clientv3.LeaseRevokeResponse, error) {
	srv := d.c.direct()
	if srv == nil {
		return d.c.lease.Revoke(ctx, id)
	}
	r, err := srv.LeaseRevoke(ctx, &pb.LeaseRevokeRequest{ID: int64(id)})
	if err != nil {
		return nil, clientv3.ContextError(ctx, err)
	}
	return (*clientv3.LeaseRevokeResponse)(r), nil
}

func (d directLease) TimeToLive(ctx context.Context, id clientv3.LeaseID, o ...clientv3.LeaseOption) (*clientv3.LeaseTimeToLiveResponse, error) {
	return d.c.lease.TimeToLive(ctx, id, o...)
}

func (d directLease) Leases(ctx context.Context) (*clientv3.LeaseLeasesResponse, error) {
	return d.c.lease.Leases(ctx)
}

func (d directLease) KeepAliveOnce(ctx context.Context, id clientv3.LeaseID) (*clientv3.LeaseKeepAliveResponse, error) {
	srv := d.c.direct()
	if srv == nil {
		return d.c.lease.KeepAliveOnce(ctx, id)
	}
	r, err := srv.LeaseKeepAlive(ctx, &pb.LeaseKeepAliveRequest{ID: int64(id)})
	if err != nil {
		return nil, clientv3.ContextError(ctx, err)
	}
	if r.TTL <= 0 {
		return nil, rpctypes.ErrLeaseNotFound
	}
	return &clientv3.LeaseKeepAliveResponse{ResponseHeader: r.Header, ID: id, TTL: r.TTL}, nil
}

func (d directLease) KeepAlive(ctx context.Context, id clientv3.LeaseID) (<-chan *clientv3.LeaseKeepAliveResponse, error) {
	return d.c.lease.KeepAlive(ctx, id)
}

func (d directLease) Close() error { return d.c.lease.Close() }
