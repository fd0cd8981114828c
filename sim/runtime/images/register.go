// Package images holds the programs of well-known container images: what nginx, httpd, redis and the rest do when their
// executables run. Which images exist is data of package registry.
package images

import "ckadrill/sim/kernel"

// Register adds the programs of all known images, except those that other rooms own (the control plane's, etcd, CoreDNS,
// the CNI's, the shell and its commands).
func Register(ps *kernel.Programs) {
	ps.Register("pause", pause)
	ps.Register("go-runner", goRunner)
	ps.Register("nginx", nginx)
	ps.Register("nginx-entrypoint", nginxEntrypoint)
	ps.Register("apache-httpd", httpd)
	ps.Register("redis-server", redisServer)
	ps.Register("redis-cli", redisCLI)
	ps.Register("agnhost", agnhost)
	ps.Register("nnp", noNewPrivileges)
	ps.Register("stress", stress)
	ps.Register("vish-stress", vishStress)
	ps.Register("http-echo", httpEcho)
	ps.Register("hello-app", helloApp)
	ps.Register("whoami-server", whoamiServer)
	ps.Register("hpa-example", hpaExample)
	ps.Register("hello-world", helloWorld)
}
