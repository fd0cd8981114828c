package registry

import "fmt"

// baseImages are small systems: a shell and the everyday commands.
func baseImages() (l []*Image) {
	add := func(repository string, size int64, base string, cmd []string, env []string, tags ...string) {
		l = append(l, &Image{
			Repository: repository, Tags: tags, Size: size, Created: "2025-10-14T20:12:00Z",
			Config: Config{Env: append([]string{defaultPath}, env...), Cmd: cmd}, Base: []string{base},
		})
	}
	sh := []string{"sh"}
	add("docker.io/library/busybox", 2223659, "busybox", sh, nil, "latest", "stable", "1", "1.37", "1.37.0", "unstable", "stable-glibc", "glibc", "1.37-glibc")
	add("docker.io/library/busybox", 2156518, "busybox", sh, nil, "1.36", "1.36.1", "1.36-glibc")
	add("docker.io/library/busybox", 2592225, "busybox", sh, nil, "1.35", "1.35.0")
	add("docker.io/library/busybox", 801092, "busybox", sh, nil, "musl", "stable-musl", "1.37-musl")
	add("docker.io/library/busybox", 727869, "busybox", sh, nil, "1.28", "1.28.4")
	for _, v := range []int{29, 30, 31, 32, 33, 34} {
		add("docker.io/library/busybox", 770000+int64(v), "busybox", sh, nil, fmt.Sprintf("1.%d", v), fmt.Sprintf("1.%d.1", v))
	}
	shell := []string{"/bin/sh"}
	add("docker.io/library/alpine", 3799689, "alpine", shell, nil, "latest", "3", "3.22", "3.22.2")
	add("docker.io/library/alpine", 3642247, "alpine", shell, nil, "3.21", "3.21.5")
	add("docker.io/library/alpine", 3626897, "alpine", shell, nil, "3.20", "3.20.8")
	add("docker.io/library/alpine", 3419706, "alpine", shell, nil, "3.19", "3.19.9")
	add("docker.io/library/alpine", 3402422, "alpine", shell, nil, "3.18")
	add("docker.io/library/alpine", 2800000, "alpine", shell, nil, "3.12", "3.15", "3.16", "3.17")
	add("docker.io/library/ubuntu", 29727139, "debian", []string{"/bin/bash"}, nil, "latest", "24.04", "noble")
	add("docker.io/library/ubuntu", 29538030, "debian", []string{"/bin/bash"}, nil, "22.04", "jammy")
	add("docker.io/library/ubuntu", 27510000, "debian", []string{"/bin/bash"}, nil, "20.04", "focal")
	add("docker.io/library/debian", 49296320, "debian", []string{"bash"}, nil, "latest", "trixie", "13")
	add("docker.io/library/debian", 48489330, "debian", []string{"bash"}, nil, "bookworm", "12")
	add("docker.io/library/debian", 28230000, "debian", []string{"bash"}, nil, "bookworm-slim", "12-slim", "trixie-slim", "stable-slim")
	add("docker.io/nicolaka/netshoot", 201848217, "netshoot", []string{"zsh"}, nil, "latest", "v0.13", "v0.14")

	l = append(l, &Image{
		Repository: "docker.io/curlimages/curl", Tags: []string{"latest", "8.17.0", "8.16.0", "8.15.0", "8.14.1", "8.10.1", "8.8.0", "8.5.0", "7.88.1"}, Size: 9386425, Created: "2025-11-05T09:00:00Z",
		Config: Config{User: "curl_user", Env: []string{defaultPath, "CURL_CA_BUNDLE=/cacert.pem"}, Entrypoint: []string{"/entrypoint.sh"}, Cmd: []string{"curl"}, WorkingDir: "/home/curl_user"},
		Base:   []string{"alpine"},
		Files: []File{
			{Path: "/usr/bin/curl", Program: "curl"},
			{Path: "/entrypoint.sh", Mode: 0o755, Content: "#!/bin/sh\nset -eu\n\n# if our command is a valid curl subcommand, run it through curl instead\nif [ \"${1:0:1}\" = \"-\" ] || [ \"${1#http}\" != \"$1\" ]; then\n  set -- curl \"$@\"\nfi\n\nexec \"$@\"\n"},
			{Path: "/etc/passwd", Content: alpinePasswd + "curl_user:x:100:101:Linux User,,,:/home/curl_user:/sbin/nologin\n"},
			{Path: "/etc/group", Content: alpineGroup + "curl_group:x:101:curl_user\n"},
			{Path: "/home/curl_user", Mode: dir, UID: 100, GID: 101},
		},
	})
	for _, v := range []string{"1.35.0", "1.34.2"} {
		l = append(l, &Image{
			Repository: "docker.io/alpine/k8s", Tags: []string{v}, Size: 257000000, Created: "2025-12-18T10:00:00Z",
			Config: Config{Env: []string{defaultPath}, Cmd: []string{"bash"}, WorkingDir: "/apps"}, Base: []string{"alpine"},
			Files: []File{{Path: "/usr/bin/kubectl", Program: "kubectl", Version: "v" + v}, {Path: "/usr/bin/helm", Program: "helm"}, {Path: "/bin/bash", Program: "bash"},
				{Path: "/usr/bin/curl", Program: "curl"}, {Path: "/usr/bin/jq", Program: "jq"}, {Path: "/apps", Mode: dir}},
		})
	}
	l = append(l, &Image{
		Repository: "registry.k8s.io/e2e-test-images/jessie-dnsutils", Tags: []string{"1.3", "1.7"}, Size: 103000000, Created: "2022-01-20T00:00:00Z",
		Config: Config{Env: []string{defaultPath}, Cmd: []string{"/bin/bash"}}, Base: []string{"debian"},
		Files: []File{{Path: "/usr/bin/nslookup", Program: "nslookup"}, {Path: "/usr/bin/dig", Program: "dig"}, {Path: "/usr/bin/host", Program: "host"}, {Path: "/usr/bin/getent", Program: "getent"}},
	})
	return l
}
