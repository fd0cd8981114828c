package packages

import (
	"strings"
	"testing"
	"time"

	"ckadrill/sim/userland/deb"
	"ckadrill/sim/userland/layout"
)

// TestCommandsHavePackages: each command of a machine belongs to one package of Ubuntu.
func TestCommandsHavePackages(t *testing.T) {
	owner := map[string]string{}
	for _, p := range ubuntu() {
		for _, e := range p.Entries {
			if e.Mode.IsDir() {
				continue
			}
			if o := owner[e.Path]; o != "" {
				t.Errorf("%s is in %s and %s", e.Path, o, p.Name())
			}
			owner[e.Path] = p.Name()
		}
	}
	l, _ := layout.Commands("ubuntu")
	for _, c := range l {
		managed := strings.HasPrefix(c.Path, "/etc/alternatives/") || strings.HasPrefix(c.Link, "/etc/alternatives/")
		if owner[c.Path] == "" && !managed {
			t.Errorf("%s belongs to no package", c.Path)
		}
	}
}

// TestDependenciesExist: what a package needs is in a repository that a machine knows.
func TestDependenciesExist(t *testing.T) {
	for minor := Oldest; minor <= Newest; minor++ {
		l := append(append(kubernetesArchives(minor), dockerArchives()...), ubuntuArchives()...)
		for _, v := range criDockerdVersions {
			a, _ := criDockerd(v)
			l = append(l, a)
		}
		db := &deb.Database{}
		for _, a := range l {
			db.Put(record(a.Package, false))
		}
		for _, a := range l {
			for _, need := range deb.Relations(a.Control.Get("Depends")) {
				if db.Satisfies(need) == nil {
					t.Errorf("v1.%d: %s %s needs %v", minor, a.Name(), a.Version(), need)
				}
			}
		}
	}
}

func TestArchivesAreReadAsWritten(t *testing.T) {
	a := kubelet("v1.35.9")
	p, err := deb.Read(a.Write(published))
	if err != nil {
		t.Fatal(err)
	}
	if p.Control.String() != a.Control.String() || p.Info["postinst"] != a.Info["postinst"] || len(p.Entries) != len(a.Entries) || p.FileName() != "kubelet_1.35.9-1.1_amd64.deb" {
		t.Errorf("%s\n%v", p.Control, p.Entries)
	}
	for i, e := range p.Entries {
		if e.Path != a.Entries[i].Path || e.Mode != a.Entries[i].Mode || string(e.Content) != string(a.Entries[i].Content) || !e.Time.Equal(published) {
			t.Errorf("%+v is not %+v", e, a.Entries[i])
		}
	}
}

func TestRepositories(t *testing.T) {
	r := Kubernetes(35)
	d, ok := r.file("Packages")
	if !ok || strings.Count(string(d.content), "Package: kubeadm\n") != len(Releases(35)) {
		t.Errorf("%v\n%s", ok, d.content)
	}
	if d, ok := find(deliveryHost, delivered+"/core:/stable:/v1.36/deb/amd64/kubelet_1.36.0-1.1_amd64.deb"); !ok || d.size != kubeletSize {
		t.Error("no kubelet v1.36.0")
	}
	for _, name := range []string{"/ubuntu/dists/noble/InRelease", "/ubuntu/dists/noble/main/binary-amd64/Packages", "/ubuntu/pool/main/jq_1.7.1-3ubuntu0.24.04.1_amd64.deb"} {
		if _, ok := find("archive.ubuntu.com", name); !ok {
			t.Errorf("no %s", name)
		}
	}
	if _, ok := find("archive.ubuntu.com", "/ubuntu/dists/noble-security/InRelease"); ok {
		t.Error("two hosts have the security suite")
	}
}

func BenchmarkFiles(b *testing.B) {
	start := time.Now()
	Set{Kubelet: "v1.35.9", Kubeadm: "v1.35.9", Kubectl: "v1.35.9", CRITools: "1.35.0", CNI: "1.8.0", Containerd: "2.4.1", Sources: "v1.35.9"}.Files()
	b.ReportMetric(float64(time.Since(start).Milliseconds()), "ms/first")
	for b.Loop() {
		Set{Kubelet: "v1.35.9", Kubeadm: "v1.35.9", Kubectl: "v1.35.9", CRITools: "1.35.0", CNI: "1.8.0", Containerd: "2.4.1", Sources: "v1.35.9"}.Files()
	}
}
