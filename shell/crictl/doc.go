// Package crictl is the command crictl: the client of cri-tools for the Container Runtime Interface. Commands, flags, tables
// and error texts are those of cri-tools v1.35; the flags are parsed and the help is printed by the same library.
package crictl
