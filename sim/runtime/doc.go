// Package runtime is a machine's containerd with its shims and runc: sandboxes, containers, images and their logs, and the
// CRI through which a kubelet and crictl speak to it.
//
// What survives a crash of the daemon and a thaw is plain data in the holder "containerd/<machine>". The daemon itself is
// the program "containerd"; the processes of containers are children of shims and live on without it. Wording and order of
// steps follow containerd's internal/cri (v2), whose errors a candidate reads in events and logs.
package runtime
