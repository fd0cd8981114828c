package volumes

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kubernetes/pkg/volume"
	configmapvolume "k8s.io/kubernetes/pkg/volume/configmap"
	downwardvolume "k8s.io/kubernetes/pkg/volume/downwardapi"
	secretvolume "k8s.io/kubernetes/pkg/volume/secret"
)

// inPodDir is what the kinds have in common whose content is in the Pod's own directory.
type inPodDir struct{}

func (inPodDir) volumeName(s *volume.Spec) (string, error) { return s.Name(), nil }
func (inPodDir) path(_ *volume.Spec, dir string) string    { return dir }
func (inPodDir) readOnly(*volume.Spec) bool                { return true }

// emptyDir is a directory that lives as long as its Pod.
type emptyDir struct{ inPodDir }

func (emptyDir) supports(s *volume.Spec) bool { return s.Volume != nil && s.Volume.EmptyDir != nil }
func (emptyDir) readOnly(*volume.Spec) bool   { return false }

func (emptyDir) setUp(m *mounter, args volume.MounterArgs) error {
	if err := makeDir(m, emptyDirMode(m.spec)); err != nil {
		return err
	}
	return own(m.p.c.Files, m.dir, args.FsGroup, false)
}

// emptyDirMode is 0777, with the sticky bit of a tmpfs when the medium is memory.
func emptyDirMode(s *volume.Spec) fs.FileMode {
	if s.Volume.EmptyDir.Medium == v1.StorageMediumMemory {
		return 0o777 | fs.ModeSticky
	}
	return 0o777
}

// makeDir makes the volume's directory with exactly that mode, whatever the umask. A directory that is there is kept.
func makeDir(m *mounter, mode fs.FileMode) error {
	if i, err := m.p.c.Files.Stat(m.dir); err == nil && i.IsDir() {
		return nil
	}
	if err := m.p.c.Files.MkdirAll(m.dir, 0o750); err != nil {
		return err
	}
	return m.p.c.Files.Chmod(m.dir, mode)
}

// configMap shows a ConfigMap's keys as files.
type configMap struct{ inPodDir }

func (configMap) supports(s *volume.Spec) bool { return s.Volume != nil && s.Volume.ConfigMap != nil }

func (configMap) setUp(m *mounter, args volume.MounterArgs) error {
	src := m.spec.Volume.ConfigMap
	optional := src.Optional != nil && *src.Optional
	cm, err := m.p.host.GetConfigMapFunc()(m.pod.Namespace, src.Name)
	if err != nil {
		if !apierrors.IsNotFound(err) || !optional {
			m.p.c.Errorf("configmap.go", 193, "Couldn't get configMap %v/%v: %v", m.pod.Namespace, src.Name, err)
			return err
		}
		cm = &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: m.pod.Namespace, Name: src.Name}}
	}
	payload, err := configmapvolume.MakePayload(src.Items, cm, src.DefaultMode, optional)
	if err != nil {
		return err
	}
	return project(m, payload, 0o777, args)
}

// secretVolume shows a Secret's keys as files on a tmpfs.
type secretVolume struct{ inPodDir }

func (secretVolume) supports(s *volume.Spec) bool { return s.Volume != nil && s.Volume.Secret != nil }

func (secretVolume) setUp(m *mounter, args volume.MounterArgs) error {
	src := m.spec.Volume.Secret
	optional := src.Optional != nil && *src.Optional
	s, err := m.p.host.GetSecretFunc()(m.pod.Namespace, src.SecretName)
	if err != nil {
		if !apierrors.IsNotFound(err) || !optional {
			m.p.c.Errorf("secret.go", 189, "Couldn't get secret %v/%v: %v", m.pod.Namespace, src.SecretName, err)
			return err
		}
		s = &v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: m.pod.Namespace, Name: src.SecretName}}
	}
	payload, err := secretvolume.MakePayload(src.Items, s, src.DefaultMode, optional)
	if err != nil {
		return err
	}
	return project(m, payload, 0o777|fs.ModeSticky, args)
}

// downwardAPI shows fields of the Pod as files.
type downwardAPI struct{ inPodDir }

func (downwardAPI) supports(s *volume.Spec) bool {
	return s.Volume != nil && s.Volume.DownwardAPI != nil
}

func (downwardAPI) setUp(m *mounter, args volume.MounterArgs) error {
	src := m.spec.Volume.DownwardAPI
	payload, err := downwardvolume.CollectData(src.Items, m.pod, m.p.host, src.DefaultMode)
	if err != nil {
		m.p.c.Errorf("downwardapi.go", 182, "Error preparing data for downwardAPI volume %v for pod %v/%v: %s", m.spec.Name(), m.pod.Namespace, m.pod.Name, err.Error())
		return err
	}
	return project(m, payload, 0o777|fs.ModeSticky, args)
}

