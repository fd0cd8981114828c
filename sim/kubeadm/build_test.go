package kubeadm

import (
	"bytes"
	"crypto/ecdsa"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"io/fs"
	"net/netip"
	"os"
	"path"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"ckadrill/sim/kernel"
)

// recorded is the cluster that testdata was recorded from.
func recorded() Cluster {
	prefix := netip.MustParsePrefix
	return Cluster{
		Version: "v1.35.4", PodCIDR: prefix("10.244.0.0/16"), ServiceCIDR: prefix("10.96.0.0/12"), CNI: Bridge,
		CgroupDriver: "cgroupfs", AllowCgroupV1: true,
		Machines: []Machine{
			{Name: "cka-cp1", Address: netip.MustParseAddr("192.168.122.11"), Role: ControlPlane, PodCIDR: prefix("10.244.0.0/24"), KubeletArgs: []string{"node-ip=192.168.122.11"}},
			{Name: "cka-w1", Address: netip.MustParseAddr("192.168.122.12"), Role: Worker, PodCIDR: prefix("10.244.1.0/24")},
			{Name: "cka-w2", Address: netip.MustParseAddr("192.168.122.13"), Role: Worker, PodCIDR: prefix("10.244.2.0/24")},
		},
	}
}

// at runs f in a world of a fixed date and seed.
func at(t *testing.T, f func(w *kernel.World)) {
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Until(time.Date(2026, 12, 1, 16, 4, 30, 0, time.UTC)))
		f(kernel.NewWorld(1))
	})
}

