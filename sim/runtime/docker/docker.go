// Package docker is the Docker Engine as far as a machine shows that it is there: the daemon starts, answers what it is and
// that it has no containers, and the command line asks it. Containers do not run by it.
package docker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path"
	"regexp"
	"strings"
	"syscall"
	"time"

	"ckadrill/sim/kernel"
	"ckadrill/sim/machine/systemd"
	"ckadrill/sim/network"
	"ckadrill/sim/userland/libc"
)

// Register adds the programs.
func Register(ps *kernel.Programs) {
	ps.Register("dockerd", dockerd)
	ps.Register("docker", libc.Main("docker", command))
}

// Version is the answer to GET /version.
type Version struct {
	Version, APIVersion, MinAPIVersion, GitCommit, GoVersion, Os, Arch, KernelVersion, BuildTime string `json:",omitempty"`
}

const (
	socket         = "/run/docker.sock"
	apiVersion     = "1.52"
	defaultVersion = "29.1.3"
	// containerdSocket is what dockerd needs.
	containerdSocket = "/run/containerd/containerd.sock"
	// startTime is how long the engine takes to start.
	startTime = 700 * time.Millisecond
)

func kernelVersion(p *kernel.Process) string {
	b, _ := p.Files.ReadFile("/proc/sys/kernel/osrelease")
	return strings.TrimSpace(string(b))
}

// dockerd is the daemon.
func dockerd(p *kernel.Process) int {
	line := func(level, text string, more ...string) {
		fmt.Fprintf(p.Stderr, "time=%q level=%s msg=%q%s\n", time.Now().UTC().Format(time.RFC3339Nano), level, text, strings.Join(append([]string{""}, more...), " "))
	}
	fail := func(text string) int {
		p.Errorf("failed to start daemon: %s\n", text)
		return 1
	}
	version := p.Version(defaultVersion)
	for _, a := range p.Argv[1:] {
		if a == "--version" || a == "-v" {
			p.Printf("Docker version %s, build unknown\n", version)
			return 0
		}
	}
	if p.Cred.UID != 0 {
		return fail("dockerd needs to be started with root privileges. To run dockerd in rootless mode as an unprivileged user, see https://docs.docker.com/go/rootless/")
	}
	quiet := p.Resumed()
	if !quiet {
		line("info", "Starting up")
		if p.Sleep(startTime) != nil {
			return 1
		}
		conn, err := p.Dial(p.Context(), "unix", containerdSocket)
		if err != nil {
			return fail(fmt.Sprintf("failed to dial %q: failed to dial %q: %v", containerdSocket, containerdSocket, err))
		}
		conn.Close()
		line("info", "Loading containers: start.")
		line("info", "Loading containers: done.")
		line("info", "Docker daemon", "commit=unknown", "containerd-snapshotter=true", "storage-driver=overlayfs", "version="+version)
		line("info", "Initializing buildkit")
		line("info", "Completed buildkit initialization")
		p.Files.Remove(socket)
		p.Files.MkdirAll("/var/lib/docker", 0o710)
	}
	l, err := p.Listen("unix", socket)
	if err != nil {
		return fail(err.Error())
	}
	defer l.Close()
	p.Files.Chmod(socket, 0o660)
	if g, ok := libc.GroupByName(p.Files, "docker"); ok {
		p.Files.Chown(socket, 0, g.GID)
	}
	if !quiet {
		line("info", "Daemon has completed initialization")
		line("info", "API listen on "+socket)
	}
	server := &network.Server{Handler: engine(p, version)}
	p.Go(func() { server.Serve(l) })
	systemd.Notify(p, "READY=1")
	<-p.Context().Done()
	return 0
}

var versioned = regexp.MustCompile(`^/v1\.[0-9]+/`)

