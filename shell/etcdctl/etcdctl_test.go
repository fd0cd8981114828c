package etcdctl

import (
	"bytes"
	"net/netip"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ckadrill/sim/etcd"
	"ckadrill/sim/kernel"
	"ckadrill/sim/kubeadm"
	"ckadrill/sim/machine/filesystem"
	"ckadrill/sim/network"

	"sigs.k8s.io/yaml"
)

// lab is a control plane machine with kubeadm's files, on which etcd runs as its manifest says.
type lab struct {
	t     *testing.T
	w     *kernel.World
	host  *kernel.Host
	files kernel.Files
	net   kernel.Network
	etcd  *kernel.Process
}

const flags = " --endpoints=https://127.0.0.1:2379 --cacert=/etc/kubernetes/pki/etcd/ca.crt --cert=/etc/kubernetes/pki/etcd/server.crt --key=/etc/kubernetes/pki/etcd/server.key "

func inLab(t *testing.T, f func(l *lab)) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 12, 1, 16, 34, 0, 0, time.UTC)))
		w := kernel.NewWorld(1)
		Register(w)
		etcd.Register(w)
		layout, err := kubeadm.Build(w, kubeadm.Cluster{
			Version: "v1.35.9", PodCIDR: netip.MustParsePrefix("10.244.0.0/16"), ServiceCIDR: netip.MustParsePrefix("10.96.0.0/12"),
			Machines: []kubeadm.Machine{{Name: "cka-cp1", Address: netip.MustParseAddr("192.168.122.11"), Role: kubeadm.ControlPlane}},
		})
		if err != nil {
			t.Fatal(err)
		}
		view, err := filesystem.NewView([]filesystem.Mount{{Target: "/", Tree: filesystem.NewTree(w, "/dev/vda1", 4<<30)}})
		if err != nil {
			t.Fatal(err)
		}
		l := &lab{t: t, w: w, host: w.NewHost("cka-cp1"), files: view.Files(kernel.Root)}
		ns := network.NewFabric(w).AddMachine("cka-cp1", netip.MustParsePrefix("192.168.122.11/24"))
		ns.Attach(l.host)
		l.net = ns
		if err := layout.Trees["cka-cp1"].Install(l.files); err != nil {
			t.Fatal(err)
		}
		for _, d := range []string{"/proc", "/tmp", "/backup"} {
			if err := l.files.MkdirAll(d, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		l.startEtcd("")
		f(l)
		for _, p := range l.host.Processes.List() {
			p.Signal(kernel.SIGKILL)
			p.Wait()
		}
		time.Sleep(2 * time.Minute) // what the client library leaves behind ends
	})
}

// startEtcd starts etcd by its manifest, with another data directory if one is given.
func (l *lab) startEtcd(dataDir string) {
	b, err := l.files.ReadFile("/etc/kubernetes/manifests/etcd.yaml")
	if err != nil {
		l.t.Fatal(err)
	}
	var pod struct {
		Spec struct{ Containers []struct{ Command []string } }
	}
	if err := yaml.Unmarshal(b, &pod); err != nil {
		l.t.Fatal(err)
	}
	argv := pod.Spec.Containers[0].Command
	if dataDir != "" {
		for i, a := range argv {
			if strings.HasPrefix(a, "--data-dir=") {
				argv[i] = "--data-dir=" + dataDir
			}
		}
	}
	main, _ := l.w.Programs.Find("etcd")
	var log bytes.Buffer
	l.etcd = l.host.Processes.Start(kernel.Spec{Argv: argv, Files: l.files, Net: l.net, Stderr: &log}, main)
	time.Sleep(10 * time.Second)
	if !l.etcd.Alive() {
		l.t.Fatal(log.String())
	}
}

// sh runs a command and returns everything it printed.
func (l *lab) sh(command string, env ...string) (string, int) {
	argv := strings.Fields(command)
	main, ok := l.w.Programs.Find(argv[0])
	if !ok {
		l.t.Fatal("no program ", argv[0])
	}
	var b bytes.Buffer
	p := l.host.Processes.Start(kernel.Spec{Argv: argv, Env: append(env, "PATH=/usr/bin"), Dir: "/root", Files: l.files, Net: l.net, Stdout: &b, Stderr: &b}, main)
	code := p.Wait().ExitCode()
	return b.String(), code
}

