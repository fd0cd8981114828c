package etcd

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc"

	"ckadrill/sim/kernel"
	"ckadrill/sim/network"
)

// member is one machine of a test's cluster with the etcd on it.
type member struct {
	c     *cluster
	name  string
	addr  string
	host  *kernel.Host
	files memFiles
	p     *kernel.Process
	log   *output
}

// cluster is the machines of a test.
type cluster struct {
	t   *testing.T
	w   *kernel.World
	ss  *Stores
	net *network.Fabric
	m   []*member
}

// peerCerts are the machines' certificates, by name of the machine and of the file.
var peerCerts = sync.OnceValue(func() map[string]map[string][]byte {
	ca, err := tls.X509KeyPair(certs()["ca.crt"], certs()["ca.key"])
	if err != nil {
		panic(err)
	}
	out := map[string]map[string][]byte{}
	for i := 1; i <= 5; i++ {
		name := fmt.Sprintf("cka-cp%d", i)
		out[name] = map[string][]byte{}
		for _, file := range []string{"server", "peer"} {
			k, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
			t := &x509.Certificate{SerialNumber: big.NewInt(int64(i)), Subject: pkix.Name{CommonName: name}, NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<33, 0),
				KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth},
				IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(192, 168, 122, byte(10+i))}, DNSNames: []string{name, "localhost"}}
			der, err := x509.CreateCertificate(rand.Reader, t, ca.Leaf, &k.PublicKey, ca.PrivateKey)
			if err != nil {
				panic(err)
			}
			b, _ := x509.MarshalECPrivateKey(k)
			out[name][file+".crt"] = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
			out[name][file+".key"] = pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: b})
		}
	}
	return out
})

// inCluster runs a test on n machines.
func inCluster(t *testing.T, n int, f func(c *cluster)) {
	t.Helper()
	peerCerts()
	synctest.Test(t, func(t *testing.T) {
		c := newCluster(t, n)
		defer c.end()
		f(c)
	})
}

func newCluster(t *testing.T, n int) *cluster {
	w := kernel.NewWorld(1)
	c := &cluster{t: t, w: w, ss: Register(w), net: network.NewFabric(w)}
	for i := 1; i <= n; i++ {
		m := &member{c: c, name: fmt.Sprintf("cka-cp%d", i), addr: fmt.Sprintf("192.168.122.%d", 10+i), files: newMemFiles(), log: &output{}}
		m.host = w.NewHost(m.name)
		c.net.AddMachine(m.name, netip.MustParsePrefix(m.addr+"/24")).Attach(m.host)
		for _, d := range []string{strings.TrimSuffix(pki, "/"), "/proc", "/tmp", "/etc", "/var/lib/etcd"} {
			m.files.MkdirAll(d, 0o700)
		}
		for f, b := range certs() {
			m.files.WriteFile(pki+f, b, 0o600)
		}
		for f, b := range peerCerts()[m.name] {
			m.files.WriteFile(pki+f, b, 0o600)
		}
		c.m = append(c.m, m)
	}
	return c
}

func (c *cluster) end() {
	for _, m := range c.m {
		for _, p := range m.host.Processes.List() {
			p.Signal(kernel.SIGKILL)
			p.Wait()
		}
	}
	time.Sleep(2 * time.Minute) // what upstream leaves behind ends
}

func (m *member) peerURL() string { return "https://" + m.addr + ":2380" }

func (m *member) clientURL() string { return "https://" + m.addr + ":2379" }

// initial is --initial-cluster for members.
func initial(ms ...*member) string {
	var l []string
	for _, m := range ms {
		l = append(l, m.name+"="+m.peerURL())
	}
	return strings.Join(l, ",")
}

// argv are the arguments that kubeadm writes, and some more.
func (m *member) argv(initial, state string, more ...string) []string {
	return append([]string{"etcd", "--advertise-client-urls=" + m.clientURL(), "--cert-file=" + pki + "server.crt", "--client-cert-auth=true", "--data-dir=/var/lib/etcd",
		"--feature-gates=InitialCorruptCheck=true", "--watch-progress-notify-interval=5s", "--initial-advertise-peer-urls=" + m.peerURL(), "--initial-cluster=" + initial,
		"--initial-cluster-state=" + state, "--key-file=" + pki + "server.key", "--listen-client-urls=https://127.0.0.1:2379," + m.clientURL(),
		"--listen-metrics-urls=http://127.0.0.1:2381", "--listen-peer-urls=" + m.peerURL(), "--name=" + m.name, "--peer-cert-file=" + pki + "peer.crt",
		"--peer-client-cert-auth=true", "--peer-key-file=" + pki + "peer.key", "--peer-trusted-ca-file=" + pki + "ca.crt", "--snapshot-count=10000",
		"--trusted-ca-file=" + pki + "ca.crt"}, more...)
}

