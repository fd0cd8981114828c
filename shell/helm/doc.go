// Package helm is the program "helm": upstream's own commands (helm.sh/helm/v4/pkg/cmd), run inside the process of the world
// that called it, on the simulated machine's files and network.
//
// Upstream keeps its settings in variables of the host process, reads the host's environment, and opens files by itself. So
// one helm of the world has its turn at a time, see turn; it works in a private directory of the host that mirrors what it
// may read of the machine, see mirror; and it gives its turn away while it waits for the cluster.
package helm
