package runtime

import (
	"encoding/json"
	"path"
	"slices"
	"strconv"
	"strings"

	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
)

// ociMount is a mount of an OCI spec.
type ociMount struct {
	Destination string   `json:"destination"`
	Type        string   `json:"type,omitempty"`
	Source      string   `json:"source,omitempty"`
	Options     []string `json:"options,omitempty"`
}

func ociMounts() []ociMount {
	return []ociMount{
		{"/proc", "proc", "proc", []string{"nosuid", "noexec", "nodev"}},
		{"/dev", "tmpfs", "tmpfs", []string{"nosuid", "strictatime", "mode=755", "size=65536k"}},
		{"/dev/pts", "devpts", "devpts", []string{"nosuid", "noexec", "newinstance", "ptmxmode=0666", "mode=0620", "gid=5"}},
		{"/dev/mqueue", "mqueue", "mqueue", []string{"nosuid", "noexec", "nodev"}},
		{"/sys", "sysfs", "sysfs", []string{"nosuid", "noexec", "nodev", "ro"}},
		{"/sys/fs/cgroup", "cgroup", "cgroup", []string{"nosuid", "noexec", "nodev", "relatime", "ro"}},
	}
}

// defaultCapabilities are those that containerd gives a container that asks for none.
var defaultCapabilities = []string{"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FSETID", "CAP_FOWNER", "CAP_MKNOD", "CAP_NET_RAW", "CAP_SETGID", "CAP_SETUID", "CAP_SETFCAP", "CAP_SETPCAP",
	"CAP_NET_BIND_SERVICE", "CAP_SYS_CHROOT", "CAP_KILL", "CAP_AUDIT_WRITE"}

// capabilitiesOf is what a container's security context leaves of the default ones and adds to them.
func capabilitiesOf(sc *runtimeapi.LinuxContainerSecurityContext) []string {
	l := slices.Clone(defaultCapabilities)
	name := func(s string) string { return "CAP_" + strings.TrimPrefix(strings.ToUpper(s), "CAP_") }
	add, drop := sc.GetCapabilities().GetAddCapabilities(), sc.GetCapabilities().GetDropCapabilities()
	if slices.Contains(drop, "ALL") {
		l = nil
	}
	for _, a := range add {
		if a != "ALL" && !slices.Contains(l, name(a)) {
			l = append(l, name(a))
		}
	}
	for _, d := range drop {
		l = slices.DeleteFunc(l, func(c string) bool { return c == name(d) })
	}
	return l
}

