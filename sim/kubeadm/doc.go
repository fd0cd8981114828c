// Package kubeadm makes clusters as upstream kubeadm makes them, by running upstream's own phases.
//
// [Build] makes every file that the packages, kubeadm and the kubelet's TLS bootstrap leave on the machines of a cluster:
// package files, certificates, kubeconfigs, static Pod manifests, kubelet configuration. A machine that boots with them runs
// the cluster: systemd starts containerd and the kubelet, the kubelet starts the control plane. [Bootstrap] then makes
// through the API the objects that "kubeadm init" makes, and lets further control planes join by the program. [Register] adds
// the program "kubeadm".
package kubeadm
