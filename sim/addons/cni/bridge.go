package cni

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"slices"
	"syscall"

	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"

	"ckadrill/sim/network"
)

type bridgeConf struct {
	types.NetConf
	BrName       string `json:"bridge"`
	IsGW         bool   `json:"isGateway"`
	IsDefaultGW  bool   `json:"isDefaultGateway"`
	ForceAddress bool   `json:"forceAddress"`
	IPMasq       bool   `json:"ipMasq"`
	MTU          int    `json:"mtu"`
}

func loadBridge(c *call) (*bridgeConf, error) {
	conf := &bridgeConf{BrName: "cni0"}
	if err := json.Unmarshal(c.stdin, conf); err != nil {
		return nil, fmt.Errorf("failed to load netconf: %w", err)
	}
	conf.IsGW = conf.IsGW || conf.IsDefaultGW
	return conf, nil
}

func toPrefix(n net.IPNet) netip.Prefix {
	a, _ := netip.AddrFromSlice(n.IP)
	ones, _ := n.Mask.Size()
	return netip.PrefixFrom(a.Unmap(), ones)
}

// addBridge connects the sandbox with a veth pair to the machine's bridge and gives it the address that IPAM chose.
func addBridge(c *call) (_ types.Result, err error) {
	conf, err := loadBridge(c)
	if err != nil {
		return nil, err
	}
	m := c.machine()
	sandbox, err := c.sandbox()
	if err != nil {
		return nil, err
	}
	if err := m.AddLink(network.Link{Name: conf.BrName, Kind: network.Bridge, MTU: conf.MTU, Up: true}); err != nil && !errors.Is(err, syscall.EEXIST) {
		return nil, fmt.Errorf("failed to create bridge %q: could not add %q: %w", conf.BrName, conf.BrName, err)
	}
	if l, _ := m.Link(conf.BrName); l.Kind != network.Bridge {
		return nil, fmt.Errorf("failed to create bridge %q: %q already exists but is not a bridge", conf.BrName, conf.BrName)
	}
	m.ChangeLink(conf.BrName, func(l *network.Link) { l.Up = true })
	veth := fmt.Sprintf("veth%08x", uint32(c.World().Random("cni/veth").Uint64()))
	if err := m.AddVeth(veth, conf.BrName, conf.MTU, sandbox, c.ifName); err != nil {
		return nil, fmt.Errorf("failed to create veth pair: %w", err)
	}
	defer func() {
		if err != nil {
			sandbox.DeleteLink(c.ifName)
		}
	}()
	bridge, _ := m.Link(conf.BrName)
	host, _ := m.Link(veth)
	inside, _ := sandbox.Link(c.ifName)
	r := &types100.Result{CNIVersion: types100.ImplementedSpecVersion, Interfaces: []*types100.Interface{
		{Name: conf.BrName, Mac: bridge.MAC}, {Name: veth, Mac: host.MAC}, {Name: c.ifName, Mac: inside.MAC, Sandbox: c.netns}}}
	if conf.IPAM.Type == "" {
		return r, nil
	}
	ipam, err := c.delegateAdd(conf.IPAM.Type, c.stdin)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			c.Setenv("CNI_COMMAND", "DEL")
			c.delegate(conf.IPAM.Type, c.stdin)
		}
	}()
	if len(ipam.IPs) == 0 {
		return nil, errors.New("IPAM plugin returned missing IP config")
	}
	r.IPs, r.Routes, r.DNS = ipam.IPs, ipam.Routes, ipam.DNS
	var addrs []netip.Prefix
	for _, ip := range r.IPs {
		ip.Interface = types100.Int(2)
		a := toPrefix(ip.Address)
		addrs = append(addrs, a)
		if ip.Gateway == nil && conf.IsGW {
			ip.Gateway = a.Masked().Addr().Next().AsSlice()
		}
		if conf.IsDefaultGW {
			dst := net.IPNet{IP: net.IPv4zero.To4(), Mask: net.CIDRMask(0, 32)}
			if slices.ContainsFunc(r.Routes, func(o *types.Route) bool { return o.Dst.String() == dst.String() }) {
				continue
			}
			r.Routes = append(r.Routes, &types.Route{Dst: dst, GW: ip.Gateway})
		}
	}
	sandbox.ChangeLink(c.ifName, func(l *network.Link) { l.Addresses = addrs })
	for _, o := range r.Routes {
		gw := o.GW
		if gw == nil {
			gw = r.IPs[0].Gateway
		}
		via, _ := netip.AddrFromSlice(gw)
		if err := sandbox.AddRoute(network.Route{Dst: toPrefix(o.Dst), Via: via.Unmap(), Dev: c.ifName}, false); err != nil && !errors.Is(err, syscall.EEXIST) {
			return nil, fmt.Errorf("failed to add route '%s via %s dev %s': %w", &o.Dst, gw, c.ifName, err)
		}
	}
	if conf.IsGW {
		for _, ip := range r.IPs {
			gw, _ := netip.AddrFromSlice(ip.Gateway)
			if err := ensureAddr(m, conf, netip.PrefixFrom(gw.Unmap(), toPrefix(ip.Address).Bits())); err != nil {
				return nil, fmt.Errorf("failed to set bridge addr: %w", err)
			}
		}
		// Where the machine has the sysctl as a file, it must show the change too.
		if c.Files.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0o644) != nil {
			m.SetForwarding(true)
		}
	}
	if conf.IPMasq {
		var l []network.Masquerade
		for _, a := range addrs {
			l = append(l, network.Masquerade{From: netip.PrefixFrom(a.Addr(), a.Addr().BitLen()), NotTo: a.Masked()})
		}
		m.SetMasquerades(masqueradeOwner(conf, c), l)
	}
	return r, nil
}

func masqueradeOwner(conf *bridgeConf, c *call) string {
	return fmt.Sprintf("name: %q id: %q", conf.Name, c.id)
}

// ensureAddr gives the bridge the gateway's address, which may be its only one of the family.
func ensureAddr(m *network.Namespace, conf *bridgeConf, a netip.Prefix) error {
	var failed error
	m.ChangeLink(conf.BrName, func(l *network.Link) {
		for i := 0; i < len(l.Addresses); i++ {
			o := l.Addresses[i]
			switch {
			case o == a:
				return
			case o.Addr().Is4() != a.Addr().Is4() || !o.Addr().Is4() && !o.Overlaps(a):
			case conf.ForceAddress:
				l.Addresses = slices.Delete(slices.Clone(l.Addresses), i, i+1)
				i--
			default:
				failed = fmt.Errorf("%q already has an IP address different from %v", conf.BrName, a)
				return
			}
		}
		l.Addresses = append(l.Addresses, a)
	})
	return failed
}

func delBridge(c *call) error {
	conf, err := loadBridge(c)
	if err != nil {
		return err
	}
	if conf.IPAM.Type != "" {
		if _, err := c.delegate(conf.IPAM.Type, c.stdin); err != nil {
			return err
		}
	}
	m := c.machine()
	if n := m.Namespace(c.netns); n != nil {
		if err := n.DeleteLink(c.ifName); err != nil && !errors.Is(err, syscall.ENODEV) {
			return err
		}
	}
	m.SetMasquerades(masqueradeOwner(conf, c), nil)
	return nil
}
