// Package calico is the programs of Calico's images: install-cni, which puts the CNI plugin and its configuration on a node;
// calico-node, which keeps the routes to other nodes' Pods and programs NetworkPolicies into the node's packet filter; and
// calico-kube-controllers. What calico-node has programmed stays when it ends. The datastore is the Kubernetes API, addresses are those of the
// nodes' Pod CIDRs, and between nodes there is VXLAN.
package calico

import (
	"fmt"
	"time"

	"ckadrill/sim/kernel"
)

const defaultVersion = "v3.31.2"

// Register adds the programs.
func Register(ps *kernel.Programs) {
	ps.Register("calico-install-cni", install)
	ps.Register("calico-node", nodeMain)
	ps.Register("calico-kube-controllers", controllers)
	ps.Register("calico-check-status", checkStatus)
}

// group is the API group of what Calico itself keeps in the datastore.
const group = "/apis/crd.projectcalico.org/v1/"

// logger prints lines as Calico's programs do.
type logger struct {
	p     *kernel.Process
	quiet func() bool // a process that is resumed does not tell of its start again
}

func (l logger) print(level, file string, line int, format string, a ...any) {
	if level == "INFO" && l.quiet != nil && l.quiet() {
		return
	}
	fmt.Fprintf(l.p.Log, "%s [%s][%d] %s %d: %s\n", time.Now().UTC().Format("2006-01-02 15:04:05.000"), level, l.p.OwnPID(), file, line, fmt.Sprintf(format, a...))
}
