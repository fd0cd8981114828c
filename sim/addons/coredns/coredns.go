// Package coredns is CoreDNS as a program: it reads its Corefile with the real parser, watches Services through the API as its
// Pod's ServiceAccount, and answers DNS over the simulated network. It knows the plugins of kubeadm's Corefile and a few
// more; it refuses the others by name.
package coredns

import (
	"context"
	"crypto/sha512"
	"errors"
	"flag"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/coredns/caddy/caddyfile"

	"ckadrill/sim/kernel"
)

const defaultVersion = "1.13.1"

// Register adds the program.
func Register(ps *kernel.Programs) { ps.Register("coredns", Main) }

// program is a running CoreDNS.
type program struct {
	*kernel.Process
	conf    string
	port    string
	version string
	quiet   atomic.Bool // it carries on after a thaw, and has not been told anything new yet

	mu       sync.Mutex
	current  *instance
	checksum string
}

// Main is the program.
func Main(p *kernel.Process) int {
	d := &program{Process: p, version: versionOf(p)}
	d.quiet.Store(p.Resumed())
	fs := flag.NewFlagSet(p.Argv[0], flag.ContinueOnError)
	fs.SetOutput(p.Stderr)
	fs.StringVar(&d.conf, "conf", "", "Corefile to load (default \"Corefile\")")
	fs.StringVar(&d.port, "dns.port", "53", "Default port")
	fs.StringVar(&d.port, "p", "53", "Default port")
	plugins := fs.Bool("plugins", false, "List installed plugins")
	show := fs.Bool("version", false, "Show version")
	quiet := fs.Bool("quiet", false, "Quiet mode (no initialization output)")
	if err := fs.Parse(p.Argv[1:]); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	switch {
	case fs.NArg() > 0:
		p.Printf("extra command line arguments: %v\n", fs.Args())
		return 1
	case *show:
		p.Printf("CoreDNS-%s\nlinux/amd64, %s, %s\n", d.version, buildGo, buildCommit)
		return 0
	case *plugins:
		p.Printf("dns.%s\n", strings.Join(directives, "\ndns."))
		return 0
	}
	d.translateLog()
	text, err := d.load()
	if err != nil {
		return d.fatal(err)
	}
	inst, err := d.start(text, nil)
	if err != nil {
		return d.fatal(err)
	}
	d.mu.Lock()
	d.current = inst
	d.mu.Unlock()
	if !*quiet && !d.quiet.Load() {
		for _, l := range inst.banner() {
			d.Printf("%s\n", l)
		}
	}
	if inst.reload != nil {
		d.checksum = sum(text)
		d.log("INFO", "plugin/reload: Running configuration SHA512 = %s", d.checksum)
	}
	if !*quiet && !d.quiet.Load() {
		d.Printf("CoreDNS-%s\nlinux/amd64, %s, %s\n", d.version, buildGo, buildCommit)
	}
	return d.wait()
}

const buildGo, buildCommit = "go1.25.2", "1db4568"

func versionOf(p *kernel.Process) string {
	if p.Files != nil {
		if b, err := p.Files.ReadFile(p.Path(p.Argv[0])); err == nil {
			if _, after, ok := strings.Cut(string(b), "\nversion "); ok {
				v, _, _ := strings.Cut(after, "\n")
				return strings.TrimPrefix(v, "v")
			}
		}
	}
	return defaultVersion
}

// log prints a line as CoreDNS does. A process that carries on after a thaw is quiet about its start.
func (d *program) log(level, format string, a ...any) {
	if d.quiet.Load() && level == "INFO" {
		return
	}
	d.Printf("[%s] %s\n", level, fmt.Sprintf(format, a...))
}

func (d *program) fatal(err error) int {
	d.Printf("%s\n", err)
	return 1
}

