package registry

import "io/fs"

// sampleImages are the small servers and tools that the documentation of Kubernetes and drills use.
func sampleImages() []*Image {
	image := func(repository string, size int64, base string, c Config, files []File, tags ...string) *Image {
		c.Env = append([]string{defaultPath}, c.Env...)
		i := &Image{Repository: repository, Tags: tags, Size: size, Created: "2024-05-02T10:00:00Z", Config: c, Files: files}
		if base != "" {
			i.Base = []string{base}
		}
		return i
	}
	slim := func(version, tag string) *Image {
		i := nginx(version, 38500000, "debian-slim", tag)
		i.Repository = "registry.k8s.io/nginx-slim"
		i.Config.Entrypoint = nil
		return i
	}
	// The image that Kubernetes' own suites run for a real nginx.
	e2e := func(version, name, tag string) *Image {
		i := nginx(version, 6900000, "alpine", tag)
		i.Repository = "registry.k8s.io/e2e-test-images/" + name
		return i
	}
	// The images of the update demo: test-webserver of agnhost, and a file that says which of them it is.
	demo := func(name string) *Image {
		return image("registry.k8s.io/e2e-test-images/"+name, 49000000, "alpine", Config{Entrypoint: []string{"/agnhost", "test-webserver"}, ExposedPorts: ports("80/tcp")},
			[]File{{Path: "/agnhost", Program: "agnhost", Version: "2.20"}, {Path: "/data.json", Content: "{\n    \"image\": \"" + name + ".jpg\"\n}\n"}}, "1.7")
	}
	return []*Image{
		image("docker.io/polinux/stress", 4040000, "alpine", Config{}, []File{{Path: "/usr/local/bin/stress", Program: "stress"}}, "latest", "1.0.4"),
		image("docker.io/vish/stress", 1600000, "", Config{Entrypoint: []string{"/stress"}}, []File{{Path: "/stress", Program: "vish-stress"}}, "latest"),
		image("docker.io/hashicorp/http-echo", 2800000, "distroless", Config{Entrypoint: []string{"/http-echo"}, ExposedPorts: ports("5678/tcp")}, []File{{Path: "/http-echo", Program: "http-echo"}}, "latest", "1.0", "1.0.0", "0.2.3"),
		image("docker.io/library/hello-world", 2400, "", Config{Cmd: []string{"/hello"}}, []File{{Path: "/hello", Program: "hello-world"}}, "latest", "linux"),
		image("gcr.io/google-samples/hello-app", 4300000, "distroless", Config{Entrypoint: []string{"./hello-app"}, Env: []string{"PORT=8080"}}, []File{{Path: "/hello-app", Program: "hello-app", Version: "1.0.0"}}, "1.0"),
		image("gcr.io/google-samples/hello-app", 4300001, "distroless", Config{Entrypoint: []string{"./hello-app"}, Env: []string{"PORT=8080"}}, []File{{Path: "/hello-app", Program: "hello-app", Version: "2.0.0"}}, "2.0"),
		image("docker.io/traefik/whoami", 3000000, "", Config{Entrypoint: []string{"/whoami"}, ExposedPorts: ports("80/tcp")}, []File{{Path: "/whoami", Program: "whoami-server"}}, "latest", "v1.10", "v1.11"),
		image("registry.k8s.io/hpa-example", 160000000, "debian", Config{Cmd: []string{"apache2-foreground"}, ExposedPorts: ports("80/tcp")}, []File{{Path: "/usr/local/bin/apache2-foreground", Program: "hpa-example"}}, "latest"),
		image("registry.k8s.io/busybox", 775157, "busybox", Config{Cmd: []string{"sh"}}, nil, "latest", "1.24", "1.27", "1.27.2"),
		image("registry.k8s.io/e2e-test-images/busybox", 732569, "busybox", Config{Cmd: []string{"sh"}}, nil, "1.29-2", "1.29-4", "1.36.1-1", "1.37.0-1"),
		image("registry.k8s.io/e2e-test-images/nonewprivs", 748000, "busybox", Config{Cmd: []string{"nnp"}}, []File{{Path: "/usr/local/bin/nnp", Program: "nnp", Mode: 0o755 | fs.ModeSetuid}}, "1.3"),
		image("registry.k8s.io/e2e-test-images/nonroot", 20000000, "busybox", Config{User: "1234", Cmd: []string{"sh"}}, nil, "1.4"),
		e2e("1.14.2", "nginx", "1.14-4"), e2e("1.15.12", "nginx", "1.15-4"),
		demo("nautilus"), demo("kitten"),
		slim("1.11.4", "0.8"), slim("1.21.6", "0.21"), slim("1.27.1", "0.24"),
	}
}
