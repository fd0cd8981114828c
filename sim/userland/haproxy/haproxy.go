package haproxy

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"sync"

	"ckadrill/sim/kernel"
	"ckadrill/sim/machine/systemd"
	"ckadrill/sim/userland/libc"
)

// Register adds the program to the world.
func Register(ps *kernel.Programs) { ps.Register("haproxy", haproxy) }

const (
	version = "2.8.16-0ubuntu0.24.04.1"
	banner  = "HAProxy version " + version + " 2025/10/03 - https://haproxy.org/\n" +
		"Status: long-term supported branch - will stop receiving fixes around Q2 2028.\n" +
		"Known bugs: http://www.haproxy.org/bugs/bugs-2.8.16.html\n"
	usage = banner + "Usage : haproxy [-f <cfgfile|cfgdir>]* [ -vdVD ] [ -n <maxconn> ] [ -N <maxpconn> ]\n        [ -p <pidfile> ] [ -m <max megs> ] [ -C <dir> ] [-- <cfgfile>*]\n"
)

// balancer is one haproxy.
type balancer struct {
	p *kernel.Process

	proxies []*proxy // of the main goroutine

	mu      sync.Mutex
	noticed bool // the lines that come before the first warning have been printed
}

// say prints a message as haproxy's ha_alert, ha_warning and ha_notice do.
func (b *balancer) say(level, format string, a ...any) {
	b.mu.Lock()
	first := level != "NOTICE" && !b.noticed
	b.noticed = b.noticed || first
	b.mu.Unlock()
	if first {
		b.p.Errorf("%-10s (%d) : haproxy version is %s\n", "[NOTICE]", b.p.ID(), version)
		b.p.Errorf("%-10s (%d) : path to executable is %s\n", "[NOTICE]", b.p.ID(), b.p.CommandLine()[0])
	}
	b.p.Errorf("%-10s (%d) : %s\n", "["+level+"]", b.p.ID(), fmt.Sprintf(format, a...))
}

func haproxy(p *kernel.Process) int {
	b := &balancer{p: p, noticed: p.Resumed()}
	argv := p.CommandLine()
	// haproxy's own parser takes words that begin with one hyphen, some with a value.
	var files []string
	check, quiet, notify := false, false, false
	for i := 1; i < len(argv); i++ {
		value := func() string {
			if i+1 < len(argv) {
				i++
				return argv[i]
			}
			return ""
		}
		switch o := argv[i]; o {
		case "-v":
			p.Printf("%s", banner)
			return 0
		case "-f":
			files = append(files, value())
		case "-c":
			check = true
		case "-q":
			quiet = true
		case "-Ws":
			notify = true
		case "-W", "-db", "-V", "-d":
		case "-D":
			p.Errorf("haproxy: ckadrill does not simulate haproxy -D yet: start it by systemd\n")
			return 1
		case "-p", "-S", "-L", "-n", "-m", "-N":
			value()
		case "-C", "-x", "-sf", "-st", "-vv", "-dM", "-dr":
			p.Errorf("haproxy: ckadrill does not simulate haproxy %s yet\n", o)
			return 1
		default:
			p.Errorf("%s", usage)
			return 1
		}
	}
	if len(files) == 0 {
		p.Errorf("%s", usage)
		return 1
	}
	if p.Resumed() {
		quiet = true
	}
	proxies, ok := b.configure(files)
	if !ok {
		return 1
	}
	if check {
		if !quiet {
			p.Printf("Configuration file is valid\n")
		}
		return 0
	}
	if !b.start(proxies, p.Resumed()) {
		return 1
	}
	if !quiet {
		b.say("NOTICE", "Loading success.")
	}
	if notify {
		systemd.Notify(p, "READY=1")
	}
	stop := func() {
		b.say("WARNING", "Exiting Main process...")
		p.Exit(0)
	}
	p.Notify(kernel.SIGTERM, stop)
	p.Notify(kernel.SIGINT, stop)
	p.Notify(kernel.SIGUSR1, func() { p.Exit(0) })
	reload := make(chan struct{}, 1)
	p.Notify(kernel.SIGUSR2, func() {
		select {
		case reload <- struct{}{}:
		default:
		}
	})
	for {
		select {
		case <-p.Done():
			return 0
		case <-reload:
		}
		b.say("NOTICE", "Reloading HAProxy")
		next, ok := b.configure(files)
		if !ok {
			b.say("WARNING", "Failed to load worker!")
			continue
		}
		b.stop()
		if !b.start(next, false) {
			return 1
		}
		b.say("NOTICE", "Loading success.")
	}
}

// configure reads the files and resolves what they name. It says what is wrong.
func (b *balancer) configure(files []string) ([]*proxy, bool) {
	c := &config{b: b, file: "", defaults: newDefaults()}
	for _, name := range files {
		text, err := b.p.ReadFile(name)
		if err != nil {
			reason := libc.Strerror(err)
			if errors.Is(err, fs.ErrNotExist) {
				b.say("ALERT", "Cannot open configuration file/directory %s : %s", name, reason)
			} else {
				b.say("ALERT", "Could not open configuration file %s : %s", name, reason)
			}
			return nil, false
		}
		c.file = name
		c.parse(string(text))
		if c.errors > 0 {
			b.say("ALERT", "config : Error(s) found in configuration file : %s", name)
		}
	}
	c.resolve()
	if c.errors > 0 {
		b.say("ALERT", "config : Fatal errors found in configuration.")
		return nil, false
	}
	return c.proxies, true
}

// start opens the listeners and begins with the checks.
func (b *balancer) start(proxies []*proxy, resumed bool) bool {
	b.proxies = proxies
	for _, x := range proxies {
		x.ctx, x.cancel = context.WithCancel(b.p.Context())
		x.check(resumed)
	}
	for _, x := range proxies {
		for _, bind := range x.binds {
			l, err := b.p.Listen("tcp4", bind.address)
			if err != nil {
				b.say("ALERT", "Binding [%s:%d] for %s %s: cannot bind socket (%s) for [%s]", bind.file, bind.line, x.kind, x.name, libc.Strerror(err), strings.Replace(bind.address, "0.0.0.0", "", 1))
				b.say("ALERT", "[%s.main()] Some protocols failed to start their listeners! Exiting.", b.p.CommandLine()[0])
				return false
			}
			x.listeners = append(x.listeners, l)
			go x.accept(l)
		}
	}
	return true
}

// stop closes the listeners and ends the checks; connections live on.
func (b *balancer) stop() {
	for _, x := range b.proxies {
		for _, l := range x.listeners {
			l.Close()
		}
		x.cancel()
	}
}
