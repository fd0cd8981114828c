package packages

import "ckadrill/sim/userland/deb"

const dockerMaintainer = "Containerd team <help@containerd.io>"

// ContainerdVersion is the release of containerd.io in Docker's repository.
const ContainerdVersion = "2.4.1"

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

// dockerVersion is the release of Docker's engine in its repository.
const dockerVersion = "29.1.3"

// dockerEngine are the packages of Docker's daemon and of its command line.
func dockerEngine() []archive {
	version := "5:" + dockerVersion + "-1~ubuntu.24.04~noble"
	describe := func(name, depends, summary string, installed int64) deb.Paragraph {
		return describe(name, version, "admin", "Docker <support@docker.com>", depends, "https://www.docker.com", summary, installed)
	}
	engine := &deb.Package{
		Control: describe("docker-ce", "containerd.io (>= 2.1.5), docker-ce-cli, iptables, libc6 (>= 2.34)", "Docker: the open-source application container engine\n Docker is a product for you to build, ship and run any application as a\n lightweight container", 92_180),
		Entries: []deb.Entry{
			{Path: "/usr/bin/dockerd", Mode: 0o755, Content: program("dockerd", dockerVersion)},
			{Path: unitDir + "/docker.service", Mode: 0o644, Content: file("docker.service")}, {Path: unitDir + "/docker.socket", Mode: 0o644, Content: file("docker.socket")},
		},
		Info: unitScripts("docker.service docker.socket", true),
	}
	engine.Info["preinst"] = "#!/bin/sh\nset -e\ngetent group docker >/dev/null || echo 'docker:x:988:' >> /etc/group\n"
	cli := &deb.Package{
		Control: describe("docker-ce-cli", "libc6 (>= 2.34)", "Docker CLI: the open-source application container engine\n Docker is a product for you to build, ship and run any application as a\n lightweight container", 36_320),
		Entries: []deb.Entry{{Path: "/usr/bin/docker", Mode: 0o755, Content: program("docker", dockerVersion)}}, Info: map[string]string{},
	}
	engine.Complete()
	cli.Complete()
	return []archive{{engine, 21_034_112}, {cli, 16_384_820}}
}

func dockerArchives() []archive {
	return append([]archive{containerd(ContainerdVersion)}, dockerEngine()...)
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
