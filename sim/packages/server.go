package packages

import (
	"bytes"
	"crypto/tls"
	_ "embed"
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"ckadrill/sim/kernel"
	"ckadrill/sim/network"
	"ckadrill/sim/packages/charts"
)

//go:embed ca.pem
var certificates []byte

//go:embed tls.pem
var serving []byte

//go:embed local-path-storage.yaml
var localPathManifest []byte

// localPathVersions are the releases of local-path-provisioner whose manifest is served.
var localPathVersions = []string{"v0.0.31", "v0.0.32", "v0.0.33"}

// Names of the hosts that packages come from. pkgs.k8s.io sends its clients on to the network that delivers them.
const (
	kubernetesHost = "pkgs.k8s.io"
	deliveryHost   = "prod-cdn.packages.k8s.io"
	delivered      = "/repositories/isv:/kubernetes:"
	dockerHost     = "download.docker.com"
	githubHost     = "github.com"
	manifestHost   = "raw.githubusercontent.com"
)

var (
	hostName = "internet"
	address  = netip.MustParsePrefix("203.0.113.10/24")
	hosts    = []string{kubernetesHost, deliveryHost, dockerHost, githubHost, "archive.ubuntu.com", "security.ubuntu.com", charts.Host, manifestHost}
)

// bandwidth is how fast the machines' way to the internet is, in bytes a second; reply is how long it takes to answer.
const (
	bandwidth = 25 << 20
	reply     = 40 * time.Millisecond
)

// AddInternet puts the hosts that packages come from behind the router of a network. Their server runs from now on, for as
// long as the world lives.
func AddInternet(w *kernel.World, f *network.Fabric) {
	n := f.AddOutside(hostName, address, hosts...)
	h := w.NewHost(hostName)
	n.Attach(h)
	h.Processes.Start(kernel.Spec{Argv: []string{"/usr/sbin/httpd"}, Net: n}, serve)
}

var certificate = sync.OnceValue(func() tls.Certificate {
	c, err := tls.X509KeyPair(serving, serving)
	if err != nil {
		panic("packages: tls.pem: " + err.Error())
	}
	return c
})

func serve(p *kernel.Process) int {
	for _, s := range []struct {
		port string
		tls  bool
	}{{":80", false}, {":443", true}} {
		l, err := p.Listen("tcp", s.port)
		if err != nil {
			return 1
		}
		server := &network.Server{Handler: http.HandlerFunc(answer)}
		if s.tls {
			server.TLSConfig = &tls.Config{GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) { c := certificate(); return &c, nil }}
		}
		p.Go(func() { server.Serve(l) })
	}
	<-p.Context().Done()
	return 0
}

// answer is what all hosts do; each serves its own names only.
func answer(w http.ResponseWriter, r *http.Request) {
	time.Sleep(reply)
	host, _, _ := strings.Cut(strings.ToLower(r.Host), ":")
	name := r.URL.Path
	if host == kubernetesHost {
		if rest, ok := strings.CutPrefix(name, "/core:/stable:/"); ok {
			http.Redirect(w, r, "https://"+deliveryHost+delivered+"/core:/stable:/"+rest, http.StatusFound)
			return
		}
	}
	d, ok := find(host, name)
	switch {
	case !ok && (host == deliveryHost || host == kubernetesHost): // as the storage behind it answers
		w.WriteHeader(http.StatusForbidden)
		return
	case !ok:
		http.NotFound(w, r)
		return
	case r.Method != http.MethodGet && r.Method != http.MethodHead:
		w.WriteHeader(http.StatusMethodNotAllowed)
		return
	}
	time.Sleep(time.Duration(d.size) * time.Second / bandwidth)
	w.Header().Set("Content-Type", "application/octet-stream")
	http.ServeContent(w, r, "", published, bytes.NewReader(d.content))
}

// find finds a file by its host and path.
func find(host, name string) (download, bool) {
	switch host {
	case deliveryHost:
		for minor, repo := range kubernetesSites() {
			rest, ok := strings.CutPrefix(name, fmt.Sprintf("%s/core:/stable:/v1.%d/deb/", delivered, minor))
			switch {
			case !ok:
			case rest == "Release.key":
				return whole(kubernetesKey.armored()), true
			default:
				return repo.file(strings.TrimPrefix(rest, "/"))
			}
		}
	case dockerHost:
		rest, ok := strings.CutPrefix(name, "/linux/ubuntu/")
		switch {
		case !ok:
		case rest == "gpg":
			return whole(dockerKey.armored()), true
		default:
			return docker.file(rest)
		}
	case githubHost:
		if b, ok := manifest(name); ok {
			return whole(b), true
		}
		for _, v := range criDockerdVersions {
			a, file := criDockerd(v)
			if name == "/Mirantis/cri-dockerd/releases/download/v"+v+"/"+file {
				return download{a.Write(published), a.Size}, true
			}
		}
	case manifestHost:
		for _, v := range localPathVersions {
			if name == "/rancher/local-path-provisioner/"+v+"/deploy/local-path-storage.yaml" {
				return whole(bytes.ReplaceAll(localPathManifest, []byte("@VERSION@"), []byte(v))), true
			}
		}
	case charts.Host:
		if b, ok := charts.File(name); ok {
			return whole(b), true
		}
	default:
		rest, ok := strings.CutPrefix(name, "/ubuntu/")
		for _, repo := range ubuntuSites() {
			if ok && "http://"+host+"/ubuntu/" == repo.URI {
				if d, ok := repo.file(rest); ok {
					return d, true
				}
			}
		}
	}
	return download{}, false
}

func whole(b []byte) download { return download{b, int64(len(b))} }
