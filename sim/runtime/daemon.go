package runtime

import (
	"errors"
	"fmt"
	"net"
	"path"
	"strings"
	"sync"
	"time"

	"ckadrill/sim/kernel"
	"ckadrill/sim/machine/systemd"
	"ckadrill/sim/runtime/docker"
	"ckadrill/sim/runtime/images"
)

// Register adds the programs "containerd" and "containerd-shim-runc-v2" and those of known images to the world.
func Register(w *kernel.World) {
	w.Programs.Register("containerd", containerdMain)
	w.Programs.Register("containerd-shim-runc-v2", func(p *kernel.Process) int { <-p.Context().Done(); return 0 })
	w.Programs.Register("cri-dockerd", criDockerd)
	docker.Register(w.Programs)
	images.Register(w.Programs)
}

// daemon is one run of the program containerd.
type daemon struct {
	c      *Containerd
	p      *kernel.Process
	config *daemonConfig
	cni    *cniPlugin
	log    logger

	// docker is set for a cri-dockerd, which is no containerd.
	docker *dockerShim

	mu     sync.Mutex
	served map[uint64]bool // connections whose greeting was answered
}

func containerdMain(p *kernel.Process) int {
	c := Of(p.Host())
	if c == nil {
		p.Errorf("containerd: ckadrill does not simulate a containerd on this machine\n")
		return 1
	}
	fail := func(err error) int {
		p.Errorf("containerd: %s\n", err)
		return 1
	}
	flags, rest, err := parseDaemonFlags(p.Argv[1:])
	if err != nil {
		p.Errorf("containerd: %s\n", err)
		return 1
	}
	if len(rest) > 0 {
		return configCommand(p, c, rest)
	}
	if flags.version {
		p.Printf("containerd github.com/containerd/containerd/v2 %s %s\n", c.Version(), revision)
		return 0
	}
	d := &daemon{c: c, p: p, config: defaultConfig(), log: logger{p.Stderr}, served: map[uint64]bool{}}
	if configExists(p.Files, flags.config, flags.configSet) {
		config, at, err := loadConfig(p.Files, flags.config)
		if at != nil {
			d.log.line("error", "Failure unmarshaling TOML", "column", at.column, "error", at.err, "file", flags.config, "row", at.row)
		}
		if err != nil {
			return fail(err)
		}
		d.config = config
		for _, w := range config.Warnings {
			d.log.line("warning", "Ignoring unknown key in TOML", "column", w.column, "error", w.err, "file", flags.config, "key", w.key, "row", w.row)
		}
	}
	setString(&d.config.Address, flags.address)
	if d.config.Address == "" {
		return fail(errors.New("grpc address cannot be empty: invalid argument"))
	}
	return d.run()
}

const revision = "193b8b1b3e2e5f0b6c1c8a1ff2d3f0a6f5a3a5a0"

