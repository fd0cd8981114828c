package controlplane

// Watch cache: off.
//
// Measured with the spike (2 cores): with upstream's cacher for every resource a start costs a list and a watch for each of
// 70 resources, 200 ms and 40 MiB more, and an idle hour pays for its progress requests; without it each watcher of a
// resource decodes every event itself, 0.17 ms per Pod event and watcher. A node's kubelet has one Pod watch, with the
// field selector spec.nodeName. On three nodes that is half a millisecond per Pod event, which no drill notices; from some
// fifty nodes on it is the largest single cost (1,000 Pods on 50 nodes: 19 s). So large worlds will want upstream's cacher
// for Pods alone; everything that follows from its absence (reads are always consistent, resourceVersion=0 reads etcd) is
// what an apiserver with --watch-cache=false does.