// engine answers the API.
func engine(p *kernel.Process, version string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Api-Version", apiVersion)
		w.Header().Set("Ostype", "linux")
		w.Header().Set("Server", "Docker/"+version+" (linux)")
		name := versioned.ReplaceAllString(r.URL.Path, "/")
		var answer any
		switch {
		case name == "/_ping":
			io.WriteString(w, "OK")
			return
		case r.Method != http.MethodGet:
		case name == "/version":
			answer = Version{Version: version, APIVersion: apiVersion, MinAPIVersion: "1.44", GitCommit: "unknown", GoVersion: "go1.25.5", Os: "linux", Arch: "amd64", KernelVersion: kernelVersion(p)}
		case name == "/info":
			answer = info{ServerVersion: version, Driver: "overlayfs", CgroupDriver: "systemd", CgroupVersion: "2", KernelVersion: kernelVersion(p), Name: p.Host().Name(), DockerRootDir: "/var/lib/docker"}
		case name == "/containers/json", name == "/images/json":
			answer = []struct{}{}
		}
		w.Header().Set("Content-Type", "application/json")
		if answer == nil {
			w.WriteHeader(http.StatusNotImplemented)
			answer = map[string]string{"message": "ckadrill does not simulate " + r.Method + " " + name + " of the Docker Engine yet"}
		}
		json.NewEncoder(w).Encode(answer)
	})
}

// info is a part of the answer to GET /info.
type info struct {
	ServerVersion, Driver, CgroupDriver, CgroupVersion, KernelVersion, Name, DockerRootDir string
	Containers, ContainersRunning, Images                                                  int
}

// command is the program docker.
func command(c *libc.Prog) int {
	args := c.Args
	if len(args) > 0 && (args[0] == "container" || args[0] == "image") && len(args) > 1 {
		args = args[1:]
		if args[0] == "ls" {
			args[0] = map[string]string{"container": "ps", "image": "images"}[c.Args[0]]
		}
	}
	what := ""
	if len(args) > 0 {
		what = args[0]
	}
	switch what {
	case "--version", "-v":
		c.Put("Docker version %s, build unknown\n", c.Version(defaultVersion))
		return 0
	case "version":
		c.Put("Client: Docker Engine - Community\n Version:           %s\n API version:       %s\n OS/Arch:           linux/amd64\n", c.Version(defaultVersion), apiVersion)
		var v Version
		if status := get(c, "/version", &v); status != 0 {
			return status
		}
		c.Put("\nServer: Docker Engine - Community\n Engine:\n  Version:          %s\n  API version:      %s (minimum version %s)\n  OS/Arch:          linux/amd64\n", v.Version, v.APIVersion, v.MinAPIVersion)
	case "info":
		var v info
		if status := get(c, "/info", &v); status != 0 {
			return status
		}
		c.Put("Server:\n Containers: %d\n Images: %d\n Server Version: %s\n Storage Driver: %s\n Cgroup Driver: %s\n Cgroup Version: %s\n Kernel Version: %s\n Name: %s\n Docker Root Dir: %s\n",
			v.Containers, v.Images, v.ServerVersion, v.Driver, v.CgroupDriver, v.CgroupVersion, v.KernelVersion, v.Name, v.DockerRootDir)
	case "ps", "images":
		var l []struct{}
		if status := get(c, map[string]string{"ps": "/containers/json", "images": "/images/json"}[what], &l); status != 0 {
			return status
		}
		c.Put("%s\n", map[string]string{"ps": "CONTAINER ID   IMAGE     COMMAND   CREATED   STATUS    PORTS     NAMES", "images": "REPOSITORY   TAG       IMAGE ID   CREATED   SIZE"}[what])
	default:
		return c.Fail("ckadrill does not simulate docker %s yet", what)
	}
	return 0
}

// get asks the engine, and says why that failed.
func get(c *libc.Prog, name string, to any) int {
	const at = "unix:///var/run/docker.sock"
	t := network.NewTransport(c.Process, nil)
	defer t.Close()
	t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
		return c.Dial(network.ForTransport(ctx, false), "unix", path.Join("/var/run", path.Base(socket)))
	}
	r, err := http.NewRequestWithContext(c.Context(), http.MethodGet, "http://docker/v"+apiVersion+name, nil)
	if err != nil {
		return c.Fail("%s", err)
	}
	res, err := t.RoundTrip(r)
	c.Out.Flush()
	switch {
	case errors.Is(err, syscall.EACCES) || errors.Is(err, os.ErrPermission):
		c.Errorf("permission denied while trying to connect to the docker API at %s\n", at)
		return 1
	case err != nil:
		c.Errorf("Cannot connect to the Docker daemon at %s. Is the docker daemon running?\n", at)
		return 1
	}
	defer res.Body.Close()
	if err := json.NewDecoder(res.Body).Decode(to); err != nil || res.StatusCode != http.StatusOK {
		c.Errorf("Error response from daemon: %s\n", res.Status)
		return 1
	}
	return 0
}
