package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"math/rand"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/kubernetes/scheme"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/tools/remotecommand"
	"k8s.io/client-go/transport/spdy"

	"ckadrill/sim/front/outside"
)

// Clients on the host's network find the API as a cluster's: watches, exec over both protocols, forwarded ports, tokens. What
// is no client of the API is refused, and while it does all of this the world goes on.
func TestServe(t *testing.T) {
	f := worldFlags{seed: 1, preset: "reference", speed: 10}
	p := worldOf(t, f, t.TempDir())
	file := filepath.Join(t.TempDir(), "kubeconfig")
	s, err := outside.New(p, 0, file)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() { // before the play is closed
		cancel()
		if err := <-ended; err != nil {
			t.Error("the state was not kept:", err)
		}
	})
	if info, err := os.Stat(file); err != nil || info.Mode() != 0o600 {
		t.Errorf("the kubeconfig is not private: %v %v", info, err)
	}
	conf, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		t.Fatal(err)
	}
	conf.QPS = -1
	client := kubernetes.NewForConfigOrDie(conf)
	refuseStrangers(t, ctx, s.Address(), conf)
	feedGarbage(t, s.Address(), conf)

	pods := client.CoreV1().Pods("default")
	seen, err := pods.Watch(ctx, metav1.ListOptions{})
	if err != nil {
		t.Fatal(err)
	}
	defer seen.Stop()
	pod := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Name: "web"}, Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "nginx", Image: "nginx"}}}}
	if _, err := pods.Create(ctx, pod, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	// Watches that nobody reads hold up nobody.
	for range 200 {
		if _, err := client.CoreV1().Pods("").Watch(ctx, metav1.ListOptions{}); err != nil {
			t.Fatal(err)
		}
	}
	awaitRunning(t, seen)
	execute(t, ctx, client, conf)
	forward(t, client, conf)
	refuseWithoutServer(t, ctx, p.Worker().Dead(), client, func(script string) { run(t, p, script) })
}

func awaitRunning(t *testing.T, w watch.Interface) {
	t.Helper()
	for e := range w.ResultChan() {
		if p, ok := e.Object.(*corev1.Pod); ok && p.Status.Phase == corev1.PodRunning {
			return
		}
	}
	t.Fatal("the watch ended before the Pod ran")
}

// refuseStrangers comes with no credentials, with a token, and with a certificate that somebody else has signed.
func refuseStrangers(t *testing.T, ctx context.Context, address string, conf *rest.Config) {
	t.Helper()
	nobody := rest.AnonymousClientConfig(conf)
	_, err := kubernetes.NewForConfigOrDie(nobody).CoreV1().Secrets("").List(ctx, metav1.ListOptions{})
	if err == nil || !strings.Contains(err.Error(), `User "system:anonymous" cannot list resource "secrets"`) {
		t.Errorf("who shows nothing gets: %v", err)
	}
	nobody.BearerToken = "made-up"
	if _, err := kubernetes.NewForConfigOrDie(nobody).CoreV1().Secrets("").List(ctx, metav1.ListOptions{}); err == nil || err.Error() != "Unauthorized" {
		t.Errorf("who shows a made-up token gets: %v", err)
	}
	// The embedded cluster's own administrator: everybody has that key.
	p := world(t, "reference", "")
	out, _ := run(t, p, "cat ~/.kube/config")
	p.Close()
	public, err := clientcmd.RESTConfigFromKubeConfig([]byte(out))
	if err != nil {
		t.Fatal(err)
	}
	public.Host, public.CAData = conf.Host, conf.CAData
	// The refusal comes after the client's own handshake is over: it may find the connection closed before it reads why.
	refused := regexp.MustCompile("tls: |broken pipe|connection reset")
	if _, err := kubernetes.NewForConfigOrDie(public).CoreV1().Secrets("").List(ctx, metav1.ListOptions{}); err == nil || !refused.MatchString(err.Error()) {
		t.Errorf("who shows the public key of the embedded cluster gets: %v", err)
	}
	res, err := http.Get("http://" + address)
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusBadRequest {
		t.Errorf("who speaks no TLS gets %s", res.Status)
	}
}

// feedGarbage sends what is no request, before and inside of TLS, and leaves connections half open.
func feedGarbage(t *testing.T, address string, conf *rest.Config) {
	t.Helper()
	r := rand.New(rand.NewSource(1))
	noise := make([]byte, 1<<16)
	for range 20 {
		c, err := net.Dial("tcp", address)
		if err != nil {
			t.Fatal(err)
		}
		r.Read(noise)
		c.Write(noise[:r.Intn(len(noise))])
		t.Cleanup(func() { c.Close() })
	}
	cfg, err := rest.TLSConfigFor(conf)
	if err != nil {
		t.Fatal(err)
	}
	for _, head := range []string{"", "GET / HTTP/1.1\r\nHost: x\r\nX: ", "GET / HTTP/9.9\r\n\r\n", "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", "POST /api/v1/namespaces HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999\r\n\r\n{"} {
		for _, protocol := range []string{"h2", "http/1.1"} {
			cfg := cfg.Clone()
			cfg.NextProtos = []string{protocol}
			c, err := tls.Dial("tcp", address, cfg)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() { c.Close() })
			c.SetDeadline(time.Now().Add(patience))
			go func() { // more than any buffer on the way holds, until the server has had enough
				io.WriteString(c, head)
				for range 64 {
					if _, err := c.Write(noise); err != nil {
						return
					}
				}
			}()
			if head == "" && protocol == "http/1.1" {
				line, _ := bufio.NewReader(c).ReadString('\n')
				if line != "HTTP/1.1 400 Bad Request\r\n" {
					t.Errorf("noise is answered with %q", line)
				}
			}
		}
	}
}

