package images

import (
	"context"
	"net"
	"strings"
	"time"

	"ckadrill/sim/addons/webhooks"
	"ckadrill/sim/kernel"
	"ckadrill/sim/network"
)

// agnhost is Kubernetes' test image: pause, netexec, serve-hostname, connect and the webhooks.
func agnhost(p *kernel.Process) int {
	args := p.Argv[1:]
	if len(args) == 0 {
		return pause(p)
	}
	name, args := args[0], args[1:]
	switch name {
	case "webhook":
		return webhooks.Admission(p, args)
	case "crd-conversion-webhook":
		return webhooks.Conversion(p, args)
	}
	flags := map[string]string{}
	var rest []string
	for len(args) > 0 {
		a := args[0]
		args = args[1:]
		if !strings.HasPrefix(a, "-") || name == "entrypoint-tester" {
			rest = append(rest, a)
			continue
		}
		k, v, ok := strings.Cut(strings.TrimLeft(a, "-"), "=")
		if !ok && len(args) > 0 && (!strings.HasPrefix(args[0], "-") || negative(args[0])) {
			v, args = args[0], args[1:]
		}
		flags[k] = v
	}
	f := agnhostFlags(flags)
	switch name {
	case "pause":
		p.Printf("Paused\n")
		return pause(p)
	case "netexec":
		return netexec(p, f)
	case "serve-hostname":
		return serveHostname(p, f)
	case "connect":
		return agnhostConnect(p, flags, rest)
	case "mounttest":
		return mountTest(p, f)
	case "entrypoint-tester":
		p.Printf("%v\n", p.Argv)
		return 0
	case "logs-generator":
		return logsGenerator(p, f)
	case "liveness":
		return liveness(p)
	case "test-webserver":
		return testWebserver(p, f)
	case "porter":
		return porter(p, f)
	case "guestbook":
		return guestbook(p, f)
	case "tcp-reset":
		return tcpReset(p, f)
	case "dns-suffix":
		return resolverWords(p, "search")
	case "dns-server-list":
		return resolverWords(p, "nameserver")
	case "etc-hosts":
		b, err := p.ReadFile("/etc/hosts")
		if err != nil {
			p.Errorf("%v\n", err)
			return 2
		}
		p.Printf("%s\n", b)
		return 0
	case "--help", "help":
		p.Printf("Usage:\n  app [command]\n")
		return 0
	}
	p.Errorf("ckadrill does not simulate agnhost %s yet\n", name)
	return 1
}

// agnhostConnect tries to connect once; its words and exit code say why it failed.
func agnhostConnect(p *kernel.Process, flags map[string]string, rest []string) int {
	if len(rest) != 1 {
		p.Errorf("Error: accepts 1 arg(s), received %d\n", len(rest))
		return 1
	}
	timeout := time.Duration(0)
	if v := flags["timeout"]; v != "" {
		d, err := time.ParseDuration(v)
		if err != nil {
			p.Errorf("Error: invalid argument %q for \"--timeout\" flag: %v\n", v, err)
			return 1
		}
		timeout = d
	}
	host, port, err := net.SplitHostPort(rest[0])
	if err != nil {
		p.Errorf("OTHER: %v\n", err)
		return 1
	}
	if net.ParseIP(host) == nil {
		l, err := network.Resolve(p.Context(), p, host)
		if err != nil || len(l) == 0 {
			p.Errorf("DNS: %v\n", err)
			return 1
		}
		host = l[0].String()
	}
	ctx := p.Context()
	if timeout > 0 {
		c, cancel := context.WithTimeout(ctx, timeout)
		defer cancel()
		ctx = c
	}
	c, err := p.Dial(ctx, "tcp", net.JoinHostPort(host, port))
	switch {
	case err == nil:
		c.Close()
		return 0
	case strings.Contains(err.Error(), "refused"):
		p.Errorf("REFUSED\n")
	case ctx.Err() != nil || strings.Contains(err.Error(), "timed out") || strings.Contains(err.Error(), "timeout"):
		p.Errorf("TIMEOUT\n")
	default:
		p.Errorf("OTHER: %v\n", err)
	}
	return 1
}
