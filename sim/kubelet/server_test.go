package kubelet

import (
	"crypto/tls"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"ckadrill/sim/kernel"
	"ckadrill/sim/network"
)

func init() {
	scenarios["server"] = func(b *testbed) error {
		// The fake API has no REST client, which upstream's webhook authorizer sends its reviews by.
		b.write("/var/lib/kubelet/config.yaml", strings.Replace(testConfig, "authorization: {mode: Webhook}", "authorization: {mode: AlwaysAllow}", 1))
		b.start()
		p := testPod("one", "busybox:1.36")
		p.Spec.Containers[0].Command = words("say first;say second;trap;wait")
		b.create(p)
		time.Sleep(10 * time.Second)
		pair, err := readPair(b.client(nil), "/var/lib/kubelet/pki/kubelet-client-current.pem", "/var/lib/kubelet/pki/kubelet-client-current.pem")
		if err != nil {
			return err
		}
		cert, err := tls.X509KeyPair(pair[0], pair[1])
		if err != nil {
			return err
		}
		var problem error
		b.client(func(p *kernel.Process) {
			get := func(c *tls.Config, url string) string {
				r, err := (&http.Client{Transport: network.NewTransport(p, c), Timeout: 10 * time.Second}).Get(url)
				if err != nil {
					return err.Error()
				}
				defer r.Body.Close()
				body, _ := io.ReadAll(r.Body)
				return fmt.Sprintf("%d %s", r.StatusCode, body)
			}
			known := &tls.Config{InsecureSkipVerify: true, Certificates: []tls.Certificate{cert}}
			base := "https://192.168.122.12:10250"
			for _, c := range []struct {
				config    *tls.Config
				url, want string
			}{
				{&tls.Config{InsecureSkipVerify: true}, base + "/pods", "401 Unauthorized"},
				{known, base + "/healthz", "200 ok"},
				{known, base + "/pods", `"name":"one"`},
				{known, base + "/containerLogs/default/one/c", "200 first\nsecond\n"},
				{known, base + "/containerLogs/default/one/c?tailLines=1", "200 second\n"},
				{known, base + "/containerLogs/default/one/c?limitBytes=3", "200 fir"},
				{known, base + "/containerLogs/default/one/x", `404 container "x" not found in pod "one"`},
				{known, base + "/containerLogs/default/two/c", `404 pod "two" does not exist`},
				{known, base + "/exec/default/two/c?command=ls&output=1", "404 pod does not exist"},
				{nil, "http://127.0.0.1:10248/healthz", "200 ok"},
			} {
				if got := get(c.config, c.url); !strings.Contains(got, c.want) {
					problem = fmt.Errorf("%s: %s", c.url, got)
					return
				}
			}
		})
		return problem
	}
}

// client runs f as a process of the machine; without f it only makes the process.
func (b *testbed) client(f func(p *kernel.Process)) *kernel.Process {
	p := b.m.Host().Processes.Start(b.spec("curl"), func(p *kernel.Process) int {
		if f != nil {
			f(p)
			return 0
		}
		<-p.Done()
		return 0
	})
	if f != nil {
		p.Wait()
	}
	return p
}

func TestServer(t *testing.T) { runScenario(t, "server") }
