// Package grader judges what a candidate did by its consequences: checks are made in a thawed copy of the world, which is
// run forward to see whether the fix holds. It also has the drill command, exams, and the verification of scenarios.
//
// judge.go, celcheck.go and probe.go run inside a world; the rest runs in the front process and directs worlds.
package grader
