package registry

import (
	"slices"
	"sync"
)

// StandIns is the catalogue of the registry that the recordings of a real cluster were made with. The images of the system
// are the real ones; busybox, nginx, httpd, redis and alpine are one busybox, each with the right entrypoint and ports, and
// say nothing when they start.
var StandIns = sync.OnceValue(func() *Catalogue {
	l := systemImages()
	for _, i := range slices.Concat(baseImages(), serverImages()) {
		if s := standIn(i); s != nil {
			l = append(l, s)
		}
	}
	return New(l...)
})

const (
	standInSize    = 1568340
	standInCreated = "2026-01-01T00:00:00Z"
	// quietNginx serves what the real one does and logs nothing.
	quietNginx = "error_log /dev/null crit;\nevents {}\nhttp {\n    include /etc/nginx/mime.types;\n    access_log off;\n    include /etc/nginx/conf.d/*.conf;\n}\n"
)

// standIn is the image that stood in for a real one; nil if none did.
func standIn(i *Image) *Image {
	s := *i
	s.Size, s.Created, s.Base = standInSize, standInCreated, []string{"busybox"}
	s.Config.Env, s.Config.Labels = []string{defaultPath}, nil
	root := []File{{Path: "/etc/passwd", Content: "root:x:0:0:root:/root:/bin/sh\n"}, {Path: "/etc/group", Content: "root:x:0:\n"}}
	switch i.Repository {
	case "docker.io/library/busybox", "docker.io/library/alpine":
		s.Files = root
	case "docker.io/library/nginx":
		s.Files = slices.DeleteFunc(slices.Clone(i.Files), func(f File) bool {
			return slices.Contains([]string{"/docker-entrypoint.sh", "/etc/nginx/nginx.conf", "/etc/passwd", "/etc/group", "/usr/bin/curl"}, f.Path)
		})
		s.Files = append(s.Files, root...)
		s.Files = append(s.Files, File{Path: "/docker-entrypoint.sh", Mode: 0o755, Content: "#!/bin/sh\nexec \"$@\"\n"}, File{Path: "/etc/nginx/nginx.conf", Content: quietNginx})
	case "docker.io/library/httpd", "docker.io/library/redis":
		s.Files = append(slices.Clone(i.Files), root...)
	default:
		return nil
	}
	return &s
}
