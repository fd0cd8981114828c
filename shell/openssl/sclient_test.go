package openssl

import (
	"crypto/tls"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ckadrill/sim/kernel"
	"ckadrill/sim/network"
)

func TestClientShowsTheServersCertificates(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(t, time.Date(2026, 12, 3, 5, 0, 0, 0, time.UTC))
		m.net = network.NewFabric(m.w).AddMachine("cka-cp1", netip.MustParsePrefix("192.168.122.11/24"))
		up := make(chan struct{})
		server := m.host.Processes.Start(kernel.Spec{Argv: []string{"server"}, Files: m.files, Net: m.net}, func(p *kernel.Process) int {
			crt, _ := p.ReadFile("/root/s.crt")
			key, _ := p.ReadFile("/root/u.key")
			pair, err := tls.X509KeyPair(crt, key)
			if err != nil {
				t.Error(err)
				return 1
			}
			l, err := p.Listen("tcp", "192.168.122.11:6443")
			if err != nil {
				t.Error(err)
				return 1
			}
			close(up)
			for {
				c, err := l.Accept()
				if err != nil {
					return 0
				}
				go func() {
					s := tls.Server(c, &tls.Config{Certificates: []tls.Certificate{pair}})
					if s.Handshake() == nil {
						s.Read(make([]byte, 100))
					}
					s.Close()
				}()
			}
		})
		<-up
		out, both, code := m.run(words("openssl s_client -connect 192.168.122.11:6443"), "")
		if code != 0 {
			t.Errorf("exit %d", code)
		}
		for _, want := range []string{
			"depth=0 CN = jane, O = dev, O = ops\nverify error:num=20:unable to get local issuer certificate\nverify return:1\n" +
				"depth=0 CN = jane, O = dev, O = ops\nverify error:num=21:unable to verify the first certificate\nverify return:1\n" +
				"depth=0 CN = jane, O = dev, O = ops\nverify return:1\n",
			"CONNECTED(00000003)\n---\nCertificate chain\n 0 s:CN = jane, O = dev, O = ops\n   i:CN = kubernetes\n   a:PKEY: rsaEncryption, 2048 (bit); sigalg: RSA-SHA256\n   v:NotBefore: Dec  2 ",
			"-----END CERTIFICATE-----\nsubject=CN = jane, O = dev, O = ops\nissuer=CN = kubernetes\n---\nNo client certificate CA names sent\n",
			"Verify return code: 21 (unable to verify the first certificate)\n---\n", "DONE\n",
		} {
			if !strings.Contains(both, want) {
				t.Errorf("no %q in\n%s", want, both)
			}
		}
		if c := certificates([]byte(out)); len(c) != 1 || c[0].Subject.CommonName != "jane" {
			t.Error("the output is no input for x509")
		}
		_, both, _ = m.run(words("openssl s_client -connect 192.168.122.11:6443 -CAfile ca.crt"), "")
		for _, want := range []string{"depth=1 CN = kubernetes\nverify return:1\ndepth=0 CN = jane", "Verification: OK\n", "Verify return code: 0 (ok)\n"} {
			if !strings.Contains(both, want) {
				t.Errorf("no %q in\n%s", want, both)
			}
		}
		_, both, code = m.run(words("openssl s_client -connect 192.168.122.11:1"), "")
		if code != 1 || !strings.HasSuffix(both, "connect:errno=111\n") || !strings.Contains(both, ":error:8000006F:system library:BIO_connect:Connection refused:") {
			t.Errorf("exit %d: %s", code, both)
		}
		server.Signal(kernel.SIGKILL)
	})
}
