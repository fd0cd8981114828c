package registry

import (
	"maps"
	"slices"
)

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }

// serverImages are the servers that drills run.
func serverImages() (l []*Image) {
	for _, v := range []struct {
		version string
		size    int64
		tags    []string
	}{
		{"1.29.4", 59795293, []string{"latest", "1", "1.29", "1.29.4", "mainline", "trixie"}},
		{"1.28.0", 72404038, []string{"stable", "1.28", "1.28.0", "stable-bookworm"}},
		{"1.27.5", 72406859, []string{"1.27", "1.27.5", "1.27-bookworm"}},
		{"1.27.0", 71005258, []string{"1.27.0"}}, {"1.27.1", 71013284, []string{"1.27.1"}}, {"1.27.2", 72950530, []string{"1.27.2"}}, {"1.27.3", 72099501, []string{"1.27.3"}}, {"1.27.4", 72195292, []string{"1.27.4"}},
		{"1.26.3", 72195411, []string{"1.26", "1.26.3"}},
		{"1.26.0", 71006000, []string{"1.26.0"}},
		{"1.25.5", 70990811, []string{"1.25", "1.25.5"}},
		{"1.25.3", 70544635, []string{"1.25.3"}}, {"1.25.0", 57231890, []string{"1.25.0"}},
		{"1.24.0", 56817201, []string{"1.24", "1.24.0"}},
		{"1.23.4", 56881232, []string{"1.23", "1.23.4"}},
		{"1.22.1", 56799817, []string{"1.22", "1.22.1"}},
		{"1.21.6", 56744612, []string{"1.21", "1.21.6"}},
		{"1.20.2", 53686591, []string{"1.20", "1.20.2"}},
		{"1.19.10", 53605781, []string{"1.19", "1.19.10"}},
		{"1.18.0", 53614420, []string{"1.18", "1.18.0"}},
		{"1.17.10", 51030575, []string{"1.17", "1.17.10"}},
		{"1.16.1", 50732240, []string{"1.16", "1.16.1"}},
		{"1.15.12", 50960000, []string{"1.15", "1.15.12"}},
		{"1.14.2", 44710204, []string{"1.14", "1.14.2"}},
		{"1.7.9", 39940010, []string{"1.7.9"}},
	} {
		l = append(l, withCurl(nginx(v.version, v.size, "debian-slim", v.tags...)))
	}
	for _, v := range []struct {
		version string
		size    int64
		tags    []string
	}{
		{"1.29.4", 22631814, []string{"alpine", "1.29-alpine", "mainline-alpine", "1-alpine", "1.29.4-alpine"}},
		{"1.28.0", 20534112, []string{"stable-alpine", "1.28-alpine", "1.28.0-alpine"}},
		{"1.27.5", 20984017, []string{"1.27-alpine", "1.27.5-alpine"}},
		{"1.26.3", 19953220, []string{"1.26-alpine"}},
		{"1.25.5", 18055210, []string{"1.25-alpine"}},
		{"1.24.0", 16800210, []string{"1.24-alpine"}},
		{"1.23.4", 16700210, []string{"1.23-alpine"}},
		{"1.22.1", 10170210, []string{"1.22-alpine"}},
		{"1.21.6", 10170636, []string{"1.21-alpine", "1.21.6-alpine"}},
		{"1.19.10", 9901420, []string{"1.19-alpine"}},
	} {
		l = append(l, withCurl(nginx(v.version, v.size, "alpine", v.tags...)))
	}
	l = append(l, nginx("1.29.4", 5380210, "alpine", "alpine-slim", "1.29-alpine-slim", "mainline-alpine-slim", "1-alpine-slim", "1.29.4-alpine-slim"))
	for _, v := range []struct {
		base string
		size int64
		tags []string
	}{
		{"debian-slim", 45213470, []string{"latest", "2", "2.4", "2.4.65", "2.4-bookworm"}},
		{"alpine", 19600120, []string{"alpine", "2-alpine", "2.4-alpine"}},
		{"debian-slim", 45100000, []string{"2.4.46", "2.4.41", "2.4.57", "2.4.58", "2.4.62", "2.4.63"}},
	} {
		l = append(l, &Image{
			Repository: "docker.io/library/httpd", Tags: v.tags, Size: v.size, Created: "2025-10-21T00:11:31Z",
			Config: Config{Env: []string{"PATH=/usr/local/apache2/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HTTPD_PREFIX=/usr/local/apache2", "HTTPD_VERSION=2.4.65"},
				Cmd: []string{"httpd-foreground"}, WorkingDir: "/usr/local/apache2", ExposedPorts: ports("80/tcp"), StopSignal: "SIGWINCH"},
			Base: []string{v.base},
			Files: []File{
				{Path: "/usr/local/apache2/bin/httpd", Program: "apache-httpd", Version: "2.4.65"},
				{Path: "/usr/local/bin/httpd-foreground", Mode: 0o755, Content: "#!/bin/sh\nset -e\n\n# Apache gets grumpy about PID files pre-existing\nrm -f /usr/local/apache2/logs/httpd.pid\n\nexec httpd -DFOREGROUND \"$@\"\n"},
				{Path: "/usr/local/apache2/conf/httpd.conf", Content: httpdConf}, {Path: "/usr/local/apache2/htdocs/index.html", Content: "<html><body><h1>It works!</h1></body></html>\n"},
				{Path: "/usr/local/apache2/logs", Mode: dir}, {Path: "/usr/local/apache2/cgi-bin", Mode: dir},
			},
		})
	}
	for _, v := range []struct {
		version, base string
		size          int64
		tags          []string
	}{
		{"8.4.0", "debian-slim", 52200110, []string{"latest", "8", "8.4", "8.4.0", "bookworm"}},
		{"8.4.0", "alpine", 22400110, []string{"alpine", "8-alpine", "8.4-alpine"}},
		{"7.4.7", "debian-slim", 45100110, []string{"7", "7.4", "7.4.7"}},
		{"7.4.7", "alpine", 17100110, []string{"7-alpine", "7.4-alpine"}},
		{"7.2.11", "debian-slim", 45000110, []string{"7.2", "7.2.11"}},
		{"7.0.15", "debian-slim", 43000110, []string{"7.0", "7.0.15"}},
		{"6.2.20", "debian-slim", 41000110, []string{"6", "6.2", "6.2.20"}},
		{"6.2.20", "alpine", 12000110, []string{"6-alpine", "6.2-alpine"}},
		{"5.0.14", "debian-slim", 36000110, []string{"5", "5.0", "5.0.4", "5.0.14"}},
	} {
		l = append(l, &Image{
			Repository: "docker.io/library/redis", Tags: v.tags, Size: v.size, Created: "2025-11-18T01:20:00Z",
			Config: Config{Env: []string{defaultPath, "REDIS_VERSION=" + v.version}, Entrypoint: []string{"docker-entrypoint.sh"}, Cmd: []string{"redis-server"}, WorkingDir: "/data", ExposedPorts: ports("6379/tcp")},
			Base:   []string{v.base},
			Files: []File{
				{Path: "/usr/local/bin/redis-server", Program: "redis-server", Version: v.version}, {Path: "/usr/local/bin/redis-cli", Program: "redis-cli", Version: v.version},
				{Path: "/usr/local/bin/docker-entrypoint.sh", Mode: 0o755, Content: redisEntrypoint}, {Path: "/data", Mode: dir, UID: 999, GID: 999},
				{Path: "/etc/passwd", Content: passwdOf(v.base) + "redis:x:999:999::/home/redis:/bin/sh\n"}, {Path: "/etc/group", Content: groupOf(v.base) + "redis:x:999:\n"},
			},
		})
	}
	for _, tag := range []string{"2.39", "2.40", "2.43", "2.45", "2.47", "2.48", "2.52", "2.53", "2.55", "2.56", "2.57", "2.59"} {
		l = append(l, &Image{
			Repository: "registry.k8s.io/e2e-test-images/agnhost", Tags: []string{tag}, Size: 54021345, Created: "2025-06-11T10:00:00Z",
			Config: Config{Env: []string{defaultPath}, Entrypoint: []string{"/agnhost"}, Cmd: []string{"pause"}, ExposedPorts: ports("80/tcp", "8080/tcp", "8081/tcp", "9376/tcp", "5000/tcp")},
			Base:   []string{"alpine"},
			Files: []File{{Path: "/agnhost", Program: "agnhost", Version: tag}, {Path: "/usr/local/bin/curl", Program: "curl"}, {Path: "/usr/local/bin/dig", Program: "dig"}, {Path: "/usr/bin/nc", Program: "nc"}, {Path: "/usr/sbin/ss", Program: "ss"}, {Path: "/bin/bash", Program: "bash"}, {Path: "/agnhost-2", Program: "agnhost", Version: tag}, {Path: "/uploads", Mode: dir}, {Path: "/usr/bin/getent", Program: "getent"},
				{Path: "/localhost.crt", Content: localhostCert}, {Path: "/localhost.key", Content: localhostKey}},
		})
	}
	return l
}

