//go:build unix

package kernel

import (
	"net"
	"testing"
)

func TestForbidSockets(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Skip("this machine has no loopback: ", err)
	}
	defer l.Close()
	old := socketFunc
	defer func() { socketFunc = old }()
	forbidSockets()
	if c, err := net.Dial("tcp", l.Addr().String()); err == nil {
		c.Close()
		t.Error("a connection left the world")
	}
	if l, err := net.Listen("tcp", "127.0.0.1:0"); err == nil {
		l.Close()
		t.Error("the world listens on the host")
	}
	if _, err := net.LookupHost("localhost.localdomain.invalid"); err == nil {
		t.Error("a name was resolved")
	}
}