// execute runs commands over websockets and over SPDY.
func execute(t *testing.T, ctx context.Context, client kubernetes.Interface, conf *rest.Config) {
	t.Helper()
	u := client.CoreV1().RESTClient().Post().Resource("pods").Namespace("default").Name("web").SubResource("exec").VersionedParams(&corev1.PodExecOptions{
		Command: []string{"sh", "-c", "cat; echo of $(hostname) >&2; exit 3"}, Stdin: true, Stdout: true, Stderr: true}, scheme.ParameterCodec).URL()
	for name, dial := range map[string]func() (remotecommand.Executor, error){
		"websocket": func() (remotecommand.Executor, error) {
			return remotecommand.NewWebSocketExecutor(conf, "GET", u.String())
		},
		"SPDY": func() (remotecommand.Executor, error) { return remotecommand.NewSPDYExecutor(conf, "POST", u) },
	} {
		e, err := dial()
		if err != nil {
			t.Fatal(err)
		}
		var out, problems bytes.Buffer
		in := strings.Repeat("all that was typed\n", 20000)
		err = e.StreamWithContext(ctx, remotecommand.StreamOptions{Stdin: strings.NewReader(in), Stdout: &out, Stderr: &problems})
		if err == nil || err.Error() != "command terminated with exit code 3" || out.String() != in || problems.String() != "of web\n" {
			t.Errorf("over %s: %v, %d of %d bytes, %q", name, err, out.Len(), len(in), problems.String())
		}
	}
}

// forward fetches nginx's page through a forwarded port.
func forward(t *testing.T, client kubernetes.Interface, conf *rest.Config) {
	t.Helper()
	transport, upgrader, err := spdy.RoundTripperFor(conf)
	if err != nil {
		t.Fatal(err)
	}
	u := client.CoreV1().RESTClient().Post().Resource("pods").Namespace("default").Name("web").SubResource("portforward").URL()
	stop, ready := make(chan struct{}), make(chan struct{})
	defer close(stop)
	fw, err := portforward.NewOnAddresses(spdy.NewDialer(upgrader, &http.Client{Transport: transport}, "POST", u), []string{"127.0.0.1"}, []string{"0:80"}, stop, ready, io.Discard, io.Discard)
	if err != nil {
		t.Fatal(err)
	}
	failed := make(chan error, 1)
	go func() { failed <- fw.ForwardPorts() }()
	select {
	case <-ready:
	case err := <-failed:
		t.Fatal(err)
	}
	ports, err := fw.GetPorts()
	if err != nil {
		t.Fatal(err)
	}
	res, err := http.Get(fmt.Sprintf("http://127.0.0.1:%d/", ports[0].Local))
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	if b, _ := io.ReadAll(res.Body); !strings.Contains(string(b), "Welcome to nginx!") {
		t.Errorf("the forwarded port answers %s: %.200s", res.Status, b)
	}
}

// refuseWithoutServer stops the API server: its clients are refused as by a real one, until it is there again.
func refuseWithoutServer(t *testing.T, ctx context.Context, dead <-chan struct{}, client kubernetes.Interface, run func(string)) {
	t.Helper()
	run("sudo mv /etc/kubernetes/manifests/kube-apiserver.yaml /tmp/")
	until := func(what string, ok func(error) bool) {
		t.Helper()
		var err error
		for ctx.Err() == nil {
			if _, err = client.CoreV1().Pods("default").Get(ctx, "web", metav1.GetOptions{}); ok(err) {
				return
			}
			select {
			case <-dead:
				t.Fatal("the worker has ended")
			case <-time.After(20 * time.Millisecond):
			}
		}
		t.Fatalf("a client is never %s: %v", what, err)
	}
	until("refused", func(err error) bool {
		var u *url.Error
		return errors.Is(err, syscall.ECONNREFUSED) && errors.As(err, &u)
	})
	run("sudo mv /tmp/kube-apiserver.yaml /etc/kubernetes/manifests/")
	until("let in again", func(err error) bool { return err == nil })
}

// SIGTERM ends the program, and the session goes on with what its clients have changed.
func TestServeEndsWithTheSessionKept(t *testing.T) {
	dir := t.TempDir()
	c := exec.Command(os.Args[0], "serve", "--session", dir, "--speed", "5")
	c.Env = append(os.Environ(), asFront+"=1")
	var problems bytes.Buffer
	c.Stderr = &problems
	out, err := c.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Process.Kill(); c.Wait() })
	lines := bufio.NewScanner(out)
	for lines.Scan() && !strings.Contains(lines.Text(), "KUBECONFIG=") {
	}
	_, file, _ := strings.Cut(lines.Text(), "KUBECONFIG=")
	conf, err := clientcmd.BuildConfigFromFlags("", file)
	if err != nil {
		t.Fatal(err, problems.String())
	}
	ns := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "kept"}}
	if _, err := kubernetes.NewForConfigOrDie(conf).CoreV1().Namespaces().Create(t.Context(), ns, metav1.CreateOptions{}); err != nil {
		t.Fatal(err)
	}
	c.Process.Signal(syscall.SIGTERM)
	for lines.Scan() {
	}
	if err := c.Wait(); err != nil {
		t.Fatal(err, problems.String())
	}
	if out, _ := run(t, world(t, "reference", dir), "kubectl get ns kept --no-headers"); !strings.HasPrefix(out, "kept   Active") {
		t.Errorf("the session goes on with %q", out)
	}
}
