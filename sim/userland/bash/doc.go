// Package bash is the shell of the simulated machines: bash 5.2 on machines, and near enough dash and busybox's ash where
// those stand behind /bin/sh. It parses with mvdan.cc/sh/v3/syntax and evaluates the tree itself, so that pipelines,
// processes, files and time are the world's.
//
// A [Shell] evaluates; subshells are copies of it that run in goroutines of the same process. Every external command is a
// process of its own. What an open shell must keep over a freeze is a [State].
package bash
