// Package addons gathers the programs of a cluster's add-ons: the CNI plugins, flanneld, kube-proxy and CoreDNS.
package addons

import (
	"ckadrill/sim/addons/cni"
	"ckadrill/sim/addons/coredns"
	"ckadrill/sim/addons/flannel"
	"ckadrill/sim/addons/kubeproxy"
	"ckadrill/sim/kernel"
)

// Register adds the programs.
func Register(w *kernel.World) {
	cni.Register(w.Programs)
	flannel.Register(w.Programs)
	kubeproxy.Register(w.Programs)
	coredns.Register(w.Programs)
}
