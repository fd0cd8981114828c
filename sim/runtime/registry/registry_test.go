package registry

import "testing"

func TestNamesAreSpelledOut(t *testing.T) {
	for in, want := range map[string]string{
		"nginx":                          "docker.io/library/nginx:latest",
		"nginx:1.27":                     "docker.io/library/nginx:1.27",
		"nosuchrepo/app:1":               "docker.io/nosuchrepo/app:1",
		"docker.io/nginx":                "docker.io/library/nginx:latest",
		"registry.k8s.io/pause:3.10.1":   "registry.k8s.io/pause:3.10.1",
		"localhost:5000/x":               "localhost:5000/x:latest",
		"nginx:1.27@sha256:" + sixtyFour: "docker.io/library/nginx@sha256:" + sixtyFour,
	} {
		r, err := Parse(in)
		if err != nil || r.String() != want {
			t.Errorf("%s: %s, %v", in, r, err)
		}
	}
	if _, err := Parse("NGINX:1"); err == nil || err.Error() != `failed to parse image reference "NGINX:1": invalid reference format: repository name (library/NGINX) must be lowercase` {
		t.Error(err)
	}
}

const sixtyFour = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

func TestCatalogueIsConsistent(t *testing.T) {
	c := Default()
	for _, n := range c.Names() {
		i := c.Must(n)
		if c.ByID(i.ID()) == nil || c.Find(Reference{Repository: i.Repository, Digest: i.Digest()}) != i {
			t.Errorf("%s is not found by id or digest", n)
		}
		for _, b := range i.Base {
			Set(b)
		}
		if i.Size <= 0 {
			t.Errorf("%s has no size", n)
		}
	}
	for _, n := range []string{"nginx", "nginx:1.27", "busybox:1.28", "registry.k8s.io/kube-apiserver:v1.35.9", "registry.k8s.io/kube-proxy:v1.35.4", "registry.k8s.io/etcd:3.6.6-0", "registry.k8s.io/coredns/coredns:v1.13.1", "registry.k8s.io/pause:3.10.1"} {
		c.Must(n)
	}
	if r, _ := Parse("nginx:nosuch"); c.Find(r) != nil || !c.HasRepository(r.Repository) {
		t.Error("nginx:nosuch")
	}
}