func (d *daemon) run() int {
	p, c := d.p, d.c
	start := time.Now()
	quiet := p.Resumed()
	if !quiet {
		d.log.line("info", "starting containerd", "revision", revision, "version", c.Version())
	}
	files := c.files()
	dirs := []string{d.config.Root, d.config.State, path.Dir(d.config.Address)}
	for _, plugin := range []string{"io.containerd.content.v1.content", "io.containerd.metadata.v1.bolt", "io.containerd.runtime.v2.task", snapshotterDir} {
		dirs = append(dirs, path.Join(d.config.Root, plugin))
	}
	for _, dir := range dirs {
		if err := files.MkdirAll(dir, 0o711); err != nil {
			p.Errorf("containerd: %s\n", err)
			return 1
		}
	}
	c.mu.Lock()
	other := c.daemon
	c.mu.Unlock()
	if other != nil && other.p.Alive() {
		// A second containerd waits for the lock of the first one's database.
		d.log.line("warning", "waiting for response from boltdb open", "plugin", "bolt")
		select {
		case <-other.p.Done():
		case <-p.Context().Done():
			return 1
		}
	}
	if !quiet {
		if err := p.Sleep(bootDelay); err != nil {
			return 1
		}
	}
	switch {
	case d.config.CRIError != nil:
		d.log.line("warning", "failed to load plugin", "error", d.config.CRIError, "id", pluginRuntime, "type", "io.containerd.cri.v1")
	case !d.config.CRI:
		d.log.line("info", "skip loading plugin", "error", "skip plugin: disabled", "id", pluginCRI, "type", "io.containerd.grpc.v1")
	}
	if d.config.CRI {
		d.cni = newCNIPlugin(d, quiet)
		defer d.cni.stop()
	}
	if !quiet { // the socket of a containerd that was killed is still there; it is replaced
		files.Remove(d.config.Address)
	}
	l, err := p.Listen("unix", d.config.Address)
	if err != nil {
		p.Errorf("containerd: failed to get listener for main endpoint: %s\n", err)
		return 1
	}
	defer l.Close()
	files.Chmod(d.config.Address, 0o660)
	stop := make(chan kernel.Signal, 1)
	for _, s := range []kernel.Signal{kernel.SIGTERM, kernel.SIGINT} {
		p.Notify(s, func() {
			select {
			case stop <- s:
			default:
			}
		})
	}
	for _, s := range []kernel.Signal{kernel.SIGPIPE, kernel.SIGUSR1} {
		p.Notify(s, func() {})
	}
	c.mu.Lock()
	c.daemon = d
	c.mu.Unlock()
	p.OnExit(func() {
		c.mu.Lock()
		if c.daemon == d {
			c.daemon = nil
		}
		watchers := c.watchers
		c.watchers = map[*eventWatcher]bool{}
		c.mu.Unlock()
		for w := range watchers {
			w.close()
		}
	})
	if err := c.Resume(); err != nil {
		d.log.line("error", "failed to recover state", "error", err)
	}
	c.recover()
	go d.serve(l)
	if !quiet {
		d.log.line("info", "serving...", "address", d.config.Address+".ttrpc")
		d.log.line("info", "serving...", "address", d.config.Address)
		if d.config.CRI {
			d.log.line("info", "Start subscribing containerd event")
			d.log.line("info", "Start recovering state")
			d.log.line("info", "Start event monitor")
			d.log.line("info", "Start cni network conf syncer for default")
			d.log.line("info", "Start streaming server")
		}
		d.log.line("info", fmt.Sprintf("containerd successfully booted in %fs", time.Since(start).Seconds()))
	}
	systemd.Notify(p, "READY=1")
	select {
	case <-stop:
	case <-p.Context().Done():
	}
	d.log.line("info", "Stop CRI service")
	files.Remove(d.config.Address)
	return 0
}

// serve answers the greeting of each connection; see [Connect].
func (d *daemon) serve(l net.Listener) {
	for {
		conn, err := l.Accept()
		if err != nil {
			return
		}
		go d.greet(conn)
	}
}

type daemonFlags struct {
	config, address    string
	configSet, version bool
}

func parseDaemonFlags(args []string) (f daemonFlags, rest []string, err error) {
	f.config = "/etc/containerd/config.toml"
	for len(args) > 0 {
		a := args[0]
		args = args[1:]
		if !strings.HasPrefix(a, "-") {
			return f, append([]string{a}, args...), nil
		}
		name, value, has := strings.Cut(strings.TrimLeft(a, "-"), "=")
		take := func() string {
			if !has && len(args) > 0 {
				value, args = args[0], args[1:]
			}
			return value
		}
		switch name {
		case "config", "c":
			f.config, f.configSet = take(), true
		case "address", "a":
			f.address = take()
		case "log-level", "l", "root", "state":
			take()
		case "version", "v":
			f.version = true
		default:
			return f, nil, fmt.Errorf("flag provided but not defined: -%s", name)
		}
	}
	return f, nil, nil
}

// configCommand is "containerd config default": the part of the configuration that this containerd reads.
func configCommand(p *kernel.Process, c *Containerd, args []string) int {
	switch strings.Join(args, " ") {
	case "config default":
		p.Printf("%s", DefaultConfigFile(false))
		return 0
	case "config dump":
		b, err := p.ReadFile("/etc/containerd/config.toml")
		if err != nil {
			p.Printf("%s", DefaultConfigFile(false))
			return 0
		}
		p.Stdout.Write(b)
		return 0
	}
	p.Errorf("containerd: ckadrill does not simulate %q of containerd yet\n", strings.Join(args, " "))
	return 1
}
