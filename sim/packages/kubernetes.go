package packages

import (
	"embed"
	"strconv"
	"strings"

	"ckadrill/sim/kernel"
	"ckadrill/sim/userland/deb"
)

// files are what packages bring, as it is.
//
//go:embed files
var files embed.FS

func file(name string) []byte {
	b, err := files.ReadFile("files/" + name)
	if err != nil {
		panic(err)
	}
	return b
}

// archive is a package in a repository. Its programs are small in the simulation: Size is what the archive of the real one
// takes, in bytes, which is told and costs time.
type archive struct {
	*deb.Package
	Size int64
}

const unitDir = "/usr/lib/systemd/system"

func program(name, version string) []byte {
	if version == "" {
		return kernel.Executable(name)
	}
	return kernel.VersionedExecutable(name, version)
}

// describe begins a package's control file. Installed is what it takes on a machine, in kilobytes.
func describe(name, version, section, maintainer, depends, homepage, summary string, installed int64) deb.Paragraph {
	p := deb.Paragraph{{Name: "Package", Value: name}, {Name: "Priority", Value: "optional"}, {Name: "Section", Value: section}, {Name: "Installed-Size", Value: strconv.FormatInt(installed, 10)},
		{Name: "Maintainer", Value: maintainer}, {Name: "Architecture", Value: "amd64"}, {Name: "Version", Value: version}}
	p.Set("Depends", depends)
	p.Set("Description", summary)
	p.Set("Homepage", homepage)
	return p
}

// kubernetes makes a package as Kubernetes' release engineering does (kubernetes/release, cmd/krel/templates).
func kubernetes(name, version, section, depends, summary string, size, installed int64, entries ...deb.Entry) archive {
	p := &deb.Package{
		Control: describe(name, version, section, "Kubernetes Authors <dev@kubernetes.io>", depends, "https://kubernetes.io", summary+"\n "+summary+".", installed),
		Info:    map[string]string{},
		Entries: append(entries, deb.Entry{Path: "/usr/share/doc/" + name + "/README.md", Mode: 0o644, Content: []byte("# " + name + "\n\n" + summary + ".\n")}),
	}
	p.Complete()
	return archive{p, size}
}

// Sizes are those of the archives of v1.35 for amd64, in bytes, and in kilobytes what is installed; other releases are
// given the same ones.
const (
	kubeletSize, kubeletInstalled = 12_947_604, 57_480
	kubeadmSize, kubeadmInstalled = 12_480_348, 71_148
	kubectlSize, kubectlInstalled = 11_689_436, 57_412
	cniSize, cniInstalled         = 39_912_040, 92_480
	criSize, criInstalled         = 16_214_308, 39_540
)

// kubelet is the package of a release. Its unit is enabled by it, but not started; an upgrade leaves the old kubelet running.
func kubelet(release string) archive {
	a := kubernetes("kubelet", Of(release), "net", "kubernetes-cni (>= 1.2.0), mount, util-linux", "Node agent for Kubernetes clusters", kubeletSize, kubeletInstalled,
		deb.Entry{Path: "/usr/bin/kubelet", Mode: 0o755, Content: program("kubelet", release)},
		deb.Entry{Path: unitDir + "/kubelet.service", Mode: 0o644, Content: file("kubelet.service")},
		deb.Entry{Path: "/etc/default/kubelet", Mode: 0o644, Content: []byte("KUBELET_EXTRA_ARGS=\n")},
		// dpkg-deb keeps no empty directories
		deb.Entry{Path: "/etc/kubernetes/manifests/.kubelet-keep", Mode: 0o644}, deb.Entry{Path: "/var/lib/kubelet/.kubelet-keep", Mode: 0o644},
	)
	a.Control.Set("Recommends", "iptables (>= 1.8.4)")
	a.Info["conffiles"] = "/etc/default/kubelet\n"
	for kind, text := range unitScripts("kubelet.service", false) {
		a.Info[kind] = strings.ReplaceAll(text, "enable $unit >/dev/null", "enable $unit >/dev/null 2>&1") // it says nothing of its link
	}
	return a
}

func kubeadm(release string) archive {
	return kubernetes("kubeadm", Of(release), "admin", "", "Command-line utility for administering a Kubernetes cluster", kubeadmSize, kubeadmInstalled,
		deb.Entry{Path: "/usr/bin/kubeadm", Mode: 0o755, Content: program("kubeadm", release)},
		deb.Entry{Path: unitDir + "/kubelet.service.d/10-kubeadm.conf", Mode: 0o644, Content: file("10-kubeadm.conf")})
}

func kubectl(release string) archive {
	return kubernetes("kubectl", Of(release), "admin", "", "Command-line utility for interacting with a Kubernetes cluster", kubectlSize, kubectlInstalled,
		deb.Entry{Path: "/usr/bin/kubectl", Mode: 0o755, Content: program("kubectl", release)})
}

func criToolsPackage(version string) archive {
	return kubernetes("cri-tools", version+revision, "admin", "", "Command-line utility for interacting with a container runtime", criSize, criInstalled,
		deb.Entry{Path: "/usr/bin/crictl", Mode: 0o755, Content: program("crictl", "v"+version)})
}

// plugins are the executables of the package kubernetes-cni.
var plugins = []string{"bandwidth", "bridge", "dhcp", "dummy", "firewall", "host-device", "host-local", "ipvlan", "loopback", "macvlan", "portmap", "ptp", "sbr", "static", "tap", "tuning", "vlan", "vrf"}

func cniPackage(version string) archive {
	l := []deb.Entry{{Path: "/etc/cni/net.d/.kubernetes-cni-keep", Mode: 0o644}, {Path: "/opt/cni/bin/README.md", Mode: 0o644, Content: []byte("# plugins\n\nSome CNI network plugins, maintained by the containernetworking team.\n")}}
	for _, p := range plugins {
		l = append(l, deb.Entry{Path: "/opt/cni/bin/" + p, Mode: 0o755, Content: program(p, "")})
	}
	return kubernetes("kubernetes-cni", version+revision, "net", "", "Binaries required to provision kubernetes container networking", cniSize, cniInstalled, l...)
}

// kubernetesArchives are the packages of one minor release's repository.
func kubernetesArchives(minor int) (l []archive) {
	for _, v := range criTools[minor] {
		l = append(l, criToolsPackage(v))
	}
	for _, v := range Releases(minor) {
		l = append(l, kubeadm(v), kubectl(v), kubelet(v))
	}
	for _, v := range cni[minor] {
		l = append(l, cniPackage(v))
	}
	return l
}
