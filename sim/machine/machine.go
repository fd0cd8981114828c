package machine

import (
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
	"time"

	"ckadrill/sim/kernel"
	"ckadrill/sim/machine/filesystem"
	"ckadrill/sim/machine/journal"
	"ckadrill/sim/machine/systemd"
)

// Options are a machine's size and kind. Zero values stand for the reference lab's.
type Options struct {
	CPUs          int
	Memory        int64 // bytes
	Disk          int64 // bytes
	KernelVersion string
	OSImage       string // PRETTY_NAME
	// Hosts are lines of /etc/hosts beside localhost's: the other machines of the lab.
	Hosts []string
}

func (o Options) withDefaults() Options {
	if o.CPUs == 0 {
		o.CPUs = 2
	}
	if o.Memory == 0 {
		o.Memory = 2 << 30
	}
	if o.Disk == 0 {
		o.Disk = 20 << 30
	}
	if o.KernelVersion == "" {
		o.KernelVersion = "6.8.0-88-generic"
	}
	if o.OSImage == "" {
		o.OSImage = "Ubuntu 24.04.3 LTS"
	}
	return o
}

// journalLimit is the most that a machine's journal keeps.
const journalLimit = 16 << 20

// Machine is one host.
type Machine struct {
	w       *kernel.World
	name    string
	host    *kernel.Host
	root    *filesystem.Tree
	run     *filesystem.Tree
	view    *filesystem.View
	journal *journal.Journal
	systemd *systemd.Manager
	sysctl  *Sysctl
	modules *Modules
	proc    *kernelTree
	sys     *kernelTree

	mu      sync.Mutex
	options Options
	// generation is that of the disk's content.
	generation int
	network    kernel.Network
	on         bool
	bootID     string
	bootedAt   time.Time
	init       *kernel.Process
	power      []func(on bool)
	swaps      []Swap
	busy       bool // going down or coming up
	plan       *plan
}

type hostKey struct{}

// New makes a machine that is switched off, with the files of a freshly installed Ubuntu 24.04.
func New(w *kernel.World, name string, o Options) *Machine {
	m := &Machine{w: w, name: name, host: w.NewHost(name), options: o.withDefaults(), generation: generation}
	m.host.Attach(hostKey{}, m)
	m.root = filesystem.NewTree(w, "/dev/vda1", m.options.Disk)
	m.run = filesystem.NewTree(w, "tmpfs", m.options.Memory/5)
	view, err := filesystem.NewView([]filesystem.Mount{
		{Target: "/", Tree: m.root, Source: "/dev/vda1", Type: "ext4"},
		{Target: "/run", Tree: m.run, Source: "tmpfs", Type: "tmpfs"},
	})
	if err != nil {
		panic(err) // both trees have a root
	}
	m.view = view
	m.journal = journal.New(w, journalLimit)
	m.sysctl = newSysctl(w, m.options.Memory)
	m.modules = newModules(w, m.moduleChanged)
	err = m.install()
	if err == nil {
		err = m.installRun()
	}
	if err == nil {
		err = chownTree(m.Files(kernel.Root), "/home/candidate", candidateUID, candidateUID)
	}
	if err != nil {
		panic(fmt.Sprintf("machine: the template does not fit on %s: %v", name, err))
	}
	if err := m.mountKernelTrees(); err != nil {
		panic(fmt.Sprintf("machine: %s: %v", name, err))
	}
	m.systemd = systemd.New(systemd.Config{World: w, Host: m.host, Files: m.Files(kernel.Root), Journal: m.journal, Start: m.Start, StartProgram: m.startProgram,
		LookupUser: func(n string) (kernel.Credential, string, bool) {
			u, ok := m.LookupUser(n)
			return u.Cred, u.Home, ok
		},
		Initialized: func() { m.host.Processes.SetNext(max(firstPID, m.host.Processes.Next())) },
		Reboot:      m.Reboot, PowerOff: m.PowerOff})
	prefix := "machine/" + name
	w.Hold(prefix, m)
	w.Hold(prefix+"/journal", m.journal)
	w.Hold(prefix+"/systemd", m.systemd)
	w.Hold(prefix+"/sysctl", m.sysctl)
	w.Hold(prefix+"/modules", m.modules)
	w.Hold(prefix+"/cputime", cpuTime{m.host})
	return m
}

// Of returns the machine of a host, nil if the host is none's.
func Of(h *kernel.Host) *Machine {
	m, _ := h.Attached(hostKey{}).(*Machine)
	return m
}

