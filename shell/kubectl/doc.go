// Package kubectl is the program "kubectl": upstream's own command tree, run inside the process of the world that called
// it. Everything that it reads and writes is the simulated machine's: kubeconfigs, manifests, standard input, the network,
// the terminal, the programs it starts.
//
// Upstream opens files by itself in many places. Those files are mirrored into a private directory of the host and its
// arguments rewritten, see mirror. What upstream would do to the host in other ways (exit, listen, run an editor, a diff
// or a plugin) is done by the commands of this package that take upstream's place, one file each.
package kubectl