// hostPath is a path of the machine itself.
type hostPath struct{}

func hostPathSource(s *volume.Spec) *v1.HostPathVolumeSource {
	switch {
	case s.Volume != nil && s.Volume.HostPath != nil:
		return s.Volume.HostPath
	case s.PersistentVolume != nil && s.PersistentVolume.Spec.HostPath != nil:
		return s.PersistentVolume.Spec.HostPath
	}
	return nil
}

func (hostPath) supports(s *volume.Spec) bool              { return hostPathSource(s) != nil }
func (hostPath) volumeName(s *volume.Spec) (string, error) { return hostPathSource(s).Path, nil }
func (hostPath) path(s *volume.Spec, _ string) string      { return hostPathSource(s).Path }
func (hostPath) readOnly(s *volume.Spec) bool              { return s.ReadOnly }

func (hostPath) setUp(m *mounter, _ volume.MounterArgs) error {
	src := hostPathSource(m.spec)
	for _, part := range strings.Split(src.Path, "/") {
		if part == ".." {
			return fmt.Errorf("invalid HostPath `%s`: %v", src.Path, errors.New("must not contain '..'"))
		}
	}
	if src.Type == nil || *src.Type == v1.HostPathUnset {
		return nil
	}
	return checkType(m, src.Path, *src.Type)
}

// checkType is upstream's hostPath type check (pkg/volume/hostpath), with its words.
func checkType(m *mounter, name string, t v1.HostPathType) error {
	files := m.p.c.Files
	info, err := files.Stat(name)
	exists := err == nil
	is := func(f func(fs.FileMode) bool) bool { return exists && f(info.Mode()) }
	fail := func(what string) error {
		return fmt.Errorf("hostPath type check failed: %s is not %s", name, what)
	}
	switch t {
	case v1.HostPathDirectoryOrCreate:
		if !exists {
			return files.MkdirAll(name, 0o755)
		}
		fallthrough
	case v1.HostPathDirectory:
		if !is(fs.FileMode.IsDir) {
			return fail("a directory")
		}
	case v1.HostPathFileOrCreate:
		if !exists {
			f, err := files.OpenFile(name, os.O_CREATE, 0o644)
			if err != nil {
				return err
			}
			return f.Close()
		}
		fallthrough
	case v1.HostPathFile:
		if !is(fs.FileMode.IsRegular) {
			return fail("a file")
		}
	case v1.HostPathSocket:
		if !is(func(f fs.FileMode) bool { return f&fs.ModeSocket != 0 }) {
			return fail("a socket file")
		}
	case v1.HostPathCharDev:
		if !is(func(f fs.FileMode) bool { return f&fs.ModeCharDevice != 0 }) {
			return fail("a character device")
		}
	case v1.HostPathBlockDev:
		if !is(func(f fs.FileMode) bool { return f&fs.ModeDevice != 0 && f&fs.ModeCharDevice == 0 }) {
			return fail("a block device")
		}
	default:
		return fmt.Errorf("%s is an invalid volume type", t)
	}
	return nil
}

// local is a directory of one machine behind a PersistentVolume. The real kubelet binds it into the Pod's directory; here
// containers get the directory itself, which is the same to them.
type local struct{}

func (local) supports(s *volume.Spec) bool {
	return s.PersistentVolume != nil && s.PersistentVolume.Spec.Local != nil
}
func (local) volumeName(s *volume.Spec) (string, error) { return s.Name(), nil }
func (local) path(s *volume.Spec, _ string) string      { return s.PersistentVolume.Spec.Local.Path }
func (local) readOnly(s *volume.Spec) bool              { return s.ReadOnly }

func (l local) setUp(m *mounter, args volume.MounterArgs) error {
	name := l.path(m.spec, "")
	if _, err := m.p.c.Files.Stat(name); err != nil {
		// The real one looks at the path first to learn whether it is a block device.
		return fmt.Errorf("path %q does not exist", name)
	}
	if m.spec.ReadOnly {
		return nil
	}
	return own(m.p.c.Files, name, args.FsGroup, false)
}

// unsimulated claims volumes of a kind that has no server in this world, and says so when they are to be mounted.
type unsimulated struct {
	what string
	can  func(*volume.Spec) bool
}

func (u unsimulated) supports(s *volume.Spec) bool            { return u.can(s) }
func (unsimulated) volumeName(s *volume.Spec) (string, error) { return s.Name(), nil }
func (unsimulated) path(_ *volume.Spec, dir string) string    { return dir }
func (unsimulated) readOnly(s *volume.Spec) bool              { return s.ReadOnly }
func (u unsimulated) setUp(*mounter, volume.MounterArgs) error {
	return fmt.Errorf("ckadrill does not simulate %s volumes yet", u.what)
}
