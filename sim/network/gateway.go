package network

import (
	"net/netip"

	"github.com/miekg/dns"
)

// AddGateway puts the LAN's router at an address (192.168.122.1/24). It leads nowhere: what is sent to the internet is lost.
// It answers DNS as a lab without internet does: no name exists.
func (f *Fabric) AddGateway(addr netip.Prefix) {
	f.mu.Lock()
	defer f.mu.Unlock()
	const name = "gateway"
	n := f.newNamespace(name, "")
	n.gateway, n.up = true, true
	n.addLink(&Link{Name: MachineLink, Kind: Ethernet, MAC: "52:54:00:00:00:01", MTU: 1500, Up: true, Addresses: []netip.Prefix{addr}})
	n.changed(false)
}

// answer is the gateway's own answer to a datagram, nil for none.
func (n *Namespace) answer(to netip.AddrPort, b []byte) []byte {
	if to.Port() != 53 {
		return nil
	}
	var q dns.Msg
	if err := q.Unpack(b); err != nil || len(q.Question) == 0 {
		return nil
	}
	r := new(dns.Msg)
	r.SetRcode(&q, dns.RcodeNameError)
	r.RecursionAvailable = true
	out, err := r.Pack()
	if err != nil {
		return nil
	}
	return out
}