// BootedFor returns the machine whose systemd a process reaches, nil if it reaches none, as sd_booted(3) finds out. A
// container's process does where it sees the machine's /run.
func BootedFor(p *kernel.Process) *Machine {
	if p.Container != "" {
		if _, err := p.Files.Stat("/run/systemd/system"); err != nil {
			return nil
		}
	}
	return Of(p.Host())
}

// Name is the machine's name in the lab; its host name may be changed, this one not.
func (m *Machine) Name() string { return m.name }

// Host is the machine as processes see it.
func (m *Machine) Host() *kernel.Host { return m.host }

// Files is the machine's tree as somebody sees it.
func (m *Machine) Files(c kernel.Credential) kernel.Files { return m.view.Files(c) }

// View is the machine's mount namespace; Root is the tree of its disk.
func (m *Machine) View() *filesystem.View { return m.view }

// Root is the file system of the machine's disk.
func (m *Machine) Root() *filesystem.Tree { return m.root }

// Journal is the machine's journal.
func (m *Machine) Journal() *journal.Journal { return m.journal }

// Systemd is the machine's service manager.
func (m *Machine) Systemd() *systemd.Manager { return m.systemd }

// Sysctl holds the kernel's settings.
func (m *Machine) Sysctl() *Sysctl { return m.sysctl }

// Modules are what is loaded into the machine's kernel.
func (m *Machine) Modules() *Modules { return m.modules }

// Options are the machine's size and kind.
func (m *Machine) Options() Options {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.options
}

// SetNetwork connects the machine.
func (m *Machine) SetNetwork(n kernel.Network) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.network = n
}

// Network is the machine's own network namespace.
func (m *Machine) Network() kernel.Network {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.network
}

// OnPower has f called when the machine goes off (after its processes have ended) and before it comes on.
func (m *Machine) OnPower(f func(on bool)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.power = append(m.power, f)
}

// DefaultPath is where a root shell looks for programs.
const DefaultPath = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// Start starts a process on the machine. Files, network and PATH are filled in; the program is found from Argv[0]. The
// error is an *fs.PathError, as execve's.
func (m *Machine) Start(spec kernel.Spec) (*kernel.Process, error) {
	spec, path, err := m.complete(spec)
	if err != nil {
		return nil, err
	}
	dir := spec.Dir
	if dir == "" {
		dir = "/"
	}
	file, err := kernel.LookPath(spec.Files, dir, path, spec.Argv[0])
	if err != nil {
		return nil, err
	}
	main, argv, err := m.w.Load(spec.Files, file, spec.Argv)
	if err != nil {
		return nil, err
	}
	spec.Argv = argv
	return m.host.Processes.Start(spec, main), nil
}

// startProgram starts a program that is known already, whatever has become of its file.
func (m *Machine) startProgram(spec kernel.Spec, main kernel.Program) (*kernel.Process, error) {
	spec, _, err := m.complete(spec)
	if err != nil {
		return nil, err
	}
	return m.host.Processes.Start(spec, main), nil
}

// complete fills in what a process has by default, and returns its PATH.
func (m *Machine) complete(spec kernel.Spec) (kernel.Spec, string, error) {
	m.mu.Lock()
	on, network := m.on, m.network
	m.mu.Unlock()
	if !on {
		return spec, "", &fs.PathError{Op: "exec", Path: spec.Argv[0], Err: fmt.Errorf("%s is switched off", m.name)}
	}
	if spec.Files == nil {
		spec.Files = m.Files(spec.Cred)
	}
	if spec.Net == nil {
		spec.Net = network
	}
	for i := len(spec.Env) - 1; i >= 0; i-- {
		if path, ok := strings.CutPrefix(spec.Env[i], "PATH="); ok {
			return spec, path, nil
		}
	}
	spec.Env = append(slices.Clone(spec.Env), "PATH="+DefaultPath)
	return spec, DefaultPath, nil
}

// PoweredOn says whether the machine runs.
func (m *Machine) PoweredOn() bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.on
}

// BootID is the id of the current boot, in the form of /proc/sys/kernel/random/boot_id; BootedAt is its date.
func (m *Machine) BootID() string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.bootID
}

// BootedAt is when the machine was last switched on.
func (m *Machine) BootedAt() time.Time {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.bootedAt
}

// MachineID is the content of /etc/machine-id.
func (m *Machine) MachineID() string {
	b, err := m.Files(kernel.Root).ReadFile("/etc/machine-id")
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(b))
}
