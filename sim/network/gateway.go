package network

import (
	"net/netip"
	"slices"
	"strings"

	"github.com/miekg/dns"
)

const gatewayName = "gateway"

// AddGateway puts the LAN's router at an address (192.168.122.1/24). It leads to the hosts of [Fabric.AddOutside] alone: what
// is sent to the rest of the internet is lost. It answers DNS for those hosts' names; no other name exists.
func (f *Fabric) AddGateway(addr netip.Prefix) {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := f.newNamespace(gatewayName, "")
	n.gateway, n.up = true, true
	n.addLink(&Link{Name: MachineLink, Kind: Ethernet, MAC: "52:54:00:00:00:01", MTU: 1500, Up: true, Addresses: []netip.Prefix{addr}})
	n.changed(false)
}

// AddOutside puts a host of the internet behind the LAN's router, under its names in the DNS. It has a network with the router
// for itself, in which the router has the first address.
func (f *Fabric) AddOutside(host string, addr netip.Prefix, names ...string) *Namespace {
	f.mu.Lock()
	defer f.mu.Unlock()
	g := f.spaces[gatewayName]
	n := f.newNamespace(host, "")
	n.outside, n.up = true, true
	inner, outer := "to-"+host, "eth0"
	first := netip.PrefixFrom(addr.Masked().Addr().Next(), addr.Bits())
	g.addLink(&Link{Name: inner, Kind: Veth, MAC: "52:54:00:00:01:01", MTU: 1500, Up: true, Addresses: []netip.Prefix{first}, Peer: LinkRef{n.name, outer}})
	n.addLink(&Link{Name: "lo", Kind: Loopback, MAC: "00:00:00:00:00:00", MTU: 65536, Up: true, Addresses: loopbackAddresses()})
	n.addLink(&Link{Name: outer, Kind: Veth, MAC: "52:54:00:00:01:02", MTU: 1500, Up: true, Addresses: []netip.Prefix{addr}, Peer: LinkRef{g.name, inner}})
	n.Static = append(n.Static, Route{Dst: netip.PrefixFrom(zeroOf(addr.Addr()), 0), Via: first.Addr(), Dev: outer, Proto: "static"})
	for _, name := range names {
		if f.names == nil {
			f.names = map[string][]netip.Addr{}
		}
		f.names[dns.Fqdn(name)] = append(f.names[dns.Fqdn(name)], addr.Addr())
	}
	n.changed(false)
	g.changed(false)
	return n
}

// leadsOn says whether a router knows the way to an address; what else it gets is lost.
func (n *Namespace) leadsOn(a netip.Addr) bool {
	_, ok := n.lookup(a)
	return ok
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
	name := strings.ToLower(q.Question[0].Name)
	if l, ok := n.f.names[name]; ok {
		r.SetReply(&q)
		for _, a := range l {
			h := dns.RR_Header{Name: q.Question[0].Name, Class: dns.ClassINET, Ttl: 300}
			switch {
			case a.Is4() && q.Question[0].Qtype == dns.TypeA:
				h.Rrtype = dns.TypeA
				r.Answer = append(r.Answer, &dns.A{Hdr: h, A: slices.Clone(a.AsSlice())})
			case a.Is6() && q.Question[0].Qtype == dns.TypeAAAA:
				h.Rrtype = dns.TypeAAAA
				r.Answer = append(r.Answer, &dns.AAAA{Hdr: h, AAAA: slices.Clone(a.AsSlice())})
			}
		}
	} else {
		r.SetRcode(&q, dns.RcodeNameError)
	}
	r.RecursionAvailable = true
	out, err := r.Pack()
	if err != nil {
		return nil
	}
	return out
}
