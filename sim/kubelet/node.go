package kubelet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strings"
	"unsafe"

	v1 "k8s.io/api/core/v1"
	nodeutil "k8s.io/component-helpers/node/util"
	"k8s.io/kubernetes/pkg/kubelet/cm"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"
	"k8s.io/kubernetes/pkg/kubelet/nodestatus"

	"ckadrill/sim/kernel"
)

// nodeStatusFuncs is upstream's defaultNodeStatusFuncs with the machine's addresses and version.
func (n *node) nodeStatusFuncs(state unsafe.Pointer) []func(context.Context, *v1.Node) error {
	kl := n.kl
	now := n.clock.Now
	say := func(eventType, event string) { recordNodeStatusEvent(kl, eventType, event) }
	local := n.s.LocalStorageCapacityIsolation
	return []func(context.Context, *v1.Node) error{
		n.address(),
		nodestatus.MachineInfo(string(n.name), int(n.s.MaxPods), int(n.s.PodsPerCore), kl.GetCachedMachineInfo, n.cm.GetCapacity,
			n.cm.GetDevicePluginResourceCapacity, n.cm.GetNodeAllocatableReservation, func(t, e, m string) { recordEvent(kl, t, e, m) }, local),
		nodestatus.VersionInfo(n.hw.VersionInfo, n.runtime.Type, n.runtime.Version),
		n.version,
		nodestatus.DaemonEndpoints(&v1.NodeDaemonEndpoints{KubeletEndpoint: v1.DaemonEndpoint{Port: n.s.Port}}),
		nodestatus.Images(n.s.NodeStatusMaxImages, n.images.GetImageList),
		nodestatus.GoRuntime(),
		nodestatus.RuntimeHandlers(func() []kubecontainer.RuntimeHandler { return runtimeHandlers(state) }),
		nodestatus.NodeFeatures(func() *kubecontainer.RuntimeFeatures { return runtimeFeatures(state) }),
		nodestatus.MemoryPressureCondition(now, n.eviction.IsUnderMemoryPressure, say),
		nodestatus.DiskPressureCondition(now, n.eviction.IsUnderDiskPressure, say),
		nodestatus.PIDPressureCondition(now, n.eviction.IsUnderPIDPressure, say),
		nodestatus.ReadyCondition(now, func() error { return runtimeErrors(state) }, func() error { return networkErrors(state) },
			func() error { return storageErrors(state) }, func() cm.Status { return n.cm.Status() }, noShutdown{}.ShutdownStatus, say, local),
		nodestatus.VolumesInUse(n.volumes.ReconcilerStatesHasBeenSynced, n.volumes.GetVolumesInUse),
		func(ctx context.Context, node *v1.Node) error { return recordNodeSchedulableEvent(kl, ctx, node) },
	}
}

// version puts what the machine runs in the place of what this program was built as.
func (n *node) version(_ context.Context, node *v1.Node) error {
	i := &node.Status.NodeInfo
	i.KubeletVersion = version(n.p)
	i.KubeProxyVersion = ""
	i.OperatingSystem, i.Architecture = "linux", "amd64"
	return nil
}

// address is upstream's setter. The addresses that it would look up in DNS and on the host's interfaces are found before.
func (n *node) address() func(context.Context, *v1.Node) error {
	validate := func(ip net.IP) error { return validateNodeIP(n.p, ip) }
	return func(ctx context.Context, node *v1.Node) error {
		ips := n.nodeIPs
		if len(ips) == 0 || ips[0].IsUnspecified() {
			ip, err := findAddress(n.p, string(n.name))
			if err != nil {
				return fmt.Errorf("can't get ip address of node %s. error: %v", n.name, err)
			}
			return nodestatus.NodeAddress([]net.IP{ip}, func(net.IP) error { return nil }, n.hostname, n.s.CloudProvider == "external", nil)(ctx, node)
		}
		return nodestatus.NodeAddress(ips, validate, n.hostname, n.s.CloudProvider == "external", nil)(ctx, node)
	}
}

// findAddress is the order of upstream's NodeAddress for a kubelet without --node-ip: the node's name if it is an address,
// what the name resolves to in /etc/hosts, the address of the default route's interface.
func findAddress(p *kernel.Process, name string) (net.IP, error) {
	if ip := net.ParseIP(name); ip != nil {
		return ip, validateNodeIP(p, ip)
	}
	if b, err := p.Files.ReadFile("/etc/hosts"); err == nil {
		for line := range strings.Lines(string(b)) {
			line, _, _ = strings.Cut(line, "#")
			f := strings.Fields(line)
			for i, alias := range f {
				if i == 0 || alias != name {
					continue
				}
				if ip := net.ParseIP(f[0]); ip != nil && validateNodeIP(p, ip) == nil {
					return ip, nil
				}
			}
		}
	}
	for _, addr := range addresses(p) {
		if ip := net.IP(addr.AsSlice()); addr.Is4() && validateNodeIP(p, ip) == nil {
			return ip, nil
		}
	}
	return nil, errors.New("unable to select an IP from default routes.")
}

// addresses are those of the machine's interfaces that lead outside, in their order; bridges to Pods come later than the
// interfaces that the machine has by itself.
func addresses(p *kernel.Process) []netip.Addr {
	if p.Net == nil {
		return nil
	}
	var first, rest []netip.Addr
	for _, i := range p.Net.Interfaces() {
		for _, a := range i.Addresses {
			if strings.HasPrefix(i.Name, "e") {
				first = append(first, a.Addr())
			} else {
				rest = append(rest, a.Addr())
			}
		}
	}
	return append(first, rest...)
}

// validateNodeIP is upstream's check of the same name over the machine's interfaces.
func validateNodeIP(p *kernel.Process, ip net.IP) error {
	switch {
	case ip.To4() == nil && ip.To16() == nil:
		return errors.New("nodeIP must be a valid IP address")
	case ip.IsLoopback():
		return errors.New("nodeIP can't be loopback address")
	case ip.IsMulticast():
		return errors.New("nodeIP can't be a multicast address")
	case ip.IsLinkLocalUnicast():
		return errors.New("nodeIP can't be a link-local unicast address")
	case ip.IsUnspecified():
		return errors.New("nodeIP can't be an all zeros address")
	}
	want, _ := netip.AddrFromSlice(ip)
	for _, a := range addresses(p) {
		if a.Unmap() == want.Unmap() {
			return nil
		}
	}
	return fmt.Errorf("node IP: %q not found in the host's network interfaces", ip.String())
}

// parseNodeIP reads --node-ip.
func parseNodeIP(p *kernel.Process, flag, cloudProvider string) ([]net.IP, error) {
	ips, invalid, err := nodeutil.ParseNodeIPArgument(flag, cloudProvider)
	if err != nil {
		return nil, fmt.Errorf("bad --node-ip %q: %v", flag, err)
	}
	if len(invalid) != 0 {
		logAt(p, "server.go", 1217).Info("Could not parse some node IP(s), ignoring them", "IPs", invalid)
	}
	return ips, nil
}