// want runs a command whose output must be exactly this.
func (l *lab) want(command, output string) {
	l.t.Helper()
	if got, code := l.sh(command); got != output || code != 0 {
		l.t.Errorf("$ %s\n%s[exit %d]\nwant:\n%s", command, got, code, output)
	}
}

// match runs a command whose output must match an expression.
func (l *lab) match(code int, command, expr string, env ...string) {
	l.t.Helper()
	got, exit := l.sh(command, env...)
	if !regexp.MustCompile(`(?s)\A`+expr+`\z`).MatchString(got) || exit != code {
		l.t.Errorf("$ %s\n%s[exit %d]\nwant (exit %d):\n%s", command, got, exit, code, expr)
	}
}

func TestKeys(t *testing.T) {
	inLab(t, func(l *lab) {
		ctl := "etcdctl" + flags
		l.want(ctl+"put /a/1 one", "OK\n")
		l.want(ctl+"put /a/2 two", "OK\n")
		l.want(ctl+"get /a/1", "/a/1\none\n")
		l.want(ctl+"get /a --prefix --keys-only", "/a/1\n\n/a/2\n\n")
		l.want(ctl+"get /a --prefix --keys-only --limit=1", "/a/1\n\n")
		l.want(ctl+"get /a/2 --print-value-only", "two\n")
		l.want(ctl+"get / --prefix --order=DESCEND", "/a/2\ntwo\n/a/1\none\n")
		l.want(ctl+"get /nosuch", "")
		l.match(0, ctl+"get /a/1 -w json", `\{"header":\{"cluster_id":\d+,"member_id":\d+,"revision":3,"raft_term":\d+\},"kvs":\[\{"key":"L2EvMQ==","create_revision":2,"mod_revision":2,"version":1,"value":"b25l"\}\],"count":1\}\n`)
		l.match(0, ctl+"get /a --prefix --count-only -w fields", `"ClusterID" : \d+\n"MemberID" : \d+\n"Revision" : 3\n"RaftTerm" : \d+\n"More" : false\n"Count" : 2\n`)
		l.want(ctl+"--hex get /a/1", `\x2f\x61\x2f\x31`+"\n"+`\x6f\x6e\x65`+"\n")
		l.want(ctl+"del /a --prefix", "2\n")
		l.want(ctl+"compaction 3", "compacted revision 3\n")
		l.match(1, ctl+"get /a --rev=1", `\{"level":"warn",.*"msg":"retrying of unary invoker failed",.*\}\nError: etcdserver: mvcc: required revision has been compacted\n`)
		l.match(128, ctl+"get", "Error: get command needs one argument as key and an optional argument as range_end\n")
		l.match(4, ctl+"get x -w yaml", "Error: unsupported output format\n")
	})
}

func TestWatch(t *testing.T) {
	inLab(t, func(l *lab) {
		main, _ := l.w.Programs.Find("etcdctl")
		var b bytes.Buffer
		p := l.host.Processes.Start(kernel.Spec{Argv: strings.Fields("etcdctl" + flags + "watch /w --prefix"), Files: l.files, Net: l.net, Stdout: &b, Stderr: &b}, main)
		time.Sleep(time.Second)
		l.want("etcdctl"+flags+"put /w/1 one", "OK\n")
		l.want("etcdctl"+flags+"del /w/1", "1\n")
		time.Sleep(time.Second)
		p.Signal(kernel.SIGINT)
		p.Wait()
		if got := b.String(); got != "PUT\n/w/1\none\nDELETE\n/w/1\n\n" {
			t.Errorf("%q", got)
		}
	})
}