// start starts etcd on the machine.
func (m *member) start(argv []string) {
	main, _ := m.c.w.Programs.Find("etcd")
	m.p = m.host.Processes.Start(kernel.Spec{Argv: argv, Files: m.files, Net: network.Of(m.host), Stdout: m.log, Stderr: m.log}, main)
}

func (m *member) kill() {
	m.p.Signal(kernel.SIGKILL)
	m.p.Wait()
}

// as runs f as a process of the machine.
func (m *member) as(f func(p *kernel.Process)) {
	p := m.host.Processes.Start(kernel.Spec{Argv: []string{"client"}, Files: m.files, Net: network.Of(m.host)}, func(p *kernel.Process) int {
		ended := false
		defer func() {
			if !ended { // by t.Fatal
				go p.Exit(1)
			}
		}()
		f(p)
		ended = true
		return 0
	})
	p.Wait()
}

// client runs f with a client library's client of the machine's own member.
func (m *member) client(f func(ctx context.Context, c *clientv3.Client)) {
	m.as(func(p *kernel.Process) {
		c, err := Dial(p.Context(), p, []string{endpoint}, clientTLS(""))
		if err != nil {
			m.c.t.Errorf("dial %s: %v", m.name, err)
			return
		}
		defer c.Close()
		ctx, cancel := context.WithTimeout(p.Context(), 20*time.Second)
		defer cancel()
		f(ctx, c.Client)
	})
}

// dialer makes a client library dial as a process.
func dialer(p *kernel.Process) []grpc.DialOption {
	return []grpc.DialOption{grpc.WithContextDialer(func(ctx context.Context, addr string) (net.Conn, error) { return dialName(ctx, p, addr) })}
}

// server is the member's running server.
func (m *member) server() *Server {
	m.c.ss.mu.Lock()
	defer m.c.ss.mu.Unlock()
	for _, s := range m.c.ss.servers {
		if s.p == m.p {
			return s
		}
	}
	return nil
}

func (m *member) status() *pb.StatusResponse { return m.server().Status() }

// found starts all machines as one new cluster and waits until they serve.
func (c *cluster) found() {
	for _, m := range c.m {
		m.start(m.argv(initial(c.m...), "new"))
		time.Sleep(37 * time.Millisecond)
	}
	time.Sleep(12 * time.Second)
}

// leader is the member that leads, by its own account.
func (c *cluster) leader() *member {
	c.t.Helper()
	for _, m := range c.m {
		if s := m.server(); s != nil {
			if st := s.Status(); st.Leader == st.Header.MemberId {
				return m
			}
		}
	}
	c.t.Fatal("nobody leads")
	return nil
}

// followers are the others that run.
func (c *cluster) followers() (l []*member) {
	lead := c.leader()
	for _, m := range c.m {
		if m != lead && m.p.Alive() {
			l = append(l, m)
		}
	}
	return l
}

func (m *member) put(k, v string) error {
	var err error
	m.client(func(ctx context.Context, c *clientv3.Client) { _, err = c.Put(ctx, k, v) })
	return err
}

func (m *member) get(k string) (v string, err error) {
	m.client(func(ctx context.Context, c *clientv3.Client) {
		var r *clientv3.GetResponse
		if r, err = c.Get(ctx, k); err == nil && len(r.Kvs) > 0 {
			v = string(r.Kvs[0].Value)
		}
	})
	return v, err
}

func TestSeveralMembersFoundACluster(t *testing.T) {
	inCluster(t, 3, func(c *cluster) {
		c.found()
		for _, m := range c.m {
			s := m.status()
			if s.Leader == 0 || len(s.Errors) > 0 || s.RaftTerm != c.m[0].status().RaftTerm || s.Header.ClusterId != c.m[0].status().Header.ClusterId {
				t.Errorf("%s: %v", m.name, s)
			}
		}
		for _, m := range c.m {
			if err := m.put("from/"+m.name, "x"); err != nil {
				t.Error(err)
			}
		}
		time.Sleep(time.Second)
		for _, m := range c.m {
			for _, o := range c.m {
				if v, err := m.get("from/" + o.name); v != "x" {
					t.Errorf("%s at %s: %q %v", o.name, m.name, v, err)
				}
			}
		}
	})
}

