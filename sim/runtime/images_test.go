package runtime

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strings"
	"testing"
	"time"

	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"ckadrill/sim/kernel"
)

// serve starts a container of an image in a Pod of its own, with files of the machine mounted into it.
func (n *node) serve(ctx context.Context, r internalapi.RuntimeService, name, image string, mounts map[string]string, change func(*runtimeapi.ContainerConfig)) string {
	n.t.Helper()
	n.c.AddImage(image)
	_, id, err := run(ctx, r, name, func(c *runtimeapi.ContainerConfig) {
		c.Image, c.Command = &runtimeapi.ImageSpec{Image: image}, nil
		for target, text := range mounts {
			source := "/srv/" + name + strings.ReplaceAll(target, "/", "_")
			n.m.Files(kernel.Root).WriteFile(source, []byte(text), 0o644)
			c.Mounts = append(c.Mounts, &runtimeapi.Mount{ContainerPath: target, HostPath: source})
		}
		if change != nil {
			change(c)
		}
	})
	if err != nil {
		n.t.Fatalf("%s: %v", name, err)
	}
	time.Sleep(time.Second)
	return id
}

// logOf is a container's log without the times.
func (n *node) logOf(name string) string {
	b, _ := n.m.Files(kernel.Root).ReadFile("/var/log/pods/default_" + name + "_uid-" + name + "/" + name + "/0.log")
	return regexp.MustCompile(`(?m)^\S+ (stdout|stderr) `).ReplaceAllString(string(b), "$1 ")
}

