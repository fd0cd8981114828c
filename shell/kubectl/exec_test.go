package kubectl

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/types"
	apiremote "k8s.io/apimachinery/pkg/util/remotecommand"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/kubelet/pkg/cri/streaming/portforward"
	streaming "k8s.io/kubelet/pkg/cri/streaming/remotecommand"

	"ckadrill/sim/kernel"
)

// container stands in for a node's containers: exec echoes its standard input, or untars into memory; a forwarded port
// answers in capitals.
type container struct{ files *strings.Builder }

func (c container) ExecInContainer(_ context.Context, name string, _ types.UID, _ string, cmd []string, in io.Reader, out, errOut io.WriteCloser, tty bool, resize <-chan remotecommand.TerminalSize, _ time.Duration) error {
	switch {
	case cmd[0] == "test":
		return fmt.Errorf("no such directory")
	case cmd[0] == "tar" && in != nil:
		b, _ := io.ReadAll(in)
		c.files.Write(b)
		return nil
	}
	fmt.Fprintf(out, "%s runs %q tty %v\n", name, cmd, tty)
	if in != nil {
		b, _ := io.ReadAll(in)
		fmt.Fprintf(out, "stdin %q\n", b)
	}
	if errOut != nil {
		fmt.Fprintln(errOut, "to stderr")
	}
	time.Sleep(3 * time.Second)
	return nil
}

func (container) PortForward(_ context.Context, _ string, _ types.UID, _ int32, s io.ReadWriteCloser) error {
	b := make([]byte, 100)
	n, _ := s.Read(b)
	fmt.Fprint(s, strings.ToUpper(string(b[:n])))
	return s.Close()
}

// kubelet serves exec and port-forward on the machine's port 10250, with upstream's streaming code.
func (l *lab) kubelet(c container) error {
	cert, err := l.files.ReadFile("/etc/kubernetes/pki/apiserver.crt")
	if err != nil {
		return err
	}
	key, _ := l.files.ReadFile("/etc/kubernetes/pki/apiserver.key")
	pair, err := tls.X509KeyPair(cert, key)
	if err != nil {
		return err
	}
	failed := make(chan error)
	l.host.Processes.Start(kernel.Spec{Argv: []string{"kubelet"}, Files: l.files, Net: l.net}, func(p *kernel.Process) int {
		ln, err := p.Listen("tcp", "192.168.122.11:10250")
		failed <- err
		if err != nil {
			return 1
		}
		s := &http.Server{TLSConfig: &tls.Config{Certificates: []tls.Certificate{pair}, NextProtos: []string{"http/1.1"}, ClientAuth: tls.RequestClientCert, ClientCAs: x509.NewCertPool()},
			Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				part := strings.Split(strings.Trim(r.URL.Path, "/"), "/")
				switch part[0] {
				case "exec":
					o, err := streaming.NewOptions(r)
					if err != nil {
						http.Error(w, err.Error(), 400)
						return
					}
					streaming.ServeExec(w, r, c, part[2], "", part[3], r.URL.Query()["command"], o, time.Hour, 30*time.Second, apiremote.SupportedStreamingProtocols)
				case "portForward":
					o, err := portforward.NewV4Options(r)
					if err != nil {
						http.Error(w, err.Error(), 400)
						return
					}
					portforward.ServePortForward(w, r, c, part[2], "", o, time.Hour, 30*time.Second, portforward.SupportedProtocols)
				case "containerLogs":
					fmt.Fprintf(w, "log of %s\n", part[3])
				default:
					http.NotFound(w, r)
				}
			})}
		s.ServeTLS(ln, "", "")
		return 0
	})
	return <-failed
}

const nodeAndPod = `apiVersion: v1
kind: Node
metadata: {name: cka-cp1}
---
apiVersion: v1
kind: Pod
metadata: {name: web, labels: {app: web}}
spec:
  nodeName: cka-cp1
  serviceAccountName: default
  containers:
  - {name: nginx, image: nginx, ports: [{containerPort: 80}]}
  - {name: side, image: busybox}
`

// sorted orders lines: standard output and standard error come over streams of their own.
func sorted(s string) string {
	l := strings.Split(s, "\n")
	slices.Sort(l)
	return strings.Join(l, "\n")
}

