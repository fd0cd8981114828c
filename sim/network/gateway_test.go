package network

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strings"
	"testing"

	"ckadrill/sim/kernel"
)

func TestHostsOfTheInternet(t *testing.T) {
	inLab(t, func(l *lab) {
		out := l.f.AddOutside("internet", netip.MustParsePrefix("203.0.113.10/24"), "example.org", "www.example.org")
		l.hosts["internet"] = l.w.NewHost("internet")
		go greet(l.listen(l.process(out), "tcp", ":80"))
		v := l.files()
		v.Files(kernel.Root).WriteFile("/etc/resolv.conf", []byte("nameserver 192.168.122.1\n"), 0o644)
		w1 := l.processIn(l.f.Machine("cka-w1"), v, kernel.Root)
		talk := func() string {
			a, err := Resolve(context.Background(), w1, "WWW.example.org")
			if err != nil {
				return err.Error()
			}
			ctx, cancel := context.WithTimeout(context.Background(), neighbourTimeout)
			defer cancel()
			c, err := w1.Dial(ctx, "tcp", net.JoinHostPort(a[0].String(), "80"))
			if err != nil {
				return err.Error()
			}
			defer c.Close()
			b, _ := io.ReadAll(c)
			return fmt.Sprint(a, string(b) != "")
		}
		if got := talk(); got != "[203.0.113.10] true" {
			t.Error(got)
		}
		if _, err := Resolve(context.Background(), w1, "example.net"); err == nil || err.Error() != "lookup example.net on 192.168.122.1:53: no such host" {
			t.Error(err)
		}
		if err := l.f.Machine("cka-w1").DeleteRoute(netip.MustParsePrefix("0.0.0.0/0"), MachineLink); err != nil {
			t.Fatal(err)
		}
		if got := talk(); got != "dial tcp 203.0.113.10:80: connect: network is unreachable" {
			t.Error(got)
		}
		parts := kernel.Parts{}
		l.w.Freeze(kernel.NewRecorder(nil)).Apply(parts)
		for part := range parts {
			if strings.Contains(part, "internet") || strings.Contains(part, gatewayName) {
				t.Errorf("%s is frozen", part)
			}
		}
	})
}
