package kubeadm

import (
	"errors"
	"fmt"
	"os"
	"path"
	"strings"
	"time"
	_ "unsafe" // for go:linkname

	utilversion "k8s.io/apimachinery/pkg/util/version"
	kubeadmapi "k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm"
	"k8s.io/kubernetes/cmd/kubeadm/app/constants"
	"k8s.io/kubernetes/cmd/kubeadm/app/phases/certs/renewal"
	controlplanephase "k8s.io/kubernetes/cmd/kubeadm/app/phases/controlplane"
	etcdphase "k8s.io/kubernetes/cmd/kubeadm/app/phases/etcd"
	upgradephase "k8s.io/kubernetes/cmd/kubeadm/app/phases/upgrade"
	"k8s.io/kubernetes/cmd/kubeadm/app/util/apiclient"
	dryrunutil "k8s.io/kubernetes/cmd/kubeadm/app/util/dryrun"
	etcdutil "k8s.io/kubernetes/cmd/kubeadm/app/util/etcd"

	"ckadrill/sim/kubeadm/host"
)

//go:linkname upgradeComponent k8s.io/kubernetes/cmd/kubeadm/app/phases/upgrade.upgradeComponent
func upgradeComponent(component string, certsRenewMgr *renewal.Manager, waiter apiclient.Waiter, pathMgr upgradephase.StaticPodPathManager, cfg *kubeadmapi.InitConfiguration, beforePodHash string, recoverManifests map[string]string) error

//go:linkname rollbackOldManifests k8s.io/kubernetes/cmd/kubeadm/app/phases/upgrade.rollbackOldManifests
func rollbackOldManifests(oldManifests map[string]string, origErr error, pathMgr upgradephase.StaticPodPathManager, restoreEtcd bool) error

// manifestPaths are upstream's directories of an upgrade in the private directory. A manifest that is moved there is moved on
// the machine at once: the kubelet looks on.
type manifestPaths struct {
	upgradephase.StaticPodPathManager
	c *command
}

// MoveFile implements upstream's StaticPodPathManager.
func (m manifestPaths) MoveFile(from, to string) error {
	return errors.Join(m.StaticPodPathManager.MoveFile(from, to), m.c.export())
}

// CleanupDirs implements upstream's StaticPodPathManager.
func (m manifestPaths) CleanupDirs() error {
	return errors.Join(m.StaticPodPathManager.CleanupDirs(), m.c.export())
}

// exportingWaiter does to the machine what has been done to its copies before it waits for what follows.
type exportingWaiter struct {
	*waiter
	c *command
}

func (w exportingWaiter) WaitForPodsWithLabel(label string) error {
	if err := w.c.export(); err != nil {
		return err
	}
	return w.waiter.WaitForPodsWithLabel(label)
}

func (w exportingWaiter) WaitForStaticPodHashChange(node, component, hash string) error {
	if err := w.c.export(); err != nil {
		return err
	}
	return w.waiter.WaitForStaticPodHashChange(node, component, hash)
}

// staticPodUpgrade is one upgrade of the static Pods of this machine.
type staticPodUpgrade struct {
	c         *command
	u         *upgrade
	paths     manifestPaths
	waiter    apiclient.Waiter
	renew     *renewal.Manager // nil when nothing is to be renewed
	recover   map[string]string
	oldEtcd   *etcdutil.Client
	etcdUp    bool
	backupDir string // of etcd's data, on the machine
}

// upgradeStaticPods is upstream's PerformStaticPodUpgrade, with its StaticPodControlPlane.
func (c *command) upgradeStaticPods(u *upgrade, timeout time.Duration) error {
	if err := refuseExternalEtcd(&u.initCfg.ClusterConfiguration); err != nil {
		return err
	}
	temp, err := c.newTempDir("kubeadm-upgraded-manifests")
	if err != nil {
		return err
	}
	backup, err := c.newDatedDir("kubeadm-backup-manifests")
	if err != nil {
		return err
	}
	backupEtcd, err := c.newDatedDir("kubeadm-backup-etcd")
	if err != nil {
		return err
	}
	return c.onMirror(append(u.files(), temp, backup), func() error {
		s := &staticPodUpgrade{c: c, u: u, recover: map[string]string{}, backupDir: backupEtcd, etcdUp: u.etcdUpgrade}
		s.paths = manifestPaths{upgradephase.NewKubeStaticPodPathManager(c.d.path(kubernetesDir), u.PatchesDir(), c.d.path(temp), c.d.path(backup), c.d.path(backupEtcd), true, u.etcdUpgrade), c}
		s.waiter = exportingWaiter{c.waiter(u.client, timeout, os.Stdout), c}
		return s.run()
	})
}

// withVolumes is a configuration for manifests: upstream adds the directories with CA certificates that its host has.
func (c *command) withVolumes(cfg *kubeadmapi.InitConfiguration) *kubeadmapi.InitConfiguration {
	cfg = cfg.DeepCopy()
	for _, v := range controlPlaneVolumes() {
		if _, err := c.p.Files.Stat(v.HostPath); err == nil {
			cfg.APIServer.ExtraVolumes = append(cfg.APIServer.ExtraVolumes, v)
			cfg.ControllerManager.ExtraVolumes = append(cfg.ControllerManager.ExtraVolumes, v)
		}
	}
	return cfg
}

