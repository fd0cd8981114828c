package images

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
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
		if !strings.HasPrefix(a, "-") {
			rest = append(rest, a)
			continue
		}
		k, v, ok := strings.Cut(strings.TrimLeft(a, "-"), "=")
		if !ok && len(args) > 0 && !strings.HasPrefix(args[0], "-") {
			v, args = args[0], args[1:]
		}
		flags[k] = v
	}
	port := func(name, standard string) string {
		if v := flags[name]; v != "" {
			return v
		}
		return standard
	}
	switch name {
	case "pause":
		p.Printf("Paused\n")
		return pause(p)
	case "netexec":
		return agnhostServe(p, port("http-port", "8080"), agnhostNetexec(p), "Started HTTP server on port ")
	case "serve-hostname":
		return agnhostServe(p, port("port", "9376"), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, p.HostName()) }), "Serving on port ")
	case "connect":
		return agnhostConnect(p, flags, rest)
	case "--help", "help":
		p.Printf("Usage:\n  app [command]\n")
		return 0
	}
	p.Errorf("ckadrill does not simulate agnhost %s yet\n", name)
	return 1
}

func agnhostNetexec(p *kernel.Process) http.Handler {
	m := http.NewServeMux()
	m.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintf(w, "NOW: %v", time.Now()) })
	m.HandleFunc("/hostname", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, p.HostName()) })
	m.HandleFunc("/hostName", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, p.HostName()) })
	m.HandleFunc("/clientip", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.RemoteAddr) })
	m.HandleFunc("/echo", func(w http.ResponseWriter, r *http.Request) { io.WriteString(w, r.FormValue("msg")) })
	m.HandleFunc("/healthz", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	return m
}

func agnhostServe(p *kernel.Process, port string, h http.Handler, text string) int {
	l, err := p.Listen("tcp", ":"+port)
	if err != nil {
		p.Errorf("%v\n", err)
		return 1
	}
	s := &network.Server{Handler: h}
	go s.Serve(l)
	if !p.Resumed() {
		p.Printf("%s%s\n", text, port)
	}
	stop := make(chan struct{}, 1)
	p.Notify(kernel.SIGTERM, func() {
		select {
		case stop <- struct{}{}:
		default:
		}
	})
	select {
	case <-stop:
	case <-p.Context().Done():
	}
	s.Close()
	return 0
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
