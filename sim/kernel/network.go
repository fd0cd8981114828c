package kernel

import (
	"context"
	"net"
	"net/netip"
)

// Network is one network namespace: a machine's own or a Pod's. Addresses are numeric ("192.168.122.11:6443",
// "[::]:10250", ":8080"), or a path for the network "unix"; names are resolved above, by the program, as a libc does.
// A refused connection is a *net.OpError around a *os.SyscallError around a syscall.Errno, so that it reads
// "dial tcp 127.0.0.1:6443: connect: connection refused".
type Network interface {
	Dial(ctx context.Context, p *Process, network, address string) (net.Conn, error)
	// Listen returns a listener that is closed when p ends.
	Listen(p *Process, network, address string) (net.Listener, error)
	ListenPacket(p *Process, network, address string) (net.PacketConn, error)
	Interfaces() []Interface
}

// Interface is a network interface of a namespace.
type Interface struct {
	Name      string
	MAC       string
	MTU       int
	Addresses []netip.Prefix
}
