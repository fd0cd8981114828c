// Package host answers what upstream's kubeadm asks of the host it runs on, for a process of a simulated machine: which
// programs there are and what they print, what the init system says, what the container runtime has, and the preflight checks.
package host
