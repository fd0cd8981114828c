package kubeadm

import (
	"bytes"
	"crypto"
	"crypto/rand"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync"
	"time"
	_ "unsafe" // for go:linkname

	kubeadmapi "k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm"
	"k8s.io/kubernetes/cmd/kubeadm/app/constants"
	_ "k8s.io/kubernetes/cmd/kubeadm/app/phases/controlplane" // owns caCertsExtraVolumePaths
	"k8s.io/kubernetes/cmd/kubeadm/app/util/pkiutil"

	"ckadrill/sim/kernel"
)

// This file is the only one here that touches the host. kubeadm's phases open, stat and write files by name and print to
// os.Stdout; they know no other file system. So they run with every path below a private directory, whose name is taken
// out of everything they wrote and said, and which is removed when they are done.

// kubeadm notes the time at which its process started, and dates certificates from it. In this program that moment lies
// before the world, so it is set anew for every run.
//
//go:linkname startTime k8s.io/kubernetes/cmd/kubeadm/app/util.startTime
var startTime time.Time

// kubeadm mounts those of these directories into the control plane that exist on its host. Which ones a simulated machine has
// is known here, so the list is empty while the phases run; see controlPlaneVolumes.
//
//go:linkname caCertsExtraVolumePaths k8s.io/kubernetes/cmd/kubeadm/app/phases/controlplane.caCertsExtraVolumePaths
var caCertsExtraVolumePaths []string

// upstream guards what is process-wide in kubeadm: standard output, the start time, where keys come from.
var upstream sync.Mutex

// privateDir is a directory of the host that stands for the root of a simulated machine while upstream's code runs.
type privateDir struct {
	root string
}

// path is where the machine's file lies in the directory. No name leads out of it: as on the machine, the root is its own
// parent.
func (d privateDir) path(name string) string {
	return filepath.Join(d.root, filepath.Clean(string(filepath.Separator)+filepath.FromSlash(name)))
}

// write puts files of a machine into the directory.
func (d privateDir) write(t *Tree, names ...string) error {
	for _, n := range names {
		f, ok := t.File(n)
		if !ok {
			return &fs.PathError{Op: "open", Path: n, Err: fs.ErrNotExist}
		}
		if err := os.MkdirAll(filepath.Dir(d.path(n)), 0o700); err != nil {
			return err
		}
		if err := os.WriteFile(d.path(n), f.Content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

// strip takes the directory's name out of what upstream wrote.
func (d privateDir) strip(b []byte) []byte { return bytes.ReplaceAll(b, []byte(d.root), nil) }

// read collects all files that are in the directory.
func (d privateDir) read() (*Tree, error) {
	t := NewTree()
	err := filepath.WalkDir(d.root, func(p string, e fs.DirEntry, err error) error {
		if err != nil || p == d.root {
			return err
		}
		name := filepath.ToSlash(strings.TrimPrefix(p, d.root))
		if e.IsDir() {
			t.Dir(name, modeOf(name, true))
			return nil
		}
		if !e.Type().IsRegular() {
			return fmt.Errorf("%s is not a regular file", name)
		}
		b, err := os.ReadFile(p)
		if err != nil {
			return err
		}
		t.Write(name, modeOf(name, false), d.strip(b))
		return nil
	})
	return t, err
}

// modeOf is the mode that kubeadm gives a file. The host's umask, or Windows, would change what the private directory shows.
func modeOf(name string, dir bool) fs.FileMode {
	base := path.Base(name)
	switch {
	case dir && (base == "manifests" || base == constants.TempDir || path.Base(path.Dir(name)) == constants.TempDir):
		return 0o700
	case dir:
		return 0o755
	case strings.HasSuffix(name, ".crt"), base == "config.yaml", base == "instance-config.yaml", base == "kubeadm-flags.env":
		return 0o644
	}
	return 0o600
}

// runUpstream runs f with a private directory and returns what it printed to standard output. newKey makes the private keys.
// It must not run while the world does: for serial numbers from the world's seed it exchanges crypto/rand's reader, which
// every TLS handshake reads.
func runUpstream(w *kernel.World, newKey func() (crypto.Signer, error), f func(d privateDir) error) (output string, err error) {
	upstream.Lock()
	defer upstream.Unlock()
	root, err := os.MkdirTemp("", "ckadrill-kubeadm-")
	if err != nil {
		return "", fmt.Errorf("kubeadm's private directory: %w", err)
	}
	defer os.RemoveAll(root)
	out, err := os.CreateTemp("", "ckadrill-kubeadm-output-")
	if err != nil {
		return "", fmt.Errorf("kubeadm's output: %w", err)
	}
	defer os.Remove(out.Name())
	defer out.Close()

	defer func(o *os.File, s time.Time, v []string, k func(kubeadmapi.EncryptionAlgorithmType) (crypto.Signer, error), r io.Reader) {
		os.Stdout, startTime, caCertsExtraVolumePaths, pkiutil.NewPrivateKey, rand.Reader = o, s, v, k, r
	}(os.Stdout, startTime, caCertsExtraVolumePaths, pkiutil.NewPrivateKey, rand.Reader)
	os.Stdout, startTime, caCertsExtraVolumePaths = out, time.Now(), nil
	pkiutil.NewPrivateKey = func(kubeadmapi.EncryptionAlgorithmType) (crypto.Signer, error) { return newKey() }
	rand.Reader = w.Random("serials")

	d := privateDir{root}
	err = f(d)
	b, readErr := os.ReadFile(out.Name())
	if err == nil {
		err = readErr
	}
	return string(d.strip(b)), err
}
