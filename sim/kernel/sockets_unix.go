//go:build unix

package kernel

import (
	"syscall"
	_ "unsafe" // for go:linkname
)

// Upstream opens a socket itself in a few places that no seam reaches. In the process of a world each attempt fails, so
// that such a place shows as an error in the world, and never as a connection of the user's machine.
//
//go:linkname socketFunc net.socketFunc
var socketFunc func(family, kind, protocol int) (int, error)

// forbidSockets takes package net's sockets away from this host process. Pipes to the front are files.
func forbidSockets() {
	socketFunc = func(int, int, int) (int, error) { return -1, syscall.EACCES }
}