func TestCluster(t *testing.T) {
	inLab(t, func(l *lab) {
		ctl := "etcdctl" + flags
		l.match(0, ctl+"member list", `[0-9a-f]+, started, cka-cp1, https://192\.168\.122\.11:2380, https://192\.168\.122\.11:2379, false\n`)
		out, _ := l.sh(ctl + "member list -w table")
		lines := strings.Split(out, "\n")
		if len(lines) != 6 || !regexp.MustCompile(`^\|\s+ID\s+\| STATUS  \|  NAME   \|\s+PEER ADDRS\s+\|\s+CLIENT ADDRS\s+\| IS LEARNER \|$`).MatchString(lines[1]) {
			t.Errorf("%s", out)
		}
		l.match(0, ctl+"endpoint health", `https://127\.0\.0\.1:2379 is healthy: successfully committed proposal: took = [0-9.]+.?s\n`)
		l.match(0, ctl+"endpoint health --cluster -w json", `\[\{"endpoint":"https://192\.168\.122\.11:2379","health":true,"took":"[^"]+"\}\]\n`)
		l.match(0, ctl+"endpoint status", `https://127\.0\.0\.1:2379, [0-9a-f]+, 3\.6\.6, 3\.6\.0, [0-9.]+ .B, [0-9.]+ .B, \d+%, [0-9.]+ .B, true, false, \d+, \d+, \d+, , , false\n`)
		l.match(0, ctl+"endpoint status -w table", `.*\|        ENDPOINT        \|.*\| DOWNGRADE TARGET VERSION \| DOWNGRADE ENABLED \|\n.*`)
		l.want(ctl+"alarm list", "")
		l.match(0, ctl+"defrag", `Finished defragmenting etcd member\[https://127\.0\.0\.1:2379\]\. took .*s\n`)
		l.want("etcdctl version", "etcdctl version: 3.6.6\nAPI version: 3.6\n")
		l.match(0, "etcdctl", `NAME:\n  etcdctl - A simple command line client for etcd3\.\n\nUSAGE:\n  etcdctl \[flags\]\n\nVERSION:\n  3\.6\.6\n\nAPI VERSION:\n  3\.6\n\n\nCOMMANDS:\n.*  snapshot save\t+Stores an etcd node backend snapshot to a given file\n.*OPTIONS:\n.*`)
	})
}

func TestConnectionErrors(t *testing.T) {
	inLab(t, func(l *lab) {
		start := time.Now()
		l.match(1, "etcdctl get /a", `\{"level":"warn",.*"logger":"etcd-client","caller":"v3@v3\.6\.6/retry_interceptor\.go:\d+","msg":"retrying of unary invoker failed",.*error reading server preface: EOF.*\}\nError: context deadline exceeded\n`)
		if took := time.Since(start); took < 5*time.Second || took > 6*time.Second {
			t.Errorf("it took %s", took)
		}
		l.match(1, "etcdctl"+strings.Replace(flags, "2379", "2399", 1)+"endpoint health", `.*https://127\.0\.0\.1:2399 is unhealthy: failed to commit proposal: context deadline exceeded\nError: unhealthy cluster\n`)
		l.match(128, "etcdctl --endpoints=https://127.0.0.1:2379 --cacert=/nosuch get /a", "Error: open /nosuch: no such file or directory\n")
		l.match(128, "etcdctl --cert=/etc/kubernetes/pki/etcd/server.crt get /a", `Error: KeyFile and CertFile must both be present\[key: , cert: /etc/kubernetes/pki/etcd/server\.crt\]`+"\n")
		l.match(1, "etcdctl"+strings.Replace(flags, "etcd/ca.crt", "ca.crt", 1)+"get /a", `.*x509: certificate signed by unknown authority.*Error: context deadline exceeded\n`)
		l.match(0, "etcdctl get /a", ``, "ETCDCTL_ENDPOINTS=https://127.0.0.1:2379", "ETCDCTL_CACERT=/etc/kubernetes/pki/etcd/ca.crt",
			"ETCDCTL_CERT=/etc/kubernetes/pki/etcd/server.crt", "ETCDCTL_KEY=/etc/kubernetes/pki/etcd/server.key")
		l.match(0, "etcdctl"+flags+"get /a", `\{"level":"warn","ts":"[^"]+","caller":"flags/flag\.go:94","msg":"unrecognized environment variable","environment-variable":"ETCDCTL_API=3"\}`+"\n", "ETCDCTL_API=3")
		l.match(1, "etcdctl snapshot restore x --data-dir /y", `Error: unknown flag: --data-dir\n.*`)
	})
}

