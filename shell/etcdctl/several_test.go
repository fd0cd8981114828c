package etcdctl

import (
	"bytes"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ckadrill/sim/etcd"
	"ckadrill/sim/kernel"
	"ckadrill/sim/machine/filesystem"
	"ckadrill/sim/network"
)

// several are three machines with one etcd each, in plain text.
type several struct {
	labs []*lab
	logs []*bytes.Buffer
}

func (s *several) endpoints() string {
	var l []string
	for i := range s.labs {
		l = append(l, fmt.Sprintf("http://192.168.122.%d:2379", 11+i))
	}
	return strings.Join(l, ",")
}

func initialCluster(n int) string {
	var l []string
	for i := range n {
		l = append(l, fmt.Sprintf("cka-cp%d=http://192.168.122.%d:2380", i+1, 11+i))
	}
	return strings.Join(l, ",")
}

func (s *several) start(i, n int, state, dataDir string) {
	l := s.labs[i]
	main, _ := l.w.Programs.Find("etcd")
	argv := strings.Fields(fmt.Sprintf("etcd --name=cka-cp%d --data-dir=%s --listen-client-urls=http://127.0.0.1:2379,http://192.168.122.%d:2379 --advertise-client-urls=http://192.168.122.%[3]d:2379 "+
		"--listen-peer-urls=http://192.168.122.%[3]d:2380 --initial-advertise-peer-urls=http://192.168.122.%[3]d:2380 --initial-cluster=%[4]s --initial-cluster-state=%[5]s",
		i+1, dataDir, 11+i, initialCluster(n), state))
	s.logs[i] = &bytes.Buffer{}
	l.etcd = l.host.Processes.Start(kernel.Spec{Argv: argv, Files: l.files, Net: l.net, Stderr: s.logs[i]}, main)
}

func inSeveral(t *testing.T, f func(s *several)) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 12, 1, 16, 34, 0, 0, time.UTC)))
		w := kernel.NewWorld(1)
		Register(w)
		etcd.Register(w)
		fabric := network.NewFabric(w)
		s := &several{logs: make([]*bytes.Buffer, 3)}
		for i := range 3 {
			name := fmt.Sprintf("cka-cp%d", i+1)
			view, err := filesystem.NewView([]filesystem.Mount{{Target: "/", Tree: filesystem.NewTree(w, "/dev/vda1", 4<<30)}})
			if err != nil {
				t.Fatal(err)
			}
			l := &lab{t: t, w: w, host: w.NewHost(name), files: view.Files(kernel.Root)}
			ns := fabric.AddMachine(name, netip.MustParsePrefix(fmt.Sprintf("192.168.122.%d/24", 11+i)))
			ns.Attach(l.host)
			l.net = ns
			for _, d := range []string{"/proc", "/tmp", "/backup", "/var/lib/etcd", "/etc", "/root"} {
				if err := l.files.MkdirAll(d, 0o755); err != nil {
					t.Fatal(err)
				}
			}
			s.labs = append(s.labs, l)
		}
		f(s)
		for _, l := range s.labs {
			for _, p := range l.host.Processes.List() {
				p.Signal(kernel.SIGKILL)
				p.Wait()
			}
		}
		time.Sleep(2 * time.Minute)
	})
}

// found starts all three and says which one leads.
func (s *several) found() int {
	for i := range s.labs {
		s.start(i, 3, "new", "/var/lib/etcd")
	}
	time.Sleep(8 * time.Second)
	return s.leader()
}

func (s *several) leader() int {
	for i, l := range s.labs {
		out, _ := l.sh("etcdctl endpoint status")
		if f := strings.Split(out, ", "); len(f) > 8 && f[8] == "true" {
			return i
		}
	}
	return -1
}

// ids are the members' ids by their names.
func (s *several) ids() map[string]string {
	out, _ := s.labs[0].sh("etcdctl member list")
	ids := map[string]string{}
	for _, line := range strings.Split(strings.TrimSpace(out), "\n") {
		f := strings.Split(line, ", ")
		if len(f) > 2 {
			ids[f[2]] = f[0]
		}
	}
	return ids
}

