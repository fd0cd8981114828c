package runtime

import (
	"fmt"
	"sort"
	"strings"
	"time"

	"google.golang.org/protobuf/proto"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"ckadrill/sim/kernel"
)

// sandboxData is what a freeze keeps of a sandbox.
type sandboxData struct {
	ID, Name       string
	Handler        string
	Ready          bool
	CreatedAt      int64 // nanoseconds since 1970, as in the CRI
	Shim, Pid      int   // of the shim and of the pause process, 0 when it does not run
	NetNS          string
	NetNSClosed    bool
	Detached       bool // the plugins have taken the network down
	IP             string
	AdditionalIPs  []string
	CNIResult      []byte // JSON, nil before the network is set up
	ImageID        string
	Terminated     bool // its process has ended by itself
	ShimStartedAt  int64
	PauseStartedAt int64
	// Settings are those of its own network namespace that differ from a new one's, by name.
	Settings map[string]string
}

type sandbox struct {
	sandboxData
	Config  *runtimeapi.PodSandboxConfig
	version uint64

	shim, pause *kernel.Process
}

// containerData is what a freeze keeps of a container.
type containerData struct {
	ID, Name, SandboxID string
	ImageID             string
	LogPath             string
	StopSignal          string
	Process             processSpec
	CreatedAt           int64
	StartedAt           int64
	FinishedAt          int64
	ExitCode            int32
	Reason, Message     string
	Pid                 int
	StopSignalled       bool
	StdinClosed         bool
	// Partial holds what stdout and stderr have written of an unfinished line.
	Partial  [2][]byte
	ReadOnly bool
}

// processSpec is the process part of the container's OCI spec.
type processSpec struct {
	Args     []string
	Env      []string
	Cwd      string
	UID, GID int
	Groups   []int
	TTY      bool
}

type container struct {
	containerData
	CPU       time.Duration // used up to a thaw
	Config    *runtimeapi.ContainerConfig
	Resources *runtimeapi.ContainerResources
	version   uint64

	starting, removing bool
	proc               *kernel.Process
	stopped            chan struct{} // closed when it has ended; made when it starts
	root               *rootfs
	io                 *containerIO
	cgroup             *cgroup
	cpuSample          cpuSample
}

func (k *container) state() runtimeapi.ContainerState {
	switch {
	case k.FinishedAt != 0:
		return runtimeapi.ContainerState_CONTAINER_EXITED
	case k.StartedAt != 0:
		return runtimeapi.ContainerState_CONTAINER_RUNNING
	}
	return runtimeapi.ContainerState_CONTAINER_CREATED
}

func stateName(s runtimeapi.ContainerState) string { return s.String() }

// image is one image that is present on the machine.
type image struct {
	ID         string
	References []string // tags and digests, sorted
	Pinned     bool
	version    uint64
}

type frozenSandbox struct {
	Data   sandboxData
	Config []byte
}

type frozenContainer struct {
	Data              containerData
	Config, Resources []byte
}

type frozenImage struct {
	ID         string
	References []string
	Pinned     bool
}

func (c *Containerd) touchSandbox(s *sandbox)     { s.version = c.w.Version() }
func (c *Containerd) touchContainer(k *container) { k.version = c.w.Version() }