func passwdOf(base string) string {
	if base == "alpine" {
		return alpinePasswd
	}
	return debianPasswd
}

func groupOf(base string) string {
	if base == "alpine" {
		return alpineGroup
	}
	return debianGroup
}

func nginx(version string, size int64, base string, tags ...string) *Image {
	files := []File{
		{Path: "/usr/sbin/nginx", Program: "nginx", Version: version},
		{Path: "/etc/nginx/nginx.conf", Content: nginxConf}, {Path: "/etc/nginx/conf.d/default.conf", Content: nginxDefaultConf}, {Path: "/etc/nginx/mime.types", Content: nginxMimeTypes},
		{Path: "/usr/share/nginx/html/index.html", Content: nginxIndex}, {Path: "/usr/share/nginx/html/50x.html", Content: nginx50x},
		{Path: "/var/log/nginx/access.log", Link: "/dev/stdout"}, {Path: "/var/log/nginx/error.log", Link: "/dev/stderr"},
		{Path: "/var/cache/nginx", Mode: dir}, {Path: "/var/run", Mode: dir}, {Path: "/run", Mode: dir},
		{Path: "/etc/passwd", Content: passwdOf(base) + "nginx:x:101:101:nginx user:/nonexistent:/bin/false\n"}, {Path: "/etc/group", Content: groupOf(base) + "nginx:x:101:\n"},
		{Path: "/docker-entrypoint.sh", Program: "nginx-entrypoint"}, {Path: "/docker-entrypoint.d/10-listen-on-ipv6-by-default.sh", Mode: 0o755, Content: "#!/bin/sh\n"},
		{Path: "/docker-entrypoint.d/15-local-resolvers.envsh", Mode: 0o755, Content: "#!/bin/sh\n"}, {Path: "/docker-entrypoint.d/20-envsubst-on-templates.sh", Mode: 0o755, Content: "#!/bin/sh\n"},
		{Path: "/docker-entrypoint.d/30-tune-worker-processes.sh", Mode: 0o755, Content: "#!/bin/sh\n"},
	}
	return &Image{
		Repository: "docker.io/library/nginx", Tags: tags, Size: size, Created: "2025-10-28T21:48:54Z",
		Config: Config{Env: []string{defaultPath, "NGINX_VERSION=" + version, "PKG_RELEASE=1~bookworm"}, Entrypoint: []string{"/docker-entrypoint.sh"}, Cmd: []string{"nginx", "-g", "daemon off;"},
			ExposedPorts: ports("80/tcp"), StopSignal: "SIGQUIT", Labels: map[string]string{"maintainer": "NGINX Docker Maintainers <docker-maint@nginx.com>"}},
		Base: []string{base}, Files: files,
	}
}

func withCurl(i *Image) *Image {
	i.Files = append(i.Files, File{Path: "/usr/bin/curl", Program: "curl"})
	return i
}
