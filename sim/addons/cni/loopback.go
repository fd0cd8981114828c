package cni

import (
	"net"

	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"

	"ckadrill/sim/network"
)

func addLoopback(c *call) (types.Result, error) {
	n, err := c.sandbox()
	if err != nil {
		return nil, err
	}
	if err := n.ChangeLink("lo", func(l *network.Link) { l.Up = true }); err != nil {
		return nil, err
	}
	if c.prev != nil {
		return c.prev, nil
	}
	r := &types100.Result{CNIVersion: types100.ImplementedSpecVersion, Interfaces: []*types100.Interface{{Name: "lo", Mac: "00:00:00:00:00:00", Sandbox: c.netns}}}
	l, _ := n.Link("lo")
	for _, a := range l.Addresses {
		r.IPs = append(r.IPs, &types100.IPConfig{Interface: types100.Int(0), Address: net.IPNet{IP: a.Addr().AsSlice(), Mask: net.CIDRMask(a.Bits(), a.Addr().BitLen())}})
	}
	return r, nil
}

func delLoopback(c *call) error {
	if n := c.machine().Namespace(c.netns); n != nil {
		return n.ChangeLink("lo", func(l *network.Link) { l.Up = false })
	}
	return nil
}
