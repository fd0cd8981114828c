package packages

import "ckadrill/sim/userland/deb"

const dockerMaintainer = "Containerd team <help@containerd.io>"

// containerdVersions are the releases of containerd.io in Docker's repository.
var containerdVersions = []string{"2.4.1"}

func containerdOf(version string) string { return version + "-1~ubuntu.24.04~noble" }

// containerd is Docker's package of a release, with runc. As it comes, its configuration disables the CRI plugin.
func containerd(version string) archive {
	p := &deb.Package{
		Control: describe("containerd.io", containerdOf(version), "devel", dockerMaintainer, "libc6 (>= 2.34)", "https://containerd.io",
			"An open and reliable container runtime\n containerd is an industry-standard container runtime with an emphasis on\n simplicity, robustness and portability. It is available as a daemon for Linux\n and Windows, which can manage the complete container lifecycle of its host\n system.", 105_436),
		Entries: []deb.Entry{
			{Path: "/usr/bin/containerd", Mode: 0o755, Content: program("containerd", "")},
			{Path: "/usr/bin/containerd-shim-runc-v2", Mode: 0o755, Content: program("containerd-shim-runc-v2", "")},
			{Path: "/usr/bin/ctr", Mode: 0o755, Content: program("ctr", "")}, {Path: "/usr/bin/runc", Mode: 0o755, Content: program("runc", "")},
			{Path: unitDir + "/containerd.service", Mode: 0o644, Content: file("containerd.service")},
			{Path: "/etc/containerd/config.toml", Mode: 0o644, Content: file("containerd.io-config.toml")},
		},
		Info: unitScripts("containerd.service", true),
	}
	p.Control.Set("Provides", "containerd, runc")
	p.Control.Set("Conflicts", "containerd, runc")
	p.Control.Set("Replaces", "containerd, runc")
	p.Info["conffiles"] = "/etc/containerd/config.toml\n"
	p.Complete()
	return archive{p, 30_884_212}
}

func dockerArchives() (l []archive) {
	for _, v := range containerdVersions {
		l = append(l, containerd(v))
	}
	return l
}

// criDockerdVersions are the releases of cri-dockerd that github.com offers as packages for Ubuntu.
var criDockerdVersions = []string{"0.3.20", "0.3.21"}

// criDockerd is the package of a release, and the name of its file.
func criDockerd(version string) (archive, string) {
	p := &deb.Package{
		Control: describe("cri-dockerd", version+"~3-0~ubuntu-jammy", "admin", "Mirantis <support@mirantis.com>", "containerd (>= 1.2.2-3) | containerd.io (>= 1.2.2-3), iptables, libc6 (>= 2.34)", "https://www.mirantis.com",
			"cri-dockerd is a lightweight implementation of the CRI specification which talks to docker.", 42_868),
		Entries: []deb.Entry{
			{Path: "/usr/bin/cri-dockerd", Mode: 0o755, Content: program("cri-dockerd", version)},
			{Path: unitDir + "/cri-docker.service", Mode: 0o644, Content: file("cri-docker.service")}, {Path: unitDir + "/cri-docker.socket", Mode: 0o644, Content: file("cri-docker.socket")},
		},
		Info: unitScripts("cri-docker.service cri-docker.socket", true),
	}
	p.Complete()
	return archive{p, 11_420_560}, "cri-dockerd_" + version + ".3-0.ubuntu-jammy_amd64.deb"
}
