// Package registry is the internet's container registries as a node sees them: which repositories and tags exist, what
// an image's configuration says, how large it is and which files its root holds. It is data; pulling is the runtime's.
package registry
