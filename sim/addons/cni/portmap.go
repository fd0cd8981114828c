package cni

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"strings"

	"github.com/containernetworking/cni/pkg/types"

	"ckadrill/sim/network"
)

type portmapConf struct {
	RuntimeConfig struct {
		PortMaps []struct {
			HostPort      int    `json:"hostPort"`
			ContainerPort int    `json:"containerPort"`
			Protocol      string `json:"protocol"`
			HostIP        string `json:"hostIP,omitempty"`
		} `json:"portMappings,omitempty"`
	} `json:"runtimeConfig,omitempty"`
}

// addPortmap leads ports of the machine to the container's address, which the plugin before has given it.
func addPortmap(c *call) (types.Result, error) {
	conf := portmapConf{}
	if err := json.Unmarshal(c.stdin, &conf); err != nil {
		return nil, fmt.Errorf("failed to parse config: failed to parse network configuration: %w", err)
	}
	if c.prev == nil {
		return nil, errors.New("must be called as chained plugin")
	}
	var ports []network.HostPort
	for _, m := range conf.RuntimeConfig.PortMaps {
		if m.ContainerPort <= 0 || m.ContainerPort > 65535 {
			return nil, fmt.Errorf("failed to parse config: Invalid container port number: %d", m.ContainerPort)
		}
		if m.HostPort < 0 || m.HostPort > 65535 {
			return nil, fmt.Errorf("failed to parse config: Invalid host port number: %d", m.HostPort)
		}
		if m.HostPort == 0 {
			continue
		}
		host, _ := netip.ParseAddr(m.HostIP)
		for _, ip := range c.prev.IPs {
			a := toPrefix(ip.Address).Addr()
			if host.IsValid() && host.Is4() != a.Is4() {
				continue
			}
			ports = append(ports, network.HostPort{Proto: strings.ToLower(m.Protocol), HostIP: host, Port: uint16(m.HostPort), To: netip.AddrPortFrom(a, uint16(m.ContainerPort))})
		}
	}
	c.machine().SetHostPorts(c.id, ports)
	return c.prev, nil
}

func delPortmap(c *call) error {
	c.machine().SetHostPorts(c.id, nil)
	return nil
}