func (s *staticPodUpgrade) run() error {
	u, c := s.u, s.c
	hashes, err := s.waiter.WaitForStaticPodControlPlaneHashes(u.initCfg.NodeRegistration.Name)
	if err != nil {
		return err
	}
	if s.oldEtcd, err = host.EtcdFromCluster(c.p, u.client, c.d.path(u.initCfg.CertificatesDir)); err != nil {
		return fmt.Errorf("failed to create etcd client: %w", err)
	}
	if u.renewCerts {
		// The manager works on the copies of the certificates.
		private := u.initCfg.ClusterConfiguration.DeepCopy()
		private.CertificatesDir = c.d.path(u.initCfg.CertificatesDir)
		if s.renew, err = renewal.NewManager(private, s.paths.KubernetesDir()); err != nil {
			return fmt.Errorf("failed to create the certificate renewal manager: %w", err)
		}
	}
	fmt.Printf("[upgrade/staticpods] Writing new Static Pod manifests to %q\n", s.paths.TempManifestDir())
	if err := controlplanephase.CreateInitStaticPodManifestFiles(s.paths.TempManifestDir(), s.paths.PatchesDir(), c.withVolumes(u.initCfg), false); err != nil {
		return fmt.Errorf("error creating init static pod manifest files: %w", err)
	}
	if s.etcdUp {
		if fatal, err := s.etcd(); fatal {
			return err
		} else if err != nil {
			fmt.Printf("[upgrade/etcd] Non fatal issue encountered during upgrade: %v\n", err)
		}
	}
	for _, component := range constants.ControlPlaneComponents {
		if err := upgradeComponent(component, s.renew, s.waiter, s.paths, u.initCfg, hashes[component], s.recover); err != nil {
			return err
		}
	}
	if err := s.renewAdmin(); err != nil {
		return err
	}
	if !s.etcdUp {
		if err := c.p.Files.RemoveAll(s.backupDir); err != nil {
			return err
		}
	}
	return s.paths.CleanupDirs()
}

// renewAdmin renews the certificates that people use.
func (s *staticPodUpgrade) renewAdmin() error {
	if s.renew == nil {
		return nil
	}
	for _, name := range []string{constants.AdminKubeConfigFileName, constants.SuperAdminKubeConfigFileName} {
		if _, err := os.Stat(s.c.d.path(path.Join(kubernetesDir, name))); err != nil && name != constants.AdminKubeConfigFileName {
			continue
		}
		renewed, err := s.renew.RenewUsingLocalCA(name)
		if err != nil {
			return rollbackOldManifests(s.recover, fmt.Errorf("failed to upgrade the %s certificates: %w", name, err), s.paths, false)
		}
		if !renewed {
			fmt.Printf("[upgrade/staticpods] External CA detected, %s certificate can't be renewed\n", name)
		}
	}
	return nil
}

// How often and how long upstream waits for etcd.
const (
	etcdRetries       = 10
	etcdRetryInterval = 15 * time.Second
)

