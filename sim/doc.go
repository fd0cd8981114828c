// Package sim is the façade of the simulation: a [Cluster] is machines, their network, their containerds and what runs on
// them, in one world. It is built afresh by kubeadm's phases, or thawed from a state and carried on silently.
package sim