func TestSeveralMembers(t *testing.T) {
	inSeveral(t, func(s *several) {
		lead := s.found()
		if lead < 0 {
			t.Fatal("nobody leads")
		}
		ids := s.ids()
		if len(ids) != 3 {
			t.Fatalf("members: %v", ids)
		}
		next := (lead + 1) % 3
		from, to := ids[fmt.Sprintf("cka-cp%d", lead+1)], ids[fmt.Sprintf("cka-cp%d", next+1)]

		out, _ := s.labs[0].sh("etcdctl --hex -w json member list")
		if !strings.Contains(out, `{"ID":"`+to+`","name":"cka-cp`) {
			t.Errorf("member list in hexadecimal: %s", out)
		}
		out, code := s.labs[next].sh("etcdctl move-leader " + to)
		if want := "no leader endpoint given at [127.0.0.1:2379]"; code != 128 || !strings.Contains(out, want) {
			t.Errorf("move-leader at a follower: %q, %d, want %q", out, code, want)
		}
		out, code = s.labs[next].sh("etcdctl --endpoints=" + s.endpoints() + " move-leader " + to)
		if want := "Leadership transferred from " + from + " to " + to + "\n"; code != 0 || out != want {
			t.Errorf("move-leader: %q, %d, want %q", out, code, want)
		}
		if l := s.leader(); l != next {
			t.Errorf("cka-cp%d leads after the leadership went to cka-cp%d", l+1, next+1)
		}
		out, code = s.labs[0].sh("etcdctl --endpoints=" + s.endpoints() + " endpoint health")
		if code != 0 || strings.Count(out, " is healthy: successfully committed proposal: took = ") != 3 {
			t.Errorf("health of three: %q, %d", out, code)
		}

		s.labs[next].etcd.Signal(kernel.SIGKILL)
		s.labs[next].etcd.Wait()
		time.Sleep(5 * time.Second)
		out, code = s.labs[lead].sh("etcdctl --endpoints=" + s.endpoints() + " endpoint health")
		if code != 1 || strings.Count(out, " is healthy: ") != 2 || strings.Count(out, " is unhealthy: ") != 1 {
			t.Errorf("health of two of three: %q, %d", out, code)
		}
	})
}

// A snapshot restored on each of three machines founds a cluster of three that has the snapshot's keys.
func TestSnapshotRestoredOnSeveral(t *testing.T) {
	inSeveral(t, func(s *several) {
		s.found()
		s.labs[0].sh("etcdctl put /registry/kept yes")
		if out, code := s.labs[0].sh("etcdctl snapshot save /backup/db"); code != 0 {
			t.Fatalf("snapshot save: %s", out)
		}
		snapshot, err := s.labs[0].files.ReadFile("/backup/db")
		if err != nil {
			t.Fatal(err)
		}
		s.labs[0].sh("etcdctl put /registry/lost yes")
		for i, l := range s.labs {
			l.etcd.Signal(kernel.SIGTERM)
			l.etcd.Wait()
			if err := l.files.WriteFile("/backup/db", snapshot, 0o600); err != nil {
				t.Fatal(err)
			}
			out, code := l.sh(fmt.Sprintf("etcdutl snapshot restore /backup/db --name=cka-cp%d --initial-cluster=%s --initial-advertise-peer-urls=http://192.168.122.%d:2380 --data-dir=/var/lib/restored", i+1, initialCluster(3), 11+i))
			if code != 0 {
				t.Fatalf("restore on cka-cp%d: %s", i+1, out)
			}
		}
		for i := range s.labs {
			s.start(i, 3, "existing", "/var/lib/restored")
		}
		time.Sleep(8 * time.Second)
		for i, l := range s.labs {
			if out, code := l.sh("etcdctl get /registry/ --prefix"); code != 0 || out != "/registry/kept\nyes\n" {
				t.Errorf("keys on cka-cp%d: %q, %d\n%s", i+1, out, code, s.logs[i])
			}
		}
		if len(s.ids()) != 3 {
			t.Errorf("members: %v", s.ids())
		}
	})
}
