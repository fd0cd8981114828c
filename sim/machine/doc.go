// Package machine is one simulated host: its file system, users, systemd, journal, kernel settings and power switch. The
// network and containerd are attached to it by the rooms that make them.
package machine