// said says whether the member's log has a line with all of some texts.
func (m *member) said(texts ...string) bool {
	for _, l := range strings.Split(m.log.String(), "\n") {
		all := true
		for _, x := range texts {
			all = all && strings.Contains(l, x)
		}
		if all {
			return true
		}
	}
	return false
}

func (m *member) mustSay(texts ...string) {
	m.c.t.Helper()
	if !m.said(texts...) {
		m.c.t.Errorf("%s did not say %q", m.name, texts)
	}
}

// url gets a page of the member's metrics port.
func (m *member) url(path string) (code int, body string) {
	m.as(func(p *kernel.Process) {
		t := network.NewTransport(p, nil)
		defer t.Close()
		res, err := (&http.Client{Transport: t}).Get("http://127.0.0.1:2381" + path)
		if err != nil {
			body = err.Error()
			return
		}
		defer res.Body.Close()
		b, _ := io.ReadAll(res.Body)
		code, body = res.StatusCode, string(b)
	})
	return code, body
}

// equal checks that the members that run hold the same.
func (c *cluster) equal() {
	c.t.Helper()
	// A follower learns from the leader's next message, or heartbeat, that what it has is committed.
	time.Sleep(time.Second)
	var first *pb.HashKVResponse
	var index uint64
	for _, m := range c.m {
		s := m.server()
		if s == nil {
			continue
		}
		h, err := s.store.HashKV(0)
		if err != nil {
			c.t.Fatal(err)
		}
		if first == nil {
			first, index = h, s.Status().RaftAppliedIndex
			continue
		}
		if h.Hash != first.Hash || h.HashRevision != first.HashRevision || s.Status().RaftAppliedIndex != index {
			c.t.Errorf("%s differs: %v, %v at %d, not %d", m.name, h, first, s.Status().RaftAppliedIndex, index)
		}
	}
}

func TestALeaderIsKilledAndComesBack(t *testing.T) {
	inCluster(t, 3, func(c *cluster) {
		c.found()
		old, term := c.leader(), c.leader().status().RaftTerm
		f := c.followers()
		old.kill()
		time.Sleep(2500 * time.Millisecond)
		lead := c.leader()
		if s := lead.status(); s.RaftTerm != term+1 {
			t.Errorf("the term is %d after %d", s.RaftTerm, term)
		}
		oldID := fmt.Sprintf("%x", MemberID([]string{old.peerURL()}, "etcd-cluster"))
		for _, m := range f {
			m.mustSay("lost TCP streaming connection with remote peer", oldID)
			m.mustSay("peer became inactive (message send to peer failed)", oldID, "failed to read "+oldID+" on stream")
			m.mustSay("lost leader " + oldID)
			if err := m.put("after/"+m.name, "x"); err != nil {
				t.Error(err)
			}
		}
		lead.mustSay("became leader at term")
		time.Sleep(40 * time.Second)
		lead.mustSay("prober detected unhealthy status", oldID, "connection refused")
		lead.mustSay("failed to get version", oldID)
		old.start(old.argv(initial(c.m...), "new"))
		time.Sleep(3 * time.Second)
		if c.leader() != lead {
			t.Error("one that came back made another lead")
		}
		if v, err := old.get("after/" + lead.name); v != "x" {
			t.Errorf("%q %v", v, err)
		}
		c.equal()
	})
}

