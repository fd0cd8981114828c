package packages

import (
	"crypto/sha256"
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"ckadrill/sim/userland/deb"
)

// published is when the repositories were last changed.
var published = time.Date(2026, 11, 24, 14, 12, 8, 0, time.UTC)

// Repository is a place that apt gets packages from.
type Repository struct {
	// Line is the entry of sources.list for it.
	Line string
	// URI and Suite are as in the entry; a suite that ends in "/" is the whole path below the URI.
	URI, Suite string
	Components []string

	key      key
	origin   deb.Paragraph // of the file Release
	archives map[string]func() []archive
	pool     string // where archives lie, below the URI

	once    sync.Once
	indexes map[string]string // by component
	release []byte
	debs    map[string]download
}

// download is a file of an archive, and how large the real one is.
type download struct {
	content []byte
	size    int64
}

func (r *Repository) source() deb.Source { return deb.Source{URI: r.URI, Suite: r.Suite} }

func (r *Repository) build() {
	r.once.Do(func() {
		r.indexes, r.debs = map[string]string{}, map[string]download{}
		var sums strings.Builder
		for _, c := range r.Components {
			var b strings.Builder
			for _, a := range r.archives[c]() {
				content := a.Write(published)
				name := path.Join(r.pool, a.FileName())
				r.debs[name] = download{content, a.Size}
				p := a.Control.Clone()
				p.Set("Filename", name)
				p.Set("Size", fmt.Sprint(a.Size))
				p.Set("SHA256", fmt.Sprintf("%x", sha256.Sum256(content)))
				b.WriteString(p.String() + "\n")
			}
			r.indexes[c] = b.String()
			fmt.Fprintf(&sums, "\n %x %16d %s", sha256.Sum256([]byte(b.String())), b.Len(), deb.IndexName(c))
		}
		p := r.origin.Clone()
		p.Set("Date", published.Format("Mon, 02 Jan 2006 15:04:05 UTC"))
		p.Set("Architectures", "amd64")
		if !r.source().Flat() {
			p.Set("Components", strings.Join(r.Components, " "))
		}
		p.Set("SHA256", sums.String())
		r.release = r.key.sign(p.String(), published)
	})
}

// file finds a file below the URI.
func (r *Repository) file(name string) (download, bool) {
	r.build()
	if d, ok := r.debs[name]; ok {
		return d, true
	}
	name, ok := strings.CutPrefix(r.URI+name, r.source().Dist())
	if !ok {
		return download{}, false
	}
	if name == "InRelease" {
		return download{r.release, int64(len(r.release))}, true
	}
	for _, c := range r.Components {
		if name == deb.IndexName(c) {
			return download{[]byte(r.indexes[c]), int64(len(r.indexes[c]))}, true
		}
	}
	return download{}, false
}

// Kubernetes is the repository of a minor release at pkgs.k8s.io.
func Kubernetes(minor int) *Repository { return kubernetesSites()[minor] }

const keyrings = "/etc/apt/keyrings/"

var kubernetesSites = sync.OnceValue(func() map[int]*Repository {
	m := map[int]*Repository{}
	for minor := Oldest; minor <= Newest; minor++ {
		v := fmt.Sprintf("v1.%d", minor)
		uri := "https://pkgs.k8s.io/core:/stable:/" + v + "/deb/"
		m[minor] = &Repository{
			Line: "deb [signed-by=" + keyrings + "kubernetes-apt-keyring.gpg] " + uri + " /", URI: uri, Suite: "/", Components: []string{""}, key: kubernetesKey, pool: "amd64",
			origin:   deb.Paragraph{{Name: "Origin", Value: "obs://build.opensuse.org/isv:kubernetes:core:stable:" + v + "/deb"}, {Name: "Label", Value: "isv:kubernetes:core:stable:" + v}},
			archives: map[string]func() []archive{"": func() []archive { return kubernetesArchives(minor) }},
		}
	}
	return m
})

// docker is Docker's repository for this release of Ubuntu.
var docker = &Repository{
	Line: "deb [arch=amd64 signed-by=" + keyrings + "docker.asc] https://download.docker.com/linux/ubuntu noble stable", URI: "https://download.docker.com/linux/ubuntu/", Suite: "noble",
	Components: []string{"stable"}, key: dockerKey, pool: "dists/noble/pool/stable/amd64",
	origin:   deb.Paragraph{{Name: "Origin", Value: "Docker"}, {Name: "Label", Value: "Docker CE"}, {Name: "Suite", Value: "noble"}, {Name: "Codename", Value: "noble"}},
	archives: map[string]func() []archive{"stable": dockerArchives},
}

// ubuntuSites are the suites of Ubuntu's archive. All packages are in the first one.
var ubuntuSites = sync.OnceValue(func() (l []*Repository) {
	none := func() []archive { return nil }
	for i, s := range []string{"noble", "noble-updates", "noble-backports", "noble-security"} {
		host := "archive"
		if s == "noble-security" {
			host = "security"
		}
		r := &Repository{
			URI: "http://" + host + ".ubuntu.com/ubuntu/", Suite: s, Components: []string{"main", "universe"}, key: ubuntuKey, pool: "pool/main",
			origin: deb.Paragraph{{Name: "Origin", Value: "Ubuntu"}, {Name: "Label", Value: "Ubuntu"}, {Name: "Suite", Value: s}, {Name: "Version", Value: "24.04"}, {Name: "Codename", Value: "noble"},
				{Name: "Description", Value: "Ubuntu Noble 24.04"}},
			archives: map[string]func() []archive{"main": none, "universe": none},
		}
		if i == 0 {
			r.archives["main"] = ubuntuArchives
		}
		l = append(l, r)
	}
	return l
})

func ubuntuArchives() (l []archive) {
	for _, p := range ubuntu() {
		l = append(l, p.archive)
	}
	slices.SortFunc(l, func(a, b archive) int { return strings.Compare(a.Name(), b.Name()) })
	return l
}

// ubuntuSources is the file ubuntu.sources.
const ubuntuSources = `Types: deb
URIs: http://archive.ubuntu.com/ubuntu/
Suites: noble noble-updates noble-backports
Components: main universe
Signed-By: /usr/share/keyrings/ubuntu-archive-keyring.gpg

Types: deb
URIs: http://security.ubuntu.com/ubuntu/
Suites: noble-security
Components: main universe
Signed-By: /usr/share/keyrings/ubuntu-archive-keyring.gpg
`
