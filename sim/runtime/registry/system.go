package registry

import "ckadrill/sim/packages"

const defaultPath = "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

// systemImages are those that kubeadm and the add-ons use. Sizes are of v1.35's linux/amd64 images; neighbouring releases
// are given the same ones.
func systemImages() (l []*Image) {
	for minor := packages.Oldest - 1; minor <= packages.Newest; minor++ {
		for _, v := range packages.Releases(minor) {
			l = append(l, kubernetesImages(v)...)
		}
	}
	for _, e := range []struct {
		tag, version string
		size         int64
	}{{"3.5.21-0", "3.5.21", 58938593}, {"3.5.24-0", "3.5.24", 59011223}, {"3.6.4-0", "3.6.4", 74311308}, {"3.6.5-0", "3.6.5", 74491780}, {"3.6.6-0", "3.6.6", 74508334}} {
		l = append(l, &Image{
			Repository: "registry.k8s.io/etcd", Tags: []string{e.tag}, Size: e.size, Created: "2025-11-12T09:11:30Z",
			Config: Config{Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}, WorkingDir: "/",
				ExposedPorts: ports("2379/tcp", "2380/tcp", "4001/tcp", "7001/tcp")},
			Base: []string{"distroless"},
			Files: []File{
				{Path: "/usr/local/bin/etcd", Program: "etcd", Version: e.version},
				{Path: "/usr/local/bin/etcdctl", Program: "etcdctl", Version: e.version},
				{Path: "/usr/local/bin/etcdutl", Program: "etcdutl", Version: e.version},
			},
		})
	}
	for _, v := range []string{"v1.11.1", "v1.11.3", "v1.12.0", "v1.12.1", "v1.13.1"} {
		l = append(l, &Image{
			Repository: "registry.k8s.io/coredns/coredns", Tags: []string{v}, Size: 23553139, Created: "2025-10-08T15:01:12Z",
			Config: Config{User: "nonroot:nonroot", Env: []string{defaultPath, "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"},
				Entrypoint: []string{"/coredns"}, WorkingDir: "/", ExposedPorts: ports("53/tcp", "53/udp")},
			Base:  []string{"distroless"},
			Files: []File{{Path: "/coredns", Program: "coredns", Version: v[1:]}},
		})
	}
	for _, v := range []string{"3.6", "3.8", "3.9", "3.10", "3.10.1"} {
		l = append(l, &Image{
			Repository: "registry.k8s.io/pause", Tags: []string{v}, Size: 319864, Created: "2025-06-18T16:44:00Z",
			Config: Config{User: "65535:65535", Env: []string{defaultPath}, Entrypoint: []string{"/pause"}, WorkingDir: "/"},
			Files:  []File{{Path: "/pause", Program: "pause", Version: v}},
		})
	}
	for _, v := range []string{"v0.26.7", "v0.27.0", "v0.27.4"} {
		l = append(l, &Image{
			Repository: "ghcr.io/flannel-io/flannel", Tags: []string{v}, Size: 33219344, Created: "2025-10-01T12:00:00Z",
			Config: Config{Env: []string{defaultPath}, Entrypoint: []string{"/opt/bin/flanneld"}},
			Base:   []string{"alpine"},
			Files:  []File{{Path: "/opt/bin/flanneld", Program: "flanneld", Version: v}},
		})
	}
	for _, v := range []string{"v1.6.2-flannel1", "v1.7.1-flannel1", "v1.8.0-flannel1"} {
		l = append(l, &Image{
			Repository: "ghcr.io/flannel-io/flannel-cni-plugin", Tags: []string{v}, Size: 4937021, Created: "2025-09-12T12:00:00Z",
			Config: Config{Env: []string{defaultPath}}, Base: []string{"alpine"},
			Files: []File{{Path: "/flannel", Program: "cni-flannel", Version: v}},
		})
	}
	for _, v := range []string{"v3.30.4", "v3.31.2"} {
		const bin = "/opt/cni/bin/"
		cni := &Image{
			Repository: "docker.io/calico/cni", Tags: []string{v}, Size: 72167716, Created: "2025-11-18T18:00:00Z",
			Config: Config{Env: []string{defaultPath}, Entrypoint: []string{bin + "install"}, WorkingDir: "/"},
			Base:   []string{"distroless"},
			Files:  []File{{Path: bin + "install", Program: "calico-install-cni", Version: v}, {Path: bin + "calico", Program: "cni-calico", Version: v}, {Path: bin + "flannel", Program: "cni-flannel"}},
		}
		for _, name := range []string{"bandwidth", "host-local", "loopback", "portmap", "tuning"} {
			cni.Files = append(cni.Files, File{Path: bin + name, Program: name})
		}
		l = append(l, cni, &Image{
			Repository: "docker.io/calico/node", Tags: []string{v}, Size: 158190117, Created: "2025-11-18T18:00:00Z",
			Config: Config{Env: []string{defaultPath}, Cmd: []string{"start_runit"}, WorkingDir: "/"}, Base: []string{"debian-slim"},
			Files: []File{{Path: "/usr/sbin/start_runit", Program: "calico-node", Version: v}, {Path: "/bin/calico-node", Program: "calico-node", Version: v}},
		}, &Image{
			Repository: "docker.io/calico/kube-controllers", Tags: []string{v}, Size: 53485384, Created: "2025-11-18T18:00:00Z",
			Config: Config{User: "999", Env: []string{defaultPath}, Entrypoint: []string{"/usr/bin/kube-controllers"}, WorkingDir: "/"}, Base: []string{"distroless"},
			Files: []File{{Path: "/usr/bin/kube-controllers", Program: "calico-kube-controllers", Version: v}, {Path: "/usr/bin/check-status", Program: "calico-check-status", Version: v}, {Path: "/status", Mode: dir, UID: 999, GID: 999}},
		})
	}
	for _, v := range []string{"v0.7.2", "v0.8.0"} {
		l = append(l, &Image{
			Repository: "registry.k8s.io/metrics-server/metrics-server", Tags: []string{v}, Size: 22541737, Created: "2025-07-05T08:00:00Z",
			Config: Config{User: "65534", Env: []string{defaultPath, "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"}, Entrypoint: []string{"/metrics-server"}, WorkingDir: "/"},
			Base:   []string{"distroless"},
			Files:  []File{{Path: "/metrics-server", Program: "metrics-server", Version: v}},
		})
	}
	for _, v := range []string{"v0.0.31", "v0.0.32", "v0.0.33"} {
		l = append(l, &Image{
			Repository: "docker.io/rancher/local-path-provisioner", Tags: []string{v}, Size: 21650000, Created: "2025-06-30T09:00:00Z",
			Config: Config{Env: []string{defaultPath}, Cmd: []string{"local-path-provisioner"}, WorkingDir: "/"}, Base: []string{"alpine"},
			Files: []File{{Path: "/usr/bin/local-path-provisioner", Program: "local-path-provisioner", Version: v}},
		})
	}
	return l
}