// ociSpec is the container's runtime specification, as far as crictl inspect shows it.
func (c *Containerd) ociSpec(k *container, b *sandbox) any {
	type namespace struct {
		Type string `json:"type"`
		Path string `json:"path,omitempty"`
	}
	sc := k.Config.GetLinux().GetSecurityContext()
	m := b.Config.GetMetadata()
	mounts := ociMounts()
	for _, h := range c.bindMounts(k, b) {
		mode := "rw"
		if h.Readonly {
			mode = "ro"
		}
		mounts = append(mounts, ociMount{h.ContainerPath, "bind", h.HostPath, []string{"rbind", "rprivate", mode}})
	}
	ns := "/proc/" + strconv.Itoa(b.Pid) + "/ns/"
	namespaces := []namespace{{"pid", ""}, {"ipc", ns + "ipc"}, {"uts", ns + "uts"}, {"mount", ""}, {"network", ns + "net"}}
	r := k.Resources.GetLinux()
	cpu := map[string]any{}
	if r.GetCpuPeriod() != 0 {
		cpu["period"] = r.GetCpuPeriod()
	}
	if r.GetCpuQuota() != 0 {
		cpu["quota"] = r.GetCpuQuota()
	}
	if r.GetCpuShares() != 0 {
		cpu["shares"] = r.GetCpuShares()
	}
	memory := map[string]any{}
	if r.GetMemoryLimitInBytes() != 0 {
		memory["limit"] = r.GetMemoryLimitInBytes()
		memory["swap"] = r.GetMemoryLimitInBytes()
	}
	caps := capabilitiesOf(sc)
	process := map[string]any{
		"args": k.Process.Args, "cwd": k.Process.Cwd, "env": k.Process.Env, "oomScoreAdj": r.GetOomScoreAdj(),
		"capabilities": map[string]any{"bounding": caps, "effective": caps, "permitted": caps},
		"user":         map[string]any{"uid": k.Process.UID, "gid": k.Process.GID, "additionalGids": k.Process.Groups},
	}
	if sc.GetNoNewPrivs() {
		process["noNewPrivileges"] = true
	}
	if k.Process.TTY {
		process["terminal"] = true
	}
	root := map[string]any{"path": "rootfs"}
	if k.ReadOnly {
		root["readonly"] = true
	}
	return map[string]any{
		"ociVersion": "1.3.0", "process": process, "root": root, "mounts": mounts,
		"annotations": map[string]string{
			"io.kubernetes.cri.container-name": k.Config.GetMetadata().GetName(), "io.kubernetes.cri.container-type": "container", "io.kubernetes.cri.image-name": k.Config.GetImage().GetUserSpecifiedImage(),
			"io.kubernetes.cri.sandbox-id": b.ID, "io.kubernetes.cri.sandbox-name": m.GetName(), "io.kubernetes.cri.sandbox-namespace": m.GetNamespace(), "io.kubernetes.cri.sandbox-uid": m.GetUid(),
		},
		"linux": map[string]any{
			"cgroupsPath": cgroupsPath(b.Config.GetLinux().GetCgroupParent(), k.ID), "maskedPaths": sc.GetMaskedPaths(), "readonlyPaths": sc.GetReadonlyPaths(), "namespaces": namespaces,
			"resources": map[string]any{"cpu": cpu, "memory": memory, "devices": []any{map[string]any{"access": "rwm", "allow": false}}},
		},
	}
}

// cgroupsPath is containerd's choice of a cgroup's name: systemd's form below a slice, else a path.
func cgroupsPath(parent, id string) string {
	if base := path.Base(parent); strings.HasSuffix(base, ".slice") {
		return base + ":cri-containerd:" + id
	}
	return path.Join(parent, id)
}

// containerInfo is the verbose part of a container's status. The lock is held.
func (c *Containerd) containerInfo(k *container) map[string]string {
	var spec any
	if b := c.sandboxes[k.SandboxID]; b != nil {
		spec = c.ociSpec(k, b)
	}
	b, err := json.Marshal(map[string]any{
		"sandboxID": k.SandboxID, "pid": k.Pid, "removing": k.removing, "snapshotKey": k.ID, "snapshotter": "overlayfs", "runtimeType": "io.containerd.runc.v2", "runtimeOptions": nil,
		"config": k.Config, "runtimeSpec": spec,
	})
	if err != nil {
		return map[string]string{"info": err.Error()}
	}
	return map[string]string{"info": string(b)}
}

// sandboxInfo is the verbose part of a sandbox's status. The lock is held.
func (c *Containerd) sandboxInfo(b *sandbox) map[string]string {
	status := "running"
	if b.Pid == 0 {
		status = "deleted"
	}
	image := c.images[b.ImageID]
	name := ""
	if image != nil {
		if tags, _ := image.split(); len(tags) > 0 {
			name = tags[0]
		}
	}
	info := map[string]any{
		"pid": b.Pid, "processStatus": status, "netNamespaceClosed": b.NetNSClosed, "image": name, "snapshotKey": b.ID, "snapshotter": "overlayfs", "runtimeHandler": b.Handler,
		"runtimeType": "io.containerd.runc.v2", "runtimeOptions": nil, "config": b.Config,
		"metadata": map[string]any{"Version": "v1", "Metadata": map[string]any{"ID": b.ID, "Name": b.Name, "Config": b.Config, "NetNSPath": b.NetNS, "IP": b.IP, "AdditionalIPs": b.AdditionalIPs, "RuntimeHandler": b.Handler, "ProcessLabel": ""}},
	}
	if b.CNIResult != nil {
		info["cniResult"] = json.RawMessage(b.CNIResult)
	}
	out, err := json.Marshal(info)
	if err != nil {
		return map[string]string{"info": err.Error()}
	}
	return map[string]string{"info": string(out)}
}
