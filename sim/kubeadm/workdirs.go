package kubeadm

import (
	"fmt"
	"os"
	"path"
	"time"

	"k8s.io/kubernetes/cmd/kubeadm/app/constants"
)

// dirs are the directories that the phases of init and join work in, as upstream's data names them. The names are those of
// the copies, see [command.onMirror].
type dirs struct {
	c *command
	// dryRun is the directory that takes all files instead, "" if they are written in earnest.
	dryRun string
	// certificates, patches and kubeconfigs are directories of the machine; patches may be "".
	certificates, patches, kubeconfigs string
}

func (d *dirs) dir(name string) string {
	if d.dryRun != "" {
		name = d.dryRun
	}
	return d.c.d.path(name)
}

// DryRun is a method of upstream's data, as all that follow.
func (d *dirs) DryRun() bool                { return d.dryRun != "" }
func (d *dirs) KubeConfigDir() string       { return d.dir(d.kubeconfigs) }
func (d *dirs) KubeletDir() string          { return d.dir(kubeletDir) }
func (d *dirs) ManifestDir() string         { return d.dir(manifestsDir) }
func (d *dirs) CertificateWriteDir() string { return d.dir(d.certificates) }

func (d *dirs) PatchesDir() string {
	if d.patches == "" {
		return ""
	}
	return d.c.d.path(d.patches)
}

// files are what the phases read and write.
func (d *dirs) files() []string {
	l := []string{kubernetesDir, d.certificates, d.kubeconfigs,
		path.Join(kubeletDir, constants.KubeletConfigurationFileName), path.Join(kubeletDir, constants.KubeletInstanceConfigurationFileName), path.Join(kubeletDir, constants.KubeletEnvFileName)}
	for _, name := range []string{d.patches, d.dryRun} {
		if name != "" {
			l = append(l, name)
		}
	}
	return l
}

// tempDir is where kubeadm keeps backups and what dry runs write.
const tempDir = kubernetesDir + "/" + constants.TempDir

// dryRunDir is upstream's GetDryRunDir.
func (c *command) dryRunDir(envVar, name string) (string, error) {
	if dir := c.p.Getenv(envVar); dir != "" {
		return c.p.Path(dir), nil
	}
	dir, err := c.newTempDir(name)
	if err != nil {
		return "", err
	}
	c.warn("constants.go", 621, "Using dry-run directory %s. To override it, set the environment variable %s", dir, envVar)
	return dir, nil
}

// newTempDir makes a directory of a new name, as upstream's createTmpDir does.
func (c *command) newTempDir(name string) (string, error) {
	if err := c.p.Files.MkdirAll(tempDir, 0o700); err != nil {
		return "", fmt.Errorf("failed to create directory %q: %w", tempDir, err)
	}
	r := c.p.World().Rand("kubeadm/temporary")
	for {
		dir := path.Join(tempDir, fmt.Sprintf("%s%d", name, r.Uint32()))
		err := c.p.Files.Mkdir(dir, 0o700)
		if err == nil {
			return dir, nil
		}
		if !os.IsExist(err) {
			return "", fmt.Errorf("could not create a temporary directory in %q: %w", tempDir, err)
		}
	}
}

// newDatedDir makes a directory that is named by the time, as upstream's CreateTimestampDir does.
func (c *command) newDatedDir(name string) (string, error) {
	if err := c.p.Files.MkdirAll(tempDir, 0o700); err != nil {
		return "", fmt.Errorf("failed to create directory %q: %w", tempDir, err)
	}
	dir := path.Join(tempDir, name+"-"+time.Now().Format("2006-01-02-15-04-05"))
	if err := c.p.Files.Mkdir(dir, 0o700); err != nil {
		return "", fmt.Errorf("could not create timestamp directory: %w", err)
	}
	return dir, nil
}

// etcdDirectory makes etcd's data directory, as upstream's CreateDataDirectory.
func (d *dirs) etcdDirectory(phase, dir string) error {
	if d.DryRun() {
		fmt.Printf("[%s] Would ensure that %q directory is present\n", phase, dir)
		return nil
	}
	if err := d.c.p.Files.MkdirAll(dir, 0o700); err != nil {
		return fmt.Errorf("failed to create the etcd data directory: %q: %w", dir, err)
	}
	return nil
}