func kubernetesImages(version string) (l []*Image) {
	for _, c := range []struct {
		name string
		size int64
		user string
	}{
		{"kube-apiserver", 27686536, ""}, {"kube-controller-manager", 23133968, ""}, {"kube-scheduler", 17237597, ""}, {"kube-proxy", 25788229, ""},
	} {
		i := &Image{
			Repository: "registry.k8s.io/" + c.name, Tags: []string{version}, Size: c.size, Created: "2026-03-18T22:31:09Z",
			Config: Config{User: c.user, Env: []string{defaultPath, "SSL_CERT_FILE=/etc/ssl/certs/ca-certificates.crt"}, WorkingDir: "/",
				Entrypoint: []string{"/go-runner"}},
			Base: []string{"distroless"},
			Files: []File{
				{Path: "/usr/local/bin/" + c.name, Program: c.name, Version: version},
				{Path: "/go-runner", Program: "go-runner"},
			},
		}
		if c.name == "kube-proxy" {
			i.Config.Entrypoint = nil
			i.Base = []string{"debian-slim"}
			i.Files = i.Files[:1]
		}
		l = append(l, i)
	}
	return l
}

func ports(l ...string) map[string]struct{} {
	m := map[string]struct{}{}
	for _, p := range l {
		m[p] = struct{}{}
	}
	return m
}