func TestBackupAndRestore(t *testing.T) {
	inLab(t, func(l *lab) {
		ctl := "etcdctl" + flags
		l.want(ctl+"put before x", "OK\n")
		got, code := l.sh(ctl + "snapshot save /backup/snapshot.db")
		if code != 0 {
			t.Fatalf("exit %d: %s", code, got)
		}
		b, err := os.ReadFile("testdata/snapshot-save.txt")
		if err != nil {
			t.Fatal(err)
		}
		if got, want := sorted(volatile(got)), sorted(volatile(strings.ReplaceAll(string(b), "/var/lib/etcd/", "/backup/"))); got != want {
			t.Errorf("%s\nwant:\n%s", got, want)
		}
		l.want(ctl+"put after x", "OK\n")
		l.match(0, "etcdutl snapshot status /backup/snapshot.db", `[0-9a-f]+, 2, \d+, [0-9.]+ .B, 3\.6\.0\n`)
		l.match(0, "etcdutl snapshot status /backup/snapshot.db -w table", `\+-+\+-+\+-+\+-+\+-+\+\n\|\s+HASH\s+\| REVISION \| TOTAL KEYS \| TOTAL SIZE \| VERSION \|\n.*`)
		l.match(1, "etcdutl snapshot restore /nosuch --data-dir /var/lib/x", `.*\nError: open /nosuch: no such file or directory\n`)
		l.match(1, "etcdutl snapshot restore /backup/snapshot.db --data-dir /var/lib/etcd", `Error: data-dir "/var/lib/etcd" not empty or could not be read\n`)

		got, code = l.sh("etcdutl snapshot restore /backup/snapshot.db --data-dir /var/lib/restored")
		if b, err = os.ReadFile("testdata/snapshot-restore.txt"); err != nil {
			t.Fatal(err)
		}
		want := strings.ReplaceAll(strings.ReplaceAll(string(b), "/var/lib/etcd/restored", "/var/lib/restored"), "/var/lib/etcd/", "/backup/")
		if volatile(got) != volatile(want) || code != 0 {
			t.Errorf("exit %d: %s\nwant:\n%s", code, got, want)
		}
		l.etcd.Signal(kernel.SIGTERM)
		l.etcd.Wait()
		l.startEtcd("/var/lib/restored")
		l.want(ctl+"get --prefix a", "")
		l.want(ctl+"get before", "before\nx\n")
	})
}

// volatile takes out times, sizes and addresses.
func volatile(s string) string {
	for _, r := range [][2]string{
		{`"ts":"[^"]*"`, `"ts":""`}, {`"took":"[^"]*"`, `"took":""`}, {`"size":"[^"]*"`, `"size":""`},
		{`(?m)^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ`, "TIME"}, {`0x[0-9a-f]{6,}`, "0x"},
	} {
		s = regexp.MustCompile(r[0]).ReplaceAllString(s, r[1])
	}
	return s
}

// sorted forgets the order of lines: the client's and the command's log race.
func sorted(s string) string {
	l := strings.Split(strings.TrimSpace(s), "\n")
	for i := range l {
		for j := i + 1; j < len(l); j++ {
			if l[j] < l[i] {
				l[i], l[j] = l[j], l[i]
			}
		}
	}
	return strings.Join(l, "\n")
}

func TestSizesAndTables(t *testing.T) {
	for n, want := range map[uint64]string{0: "0 B", 9: "9 B", 20480: "20 kB", 9_500_000: "9.5 MB", 2_147_483_648: "2.1 GB", 82: "82 B"} {
		if got := size(n); got != want {
			t.Errorf("%d is %s, want %s", n, got, want)
		}
	}
	want := "+------+---+\n|  A   | B |\n+------+---+\n| 1234 | x |\n|    5 | y |\n+------+---+\n"
	if got := table([]string{"a", "b"}, [][]string{{"1234", "x"}, {"5", "y"}}); got != want {
		t.Errorf("%s\nwant:\n%s", got, want)
	}
}
