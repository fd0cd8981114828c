package etcd

import (
	"bytes"
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"math/big"
	"net"
	"net/http"
	"net/netip"
	"os"
	"regexp"
	"sort"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	clientv3 "go.etcd.io/etcd/client/v3"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"ckadrill/sim/kernel"
	"ckadrill/sim/network"
)

// lab is one machine with etcd's certificates.
type lab struct {
	t     *testing.T
	w     *kernel.World
	ss    *Stores
	net   *network.Fabric
	host  *kernel.Host
	files memFiles
}

const pki = "/etc/kubernetes/pki/etcd/"

// certs are made once: they are valid for every test.
var certs = sync.OnceValue(func() map[string][]byte {
	out := map[string][]byte{}
	key := func() *ecdsa.PrivateKey {
		k, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
		if err != nil {
			panic(err)
		}
		return k
	}
	add := func(name string, der []byte, k *ecdsa.PrivateKey) {
		b, _ := x509.MarshalECPrivateKey(k)
		out[name+".crt"] = pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der})
		out[name+".key"] = pem.EncodeToMemory(&pem.Block{Type: "EC PRIVATE KEY", Bytes: b})
	}
	tmpl := func(cn string, ca bool) *x509.Certificate {
		return &x509.Certificate{SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: cn}, NotBefore: time.Unix(0, 0), NotAfter: time.Unix(1<<33, 0), IsCA: ca, BasicConstraintsValid: true,
			KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}}
	}
	for _, ca := range []string{"ca", "other-ca"} {
		ck := key()
		ct := tmpl("etcd-"+ca, true)
		der, err := x509.CreateCertificate(rand.Reader, ct, ct, &ck.PublicKey, ck)
		if err != nil {
			panic(err)
		}
		parsed, _ := x509.ParseCertificate(der)
		add(ca, der, ck)
		for _, n := range []string{"server", "peer", "client"} {
			k := key()
			t := tmpl("cka-cp1", false)
			t.ExtKeyUsage = []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth, x509.ExtKeyUsageServerAuth}
			t.IPAddresses = []net.IP{net.IPv4(127, 0, 0, 1), net.IPv4(192, 168, 122, 11)}
			t.DNSNames = []string{"localhost"}
			der, err := x509.CreateCertificate(rand.Reader, t, parsed, &k.PublicKey, ck)
			if err != nil {
				panic(err)
			}
			if ca != "ca" {
				n = "other-" + n
			}
			add(n, der, k)
		}
	}
	return out
})

func inLab(t *testing.T, f func(l *lab)) {
	t.Helper()
	certs()
	synctest.Test(t, func(t *testing.T) {
		w := kernel.NewWorld(1)
		l := &lab{t: t, w: w, ss: Register(w), net: network.NewFabric(w), host: w.NewHost("cka-cp1"), files: newMemFiles()}
		l.net.AddMachine("cka-cp1", netip.MustParsePrefix("192.168.122.11/24")).Attach(l.host)
		l.files.MkdirAll(pki, 0o755)
		l.files.MkdirAll(strings.TrimSuffix(pki, "/"), 0o755)
		l.files.MkdirAll("/proc", 0o755)
		l.files.MkdirAll("/tmp", 0o755)
		for n, b := range certs() {
			l.files.WriteFile(pki+n, b, 0o600)
		}
		f(l)
		for _, p := range l.host.Processes.List() {
			p.Signal(kernel.SIGKILL)
			p.Wait()
		}
		time.Sleep(time.Minute) // what the client library leaves behind ends
	})
}