// Freeze implements [kernel.Holder].
func (c *Containerd) Freeze(s *kernel.Snapshot) {
	c.mu.Lock()
	defer c.mu.Unlock()
	s.Put("release", 0, func() []byte { return encode([]string{c.options.Version, c.options.RuncVersion}) })
	switch {
	case c.daemon != nil && c.daemon.cni != nil:
		c.daemon.cni.freeze(s)
	case c.cni != nil:
		s.Put("cni", 0, func() []byte { return encode(*c.cni) })
	}
	for id, b := range c.sandboxes {
		s.Put("sandbox/"+id, b.version, func() []byte { return encode(frozenSandbox{b.sandboxData, marshal(b.Config)}) })
	}
	for id, k := range c.containers {
		s.Put("container/"+id, k.version, func() []byte {
			return encode(frozenContainer{k.containerData, marshal(k.Config), marshal(k.Resources)})
		})
		if k.cgroup != nil {
			cpu := k.cgroup.spent()
			s.Put("cpu/"+id, uint64(cpu)+1, func() []byte { return encode(cpu) })
		}
		if k.root != nil {
			k.root.freeze(s, "root/"+id+"/")
		}
	}
	for id, i := range c.images {
		s.Put("image/"+strings.TrimPrefix(id, "sha256:"), i.version, func() []byte { return encode(frozenImage{i.ID, i.References, i.Pinned}) })
	}
}

// Thaw implements [kernel.Holder]. The processes of containers are started by [Containerd.Resume].
func (c *Containerd) Thaw(parts kernel.Parts) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.thawed, c.cni = true, nil
	clear(c.sandboxes)
	clear(c.containers)
	clear(c.images)
	clear(c.names)
	roots := map[string]kernel.Parts{}
	names := make([]string, 0, len(parts))
	for n := range parts {
		names = append(names, n)
	}
	sort.Strings(names)
	for _, n := range names {
		b := parts[n]
		kind, id, _ := strings.Cut(n, "/")
		var err error
		var cpu time.Duration
		switch kind {
		case "release":
			var l []string
			if err = kernel.Decode(b, &l); err == nil && len(l) == 2 {
				c.options.Version, c.options.RuncVersion = l[0], l[1]
			}
		case "cni":
			c.cni = &frozenCNI{}
			err = kernel.Decode(b, c.cni)
		case "sandbox":
			var f frozenSandbox
			if err = kernel.Decode(b, &f); err == nil {
				s := &sandbox{sandboxData: f.Data, Config: &runtimeapi.PodSandboxConfig{}, version: c.w.Version()}
				err = proto.Unmarshal(f.Config, s.Config)
				c.sandboxes[id], c.names[s.Name] = s, id
			}
		case "container":
			var f frozenContainer
			if err = kernel.Decode(b, &f); err == nil {
				k := &container{containerData: f.Data, Config: &runtimeapi.ContainerConfig{}, Resources: &runtimeapi.ContainerResources{}, version: c.w.Version()}
				if err = proto.Unmarshal(f.Config, k.Config); err == nil {
					err = proto.Unmarshal(f.Resources, k.Resources)
				}
				c.containers[id], c.names[k.Name] = k, id
			}
		case "image":
			var f frozenImage
			if err = kernel.Decode(b, &f); err == nil {
				c.images[f.ID] = &image{ID: f.ID, References: f.References, Pinned: f.Pinned, version: c.w.Version()}
			}
		case "cpu":
			err = kernel.Decode(b, &cpu) // after "container" in order of names
			if k := c.containers[id]; err == nil && k != nil {
				k.CPU = cpu
			}
		case "root":
			id, rest, _ := strings.Cut(id, "/")
			if roots[id] == nil {
				roots[id] = kernel.Parts{}
			}
			roots[id][rest] = b
		default:
			err = fmt.Errorf("unknown kind of state")
		}
		if err != nil {
			return fmt.Errorf("%s: %w", n, err)
		}
	}
	for id, k := range c.containers {
		if err := c.thawRoot(k, roots[id]); err != nil {
			return fmt.Errorf("root of container %s: %w", id, err)
		}
	}
	return nil
}

func marshal(m proto.Message) []byte {
	b, err := proto.MarshalOptions{Deterministic: true}.Marshal(m)
	if err != nil {
		panic(err) // only a required field that is missing; the CRI has none
	}
	return b
}

func encode(v any) []byte {
	b, err := kernel.Encode(v)
	if err != nil {
		panic(err) // only a type that gob cannot encode
	}
	return b
}