// translateLog prints what client-go logs in CoreDNS's form: the message alone.
func (d *program) translateLog() {
	d.SetLogFilter(func(b []byte) bool {
		_, text, ok := strings.Cut(string(b), "] ")
		if !ok {
			return false
		}
		if strings.HasPrefix(text, `"`) {
			text, _, _ = strings.Cut(text[1:], `"`)
		}
		level := map[byte]string{'E': "ERROR", 'W': "WARNING"}[b[0]]
		if level != "" {
			d.Printf("[%s] plugin/kubernetes: %s\n", level, strings.TrimSpace(text))
		}
		return false
	})
}

// load reads the Corefile.
func (d *program) load() ([]byte, error) {
	if d.conf == "" {
		if b, err := d.ReadFile("Corefile"); err == nil {
			d.conf = "Corefile"
			return b, nil
		}
		d.conf = "Corefile"
		return []byte(".:" + d.port + " {\nwhoami\nlog\n}\n"), nil
	}
	b, err := d.ReadFile(d.conf)
	if err != nil {
		return nil, fmt.Errorf("loading Caddyfile via flag: %w", err)
	}
	return b, nil
}

// sum is the checksum that the plugin reload compares: of the Corefile's structure, not of its spelling.
func sum(text []byte) string {
	b, err := caddyfile.ToJSON(text)
	if err != nil {
		return ""
	}
	return fmt.Sprintf("%x", sha512.Sum512(b))
}

// wait serves until a signal comes, and looks for a changed Corefile meanwhile.
func (d *program) wait() int {
	stopped := make(chan string, 1)
	for s, name := range map[kernel.Signal]string{kernel.SIGTERM: "SIGTERM", kernel.SIGINT: "SIGINT"} {
		d.Notify(s, func() {
			select {
			case stopped <- name:
			default:
			}
		})
	}
	go d.watchCorefile()
	select {
	case <-d.Done():
		d.instance().stop()
		return 0
	case name := <-stopped:
		d.quiet.Store(false)
		if name == "SIGTERM" {
			d.log("INFO", "SIGTERM: Shutting down servers then terminating")
		} else {
			d.log("INFO", "SIGINT: Shutting down")
		}
		inst := d.instance()
		d.lameduck(inst)
		inst.stop()
		return 0
	}
}

// instance is the one that serves at the moment, nil before the first.
func (d *program) instance() *instance {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.current
}

// lameduck goes on serving for a while, so that clients find the other servers.
func (d *program) lameduck(i *instance) {
	if i.lameduck > 0 {
		d.log("INFO", "plugin/health: Going into lameduck mode for %v", i.lameduck)
		d.Sleep(i.lameduck)
	}
}

// watchCorefile is the plugin reload.
func (d *program) watchCorefile() {
	r := d.World().Rand("coredns/reload")
	for {
		opts := d.instance().reload
		if opts == nil {
			return
		}
		jitter := time.Duration(float64(opts.jitter) * (2*r.Float64() - 1))
		if d.Sleep(opts.interval+jitter) != nil {
			return
		}
		d.quiet.Store(false)
		text, err := d.load()
		if err != nil {
			continue
		}
		s := sum(text)
		if s == "" || s == d.checksum {
			continue
		}
		d.checksum = s
		d.restart(text)
	}
}

func (d *program) restart(text []byte) {
	d.log("INFO", "Reloading")
	old := d.instance()
	next, err := d.start(text, old)
	if err != nil {
		d.log("ERROR", "Restart failed: %v", err)
		d.log("ERROR", "plugin/reload: Corefile changed but reload failed: %v", err)
		return
	}
	d.lameduck(old)
	old.stop()
	d.mu.Lock()
	d.current = next
	d.mu.Unlock()
	d.log("INFO", "plugin/reload: Running configuration SHA512 = %s", d.checksum)
	d.log("INFO", "Reloading complete")
}

// untilDone is the context of everything that an instance does.
func (d *program) untilDone() (context.Context, context.CancelFunc) {
	return context.WithCancel(d.Context())
}