func build(t *testing.T, w *kernel.World, c Cluster) *Layout {
	t.Helper()
	l, err := Build(w, c)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

func content(t *testing.T, tree *Tree, name string) string {
	t.Helper()
	f, ok := tree.File(name)
	if !ok {
		t.Fatalf("%s is missing", name)
	}
	return string(f.Content)
}

func recordedFile(t *testing.T, name string) string {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestFilesEqualTheRecording(t *testing.T) {
	at(t, func(w *kernel.World) {
		l := build(t, w, recorded())
		cp := l.Trees["cka-cp1"]
		for file, want := range map[string]string{
			manifestsDir + "/kube-apiserver.yaml":          "default/manifests/kube-apiserver.yaml",
			manifestsDir + "/kube-controller-manager.yaml": "default/manifests/kube-controller-manager.yaml",
			manifestsDir + "/kube-scheduler.yaml":          "default/manifests/kube-scheduler.yaml",
			manifestsDir + "/etcd.yaml":                    "default/manifests/etcd.yaml",
			kubeletDir + "/config.yaml":                    "cluster/kubelet-config.yaml",
			kubeletDir + "/kubeadm-flags.env":              "cluster/kubeadm-flags.env",
			kubeletDir + "/instance-config.yaml":           "cluster/instance-config.yaml",
		} {
			if got := content(t, cp, file); got != recordedFile(t, want) {
				t.Errorf("%s is not as recorded:\n%s", file, got)
			}
		}
		data := regexp.MustCompile(`(-data: ).+`)
		for _, f := range []string{"admin.conf", "super-admin.conf", "controller-manager.conf", "scheduler.conf", "kubelet.conf"} {
			got := data.ReplaceAllString(content(t, cp, kubernetesDir+"/"+f), "$1<base64>")
			if got != recordedFile(t, "kubeconfigs/"+f) {
				t.Errorf("%s is not as recorded:\n%s", f, got)
			}
		}
		if got := content(t, l.Trees["cka-w1"], kubeletDir+"/kubeadm-flags.env"); got != recordedFile(t, "default/kubeadm-flags.env") {
			t.Errorf("kubeadm-flags.env of a worker: %s", got)
		}
	})
}

func TestKubeletConfigurationByDefault(t *testing.T) {
	at(t, func(w *kernel.World) {
		c := recorded()
		c.CgroupDriver, c.AllowCgroupV1 = "", false
		l := build(t, w, c)
		if got := content(t, l.Trees["cka-w2"], kubeletDir+"/config.yaml"); got != recordedFile(t, "default/kubelet-config.yaml") {
			t.Errorf("config.yaml is not as recorded:\n%s", got)
		}
		c.Machines[1].Resolved = true
		l = build(t, w, c)
		if got := content(t, l.Trees["cka-w1"], kubeletDir+"/config.yaml"); !strings.Contains(got, "\nresolvConf: /run/systemd/resolve/resolv.conf\n") {
			t.Errorf("systemd-resolved is not used:\n%s", got)
		}
	})
}

// notRecordedAtStart are files that later commands or the running kubelet made.
var notRecordedAtStart = regexp.MustCompile(`^/etc/kubernetes/tmp|_state$|^/var/lib/kubelet/(checkpoints|device-plugins|image_manager|plugins|plugins_registry|pod-resources|pods)($|/)`)

func TestModesEqualTheRecording(t *testing.T) {
	at(t, func(w *kernel.World) {
		c := recorded()
		c.Unpackaged = true
		cp := build(t, w, c).Trees["cka-cp1"]
		seen := map[string]bool{}
		for _, line := range strings.Split(strings.TrimSpace(recordedFile(t, "file-modes.txt")), "\n") {
			f := strings.Fields(line)
			seen[f[2]] = true
			if notRecordedAtStart.MatchString(f[2]) {
				continue
			}
			got, ok := cp.File(f[2])
			if !ok {
				t.Errorf("%s is missing", f[2])
				continue
			}
			mode := got.Mode.String()
			if got.Mode&fs.ModeSymlink != 0 {
				mode = "l" + mode[1:]
			}
			if mode != f[0] || got.UID != 0 || got.GID != 0 {
				t.Errorf("%s has mode %s and owner %d:%d, want %s root:root", f[2], mode, got.UID, got.GID, f[0])
			}
		}
		for _, f := range cp.Files() {
			if strings.HasPrefix(f.Path, "/etc/kubernetes/") && !strings.HasPrefix(f.Path, "/etc/kubernetes/pki/etcd/") && !seen[f.Path] {
				t.Errorf("%s was not recorded", f.Path)
			}
		}
	})
}

// describe prints a certificate as testdata/pki-certs.txt does.
func describe(c *x509.Certificate) string {
	var b strings.Builder
	name := func(n string) string {
		var l []string
		for _, p := range strings.Split(n, ",") {
			k, v, _ := strings.Cut(p, "=")
			l = append([]string{k + " = " + v}, l...)
		}
		return strings.Join(l, ", ")
	}
	fmt.Fprintf(&b, "subject=%s\nissuer=%s\n", name(c.Subject.String()), name(c.Issuer.String()))
	var usages []string
	for u, n := range map[x509.KeyUsage]string{x509.KeyUsageDigitalSignature: "1Digital Signature", x509.KeyUsageKeyEncipherment: "2Key Encipherment", x509.KeyUsageCertSign: "3Certificate Sign"} {
		if c.KeyUsage&u != 0 {
			usages = append(usages, n)
		}
	}
	for i := '1'; i <= '3'; i++ {
		for _, u := range usages {
			if rune(u[0]) == i {
				fmt.Fprintf(&b, "usage %s\n", u[1:])
			}
		}
	}
	for _, u := range c.ExtKeyUsage {
		fmt.Fprintf(&b, "usage %s\n", map[x509.ExtKeyUsage]string{x509.ExtKeyUsageServerAuth: "TLS Web Server Authentication", x509.ExtKeyUsageClientAuth: "TLS Web Client Authentication"}[u])
	}
	fmt.Fprintf(&b, "CA:%s\n", strings.ToUpper(fmt.Sprint(c.IsCA)))
	for _, n := range c.DNSNames {
		fmt.Fprintf(&b, "DNS:%s\n", n)
	}
	for _, ip := range c.IPAddresses {
		fmt.Fprintf(&b, "IP:%s\n", ip)
	}
	return b.String()
}

// describeRecorded turns a section of testdata/pki-certs.txt into the same form.
func describeRecorded(section string) string {
	var b strings.Builder
	mode := ""
	for _, l := range strings.Split(section, "\n") {
		switch {
		case strings.HasPrefix(l, "subject="), strings.HasPrefix(l, "issuer="):
			b.WriteString(l + "\n")
		case strings.HasPrefix(l, "X509v3"):
			mode = l
		case strings.HasPrefix(l, "    "):
			for _, v := range strings.Split(strings.TrimSpace(l), ", ") {
				switch {
				case strings.Contains(mode, "Usage"):
					b.WriteString("usage " + v + "\n")
				case strings.HasPrefix(v, "IP Address:"):
					ip := strings.TrimPrefix(v, "IP Address:")
					if ip == "0:0:0:0:0:0:0:1" {
						ip = "::1"
					}
					b.WriteString("IP:" + ip + "\n")
				default:
					b.WriteString(v + "\n")
				}
			}
		}
	}
	return b.String()
}

func parseCert(t *testing.T, content string) *x509.Certificate {
	t.Helper()
	block, _ := pem.Decode([]byte(content))
	if block == nil {
		t.Fatalf("no PEM in %q", content)
	}
	c, err := x509.ParseCertificate(block.Bytes)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func TestCertificatesEqualTheRecording(t *testing.T) {
	at(t, func(w *kernel.World) {
		now := time.Now()
		l := build(t, w, recorded())
		cp := l.Trees["cka-cp1"]
		for _, s := range strings.Split(recordedFile(t, "pki-certs.txt"), "== ")[1:] {
			name, section, _ := strings.Cut(s, "\n")
			file := path.Join(certificatesDir, name)
			c := parseCert(t, content(t, cp, file))
			if got, want := describe(c), describeRecorded(section); got != want {
				t.Errorf("%s:\n%swant:\n%s", name, got, want)
			}
			years := 1
			if c.IsCA {
				years = 10
			}
			if from, to := now.Add(-5*time.Minute), now.Add(time.Duration(years)*365*24*time.Hour); !c.NotBefore.Equal(from) || !c.NotAfter.Equal(to) {
				t.Errorf("%s is valid from %s to %s, want %s to %s", name, c.NotBefore, c.NotAfter, from, to)
			}
			if _, err := tls.X509KeyPair([]byte(content(t, cp, file)), []byte(content(t, cp, strings.TrimSuffix(file, ".crt")+".key"))); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		}
		for _, s := range strings.Split(recordedFile(t, "kubeconfig-subjects.txt"), "== ")[1:] {
			name, section, _ := strings.Cut(s, "\n")
			cfg, err := clientcmd.Load([]byte(content(t, cp, path.Join(kubernetesDir, name))))
			if err != nil {
				t.Fatal(err)
			}
			for _, u := range cfg.AuthInfos {
				got := describe(parseCert(t, string(u.ClientCertificateData)))
				for _, want := range strings.Split(strings.TrimSpace(describeRecorded(section)), "\n") {
					if !strings.Contains(got, want+"\n") {
						t.Errorf("%s: no %q in\n%s", name, want, got)
					}
				}
			}
		}
	})
}

func TestKubeletIdentity(t *testing.T) {
	at(t, func(w *kernel.World) {
		l := build(t, w, recorded())
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM([]byte(content(t, l.Trees["cka-cp1"], certificatesDir+"/ca.crt")))
		for _, m := range l.Cluster.Machines {
			tree := l.Trees[m.Name]
			link, ok := tree.File(currentClient)
			if !ok || link.Target != kubeletPKI+"/kubelet-client-2026-12-01-16-04-30.pem" {
				t.Fatalf("%s: the current client certificate is %q", m.Name, link.Target)
			}
			client := []byte(content(t, tree, link.Target))
			pair, err := tls.X509KeyPair(client, client)
			if err != nil {
				t.Fatal(err)
			}
			if _, ok := pair.PrivateKey.(*ecdsa.PrivateKey); !ok {
				t.Errorf("the client key is a %T", pair.PrivateKey)
			}
			if s := pair.Leaf.Subject.String(); s != "CN=system:node:"+m.Name+",O=system:nodes" {
				t.Errorf("subject %s", s)
			}
			if _, err := pair.Leaf.Verify(x509.VerifyOptions{Roots: pool, CurrentTime: time.Now(), KeyUsages: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth}}); err != nil {
				t.Error(err)
			}
			serving, err := tls.X509KeyPair([]byte(content(t, tree, kubeletPKI+"/kubelet.crt")), []byte(content(t, tree, kubeletPKI+"/kubelet.key")))
			if err != nil {
				t.Fatal(err)
			}
			if len(serving.Certificate) != 2 || serving.Leaf.VerifyHostname(m.Name) != nil {
				t.Errorf("%s: serving certificate for %v, chain of %d", m.Name, serving.Leaf.DNSNames, len(serving.Certificate))
			}
			cfg, err := clientcmd.Load([]byte(content(t, tree, kubernetesDir+"/kubelet.conf")))
			if err != nil {
				t.Fatal(err)
			}
			ctx := cfg.Contexts[cfg.CurrentContext]
			if s := cfg.Clusters[ctx.Cluster].Server; s != "https://192.168.122.11:6443" {
				t.Errorf("%s: server %s", m.Name, s)
			}
			if u := cfg.AuthInfos[ctx.AuthInfo]; u.ClientCertificate != currentClient || u.ClientKey != currentClient {
				t.Errorf("%s: client certificate %s", m.Name, u.ClientCertificate)
			}
		}
		worker := l.Trees["cka-w1"]
		for _, f := range worker.Files() {
			if strings.HasPrefix(f.Path, kubernetesDir+"/") && !f.Mode.IsDir() && f.Path != kubernetesDir+"/kubelet.conf" && f.Path != certificatesDir+"/ca.crt" && f.Path != manifestsDir+"/.kubelet-keep" {
				t.Errorf("a worker has %s", f.Path)
			}
		}
	})
}

func TestEqualSeedsBuildEqualClusters(t *testing.T) {
	at(t, func(w *kernel.World) {
		a := build(t, w, recorded())
		b := build(t, kernel.NewWorld(1), recorded())
		if a.Token != b.Token {
			t.Errorf("tokens %s and %s", a.Token, b.Token)
		}
		for _, m := range a.Cluster.Machines {
			for _, f := range a.Trees[m.Name].Files() {
				g, ok := b.Trees[m.Name].File(f.Path)
				if !ok || !bytes.Equal(f.Content, g.Content) {
					t.Errorf("%s: %s differs", m.Name, f.Path)
				}
			}
		}
	})
}

func TestNothingOfTheHostIsLeft(t *testing.T) {
	at(t, func(w *kernel.World) {
		l := build(t, w, recorded())
		for name, tree := range l.Trees {
			for _, f := range tree.Files() {
				if bytes.Contains(f.Content, []byte(os.TempDir()+"/")) {
					t.Errorf("%s: %s names the private directory", name, f.Path)
				}
			}
			if strings.Contains(l.Output[name], os.TempDir()) {
				t.Errorf("the output names the private directory:\n%s", l.Output[name])
			}
		}
	})
}

// Further control planes join when the cluster runs; the workers use the endpoint.
func TestSeveralControlPlanes(t *testing.T) {
	at(t, func(w *kernel.World) {
		c := recorded()
		c.Endpoint = "balancer:6443"
		c.Machines[1].Role = ControlPlane
		c.Machines = append(c.Machines, Machine{Name: "balancer", Address: netip.MustParseAddr("192.168.122.10"), Role: Balancer})
		l := build(t, w, c)
		if _, ok := l.Trees["cka-w1"].File(certificatesDir + "/apiserver.crt"); ok {
			t.Error("the second control plane has certificates already")
		}
		if conf := content(t, l.Trees["cka-w2"], kubernetesDir+"/kubelet.conf"); !strings.Contains(conf, "server: https://balancer:6443") {
			t.Errorf("the worker does not use the endpoint:\n%s", conf)
		}
		conf := content(t, l.Trees["balancer"], haproxyFile)
		for _, want := range []string{"\tserver cka-cp1 192.168.122.11:6443 check", "\tserver cka-w1 192.168.122.12:6443 check"} {
			if !strings.Contains(conf, want) {
				t.Errorf("haproxy's configuration lacks %q:\n%s", want, conf)
			}
		}
		if _, ok := l.Trees["balancer"].File("/usr/bin/kubelet"); ok {
			t.Error("the balancer has a kubelet")
		}
	})
}

func TestClusterIsValidated(t *testing.T) {
	for want, change := range map[string]func(*Cluster){
		"must look like":           func(c *Cluster) { c.Version = "1.35" },
		"needs a Pod":              func(c *Cluster) { c.PodCIDR = netip.Prefix{} },
		"two machines are named":   func(c *Cluster) { c.Machines[1].Name = "cka-cp1" },
		"another one has the addr": func(c *Cluster) { c.Machines[1].Address = c.Machines[0].Address },
		"needs a Pod CIDR for its": func(c *Cluster) { c.Machines[2].PodCIDR = netip.Prefix{} },
		"need an endpoint":         func(c *Cluster) { c.Machines[1].Role = ControlPlane },
		"unknown role":             func(c *Cluster) { c.Machines[2].Role = "boss" },
		"no control plane machine": func(c *Cluster) { c.Machines = c.Machines[1:] },
	} {
		at(t, func(w *kernel.World) {
			c := recorded()
			change(&c)
			if _, err := Build(w, c); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("got %v, want %q", err, want)
			}
		})
	}
}
