// Package scenarios is the format of drills (apiVersion ckadrill/v1), its loader and linter, and the embedded packs.
//
// A scenario says how a cluster is broken, what the candidate is asked to do, and how it is judged. It names causes only:
// setup edits files, flags, objects and units; symptoms follow by themselves. Everything in it runs inside the simulation.
package scenarios