func init() {
	worldTests["TestStreams"] = func(l *lab) error {
		if err := l.controlPlane("kube-controller-manager"); err != nil {
			return err
		}
		tar := &strings.Builder{}
		if err := l.kubelet(container{tar}); err != nil {
			return err
		}
		run := func(want string, wantCode int, stdin, line string) {
			began := time.Now()
			out, code := l.run(stdin, strings.Fields(line)...)
			if sorted(out) != sorted(want) || code != wantCode {
				fmt.Printf("FAIL $ %s [%d after %v]\n%swant [%d]\n%s", line, code, time.Since(began), out, wantCode, want)
			}
		}
		run("node/cka-cp1 created\npod/web created\n", 0, nodeAndPod, "kubectl apply -f -")
		run("pod/web patched\n", 0, "", `kubectl patch pod web --subresource=status --type=merge -p {"status":{"phase":"Running","hostIP":"192.168.122.11","podIP":"10.244.0.5","conditions":[{"type":"Ready","status":"True"}]}}`)
		run("node/cka-cp1 patched\n", 0, "", `kubectl patch node cka-cp1 --subresource=status --type=merge -p {"status":{"addresses":[{"type":"InternalIP","address":"192.168.122.11"}],"daemonEndpoints":{"kubeletEndpoint":{"Port":10250}}}}`)
		run("Defaulted container \"nginx\" out of: nginx, side\nweb runs [\"date\"] tty false\nto stderr\n", 0, "", "kubectl exec web -- date")
		run("web runs [\"cat\"] tty false\nstdin \"hello\"\nto stderr\n", 0, "hello", "kubectl exec -i web -c side -- cat")
		run("Defaulted container \"nginx\" out of: nginx, side\nUnable to use a TTY - input is not a terminal or the right kind of file\nweb runs [\"sh\"] tty false\nstdin \"x\"\nto stderr\n", 0, "x", "kubectl exec -it web -- sh")
		run("Defaulted container \"nginx\" out of: nginx, side\nlog of nginx\n", 0, "", "kubectl logs web")
		run("log of side\n", 0, "", "kubectl logs web -c side")
		run("error: container nosuch is not valid for pod web\n", 1, "", "kubectl logs web -c nosuch")
		run("no\n", 1, "", "kubectl auth can-i get pods --as bob")
		run("yes\n", 0, "", "kubectl auth can-i get pods")
		l.put("/root/file.txt", "content of the file", 0o644)
		run("", 0, "", "kubectl cp file.txt web:/tmp/file.txt -c nginx")
		if !strings.Contains(tar.String(), "content of the file") {
			fmt.Printf("FAIL cp sent %q\n", tar)
		}
		run("error: nosuch.txt doesn't exist in local filesystem\n", 1, "", "kubectl cp nosuch.txt web:/tmp/x")
		out := &buffer{}
		pf := l.start(kernel.Spec{Argv: []string{"kubectl", "port-forward", "web", "8080:80"}, Stdout: out, Stderr: out})
		time.Sleep(5 * time.Second)
		l.host.Processes.Start(kernel.Spec{Argv: []string{"nc"}, Net: l.net, Files: l.files}, func(p *kernel.Process) int {
			c, err := p.Dial(p.Context(), "tcp", "127.0.0.1:8080")
			if err != nil {
				fmt.Println("FAIL port-forward:", err)
				return 1
			}
			fmt.Fprint(c, "hello")
			b, err := io.ReadAll(c)
			if string(b) != "HELLO" {
				fmt.Printf("FAIL port-forward answered %q %v\n", b, err)
			}
			return 0
		}).Wait()
		pf.Signal(kernel.SIGINT)
		if s := pf.Wait(); s.ExitCode() != 130 || !strings.HasPrefix(out.String(), "Forwarding from 127.0.0.1:8080 -> 80\n") {
			fmt.Printf("FAIL port-forward: %d %s\n", s.ExitCode(), out)
		}
		l.put("/usr/bin/editor", "#!/bin/bash\nprintf '%s\\n' \"$(<$1)\" > /tmp/old; while read -r x; do case $x in 'app: web') printf '    app: edited\\n';; esac; done < /tmp/old; content=$(<$1); printf '%s\\n' \"${content/app: web/app: edited}\" > $1\n", 0o755)
		l.put("/bin/bash", string(kernel.Executable("bash")), 0o755)
		edit := l.start(kernel.Spec{Argv: []string{"kubectl", "edit", "pod", "web"}, Env: []string{"PATH=/usr/bin", "HOME=/root", "EDITOR=editor"}, Stdout: out, Stderr: out})
		edit.Wait()
		if !strings.HasSuffix(out.String(), "pod/web edited\n") {
			fmt.Printf("FAIL edit: %s\n", out)
		}
		l.put("/usr/bin/kubectl-hello", "#!/bin/bash\necho hello $1; exit 7\n", 0o755)
		run("hello you\n", 7, "", "kubectl hello you")
		run("The following compatible plugins are available:\n\n/usr/bin/kubectl-hello\n", 0, "", "kubectl plugin list")
		proxy := l.start(kernel.Spec{Argv: []string{"kubectl", "proxy"}, Stdout: out, Stderr: out})
		time.Sleep(time.Second)
		if !strings.HasSuffix(out.String(), "Starting to serve on 127.0.0.1:8001\n") {
			fmt.Printf("FAIL proxy: %s\n", out)
		}
		run("pod/web\n", 0, "", "kubectl get pods -o name --server=http://127.0.0.1:8001")
		proxy.Signal(kernel.SIGTERM)
		return nil
	}
}

func TestStreams(t *testing.T) {
	out := inWorker(t)
	t.Log(out)
	if strings.Contains(out, "FAIL") {
		t.Fail()
	}
}
