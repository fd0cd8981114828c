package kubeadm

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"io/fs"
	"net/netip"
	"strings"

	"ckadrill/sim/etcd"
	"ckadrill/sim/kernel"
	"ckadrill/sim/packages"
)

// containerdConfig is "containerd config default" of containerd 2, with the changes that the installation guide asks for.
//
//go:embed containerd-config.toml
var containerdConfig []byte

const (
	unitDir = "/usr/lib/systemd/system"
	// helmVersion is that of the helm on a control plane.
	helmVersion = "v4.1.4"
)

// packageSet is the packages of a machine.
func packageSet(c Cluster, m Machine) packages.Set {
	v := m.version(c)
	if m.Role == Balancer {
		return packages.Set{More: []string{"haproxy"}}
	}
	s := packages.Set{Kubectl: v, Copied: c.Unpackaged}
	if m.Role != Plain {
		s.Kubelet, s.Kubeadm, s.CNI, s.CRITools, s.Containerd = v, v, packages.CNI(v), strings.TrimPrefix(c.criTools(v), "v"), packages.ContainerdVersion
	}
	if !c.Unpackaged {
		s.Sources, s.Held = v, []string{"kubeadm", "kubectl", "kubelet"}
	}
	return s
}

// packageFiles is what installing the packages and following the installation guide leaves on a machine, before kubeadm runs.
func packageFiles(c Cluster, m Machine) *Tree {
	t := NewTree()
	for _, e := range packageSet(c, m).Files() {
		switch {
		case c.Unpackaged && strings.HasSuffix(e.Path, "-keep"): // which keeps a directory in a package
		case c.Unpackaged && e.Path == manifestsDir && m.Role != ControlPlane:
		case e.Mode.IsDir():
			t.Dir(e.Path, e.Mode.Perm())
		case e.Mode&fs.ModeSymlink != 0:
			t.Symlink(e.Target, e.Path)
		default:
			t.Write(e.Path, e.Mode.Perm(), e.Content)
		}
	}
	switch m.Role {
	case Plain:
		return t
	case Balancer:
		t.Write(haproxyFile, 0o644, c.haproxyConfig())
		t.Symlink(unitDir+"/haproxy.service", "/etc/systemd/system/multi-user.target.wants/haproxy.service")
		return t
	}
	if m.Role == ControlPlane {
		for _, p := range []string{"etcdctl", "etcdutl"} {
			t.Write("/usr/bin/"+p, 0o755, kernel.VersionedExecutable(p, etcd.Version))
		}
		t.Write("/usr/local/bin/helm", 0o755, kernel.VersionedExecutable("helm", helmVersion))
	}
	for _, unit := range []string{"kubelet.service", "containerd.service"} {
		t.Symlink(unitDir+"/"+unit, "/etc/systemd/system/multi-user.target.wants/"+unit)
	}
	t.Write("/etc/crictl.yaml", 0o644, []byte("runtime-endpoint: unix:///run/containerd/containerd.sock\nimage-endpoint: unix:///run/containerd/containerd.sock\ntimeout: 10\ndebug: false\n"))
	config := containerdConfig
	if c.CgroupDriver == "cgroupfs" {
		config = bytes.Replace(config, []byte("SystemdCgroup = true"), []byte("SystemdCgroup = false"), 1)
	}
	t.Write("/etc/containerd/config.toml", 0o644, config)
	t.Write("/etc/modules-load.d/k8s.conf", 0o644, []byte("overlay\nbr_netfilter\n"))
	t.Write("/etc/sysctl.d/k8s.conf", 0o644, []byte("net.bridge.bridge-nf-call-iptables  = 1\nnet.bridge.bridge-nf-call-ip6tables = 1\nnet.ipv4.ip_forward                 = 1\n"))
	if c.CNI == Bridge && m.PodCIDR.IsValid() {
		t.Write("/etc/cni/net.d/10-bridge.conflist", 0o644, bridgeConfig(m.PodCIDR))
	}
	return t
}

// bridgeConfig is a configuration for the plugin "bridge" that gives Pods addresses of the node's CIDR.
func bridgeConfig(cidr netip.Prefix) []byte {
	type object = map[string]any
	b, err := json.MarshalIndent(struct {
		CNIVersion string   `json:"cniVersion"`
		Name       string   `json:"name"`
		Plugins    []object `json:"plugins"`
	}{"1.0.0", "cbr0", []object{
		{
			"type": "bridge", "bridge": "cni0", "isGateway": true, "ipMasq": true, "hairpinMode": true,
			"ipam": object{
				"type":   "host-local",
				"ranges": [][]object{{{"subnet": cidr.String()}}},
				"routes": []object{{"dst": "0.0.0.0/0"}},
			},
		},
		{"type": "portmap", "capabilities": object{"portMappings": true}},
	}}, "", "  ")
	if err != nil {
		panic(err) // strings and booleans only
	}
	return append(b, '\n')
}