func TestAQuorumIsLostAndComesBack(t *testing.T) {
	inCluster(t, 3, func(c *cluster) {
		c.found()
		m := c.leader()
		if err := m.put("k", "v"); err != nil {
			t.Fatal(err)
		}
		if code, body := m.url("/readyz"); code != 200 {
			t.Errorf("%d %s", code, body)
		}
		l := c.followers()
		for _, o := range l {
			o.kill()
		}
		time.Sleep(5 * time.Second)
		m.mustSay("stepped down to follower since quorum is not active")
		m.mustSay("lost leader")
		m.client(func(ctx context.Context, cl *clientv3.Client) {
			if r, err := cl.Get(ctx, "k", clientv3.WithSerializable()); err != nil || len(r.Kvs) != 1 {
				t.Errorf("a serializable read: %v %v", r, err)
			}
			short, cancel := context.WithTimeout(ctx, 5*time.Second)
			defer cancel()
			if _, err := cl.Get(short, "k"); !errors.Is(err, context.DeadlineExceeded) {
				t.Errorf("a read: %v", err)
			}
			short, cancel = context.WithTimeout(ctx, 8*time.Second)
			defer cancel()
			if _, err := cl.Put(short, "k", "w"); err == nil {
				t.Error("a write succeeded")
			}
		})
		m.client(func(ctx context.Context, cl *clientv3.Client) {
			if _, err := pb.NewKVClient(cl.ActiveConnection()).Range(ctx, &pb.RangeRequest{Key: []byte("k")}); err == nil || err.Error() != rpctypes.ErrGRPCTimeout.Error() {
				t.Errorf("a read without retries: %v", err)
			}
		})
		if s := m.status(); s.Leader != 0 || len(s.Errors) != 1 || s.Errors[0] != "etcdserver: no leader" {
			t.Errorf("%v", s)
		}
		if code, body := m.url("/health"); code != 503 || strings.TrimSpace(body) != `{"health":"false","reason":"RAFT NO LEADER"}` {
			t.Errorf("%d %s", code, body)
		}
		if code, _ := m.url("/livez"); code != 200 {
			t.Errorf("/livez: %d", code)
		}
		if code, body := m.url("/readyz"); code != 503 || !strings.Contains(body, "[-]linearizable_read failed: etcdserver: request timed out") {
			t.Errorf("/readyz: %d %s", code, body)
		}
		l[0].start(l[0].argv(initial(c.m...), "new"))
		time.Sleep(4 * time.Second)
		if err := m.put("k", "back"); err != nil {
			t.Error(err)
		}
		l[1].start(l[1].argv(initial(c.m...), "new"))
		time.Sleep(4 * time.Second)
		c.equal()
		if code, body := m.url("/readyz"); code != 200 {
			t.Errorf("%d %s", code, body)
		}
	})
}

func TestAMemberThatWasAwayForLongGetsTheDatabase(t *testing.T) {
	inCluster(t, 3, func(c *cluster) {
		c.found()
		away := c.followers()[0]
		away.kill()
		m := c.leader()
		m.client(func(ctx context.Context, cl *clientv3.Client) {
			for i := range keptEntries + 300 {
				if _, err := cl.Put(ctx, fmt.Sprint("k", i%100), fmt.Sprint(i)); err != nil {
					t.Fatal(err)
				}
			}
		})
		away.start(away.argv(initial(c.m...), "new"))
		time.Sleep(3 * time.Second)
		away.mustSay("receiving database snapshot")
		away.mustSay("applied snapshot")
		m.mustSay("sent database snapshot")
		c.equal()
		if _, err := away.files.Stat("/var/lib/etcd/member/snap/db"); err != nil {
			t.Error(err)
		}
		away.kill()
		away.start(away.argv(initial(c.m...), "new"))
		time.Sleep(3 * time.Second)
		c.equal()
	})
}

func TestAPortIsBlocked(t *testing.T) {
	inCluster(t, 3, func(c *cluster) {
		c.found()
		lead := c.leader()
		cut := lead
		drop := []network.Rule{{Chain: "INPUT", Proto: "tcp", Ports: []network.PortRange{{First: 2380, Last: 2380}}, Verdict: network.Drop},
			{Chain: "OUTPUT", Proto: "tcp", Ports: []network.PortRange{{First: 2380, Last: 2380}}, Verdict: network.Drop}}
		network.Of(cut.host).SetRules("iptables", drop)
		time.Sleep(10 * time.Second)
		for _, m := range c.m {
			if m == cut {
				m.mustSay("stepped down to follower")
				continue
			}
			m.mustSay("lost TCP streaming connection with remote peer", "i/o timeout")
		}
		now := c.leader()
		if now == cut {
			t.Fatal("the one that was cut off leads")
		}
		if err := now.put("k", "v"); err != nil {
			t.Error(err)
		}
		cut.client(func(ctx context.Context, cl *clientv3.Client) {
			short, cancel := context.WithTimeout(ctx, 3*time.Second)
			defer cancel()
			if _, err := cl.Put(short, "x", "y"); err == nil {
				t.Error("the one that was cut off wrote")
			}
		})
		network.Of(cut.host).SetRules("iptables", nil)
		time.Sleep(10 * time.Second)
		if v, err := cut.get("k"); v != "v" {
			t.Errorf("%q %v", v, err)
		}
		c.equal()
	})
}
