// Package yq is Mike Farah's yq on the files, streams and environment of a simulated process: upstream's evaluator, with a
// command line of our own, since upstream's reads the host's.
package yq

import (
	"ckadrill/sim/kernel"
	"ckadrill/sim/userland/libc"
)

// version is the release whose evaluator this is.
const version = "v4.45.1"

// Register adds the program "yq".
func Register(ps *kernel.Programs) { ps.Register("yq", libc.Main("yq", run)) }
