package packages

import (
	"crypto/md5"
	"fmt"
	"io/fs"
	"slices"
	"strings"

	"ckadrill/sim/userland/deb"
)

// Set is the packages that a machine has beside those of Ubuntu, by the releases of their programs; "" is without.
type Set struct {
	Kubelet, Kubeadm, Kubectl string // "v1.35.9"
	CRITools, CNI, Containerd string // "1.35.0"
	// More are packages of Ubuntu that not every machine has.
	More []string
	// Held are the packages that an upgrade leaves alone.
	Held []string
	// Copied says that the programs were copied from the packages: dpkg knows of none of them.
	Copied bool
	// Sources is the release whose minor release's repository the machine knows; "" is none.
	Sources string
}

func (s Set) archives() (l []archive) {
	if s.Containerd != "" {
		l = append(l, containerd(s.Containerd))
	}
	if s.CNI != "" {
		l = append(l, cniPackage(s.CNI))
	}
	if s.CRITools != "" {
		l = append(l, criToolsPackage(s.CRITools))
	}
	if s.Kubeadm != "" {
		l = append(l, kubeadm(s.Kubeadm))
	}
	if s.Kubectl != "" {
		l = append(l, kubectl(s.Kubectl))
	}
	if s.Kubelet != "" {
		l = append(l, kubelet(s.Kubelet))
	}
	return l
}

// selfMade are the packages of Ubuntu whose files nobody else brings to a machine.
var selfMade = []string{"init-system-helpers", "ufw"}

// Files are what the packages of a set leave on a machine of Ubuntu when dpkg has installed them: their files, dpkg's database
// with Ubuntu's own packages too, the configuration and lists of apt, below /opt/packages an archive that no
// repository has, and below /opt/manifests those of add-ons.
func (s Set) Files() []deb.Entry {
	w := &writer{}
	db := &deb.Database{}
	var states strings.Builder
	for _, p := range ubuntu() {
		more := slices.Contains(s.More, p.Name())
		if !p.installed && !more {
			continue
		}
		w.info(p.Package)
		db.Put(record(p.Package, false))
		for _, e := range p.Entries {
			if more || own[e.Path] != nil || slices.Contains(selfMade, p.Name()) {
				w.l = append(w.l, e)
			}
		}
	}
	for _, a := range s.archives() {
		w.l = append(w.l, a.Entries...)
		if s.Copied {
			continue
		}
		w.info(a.Package)
		db.Put(record(a.Package, slices.Contains(s.Held, a.Name())))
		if a.Name() == "kubernetes-cni" { // the kubelet needs it
			states.WriteString("Package: kubernetes-cni\nArchitecture: amd64\nAuto-Installed: 1\n\n")
		}
	}
	w.file(deb.StatusFile, db.Text())
	w.file("/var/lib/apt/extended_states", states.String())
	if s.Kubelet != "" && !s.Copied {
		w.file("/var/lib/systemd/deb-systemd-helper-enabled/kubelet.service.dsh-also", "")
		a, name := criDockerd(criDockerdVersions[len(criDockerdVersions)-1])
		w.file("/opt/packages/"+name, string(a.Write(published)))
	}
	if s.Kubelet != "" {
		w.file(manifestDir+"/metrics-server.yaml", string(metricsServer))
		w.file(manifestDir+"/kube-flannel.yml", string(Flannel))
		w.file(manifestDir+"/calico.yaml", string(calico))
	}
	w.l = append(w.l, deb.Entry{Path: "/etc/systemd/system/multi-user.target.wants/ufw.service", Mode: fs.ModeSymlink | 0o777, Target: unitDir + "/ufw.service"})
	w.apt(s)
	return w.l
}

func record(p *deb.Package, held bool) *deb.Record {
	r := &deb.Record{Paragraph: deb.Paragraph{{Name: "Package", Value: p.Name()}}}
	selection := deb.Install
	if held {
		selection = deb.Hold
	}
	r.SetStatus(selection, deb.Installed)
	for _, f := range p.Control {
		r.Set(f.Name, f.Value)
	}
	var l []deb.Conffile
	for _, name := range p.Conffiles() {
		for _, e := range p.Entries {
			if e.Path == name {
				l = append(l, deb.Conffile{Path: name, Sum: fmt.Sprintf("%x", md5.Sum(e.Content))})
			}
		}
	}
	r.SetConffiles(l)
	return r
}

type writer struct{ l []deb.Entry }

func (w *writer) file(name, content string) {
	mode := fs.FileMode(0o644)
	if strings.HasPrefix(content, "#!") {
		mode = 0o755
	}
	w.l = append(w.l, deb.Entry{Path: name, Mode: mode, Content: []byte(content)})
}

func (w *writer) dir(name string) {
	w.l = append(w.l, deb.Entry{Path: name, Mode: fs.ModeDir | 0o755})
}

// info is what dpkg keeps of a package's control archive.
func (w *writer) info(p *deb.Package) {
	w.file(deb.InfoFile(p.Name(), "list"), deb.ListText(p.Entries))
	w.file(deb.InfoFile(p.Name(), "md5sums"), p.Sums())
	for kind, text := range p.Info {
		w.file(deb.InfoFile(p.Name(), kind), text)
	}
}

// apt writes what "apt-get update" has left with a machine's sources.
func (w *writer) apt(s Set) {
	for _, d := range []string{"/etc/apt/apt.conf.d", "/etc/apt/keyrings", "/etc/apt/preferences.d", "/etc/apt/trusted.gpg.d", "/var/cache/apt/archives/partial", deb.ListsDir + "/partial", "/var/log/apt"} {
		w.dir(d)
	}
	w.file("/etc/apt/sources.list", "# Ubuntu sources have moved to the /etc/apt/sources.list.d/ubuntu.sources\n# file, which uses the deb822 format. Use deb822-formatted .sources files\n# to manage package sources in the /etc/apt/sources.list.d/ directory.\n# See the sources.list(5) manual page for details.\n")
	w.file("/etc/apt/sources.list.d/ubuntu.sources", ubuntuSources)
	known := ubuntuSites()
	if s.Containerd != "" && !s.Copied {
		known = append(known[:len(known):len(known)], docker)
		w.file(keyrings+"docker.asc", string(dockerKey.armored()))
		w.file("/etc/apt/sources.list.d/docker.list", docker.Line+"\n")
	}
	if s.Sources != "" {
		r := Kubernetes(min(max(minorOf(s.Sources), Oldest), Newest))
		known = append(known[:len(known):len(known)], r)
		w.file(keyrings+"kubernetes-apt-keyring.gpg", string(kubernetesKey.public()))
		w.file("/etc/apt/sources.list.d/kubernetes.list", r.Line+"\n")
	}
	for _, r := range known {
		r.build()
		at := r.source().Dist()
		w.file(deb.ListFile(at+"InRelease"), string(r.release))
		for _, c := range r.Components {
			if r.indexes[c] != "" {
				w.file(deb.ListFile(at+deb.IndexName(c)), r.indexes[c])
			}
		}
	}
}