// etcd is upstream's performEtcdStaticPodUpgrade. It says whether an error ends the upgrade.
func (s *staticPodUpgrade) etcd() (fatal bool, err error) {
	cfg := s.u.initCfg
	if err := s.oldEtcd.CheckClusterHealth(); err != nil {
		return true, fmt.Errorf("etcd cluster is not healthy: %w", err)
	}
	if out, err := s.copyDir(cfg.Etcd.Local.DataDir, s.backupDir); err != nil {
		return true, fmt.Errorf("failed to back up etcd data, output: %q: %w", out, err)
	}
	desired, err := s.desiredEtcd()
	if err != nil {
		return true, err
	}
	current, err := upgradephase.GetEtcdImageTagFromStaticPod(s.paths.RealManifestDir())
	if err != nil {
		return true, fmt.Errorf("failed to retrieve the current etcd version: %w", err)
	}
	n, err := desired.Compare(current)
	if err != nil {
		return true, fmt.Errorf("failed comparing the current etcd version %q to the desired one %q: %w", current, desired, err)
	}
	if n < 0 {
		return false, fmt.Errorf("the desired etcd version %q is older than the currently installed %q. Skipping etcd upgrade", desired, current)
	}
	hash, err := s.waiter.WaitForStaticPodSingleHash(cfg.NodeRegistration.Name, constants.Etcd)
	if err != nil {
		return true, err
	}
	if err := etcdphase.CreateLocalEtcdStaticPodManifestFile(s.paths.TempManifestDir(), s.paths.PatchesDir(), cfg.NodeRegistration.Name, &cfg.ClusterConfiguration, &cfg.LocalAPIEndpoint, false); err != nil {
		return true, fmt.Errorf("error creating local etcd static pod manifest file: %w", err)
	}
	if err := upgradeComponent(constants.Etcd, s.renew, s.waiter, s.paths, cfg, hash, s.recover); err != nil {
		fmt.Printf("[upgrade/etcd] Failed to upgrade etcd: %v\n", err)
		fmt.Println("[upgrade/etcd] Waiting for previous etcd to become available")
		if _, err := s.oldEtcd.WaitForClusterAvailable(etcdRetries, etcdRetryInterval); err != nil {
			fmt.Printf("[upgrade/etcd] Failed to healthcheck previous etcd: %v\n", err)
			if err := s.rollBackEtcdData(); err != nil {
				return true, err
			}
			if err := s.awaitPreviousEtcd(); err != nil {
				return true, err
			}
		}
		fmt.Println("[upgrade/etcd] Etcd was rolled back and is now available")
		return true, fmt.Errorf("fatal error when trying to upgrade the etcd cluster, rolled the state back to pre-upgrade state: %w", err)
	}
	etcd, err := host.EtcdFromCluster(s.c.p, s.u.client, s.c.d.path(cfg.CertificatesDir))
	if err != nil {
		return true, fmt.Errorf("fatal error creating etcd client: %w", err)
	}
	fmt.Println("[upgrade/etcd] Waiting for etcd to become available")
	if _, err = etcd.WaitForClusterAvailable(etcdRetries, etcdRetryInterval); err == nil {
		return false, nil
	}
	fmt.Printf("[upgrade/etcd] Failed to healthcheck etcd: %v\n", err)
	if err := s.rollBackEtcdData(); err != nil {
		return true, err
	}
	fmt.Println("[upgrade/etcd] Rolling back etcd manifest")
	_ = rollbackOldManifests(s.recover, err, s.paths, true) // it always returns an error
	if err := s.awaitPreviousEtcd(); err != nil {
		return true, err
	}
	fmt.Println("[upgrade/etcd] Etcd was rolled back and is now available")
	return true, fmt.Errorf("fatal error upgrading local etcd cluster, rolled the state back to pre-upgrade state: %w", err)
}

func (s *staticPodUpgrade) desiredEtcd() (*utilversion.Version, error) {
	cfg := s.u.initCfg
	if tag := cfg.Etcd.Local.ImageTag; tag != "" {
		v, err := utilversion.ParseSemantic(strings.Replace(tag, "_", "+", 1))
		if err != nil {
			return nil, fmt.Errorf("failed to parse tag %q as a semantic version: %w", tag, err)
		}
		return v, nil
	}
	v, _, err := constants.EtcdSupportedVersion(constants.SupportedEtcdVersion, cfg.KubernetesVersion)
	if err != nil {
		return nil, fmt.Errorf("failed to retrieve an etcd version for the target Kubernetes version: %w", err)
	}
	return v, nil
}

// copyDir is upstream's CopyDir, on the machine.
func (s *staticPodUpgrade) copyDir(from, to string) ([]byte, error) {
	return host.Exec{P: s.c.p}.Command("cp", "-r", from, to).CombinedOutput()
}

func (s *staticPodUpgrade) rollBackEtcdData() error {
	fmt.Println("[upgrade/etcd] Rolling back etcd data")
	if out, err := s.copyDir(s.backupDir, s.u.initCfg.Etcd.Local.DataDir); err != nil {
		return fmt.Errorf("fatal error rolling back local etcd cluster datadir, the backup of etcd database is stored here:(%s): "+
			"couldn't recover etcd database with error, the location of etcd backup: %s, output: %q: %w", s.backupDir, s.backupDir, out, err)
	}
	fmt.Println("[upgrade/etcd] Etcd data rollback successful")
	return nil
}

func (s *staticPodUpgrade) awaitPreviousEtcd() error {
	fmt.Println("[upgrade/etcd] Waiting for previous etcd to become available")
	if _, err := s.oldEtcd.WaitForClusterAvailable(etcdRetries, etcdRetryInterval); err != nil {
		fmt.Printf("[upgrade/etcd] Failed to healthcheck previous etcd: %v\n", err)
		return fmt.Errorf("fatal error rolling back local etcd cluster manifest, the backup of etcd database is stored here:(%s): %w", s.backupDir, err)
	}
	return nil
}

// dryRunStaticPods is upstream's DryRunStaticPodUpgrade.
func (c *command) dryRunStaticPods(u *upgrade) error {
	dir, err := c.dryRunDir(constants.EnvVarUpgradeDryRunDir, "kubeadm-upgrade-dryrun")
	if err != nil {
		return err
	}
	defer c.p.Files.RemoveAll(dir)
	return c.onMirror(append(u.files(), dir), func() error {
		if err := controlplanephase.CreateInitStaticPodManifestFiles(c.d.path(dir), u.PatchesDir(), c.withVolumes(u.initCfg), true); err != nil {
			return err
		}
		var files []dryrunutil.FileToPrint
		for _, component := range constants.ControlPlaneComponents {
			files = append(files, dryrunutil.NewFileToPrint(constants.GetStaticPodFilepath(component, c.d.path(dir)), path.Join(manifestsDir, component+".yaml")))
		}
		return dryrunutil.PrintDryRunFiles(files, os.Stdout)
	})
}
