package kubeadm

import (
	"bytes"
	"embed"
	"encoding/json"
	"net/netip"

	"ckadrill/sim/kernel"
)

// packages are the files that the deb packages of Kubernetes (pkgs.k8s.io) and containerd bring, as they are.
//
//go:embed packages
var packages embed.FS

func packaged(name string) []byte {
	b, err := packages.ReadFile("packages/" + name)
	if err != nil {
		panic(err)
	}
	return b
}

const unitDir = "/usr/lib/systemd/system"

// executable is the content of an executable of some version. What follows the first line is data that goes where the file
// goes: after an upgrade of the package the file, and so the program, says another version.
func executable(program, version string) []byte {
	return append(kernel.Executable(program), "version "+version+"\n"...)
}

// cniPlugins are the executables of the package kubernetes-cni.
var cniPlugins = []string{"bandwidth", "bridge", "dhcp", "dummy", "firewall", "host-device", "host-local", "ipvlan", "loopback",
	"macvlan", "portmap", "ptp", "sbr", "static", "tap", "tuning", "vlan", "vrf"}

// etcdVersion is that of the tools on a control plane, and of the etcd that kubeadm starts.
const etcdVersion = "3.6.6"

// packageFiles is what installing the packages and following the installation guide leaves on a machine, before kubeadm runs.
func packageFiles(c Cluster, m Machine) *Tree {
	t := NewTree()
	v := m.version(c)
	t.Write("/usr/bin/openssl", 0o755, kernel.Executable("openssl"))
	t.Write("/usr/bin/kubectl", 0o755, executable("kubectl", v))
	if m.Role == Plain {
		return t
	}
	kubernetesPackages(t, c, m, v)
	containerdPackage(t, c)
	if m.Role == ControlPlane {
		for _, p := range []string{"etcdctl", "etcdutl"} {
			t.Write("/usr/bin/"+p, 0o755, executable(p, etcdVersion))
		}
	}
	t.Write("/etc/modules-load.d/k8s.conf", 0o644, []byte("overlay\nbr_netfilter\n"))
	t.Write("/etc/sysctl.d/k8s.conf", 0o644, []byte("net.bridge.bridge-nf-call-iptables  = 1\nnet.bridge.bridge-nf-call-ip6tables = 1\nnet.ipv4.ip_forward                 = 1\n"))
	t.Dir("/etc/cni", 0o755)
	t.Dir("/etc/cni/net.d", 0o755)
	if c.CNI == Bridge && m.PodCIDR.IsValid() {
		t.Write("/etc/cni/net.d/10-bridge.conflist", 0o644, bridgeConfig(m.PodCIDR))
	}
	return t
}

// kubernetesPackages are the packages kubelet, kubeadm, cri-tools and kubernetes-cni. The kubelet's postinst enables its unit.
func kubernetesPackages(t *Tree, c Cluster, m Machine, version string) {
	for _, p := range []string{"kubelet", "kubeadm"} {
		t.Write("/usr/bin/"+p, 0o755, executable(p, version))
	}
	t.Write("/usr/bin/crictl", 0o755, executable("crictl", c.criTools()))
	for _, p := range cniPlugins {
		t.Write("/opt/cni/bin/"+p, 0o755, kernel.Executable(p))
	}
	t.Dir("/etc/kubernetes", 0o755)
	if !c.Unpackaged || m.Role == ControlPlane {
		t.Dir("/etc/kubernetes/manifests", 0o755)
	}
	t.Dir(kubeletDir, 0o755)
	t.Write(unitDir+"/kubelet.service", 0o644, packaged("kubelet.service"))
	t.Write(unitDir+"/kubelet.service.d/10-kubeadm.conf", 0o644, packaged("10-kubeadm.conf"))
	t.Write("/etc/default/kubelet", 0o644, []byte("KUBELET_EXTRA_ARGS=\n"))
	t.Symlink(unitDir+"/kubelet.service", "/etc/systemd/system/multi-user.target.wants/kubelet.service")
	t.Write("/etc/crictl.yaml", 0o644, []byte("runtime-endpoint: unix:///run/containerd/containerd.sock\nimage-endpoint: unix:///run/containerd/containerd.sock\ntimeout: 10\ndebug: false\n"))
}

// containerdPackage is the package containerd with the configuration of the installation guide: "containerd config default",
// the kubelet's cgroup driver and its sandbox image.
func containerdPackage(t *Tree, c Cluster) {
	t.Write("/usr/bin/containerd", 0o755, kernel.Executable("containerd"))
	t.Write(unitDir+"/containerd.service", 0o644, packaged("containerd.service"))
	t.Symlink(unitDir+"/containerd.service", "/etc/systemd/system/multi-user.target.wants/containerd.service")
	config := packaged("containerd-config.toml")
	if c.CgroupDriver == "cgroupfs" {
		config = bytes.Replace(config, []byte("SystemdCgroup = true"), []byte("SystemdCgroup = false"), 1)
	}
	t.Write("/etc/containerd/config.toml", 0o644, config)
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
