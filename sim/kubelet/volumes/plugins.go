package volumes

import (
	"fmt"
	"path"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/kubernetes/pkg/volume"
	imagevolume "k8s.io/kubernetes/pkg/volume/image"

	"ckadrill/sim/kernel"
)

// Config is what the plugins need of their machine.
type Config struct {
	// Files is the machine's tree, as root.
	Files kernel.Files
	// Root is the kubelet's root directory on the machine, /var/lib/kubelet.
	Root string
	// Resumed keeps service account tokens that are already in a volume: a thaw must not renew them.
	Resumed bool
	// Errorf prints an unstructured error line as from a line of one of upstream's source files.
	Errorf func(file string, line int, format string, args ...any)
}

// Plugins are all volume plugins of a kubelet.
func Plugins(c Config) []volume.VolumePlugin {
	l := []volume.VolumePlugin{
		&plugin{c: c, name: "kubernetes.io/empty-dir", kind: emptyDir{}},
		&plugin{c: c, name: "kubernetes.io/configmap", remount: true, kind: configMap{}},
		&plugin{c: c, name: "kubernetes.io/secret", remount: true, kind: secretVolume{}},
		&plugin{c: c, name: "kubernetes.io/downward-api", remount: true, kind: downwardAPI{}},
		&plugin{c: c, name: "kubernetes.io/projected", remount: true, kind: projected{tokens: newTokens(c)}},
		&plugin{c: c, name: "kubernetes.io/host-path", kind: hostPath{}},
		&plugin{c: c, name: "kubernetes.io/local-volume", kind: local{}},
		&plugin{c: c, name: "kubernetes.io/nfs", kind: unsimulated{"nfs", func(s *volume.Spec) bool {
			return s.Volume != nil && s.Volume.NFS != nil || s.PersistentVolume != nil && s.PersistentVolume.Spec.NFS != nil
		}}},
		&plugin{c: c, name: "kubernetes.io/csi", kind: unsimulated{"csi", func(s *volume.Spec) bool {
			return s.Volume != nil && s.Volume.CSI != nil || s.PersistentVolume != nil && s.PersistentVolume.Spec.CSI != nil
		}}},
		&plugin{c: c, name: "kubernetes.io/iscsi", kind: unsimulated{"iscsi", func(s *volume.Spec) bool {
			return s.Volume != nil && s.Volume.ISCSI != nil || s.PersistentVolume != nil && s.PersistentVolume.Spec.ISCSI != nil
		}}},
	}
	return append(l, imagevolume.ProbeVolumePlugins()...)
}

// kind is what differs between the plugins.
type kind interface {
	supports(s *volume.Spec) bool
	// volumeName identifies the volume on the node (upstream's GetVolumeName).
	volumeName(s *volume.Spec) (string, error)
	// path is where the volume is on the machine; dir is the Pod's directory for it.
	path(s *volume.Spec, dir string) string
	readOnly(s *volume.Spec) bool
	setUp(m *mounter, args volume.MounterArgs) error
}

// plugin is a volume plugin over a machine's files.
type plugin struct {
	c       Config
	name    string
	remount bool // its content follows the API: it is set up anew at each sync
	kind    kind
	host    volume.VolumeHost
}

var _ volume.PersistentVolumePlugin = &plugin{}

// Init implements volume.VolumePlugin.
func (p *plugin) Init(host volume.VolumeHost) error { p.host = host; return nil }

// GetPluginName implements volume.VolumePlugin.
func (p *plugin) GetPluginName() string { return p.name }

// GetVolumeName implements volume.VolumePlugin.
func (p *plugin) GetVolumeName(s *volume.Spec) (string, error) { return p.kind.volumeName(s) }

// CanSupport implements volume.VolumePlugin.
func (p *plugin) CanSupport(s *volume.Spec) bool { return p.kind.supports(s) }

// RequiresRemount implements volume.VolumePlugin.
func (p *plugin) RequiresRemount(*volume.Spec) bool { return p.remount }

// SupportsMountOption implements volume.VolumePlugin.
func (p *plugin) SupportsMountOption() bool { return p.name == "kubernetes.io/local-volume" }

// SupportsSELinuxContextMount implements volume.VolumePlugin.
func (p *plugin) SupportsSELinuxContextMount(*volume.Spec) (bool, error) { return false, nil }

// GetAccessModes implements volume.PersistentVolumePlugin.
func (p *plugin) GetAccessModes() []v1.PersistentVolumeAccessMode {
	return []v1.PersistentVolumeAccessMode{v1.ReadWriteOnce}
}

// dir is the directory of a Pod's volume on the machine.
func (p *plugin) dir(uid types.UID, name string) string {
	return path.Join(p.c.Root, "pods", string(uid), "volumes", escape(p.name), name)
}

// escape is upstream's EscapeQualifiedName: a plugin's name as a directory's.
func escape(name string) string {
	b := []byte(name)
	for i := range b {
		if b[i] == '/' {
			b[i] = '~'
		}
	}
	return string(b)
}

// NewMounter implements volume.VolumePlugin.
func (p *plugin) NewMounter(s *volume.Spec, pod *v1.Pod) (volume.Mounter, error) {
	return &mounter{p: p, spec: s, pod: pod, dir: p.dir(pod.UID, s.Name())}, nil
}

// NewUnmounter implements volume.VolumePlugin.
func (p *plugin) NewUnmounter(name string, uid types.UID) (volume.Unmounter, error) {
	return &unmounter{p: p, dir: p.dir(uid, name)}, nil
}

// ConstructVolumeSpec implements volume.VolumePlugin. Upstream calls it for what it finds in its Pods' directory on the
// host at a start, which is empty here: volumes are set up again instead, which changes nothing in them.
func (p *plugin) ConstructVolumeSpec(name, _ string) (volume.ReconstructedVolume, error) {
	return volume.ReconstructedVolume{}, fmt.Errorf("ckadrill does not reconstruct the volume %s", name)
}

// mounter sets one volume of one Pod up.
type mounter struct {
	p    *plugin
	spec *volume.Spec
	pod  *v1.Pod
	dir  string
}

// GetPath implements volume.Volume.
func (m *mounter) GetPath() string { return m.p.kind.path(m.spec, m.dir) }

// SetUp implements volume.Mounter.
func (m *mounter) SetUp(args volume.MounterArgs) error { return m.p.kind.setUp(m, args) }

// SetUpAt implements volume.Mounter.
func (m *mounter) SetUpAt(dir string, args volume.MounterArgs) error {
	m.dir = dir
	return m.p.kind.setUp(m, args)
}

// GetAttributes implements volume.Mounter.
func (m *mounter) GetAttributes() volume.Attributes {
	ro := m.p.kind.readOnly(m.spec)
	return volume.Attributes{ReadOnly: ro, Managed: !ro, SELinuxRelabel: true}
}

// unmounter takes one volume of one Pod down.
type unmounter struct {
	volume.MetricsNil
	p   *plugin
	dir string
}

// GetPath implements volume.Volume.
func (u *unmounter) GetPath() string { return u.dir }

// TearDown implements volume.Unmounter.
func (u *unmounter) TearDown() error { return u.TearDownAt(u.dir) }

// TearDownAt implements volume.Unmounter.
func (u *unmounter) TearDownAt(dir string) error { return u.p.c.Files.RemoveAll(dir) }
