// Package etcd is the cluster's key-value store: a revisioned store with etcd's semantics, the program "etcd" that serves
// it over etcd's own gRPC API from a data directory on a machine, and the client that kube-apiserver stands on.
//
// A [Store] is plain data: the versions of all keys in blocks of revisions, and leases. All stores of a world live in one
// [Stores], which is the holder of their state. A machine's data directory names the store that it holds, and the revision
// up to which it was written, in the file member/snap/db; so moving, copying and removing that directory have their real
// consequences, see [Stores.Open].
package etcd
