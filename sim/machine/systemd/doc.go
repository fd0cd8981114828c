// Package systemd is a machine's service manager: unit files with their drop-ins as systemd 255 reads them, the life of a
// service, what it says in the journal, and what is enabled. The systemctl command is a client of [Manager].
package systemd