// get fetches a page from the machine.
func (n *node) get(url string) (int, string, http.Header) {
	n.t.Helper()
	c := &http.Client{Transport: &http.Transport{DisableKeepAlives: true, DialContext: n.client.Dial}, CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := c.Get(url)
	if err != nil {
		return 0, err.Error(), nil
	}
	defer res.Body.Close()
	b, _ := io.ReadAll(res.Body)
	return res.StatusCode, string(b), res.Header
}

func TestNginxServes(t *testing.T) {
	inNode(t, func(n *node) {
		n.as(func(ctx context.Context, r *RuntimeClient, _ internalapi.ImageManagerService) {
			id := n.serve(ctx, r, "web", "nginx:1.27", map[string]string{"/new.conf": "server { listen 8080; location / { return 200 \"from $hostname\"; } }\n"}, nil)
			code, body, h := n.get("http://10.244.1.2/")
			if code != 200 || !strings.Contains(body, "<h1>Welcome to nginx!</h1>") || h.Get("Server") != "nginx/1.27.5" || h.Get("Content-Type") != "text/html" {
				t.Errorf("%d %s %v", code, body, h)
			}
			if code, body, _ := n.get("http://10.244.1.2/nosuch"); code != 404 || body != "<html>\r\n<head><title>404 Not Found</title></head>\r\n<body>\r\n<center><h1>404 Not Found</h1></center>\r\n<hr><center>nginx/1.27.5</center>\r\n</body>\r\n</html>\r\n" {
				t.Errorf("%d %q", code, body)
			}
			log := n.logOf("web")
			for _, want := range []string{
				"stdout F /docker-entrypoint.sh: /docker-entrypoint.d/ is not empty, will attempt to perform configuration\n",
				"stdout F 10-listen-on-ipv6-by-default.sh: info: Enabled listen on IPv6 in /etc/nginx/conf.d/default.conf\n",
				"stdout F /docker-entrypoint.sh: Configuration complete; ready for start up\nstderr F 2000/01/01 00:00:00 [notice] 1#1: using the \"epoll\" event method\n",
				"[notice] 1#1: nginx/1.27.5\n", "[notice] 1#1: start worker process 2\n",
				"stdout F 10.244.1.1 - - [01/Jan/2000:00:00:01 +0000] \"GET / HTTP/1.1\" 200 615 \"-\" \"Go-http-client/1.1\" \"-\"\n",
				"*2 open() \"/usr/share/nginx/html/nosuch\" failed (2: No such file or directory), client: 10.244.1.1, server: localhost, request: \"GET /nosuch HTTP/1.1\", host: \"10.244.1.2\"\n",
			} {
				if !strings.Contains(log, want) {
					t.Errorf("no %q in\n%s", want, log)
				}
			}
			var out strings.Builder
			if code, err := r.ExecInContainer(ctx, Exec{Container: id, Cmd: []string{"nginx", "-t"}, Stderr: &out}); err != nil || code != 0 || out.String() != "nginx: the configuration file /etc/nginx/nginx.conf syntax is ok\nnginx: configuration file /etc/nginx/nginx.conf test is successful\n" {
				t.Errorf("nginx -t: %d %v %q", code, err, out.String())
			}
			if code, err := r.ExecInContainer(ctx, Exec{Container: id, Cmd: []string{"sh", "-c", "copy /new.conf /etc/nginx/conf.d/default.conf"}}); err != nil || code != 0 {
				t.Errorf("copy: %d %v", code, err)
			}
			if code, err := r.ExecInContainer(ctx, Exec{Container: id, Cmd: []string{"nginx", "-s", "reload"}}); err != nil || code != 0 {
				t.Errorf("reload: %d %v", code, err)
			}
			time.Sleep(time.Second)
			if code, body, _ := n.get("http://10.244.1.2:8080/x"); code != 200 || body != "from web" {
				t.Errorf("%d %q", code, body)
			}
			if _, body, _ := n.get("http://10.244.1.2/"); !strings.Contains(body, "connection refused") {
				t.Errorf("the old port: %q", body)
			}
			start := time.Now()
			if err := r.StopContainer(ctx, id, 30); err != nil {
				t.Error(err)
			}
			st, _ := r.ContainerStatus(ctx, id, false)
			if st.Status.ExitCode != 0 || time.Since(start) > time.Second || !strings.Contains(n.logOf("web"), "[notice] 1#1: signal 3 (SIGQUIT) received, shutting down\n") {
				t.Errorf("%v\n%s", st.Status, n.logOf("web"))
			}
		})
	})
}

func TestNginxRefusesToStart(t *testing.T) {
	inNode(t, func(n *node) {
		n.as(func(ctx context.Context, r *RuntimeClient, _ internalapi.ImageManagerService) {
			for _, c := range []struct{ name, conf, want string }{
				{"word", "server {\n  listen 80;\n  lisen 81;\n}\n", `nginx: [emerg] unknown directive "lisen" in /etc/nginx/conf.d/default.conf:3`},
				{"brace", "server {\n  listen 80;\n", `nginx: [emerg] unexpected end of file, expecting "}" in /etc/nginx/conf.d/default.conf:2`},
				{"semicolon", "server {\n  listen 80\n}\n", `nginx: [emerg] unexpected "}" in /etc/nginx/conf.d/default.conf:3`},
				{"place", "listen 80;\n", `nginx: [emerg] "listen" directive is not allowed here in /etc/nginx/conf.d/default.conf:1`},
				{"port", "server {\n listen 99999;\n}\n", `nginx: [emerg] invalid port in "99999" of the "listen" directive in /etc/nginx/conf.d/default.conf:2`},
				{"upstream", "server {\n location / {\n  proxy_pass http://nosuch;\n }\n}\n", `nginx: [emerg] host not found in upstream "nosuch" in /etc/nginx/conf.d/default.conf:3`},
			} {
				id := n.serve(ctx, r, c.name, "nginx:1.27", map[string]string{"/etc/nginx/conf.d/default.conf": c.conf}, nil)
				time.Sleep(time.Minute)
				st, _ := r.ContainerStatus(ctx, id, false)
				if log := n.logOf(c.name); st.Status.ExitCode != 1 || !strings.Contains(log, "stderr F "+c.want+"\n") {
					t.Errorf("%s: %v\n%s", c.name, st.Status, log)
				}
			}
			id := n.serve(ctx, r, "readonly", "nginx:1.27", nil, func(c *runtimeapi.ContainerConfig) { c.Linux.SecurityContext.ReadonlyRootfs = true })
			st, _ := r.ContainerStatus(ctx, id, false)
			if log := n.logOf("readonly"); st.Status.ExitCode != 1 || !strings.Contains(log, `nginx: [emerg] mkdir() "/var/cache/nginx/client_temp" failed (30: Read-only file system)`) || !strings.Contains(log, "can not modify /etc/nginx/conf.d/default.conf (read-only file system?)") {
				t.Errorf("%v\n%s", st.Status, log)
			}
			id = n.serve(ctx, r, "user", "nginx:1.27", nil, func(c *runtimeapi.ContainerConfig) {
				c.Linux.SecurityContext.RunAsUser = &runtimeapi.Int64Value{Value: 1000}
			})
			st, _ = r.ContainerStatus(ctx, id, false)
			if log := n.logOf("user"); st.Status.ExitCode != 1 || !strings.Contains(log, `nginx: [emerg] mkdir() "/var/cache/nginx/client_temp" failed (13: Permission denied)`) {
				t.Errorf("%v\n%s", st.Status, log)
			}
		})
	})
}

func TestNginxProxies(t *testing.T) {
	inNode(t, func(n *node) {
		n.as(func(ctx context.Context, r *RuntimeClient, _ internalapi.ImageManagerService) {
			n.serve(ctx, r, "httpd", "httpd:2.4", nil, func(c *runtimeapi.ContainerConfig) { c.Command = []string{"httpd", "-DFOREGROUND"} })
			if code, body, h := n.get("http://10.244.1.2/"); code != 200 || body != "<html><body><h1>It works!</h1></body></html>\n" || h.Get("Server") != "Apache/2.4.65 (Unix)" {
				t.Errorf("%d %q %v", code, body, h)
			}
			if log := n.logOf("httpd"); !strings.Contains(log, "AH00558: httpd: Could not reliably determine the server's fully qualified domain name, using 10.244.1.2.") || !strings.Contains(log, "\"GET / HTTP/1.1\" 200 45\n") {
				t.Error(log)
			}
			conf := "upstream back { server 10.244.1.9; server 10.244.1.2; }\nserver { listen 80; root /usr/share/nginx/html;\n location /app/ { proxy_pass http://back/; }\n location = /old { return 301 /new; } location /static { try_files $uri /index.html; } }"
			n.serve(ctx, r, "proxy", "nginx:1.29-alpine", map[string]string{"/etc/nginx/conf.d/default.conf": conf}, nil)
			for range 2 { // the second server answers for the one that does not exist
				if code, body, _ := n.get("http://10.244.1.3/app/"); code != 200 || !strings.Contains(body, "It works!") {
					t.Errorf("%d %q", code, body)
				}
			}
			if code, _, h := n.get("http://10.244.1.3/old"); code != 301 || h.Get("Location") != "http://10.244.1.3/new" {
				t.Errorf("%d %v", code, h)
			}
			if code, body, _ := n.get("http://10.244.1.3/static/x"); code != 200 || !strings.Contains(body, "Welcome to nginx!") {
				t.Errorf("%d %q", code, body)
			}
		})
	})
}

func TestRedis(t *testing.T) {
	inNode(t, func(n *node) {
		n.as(func(ctx context.Context, r *RuntimeClient, _ internalapi.ImageManagerService) {
			id := n.serve(ctx, r, "redis", "redis:7", nil, func(c *runtimeapi.ContainerConfig) { c.Command = []string{"redis-server", "--requirepass", "pw"} })
			cli := func(words ...string) string {
				var out strings.Builder
				if _, err := r.ExecInContainer(ctx, Exec{Container: id, Cmd: append([]string{"redis-cli", "--no-auth-warning", "-a", "pw"}, words...), Stdout: &out, Stderr: &out}); err != nil {
					t.Error(err)
				}
				return out.String()
			}
			for _, c := range [][2]string{{"ping", "PONG\n"}, {"set a 5", "OK\n"}, {"get a", "5\n"}, {"incr a", "6\n"}, {"get nosuch", "\n"}, {"rpush l x y", "2\n"}, {"lrange l 0 -1", "x\ny\n"}, {"get l", "WRONGTYPE Operation against a key holding the wrong kind of value\n\n"}} {
				if out := cli(strings.Fields(c[0])...); out != c[1] {
					t.Errorf("%s: %q", c[0], out)
				}
			}
			conn, err := n.client.Dial(ctx, "tcp", "10.244.1.2:6379")
			if err != nil {
				t.Fatal(err)
			}
			fmt.Fprintf(conn, "PING\r\n")
			if line, _ := bufio.NewReader(conn).ReadString('\n'); line != "-NOAUTH Authentication required.\r\n" {
				t.Errorf("%q", line)
			}
			conn.Close()
			r.StopContainer(ctx, id, 30)
			log := n.logOf("redis")
			for _, want := range []string{"* Ready to accept connections tcp\n", "Received SIGTERM scheduling shutdown...\n", "# Redis is now ready to exit, bye bye...\n"} {
				if !strings.Contains(log, want) {
					t.Errorf("no %q in\n%s", want, log)
				}
			}
		})
	})
}

func TestSamples(t *testing.T) {
	inNode(t, func(n *node) {
		n.as(func(ctx context.Context, r *RuntimeClient, _ internalapi.ImageManagerService) {
			n.serve(ctx, r, "echo", "hashicorp/http-echo", nil, func(c *runtimeapi.ContainerConfig) { c.Args = []string{"-text=apple"} })
			if code, body, _ := n.get("http://10.244.1.2:5678/"); code != 200 || body != "apple\n" {
				t.Errorf("%d %q", code, body)
			}
			n.serve(ctx, r, "hello", "gcr.io/google-samples/hello-app:2.0", nil, nil)
			if _, body, _ := n.get("http://10.244.1.3:8080/"); body != "Hello, world!\nVersion: 2.0.0\nHostname: hello\n" {
				t.Errorf("%q", body)
			}
			id := n.serve(ctx, r, "mem", "polinux/stress", nil, func(c *runtimeapi.ContainerConfig) {
				c.Command, c.Args = []string{"stress"}, []string{"--vm", "1", "--vm-bytes", "250M", "--vm-hang", "1"}
				c.Linux.Resources.MemoryLimitInBytes = 100 << 20
			})
			st, err := r.ContainerStatus(ctx, id, false)
			if err != nil || st.Status.ExitCode != 137 || st.Status.Reason != "OOMKilled" {
				t.Errorf("%v %v", st, err)
			}
			id = n.serve(ctx, r, "cpu", "vish/stress", nil, func(c *runtimeapi.ContainerConfig) {
				c.Args = []string{"-cpus", "2"}
				c.Linux.Resources.CpuQuota, c.Linux.Resources.CpuPeriod = 100000, 100000
			})
			r.ContainerStats(ctx, id)
			time.Sleep(time.Minute)
			s, err := r.ContainerStats(ctx, id)
			if m := s.GetCpu().GetUsageNanoCores().GetValue() / 1e6; err != nil || m < 980 || m > 1020 {
				t.Errorf("%d millicores, %v", m, err)
			}
		})
	})
}

func TestUnsimulatedProgramSaysSo(t *testing.T) {
	inNode(t, func(n *node) {
		n.as(func(ctx context.Context, r *RuntimeClient, _ internalapi.ImageManagerService) {
			id := n.serve(ctx, r, "db", "mysql:8", nil, nil)
			st, err := r.ContainerStatus(ctx, id, false)
			if err != nil || st.Status.ExitCode != 255 || n.logOf("db") != "stderr F exec /usr/local/bin/mysqld: ckadrill does not simulate the program \"mysqld\" yet\n" {
				t.Errorf("%v %v\n%s", st, err, n.logOf("db"))
			}
		})
	})
}
