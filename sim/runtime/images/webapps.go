package images

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"sort"
	"strings"
	"time"

	"ckadrill/sim/kernel"
	"ckadrill/sim/network"
)

// serveUntilStopped serves HTTP on an address until the process is told to stop, and returns its exit code.
func serveUntilStopped(p *kernel.Process, addr string, h http.Handler, started func()) int {
	l, err := p.Listen("tcp", addr)
	if err != nil {
		p.Errorf("%s listen tcp %s: %v\n", time.Now().UTC().Format("2006/01/02 15:04:05"), addr, err)
		return 1
	}
	s := &network.Server{Handler: h}
	go s.Serve(l)
	if !p.Resumed() {
		started()
	}
	p.SetMemory(4 << 20)
	stop := make(chan kernel.Signal, 1)
	for _, sig := range []kernel.Signal{kernel.SIGTERM, kernel.SIGINT, kernel.SIGWINCH} {
		p.Notify(sig, func() {
			select {
			case stop <- sig:
			default:
			}
		})
	}
	select {
	case <-stop:
	case <-p.Context().Done():
	}
	s.Close()
	return 0
}

const goLogTime = "2006/01/02 15:04:05"

// httpEcho is hashicorp/http-echo.
func httpEcho(p *kernel.Process) int {
	text, addr, status := "hello-world", ":5678", 200
	args := p.Argv[1:]
	for len(args) > 0 {
		name, v, ok := strings.Cut(strings.TrimLeft(args[0], "-"), "=")
		args = args[1:]
		if !ok && len(args) > 0 {
			v, args = args[0], args[1:]
		}
		switch name {
		case "text":
			text = v
		case "listen":
			addr = v
		case "status-code":
			fmt.Sscan(v, &status)
		}
	}
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		if r.URL.Path == "/health" {
			io.WriteString(w, `{"status":"ok"}`+"\n")
			return
		}
		w.Header().Set("X-App-Name", "http-echo")
		w.WriteHeader(status)
		fmt.Fprintln(w, text)
		p.Printf("%s %s %s \"%s %s %s\" %d %d %q %v\n", time.Now().UTC().Format(goLogTime), r.Host, r.RemoteAddr, r.Method, r.URL.Path, r.Proto, status, len(text)+1, r.UserAgent(), time.Since(start))
	})
	return serveUntilStopped(p, addr, h, func() {
		p.Printf("%s [INFO] server is listening on %s\n", time.Now().UTC().Format(goLogTime), addr)
	})
}

// helloApp is gcr.io/google-samples/hello-app.
func helloApp(p *kernel.Process) int {
	port, version := p.Getenv("PORT"), binaryVersion(p)
	if port == "" {
		port = "8080"
	}
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p.Errorf("%s Serving request: %s\n", time.Now().UTC().Format(goLogTime), r.URL.Path)
		fmt.Fprintf(w, "Hello, world!\nVersion: %s\nHostname: %s\n", version, p.HostName())
	})
	return serveUntilStopped(p, ":"+port, h, func() { p.Errorf("%s Server listening on port %s\n", time.Now().UTC().Format(goLogTime), port) })
}

// whoamiServer is traefik/whoami.
func whoamiServer(p *kernel.Process) int {
	port := "80"
	for i, a := range p.Argv[1:] {
		if n := strings.TrimLeft(a, "-"); n == "port" && i+2 < len(p.Argv) {
			port = p.Argv[i+2]
		} else if v, ok := strings.CutPrefix(n, "port="); ok {
			port = v
		}
	}
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "Hostname: %s\n", p.HostName())
		for _, i := range p.Net.Interfaces() {
			for _, a := range i.Addresses {
				fmt.Fprintf(w, "IP: %s\n", a.Addr())
			}
		}
		fmt.Fprintf(w, "RemoteAddr: %s\n%s %s %s\nHost: %s\n", r.RemoteAddr, r.Method, r.URL.RequestURI(), r.Proto, r.Host)
		var names []string
		for k := range r.Header {
			names = append(names, k)
		}
		sort.Strings(names)
		for _, k := range names {
			fmt.Fprintf(w, "%s: %s\n", k, strings.Join(r.Header[k], ", "))
		}
		fmt.Fprintln(w)
	})
	return serveUntilStopped(p, net.JoinHostPort("", port), h, func() { p.Errorf("%s Starting up on port %s\n", time.Now().UTC().Format(goLogTime), port) })
}

// requestCost is the processor time of one request to hpa-example: a million square roots in PHP.
const requestCost = 100 * time.Millisecond

// computed is how long the program computes at once.
const computed = 10 * time.Millisecond

// hpaExample is registry.k8s.io/hpa-example: each request computes.
func hpaExample(p *kernel.Process) int {
	h := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		for left := requestCost; left > 0; {
			if p.Sleep(computed) != nil {
				return
			}
			left -= p.SpendCPU(min(left, computed))
		}
		io.WriteString(w, "OK!")
		host, _, _ := net.SplitHostPort(r.RemoteAddr)
		p.Printf("%s - - [%s] \"%s %s %s\" 200 3 \"-\" %q\n", host, time.Now().UTC().Format("02/Jan/2006:15:04:05 -0700"), r.Method, r.URL.RequestURI(), r.Proto, r.UserAgent())
	})
	return serveUntilStopped(p, ":80", h, func() {
		p.Errorf("AH00558: apache2: Could not reliably determine the server's fully qualified domain name, using %s. Set the 'ServerName' directive globally to suppress this message\n", (&apache{p: p}).ownAddress())
	})
}

// helloWorld is Docker's hello-world.
func helloWorld(p *kernel.Process) int {
	p.Printf(`
Hello from Docker!
This message shows that your installation appears to be working correctly.

To generate this message, Docker took the following steps:
 1. The Docker client contacted the Docker daemon.
 2. The Docker daemon pulled the "hello-world" image from the Docker Hub.
    (amd64)
 3. The Docker daemon created a new container from that image which runs the
    executable that produces the output you are currently reading.
 4. The Docker daemon streamed that output to the Docker client, which sent it
    to your terminal.

To try something more ambitious, you can run an Ubuntu container with:
 $ docker run -it ubuntu bash

Share images, automate workflows, and more with a free Docker ID:
 https://hub.docker.com/

For more examples and ideas, visit:
 https://docs.docker.com/get-started/

`)
	return 0
}
