package kubeadm

import (
	"bytes"
	"fmt"

	"ckadrill/sim/packages"
)

const haproxyFile = "/etc/haproxy/haproxy.cfg"

// haproxyConfig is the package's configuration and below it what leads to the control planes, as kubeadm's documentation
// has it (kubernetes/kubeadm, docs/ha-considerations.md).
func (c Cluster) haproxyConfig() []byte {
	b := bytes.Clone(packages.File(haproxyFile))
	b = fmt.Append(b, `
frontend apiserver
	bind *:6443
	mode tcp
	option tcplog
	timeout client 4h
	default_backend apiserverbackend

backend apiserverbackend
	mode tcp
	balance roundrobin
	option redispatch
	retries 1
	timeout server 4h
	option httpchk
	http-check connect ssl
	http-check send meth GET uri /healthz
	http-check expect status 200
	default-server inter 10s fall 2 rise 2 on-marked-down shutdown-sessions
`)
	for _, m := range c.Machines {
		if m.Role == ControlPlane {
			b = fmt.Appendf(b, "\tserver %s %s:6443 check verify none\n", m.Name, m.Address)
		}
	}
	return b
}
