package machine

import (
	"errors"
	"io/fs"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"ckadrill/sim/kernel"
)

const bridgeSetting = "/proc/sys/net/bridge/bridge-nf-call-iptables"

func load(t *testing.T, m *Machine, names ...string) {
	t.Helper()
	for _, n := range names {
		if err := m.Modules().Load(n); err != nil {
			t.Errorf("%s: %v", n, err)
		}
	}
}

func TestModules(t *testing.T) {
	lab(t, func(_ *kernel.World, m *Machine) {
		f := m.Files(kernel.Root)
		if err := m.Modules().Load("br_netfilter"); err != syscall.ENOENT {
			t.Errorf("without what it needs: %v", err)
		}
		if err := m.Modules().Load("nosuch"); err != syscall.ENOEXEC {
			t.Errorf("an unknown one: %v", err)
		}
		load(t, m, "llc", "stp", "bridge", "br_netfilter")
		if err := m.Modules().Load("llc"); err != syscall.EEXIST {
			t.Errorf("twice: %v", err)
		}
		if b, err := f.ReadFile(bridgeSetting); string(b) != "1\n" {
			t.Errorf("%q, %v", b, err)
		}
		f.WriteFile(bridgeSetting, []byte("0"), 0)
		if b, _ := f.ReadFile("/proc/modules"); !strings.HasPrefix(string(b), "br_netfilter 32768 0 - Live 0x0000000000000000\nbridge 421888 1 br_netfilter, Live ") {
			t.Errorf("%s", b)
		}
		if b, _ := f.ReadFile("/sys/module/llc/refcnt"); string(b) != "2\n" {
			t.Errorf("llc is used %s times", b)
		}
		if err := m.Modules().Unload("bridge"); err != syscall.EAGAIN {
			t.Errorf("in use: %v", err)
		}
		if err := m.Modules().Unload("br_netfilter"); err != nil {
			t.Error(err)
		}
		if _, err := f.Stat("/proc/sys/net/bridge"); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("the settings stayed: %v", err)
		}
		if err := f.MkdirAll("/proc/sys/net/bridge", 0o755); err == nil {
			t.Error("root made a directory in /proc")
		}
		load(t, m, "br_netfilter")
		if b, _ := f.ReadFile(bridgeSetting); string(b) != "1\n" {
			t.Errorf("a module that comes again begins anew, not with %q", b)
		}
		m.Modules().OnCount(func(name string) int { return len(name) / len("br_netfilter") })
		if err := m.Modules().Unload("br_netfilter"); err != syscall.EAGAIN {
			t.Errorf("in use by something else: %v", err)
		}
		m.Reset()
		time.Sleep(time.Minute)
		if _, err := f.Stat("/proc/sys/net/bridge"); !errors.Is(err, fs.ErrNotExist) || m.Modules().Loaded("llc") {
			t.Errorf("modules survived a boot: %v", err)
		}
		if _, err := f.Stat("/sys/module/llc"); !errors.Is(err, fs.ErrNotExist) {
			t.Error("/sys/module does not follow")
		}
	})
}

func TestModulesAreFrozen(t *testing.T) {
	parts := kernel.Parts{}
	lab(t, func(w *kernel.World, m *Machine) {
		load(t, m, "llc", "stp", "bridge", "br_netfilter")
		m.Sysctl().Set("net.bridge.bridge-nf-call-iptables", "0")
		m.Sysctl().Set("net.ipv4.ip_forward", "1")
		synctest.Wait()
		w.Freeze(kernel.NewRecorder(nil)).Apply(parts)
	})
	thaw := func(f func(m *Machine)) {
		synctest.Test(t, func(t *testing.T) {
			date, err := kernel.DateOf(parts)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Until(date))
			w := kernel.NewWorld(0)
			m := newLab(w)
			defer m.Crash()
			if err := w.Thaw(parts); err != nil {
				t.Fatal(err)
			}
			f(m)
		})
	}
	thaw(func(m *Machine) {
		files := m.Files(kernel.Root)
		for name, want := range map[string]string{bridgeSetting: "0\n", "/proc/sys/net/ipv4/ip_forward": "1\n", "/proc/sys/net/ipv4/conf/lo/forwarding": "1\n", "/proc/sys/vm/swappiness": "60\n"} {
			if b, err := files.ReadFile(name); string(b) != want {
				t.Errorf("%s is %q, %v", name, b, err)
			}
		}
		if old, err := m.Complete(); old || err != nil {
			t.Errorf("a state of today is complete: %v, %v", old, err)
		}
	})
	// A state from before there were modules has what its settings say.
	for n := range parts {
		if strings.Contains(n, "/modules/") {
			delete(parts, n)
		}
	}
	thaw(func(m *Machine) {
		if b, _ := m.Files(kernel.Root).ReadFile(bridgeSetting); string(b) != "0\n" || !m.Modules().Loaded("overlay") {
			t.Errorf("%q %v", b, m.Modules().List())
		}
	})
}

func TestKernelAsksForModules(t *testing.T) {
	lab(t, func(w *kernel.World, m *Machine) {
		var asked []string
		w.Programs.Register("modprobe", func(p *kernel.Process) int {
			asked = append(asked, p.Argv[1:]...)
			return map[bool]int{true: 0, false: 1}[m.Modules().Load("overlay") == nil]
		})
		if err := m.RequestModule("fs-overlay"); err != syscall.EOPNOTSUPP {
			t.Errorf("without modprobe: %v", err)
		}
		m.Files(kernel.Root).WriteFile("/sbin/modprobe", kernel.Executable("modprobe"), 0o755)
		for range 2 {
			if err := m.RequestModule("fs-overlay"); err != nil {
				t.Error(err)
			}
		}
		if !slices.Equal(asked, []string{"-q", "--", "fs-overlay"}) {
			t.Errorf("modprobe got %q", asked)
		}
	})
}

func TestSettingsKeepTheirForm(t *testing.T) {
	for _, c := range []struct{ name, initial, value, want string }{
		{"net.ipv4.ip_forward", "0", " 1\n", "1"},
		{"net.ipv4.ip_forward", "0", "yes", ""},
		{"net.ipv4.ip_forward", "0", "1 2", ""},
		{"net.ipv4.ip_forward", "0", "0x10", "16"},
		{"net.ipv4.ip_forward", "0", "99999999999", ""},
		{"kernel.shmmax", "18446744073692774399", "18446744073692774398", "18446744073692774398"},
		{"net.ipv4.tcp_rmem", "4096\t131072\t6291456", "4096 87380   6291456", "4096\t87380\t6291456"},
		{"net.ipv4.tcp_rmem", "4096\t131072\t6291456", "8192", "8192\t131072\t6291456"},
		{"vm.overcommit_memory", "0", "3", ""},
		{"vm.overcommit_memory", "0", "1", "1"},
		{"kernel.core_pattern", "core", "|/bin/x %p", "|/bin/x %p"},
		{"net.ipv4.tcp_congestion_control", "cubic", "reno", "reno"},
		{"vm.drop_caches", "", "3", "3"},
		{"vm.drop_caches", "", "x", ""},
	} {
		got, err := valid(c.name, c.initial, c.value)
		if got != c.want || (err != nil) != (c.want == "") {
			t.Errorf("%s = %q: %q, %v", c.name, c.value, got, err)
		}
	}
}
