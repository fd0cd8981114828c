package network

import (
	"net/netip"
	"syscall"
)

// Accepts says whether a connection from the namespace would be accepted, or lost on its way, but not refused. It makes none.
func (n *Namespace) Accepts(to netip.AddrPort) bool {
	f := n.f
	f.mu.Lock()
	defer f.mu.Unlock()
	r := f.roundTrip(n, packet{proto: "tcp", dst: to})
	if r.to == nil {
		return r.errno != syscall.ECONNREFUSED
	}
	return r.to.gateway || r.to.listener(r.dst) != nil
}

// Gateway is the namespace of the LAN's router, nil without one.
func (f *Fabric) Gateway() *Namespace {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.spaces[gatewayName]
}