type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(b []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.Write(b)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// arguments are kubeadm's, with some replaced.
func arguments(replace ...string) []string {
	a := strings.Fields(`etcd --advertise-client-urls=https://192.168.122.11:2379 --cert-file=/etc/kubernetes/pki/etcd/server.crt
		--client-cert-auth=true --data-dir=/tmp/e1 --feature-gates=InitialCorruptCheck=true --initial-advertise-peer-urls=https://192.168.122.11:2380
		--initial-cluster=cka-cp1=https://192.168.122.11:2380 --key-file=/etc/kubernetes/pki/etcd/server.key
		--listen-client-urls=https://127.0.0.1:2379,https://192.168.122.11:2379 --listen-metrics-urls=http://127.0.0.1:2381
		--listen-peer-urls=https://192.168.122.11:2380 --name=cka-cp1 --peer-cert-file=/etc/kubernetes/pki/etcd/peer.crt --peer-client-cert-auth=true
		--peer-key-file=/etc/kubernetes/pki/etcd/peer.key --peer-trusted-ca-file=/etc/kubernetes/pki/etcd/ca.crt --snapshot-count=10000
		--trusted-ca-file=/etc/kubernetes/pki/etcd/ca.crt --watch-progress-notify-interval=5s`)
	for _, r := range replace {
		name, _, _ := strings.Cut(r, "=")
		found := false
		for i := range a {
			if strings.HasPrefix(a[i], name+"=") {
				a[i], found = r, true
			}
		}
		if !found {
			a = append(a, r)
		}
	}
	return a
}

func (l *lab) start(argv []string, pid int) (*kernel.Process, *output) {
	main, ok := l.w.Programs.Find(argv[0])
	if !ok {
		l.t.Fatal("no program ", argv[0])
	}
	o := &output{}
	return l.host.Processes.Start(kernel.Spec{Argv: argv, Files: l.files, Net: network.Of(l.host), Stdout: o, Stderr: o, NamespacePID: pid}, main), o
}

// as runs f as a process of the machine and waits for it.
func (l *lab) as(f func(p *kernel.Process)) {
	p := l.host.Processes.Start(kernel.Spec{Argv: []string{"client"}, Files: l.files, Net: network.Of(l.host)}, func(p *kernel.Process) int { f(p); return 0 })
	p.Wait()
}

func clientTLS(prefix string) *tls.Config {
	c := certs()
	pair, err := tls.X509KeyPair(c[prefix+"client.crt"], c[prefix+"client.key"])
	if err != nil {
		panic(err)
	}
	pool := x509.NewCertPool()
	pool.AppendCertsFromPEM(c["ca.crt"])
	return &tls.Config{RootCAs: pool, Certificates: []tls.Certificate{pair}}
}

const endpoint = "https://127.0.0.1:2379"

var volatile = []*regexp.Regexp{
	regexp.MustCompile(`0x[0-9a-f]{8,}`), regexp.MustCompile(`"took":"[^"]*"`), regexp.MustCompile(`"ts":"[^"]*"`),
	regexp.MustCompile(`"backend-size[^,}]*[,}]`), regexp.MustCompile(`"(commit-)?index":\d+`), regexp.MustCompile(`(commit|lastindex): \d+`),
	regexp.MustCompile(`at term \d+`), regexp.MustCompile(`term: \d+`),
}

// shape is a log without what differs from run to run. Lines are sorted, since etcd's own goroutines race.
func shape(log string) []string {
	var l []string
	for _, s := range strings.Split(log, "\n") {
		if s == "" || strings.HasPrefix(s, "# ") || strings.HasPrefix(s, "[exit") {
			continue
		}
		if strings.HasPrefix(s, "{") && !json.Valid([]byte(s)) {
			l = append(l, "NOT JSON "+s)
		}
		for _, r := range volatile {
			s = r.ReplaceAllString(s, "~")
		}
		l = append(l, s)
	}
	sort.Strings(l)
	return l
}

func TestLogsAreThoseOfTheRealProgram(t *testing.T) {
	for _, c := range []struct {
		file  string
		args  []string
		again bool // on a data directory that exists
		setup func(*lab)
		code  int
	}{
		{"etcd-normal-start.log", nil, false, nil, -1},
		{"etcd-unknown-flag.log", []string{"--foo=bar"}, false, nil, 2},
		{"etcd-missing-cert.log", []string{"--cert-file=" + pki + "nosuch.crt"}, true, nil, 1},
		{"etcd-wrong-data-dir.log", []string{"--data-dir=/proc/nosuch"}, false, nil, 1},
		{"etcd-data-dir-not-writable.log", []string{"--data-dir=/proc/nosuch"}, false, nil, 1},
		{"etcd-wrong-listen-ip.log", []string{"--listen-client-urls=https://10.9.9.9:2379,https://192.168.122.11:2379"}, true, nil, 1},
		{"etcd-initial-cluster-mismatch.log", []string{"--data-dir=/tmp/e2", "--initial-cluster=other=https://192.168.122.11:2380"}, false, nil, 1},
		{"etcd-corrupt-db.log", []string{"--data-dir=/tmp/e3"}, false, func(l *lab) {
			l.files.MkdirAll("/tmp/e3/member/snap", 0o755)
			l.files.WriteFile("/tmp/e3/member/snap/db", bytes.Repeat([]byte("garbage "), 1000), 0o600)
		}, 2},
	} {
		t.Run(strings.TrimSuffix(c.file, ".log"), func(t *testing.T) {
			inLab(t, func(l *lab) {
				want, err := os.ReadFile("testdata/" + c.file)
				if err != nil {
					t.Fatal(err)
				}
				if c.setup != nil {
					c.setup(l)
				}
				if c.again {
					p, _ := l.start(arguments(), 1)
					time.Sleep(10 * time.Second)
					p.Signal(kernel.SIGTERM)
					p.Wait()
				}
				p, o := l.start(arguments(c.args...), 1)
				if c.code < 0 {
					time.Sleep(10 * time.Second)
					if !p.Alive() {
						t.Error("it ended")
					}
				} else if s := p.Wait(); s.Code != c.code {
					t.Errorf("exit code %d, want %d", s.Code, c.code)
				}
				if d := cmp.Diff(shape(string(want)), shape(o.String())); d != "" {
					t.Errorf("log differs (-real +simulated):\n%s", d)
				}
			})
		})
	}
}

// started runs etcd until it serves.
func (l *lab) started(args ...string) (*kernel.Process, *output) {
	p, o := l.start(arguments(args...), 1)
	time.Sleep(2 * time.Second)
	if !p.Alive() {
		l.t.Fatalf("etcd ended:\n%s", o)
	}
	return p, o
}

func TestStartTakesAsLongAsARealOne(t *testing.T) {
	inLab(t, func(l *lab) {
		for _, want := range []time.Duration{930 * time.Millisecond, 152 * time.Millisecond} {
			began := time.Now()
			p, _ := l.start(arguments(), 1)
			l.as(func(p *kernel.Process) {
				for {
					c, err := p.Dial(p.Context(), "tcp", "127.0.0.1:2381")
					if err == nil {
						c.Close()
						break
					}
					p.Sleep(time.Millisecond)
				}
				cl, err := Dial(p.Context(), p, []string{endpoint}, clientTLS(""))
				if err != nil {
					t.Fatal(err)
				}
				if d := time.Since(began); d < want*9/10 || d > want*3/2 {
					t.Errorf("it served after %v, a real one after %v", d, want)
				}
				cl.Close()
			})
			time.Sleep(time.Second) // it listens before it handles signals
			p.Signal(kernel.SIGTERM)
			p.Wait()
		}
	})
}

func TestShutdown(t *testing.T) {
	inLab(t, func(l *lab) {
		for _, pid := range []int{1, 0} { // the second gets a number of its own, which is not 1
			want := kernel.Status{Signal: kernel.SIGTERM}
			if pid == 1 {
				want = kernel.Status{}
			}
			p, o := l.start(arguments(), pid)
			time.Sleep(2 * time.Second)
			p.Signal(kernel.SIGTERM)
			if s := p.Wait(); s != want {
				t.Errorf("pid %d: %+v, want %+v", pid, s, want)
			}
			for _, s := range []string{`"msg":"received signal; shutting down","signal":"terminated"`, `"msg":"closed etcd server"`} {
				if !strings.Contains(o.String(), s) {
					t.Errorf("no %s in the log", s)
				}
			}
		}
	})
}

func TestDataDirectory(t *testing.T) {
	inLab(t, func(l *lab) {
		run := func(dir string, f func(c *Client)) {
			t.Helper()
			p, _ := l.started("--data-dir=" + dir)
			l.as(func(cp *kernel.Process) {
				c, err := Dial(cp.Context(), cp, []string{endpoint}, clientTLS(""))
				if err != nil {
					t.Fatal(err)
				}
				f(c)
				c.Close()
			})
			p.Signal(kernel.SIGKILL)
			p.Wait()
		}
		value := func(want string) func(c *Client) {
			return func(c *Client) {
				t.Helper()
				r, err := c.Get(context.Background(), "k")
				if err != nil {
					t.Fatal(err)
				}
				got := "-"
				if len(r.Kvs) > 0 {
					got = string(r.Kvs[0].Value)
				}
				if got != want {
					t.Errorf("k is %s, want %s", got, want)
				}
			}
		}
		set := func(v string) func(c *Client) {
			return func(c *Client) {
				if _, err := c.Put(context.Background(), "k", v); err != nil {
					t.Fatal(err)
				}
			}
		}
		run("/tmp/a", set("1"))
		run("/tmp/b", func(c *Client) {
			value("-")(c)
			if r, _ := c.Get(context.Background(), "k"); r.Header.Revision != 1 {
				t.Errorf("an empty directory is at revision %d", r.Header.Revision)
			}
		})
		run("/tmp/a", value("1"))
		l.files.copyTree("/tmp/a", "/tmp/copy", false)
		run("/tmp/a", set("2"))
		run("/tmp/copy", value("1"))
		run("/tmp/copy", set("3"))
		run("/tmp/a", value("2"))
		run("/tmp/copy", value("3"))
		l.files.copyTree("/tmp/a", "/tmp/moved", true)
		run("/tmp/a", value("-"))
		run("/tmp/moved", value("2"))
		l.files.Remove("/tmp/moved/member/snap/db") // the log alone brings everything back
		run("/tmp/moved", value("2"))
		l.files.RemoveAll("/tmp/moved/member")
		run("/tmp/moved", value("-"))
	})
}

func TestOneDatabaseFileOneProcess(t *testing.T) {
	inLab(t, func(l *lab) {
		p, _ := l.started()
		second, o := l.start(arguments("--listen-client-urls=https://127.0.0.1:3379", "--listen-peer-urls=https://192.168.122.11:3380", "--listen-metrics-urls=http://127.0.0.1:3381"), 1)
		time.Sleep(25 * time.Second)
		if strings.Count(o.String(), "db file is flocked by another process") != 2 {
			t.Errorf("log:\n%s", o)
		}
		p.Signal(kernel.SIGKILL)
		time.Sleep(20 * time.Second)
		if !second.Alive() || !strings.Contains(o.String(), "serving client traffic securely") {
			t.Errorf("log:\n%s", o)
		}
	})
}

func TestClientsAreProved(t *testing.T) {
	inLab(t, func(l *lab) {
		_, o := l.started()
		l.as(func(p *kernel.Process) {
			for _, c := range []struct {
				name, endpoint string
				tls            *tls.Config
				server         string // in etcd's log
			}{
				{"nobody listens", "https://127.0.0.1:2389", clientTLS(""), ""},
				{"a certificate of another CA", endpoint, clientTLS("other-"), `"msg":"rejected connection on client endpoint"`},
				{"no certificate", endpoint, &tls.Config{RootCAs: clientTLS("").RootCAs}, `"error":"tls: client didn't provide a certificate"`},
				{"unknown server", endpoint, &tls.Config{RootCAs: x509.NewCertPool(), Certificates: clientTLS("").Certificates}, `"error":"remote error: tls: bad certificate"`},
				{"the peer port", "https://192.168.122.11:2380", clientTLS(""), ""},
			} {
				began := time.Now()
				_, err := Dial(p.Context(), p, []string{c.endpoint}, c.tls)
				if err == nil || err.Error() != "context deadline exceeded" || time.Since(began) != 20*time.Second {
					t.Errorf("%s: %v after %v", c.name, err, time.Since(began))
				}
				if !strings.Contains(o.String(), c.server) {
					t.Errorf("%s: no %s in the log", c.name, c.server)
				}
			}
		})
	})
}

func TestDirectClientIsFastAndFailsAsTheRealOne(t *testing.T) {
	inLab(t, func(l *lab) {
		p, _ := l.started()
		l.as(func(cp *kernel.Process) {
			ctx := cp.Context()
			c, err := Dial(ctx, cp, []string{endpoint}, clientTLS(""))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			if c.direct() == nil {
				t.Fatal("not direct")
			}
			w := c.Watch(ctx, "/r/", clientv3.WithPrefix(), clientv3.WithPrevKV(), clientv3.WithCreatedNotify())
			if r := <-w; !r.Created {
				t.Errorf("%+v", r)
			}
			began := time.Now()
			r, err := c.Put(ctx, "/r/a", "1")
			if err != nil || time.Since(began) != 0 {
				t.Fatalf("%v after %v", err, time.Since(began))
			}
			if e := <-w; len(e.Events) != 1 || !e.Events[0].IsCreate() || e.Header.Revision != r.Header.Revision {
				t.Errorf("%+v", e)
			}
			if _, err := c.Get(ctx, "/r/a", clientv3.WithRev(99)); err == nil || err.Error() != "etcdserver: mvcc: required revision is a future revision" {
				t.Errorf("err %v", err)
			}
			k := c.Kubernetes()
			if r, err := k.Kubernetes.Get(ctx, "/r/a", struct{ Revision int64 }{}); err != nil || string(r.KV.Value) != "1" {
				t.Errorf("%+v %v", r, err)
			}
			lease, err := c.Grant(ctx, 30)
			if err != nil {
				t.Fatal(err)
			}
			c.Put(ctx, "/r/leased", "", clientv3.WithLease(lease.ID))
			<-w
			if err := c.RequestProgress(ctx); err != nil {
				t.Fatal(err)
			}
			if r := <-w; !r.IsProgressNotify() {
				t.Errorf("%+v", r)
			}

			p.Signal(kernel.SIGKILL)
			p.Wait()
			short, cancel := context.WithTimeout(ctx, 2*time.Second)
			defer cancel()
			began = time.Now()
			_, err = c.Get(short, "/r/a")
			if !errors.Is(err, context.DeadlineExceeded) && status.Code(err) != codes.DeadlineExceeded && status.Code(err) != codes.Unavailable {
				t.Errorf("err %v", err)
			}
			if time.Since(began) != 2*time.Second {
				t.Errorf("it waited %v", time.Since(began))
			}
			l.started()
			if r, err := c.Get(ctx, "/r/a"); err != nil || len(r.Kvs) != 1 {
				t.Errorf("%v %v", r, err)
			}
			time.Sleep(10 * time.Second)
			if c.direct() == nil {
				t.Error("not direct again")
			}
			c.Put(ctx, "/r/b", "2")
			if e := <-w; len(e.Events) != 1 || string(e.Events[0].Kv.Key) != "/r/b" {
				t.Errorf("the watch goes on with %+v", e)
			}
			time.Sleep(40 * time.Second)
			if e := <-w; len(e.Events) != 1 || e.Events[0].Type != clientv3.EventTypeDelete || string(e.Events[0].Kv.Key) != "/r/leased" {
				t.Errorf("the lease's end: %+v", e)
			}
		})
	})
}

func TestHTTPEndpoints(t *testing.T) {
	inLab(t, func(l *lab) {
		l.started()
		l.as(func(p *kernel.Process) {
			tr := &http.Transport{DialContext: p.Dial, TLSClientConfig: clientTLS("")}
			defer tr.CloseIdleConnections()
			for _, c := range []struct{ url, want string }{
				{"http://127.0.0.1:2381/health", `{"health":"true","reason":""}`},
				{"https://127.0.0.1:2379/health", `{"health":"true","reason":""}`},
				{"http://127.0.0.1:2381/livez", "ok\n"},
				{"http://127.0.0.1:2381/readyz?verbose", "[+]data_corruption ok\n[+]serializable_read ok\n[+]linearizable_read ok\n[+]non_learner ok\nok\n"},
				{"https://127.0.0.1:2379/version", `{"etcdserver":"3.6.6","etcdcluster":"3.6.0","storage":"3.6.0"}`},
			} {
				r, err := (&http.Client{Transport: tr}).Get(c.url)
				if err != nil {
					t.Errorf("%s: %v", c.url, err)
					continue
				}
				b, _ := io.ReadAll(r.Body)
				r.Body.Close()
				if string(b) != c.want {
					t.Errorf("%s: %q", c.url, b)
				}
			}
		})
	})
}

func TestSnapshotOverTheNetworkAndRestore(t *testing.T) {
	inLab(t, func(l *lab) {
		p, _ := l.started()
		l.as(func(cp *kernel.Process) {
			ctx := cp.Context()
			c, err := Dial(ctx, cp, []string{endpoint}, clientTLS(""))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			for i := range 200 {
				c.Put(ctx, fmt.Sprintf("/k%d", i), strings.Repeat("v", 1000))
			}
			rc, err := c.Snapshot(ctx)
			if err != nil {
				t.Fatal(err)
			}
			b, err := io.ReadAll(rc)
			rc.Close()
			if err != nil {
				t.Fatal(err)
			}
			c.Put(ctx, "/later", "1")
			d, err := l.ss.ReadDatabase(b, true)
			if err != nil || d.Revision != 201 || d.TotalKeys != 200 || d.Version != "3.6.0" {
				t.Fatalf("%+v %v", d, err)
			}
			b[3000] ^= 1
			if _, err := l.ss.ReadDatabase(b, true); err == nil || !strings.HasPrefix(err.Error(), "expected sha256 [") {
				t.Errorf("a damaged snapshot: %v", err)
			}
			s, err := l.ss.Restore(d, RestoreOptions{Name: "default", Token: "etcd-cluster", Members: []Member{{Name: "default", PeerURLs: []string{"http://localhost:2380"}}}})
			if err != nil {
				t.Fatal(err)
			}
			if err := WriteDataDir(cp, "/tmp/restored", "", s); err != nil {
				t.Fatal(err)
			}
		})
		p.Signal(kernel.SIGTERM)
		p.Wait()
		l.started("--data-dir=/tmp/restored")
		l.as(func(cp *kernel.Process) {
			c, err := Dial(cp.Context(), cp, []string{endpoint}, clientTLS(""))
			if err != nil {
				t.Fatal(err)
			}
			defer c.Close()
			r, err := c.Get(cp.Context(), "/", clientv3.WithPrefix(), clientv3.WithCountOnly())
			if err != nil || r.Count != 200 {
				t.Errorf("%v %v", r, err)
			}
		})
	})
}

func TestResumedProcessIsSilentAndKeepsItsStore(t *testing.T) {
	inLab(t, func(l *lab) {
		p, _ := l.started()
		l.as(func(cp *kernel.Process) {
			c, err := Dial(cp.Context(), cp, []string{endpoint}, clientTLS(""))
			if err != nil {
				t.Fatal(err)
			}
			c.Put(cp.Context(), "k", "v")
			c.Close()
		})
		l.files.RemoveAll("/tmp/e1") // the running process does not need its files
		all := kernel.Parts{}
		l.w.Freeze(kernel.NewRecorder(nil)).Apply(all)
		pid, started := p.ID(), p.StartTime()

		w := kernel.NewWorld(1)
		l2 := &lab{t: t, w: w, ss: Register(w), net: network.NewFabric(w), host: w.NewHost("cka-cp1"), files: l.files}
		if err := w.Thaw(all); err != nil {
			t.Fatal(err)
		}
		l2.net.AddMachine("cka-cp1", netip.MustParsePrefix("192.168.122.11/24")).Attach(l2.host)
		main, _ := w.Programs.Find("etcd")
		o := &output{}
		began := time.Now()
		q := l2.host.Processes.Start(kernel.Spec{Argv: arguments(), Files: l2.files, Net: network.Of(l2.host), Stderr: o, PID: pid, Started: started}, main)
		synctest.Wait()
		l2.as(func(cp *kernel.Process) {
			c, err := Dial(cp.Context(), cp, []string{endpoint}, clientTLS(""))
			if err != nil {
				t.Fatal(err)
			}
			r, err := c.Get(cp.Context(), "k")
			if err != nil || len(r.Kvs) != 1 {
				t.Errorf("%v %v", r, err)
			}
			if time.Since(began) > 10*time.Millisecond {
				t.Errorf("it served after %v", time.Since(began))
			}
			c.Close()
		})
		if o.String() != "" {
			t.Errorf("it said %s", o)
		}
		q.Signal(kernel.SIGKILL)
		q.Wait()
	})
}
