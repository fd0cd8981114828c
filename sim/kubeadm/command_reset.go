package kubeadm

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	_ "unsafe" // for go:linkname

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/util/sets"
	clientset "k8s.io/client-go/kubernetes"
	kubeadmapi "k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm"
	kubeadmscheme "k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm/scheme"
	kubeadmapiv1 "k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm/v1beta4"
	"k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm/validation"
	"k8s.io/kubernetes/cmd/kubeadm/app/cmd/options"
	resetphases "k8s.io/kubernetes/cmd/kubeadm/app/cmd/phases/reset"
	"k8s.io/kubernetes/cmd/kubeadm/app/cmd/phases/workflow"
	cmdutil "k8s.io/kubernetes/cmd/kubeadm/app/cmd/util"
	configutil "k8s.io/kubernetes/cmd/kubeadm/app/util/config"
	etcdutil "k8s.io/kubernetes/cmd/kubeadm/app/util/etcd"
	staticpodutil "k8s.io/kubernetes/cmd/kubeadm/app/util/staticpod"

	"ckadrill/sim/kubeadm/host"
)

func init() {
	flows["kubeadm reset"] = &flow{
		phases: func() []workflow.Phase {
			return []workflow.Phase{resetphases.NewPreflightPhase(), resetphases.NewRemoveETCDMemberPhase(), resetphases.NewCleanupNodePhase()}
		},
		stages: map[string]stage{"preflight": own(resetPreflight), "remove-etcd-member": own(removeEtcdMember), "cleanup-node": own(cleanupNode)},
		data:   resetData,
		end: func(*command, workflow.RunData) error {
			fmt.Print(manualCleanupInstructions)
			return nil
		},
	}
}

//go:linkname manualCleanupInstructions k8s.io/kubernetes/cmd/kubeadm/app/cmd.manualCleanupInstructions
var manualCleanupInstructions string

// reset is what the phases of "kubeadm reset" share, as upstream's resetData.
type reset struct {
	certificatesDir               string
	client                        clientset.Interface
	criSocket                     string
	cfg                           *kubeadmapi.InitConfiguration // nil when the cluster could not be asked
	resetCfg                      *kubeadmapi.ResetConfiguration
	ignore                        sets.Set[string]
	force, dryRun, cleanupTempDir bool
}

// resetData is upstream's newResetData.
func resetData(c *command, cmd *cobra.Command, _ []string) (workflow.RunData, []string, error) {
	if err := validation.ValidateMixedArguments(cmd.Flags()); err != nil {
		return nil, nil, err
	}
	ext := &kubeadmapiv1.ResetConfiguration{}
	kubeadmscheme.Scheme.Default(ext)
	ext.CertificatesDir = stringFlag(cmd, options.CertificatesDir)
	ext.Force, ext.DryRun, ext.CleanupTmpDir = boolFlag(cmd, options.Force), boolFlag(cmd, options.DryRun), boolFlag(cmd, options.CleanupTmpDir)
	var err error
	if ext.CRISocket, err = c.criSocket(cmd); err != nil {
		return nil, nil, err
	}
	file := stringFlag(cmd, options.CfgPath)
	if file != "" {
		if file, err = c.configuration(file); err != nil {
			return nil, nil, err
		}
	}
	r := &reset{}
	r.resetCfg, err = configutil.LoadOrDefaultResetConfiguration(file, ext, configutil.LoadOrDefaultConfigurationOptions{AllowExperimental: true, SkipCRIDetect: true})
	if err != nil {
		return nil, nil, err
	}
	flagOrConfig := func(name string, inConfig bool) bool {
		return cmdutil.ValueFromFlagsOrConfig(cmd.Flags(), name, inConfig, boolFlag(cmd, name)).(bool)
	}
	r.dryRun = flagOrConfig(options.DryRun, r.resetCfg.DryRun)
	r.force = flagOrConfig(options.Force, r.resetCfg.Force)
	r.cleanupTempDir = flagOrConfig(options.CleanupTmpDir, r.resetCfg.CleanupTmpDir)
	r.criSocket = r.resetCfg.CRISocket
	kubeconfig := stringFlag(cmd, options.KubeconfigPath)
	if kubeconfig == "" {
		kubeconfig = kubernetesDir + "/admin.conf"
	}
	if r.client, err = c.clientSetFromFile(c.p.Path(kubeconfig)); err == nil {
		c.sayReading("reset")
		if r.cfg, err = c.fetchConfiguration(r.client, true, c.isControlPlane(), true); err != nil {
			c.warn("reset.go", 141, "[reset] Unable to fetch the kubeadm-config ConfigMap from cluster: %v", err)
		}
	}
	if r.ignore, err = validation.ValidateIgnorePreflightErrors(stringsFlag(cmd, options.IgnorePreflightErrors), r.resetCfg.IgnorePreflightErrors); err != nil {
		return nil, nil, err
	}
	r.certificatesDir = kubeadmapiv1.DefaultCertificatesDir
	if f := cmd.Flags().Lookup(options.CertificatesDir); f != nil && f.Changed {
		r.certificatesDir = ext.CertificatesDir
	} else if r.resetCfg.CertificatesDir != "" {
		r.certificatesDir = r.resetCfg.CertificatesDir
	}
	return r, r.resetCfg.SkipPhases, nil
}

func resetPreflight(c *command, r *reset) error {
	if !r.force && !r.dryRun {
		c.warn("preflight.go", 55, "[reset] WARNING: Changes made to this host by 'kubeadm init' or 'kubeadm join' will be reverted.")
		if err := cmdutil.InteractivelyConfirmAction("reset", "Are you sure you want to proceed?", c.stdin()); err != nil {
			return err
		}
	}
	fmt.Println("[preflight] Running pre-flight checks")
	return host.RootCheck(c.p, r.ignore)
}

// removeEtcdMember is upstream's runRemoveETCDMemberPhase.
func removeEtcdMember(c *command, r *reset) error {
	dir, err := c.etcdDataDir(r.cfg)
	if err != nil {
		fmt.Println("[reset] No etcd config found. Assuming external etcd")
		fmt.Println("[reset] Please, manually reset etcd to prevent further issues")
		return nil
	}
	deleteContents := func(line int) {
		if err := c.cleanDir(dir); err != nil {
			c.warn("removeetcdmember.go", line, "[reset] Failed to delete contents of the etcd directory: %q, error: %v", dir, err)
		} else {
			fmt.Printf("[reset] Deleted contents of the etcd data directory: %v\n", dir)
		}
	}
	if r.cfg != nil {
		if r.dryRun {
			fmt.Println("[dryrun] Would remove the etcd member on this node from the etcd cluster")
			fmt.Printf("[dryrun] Would delete contents of the etcd data directory: %v\n", dir)
		} else if err := c.removeStackedMember(r.client, r.cfg); err != nil {
			c.warn("removeetcdmember.go", 67, "[reset] Failed to remove etcd member: %v, please manually remove this etcd member using etcdctl", err)
		} else {
			deleteContents(70)
		}
	}
	if l, err := c.p.Files.ReadDir(dir); (err != nil || len(l) > 0) && !r.dryRun {
		deleteContents(85)
	}
	return nil
}

// etcdDataDir is upstream's getEtcdDataDir.
func (c *command) etcdDataDir(cfg *kubeadmapi.InitConfiguration) (string, error) {
	if cfg != nil && cfg.Etcd.Local != nil {
		return cfg.Etcd.Local.DataDir, nil
	}
	c.warn("removeetcdmember.go", 105, "[reset] No kubeadm config, using etcd pod spec to get data directory")
	manifest := path.Join(manifestsDir, "etcd.yaml")
	if _, err := c.p.Files.Stat(manifest); errors.Is(err, fs.ErrNotExist) {
		cfg := &kubeadmapiv1.ClusterConfiguration{}
		kubeadmscheme.Scheme.Default(cfg)
		return cfg.Etcd.Local.DataDir, nil
	}
	private, err := c.mirror(manifest)
	if err != nil {
		return "", err
	}
	pod, err := staticpodutil.ReadStaticPodFromDisk(private)
	if err != nil {
		return "", err
	}
	for _, v := range pod.Spec.Volumes {
		if v.Name == "etcd-data" && v.HostPath != nil && v.HostPath.Path != "" {
			return v.HostPath.Path, nil
		}
	}
	return "", errors.New("invalid etcd pod manifest")
}

// removeStackedMember is upstream's RemoveStackedEtcdMemberFromCluster.
func (c *command) removeStackedMember(client clientset.Interface, cfg *kubeadmapi.InitConfiguration) error {
	if err := c.mirrorAll(cfg.CertificatesDir); err != nil {
		return err
	}
	etcd, err := host.EtcdFromCluster(c.p, client, c.d.path(cfg.CertificatesDir))
	if err != nil {
		return err
	}
	members, err := etcd.ListMembers()
	if err != nil {
		return err
	}
	if len(members) == 1 && len(etcd.Endpoints) == 1 && etcd.Endpoints[0] == etcdutil.GetClientURL(&cfg.LocalAPIEndpoint) {
		return nil
	}
	id, err := etcd.GetMemberID(etcdutil.GetPeerURL(&cfg.LocalAPIEndpoint))
	if errors.Is(err, etcdutil.ErrNoMemberIDForPeerURL) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = etcd.RemoveMember(id)
	return err
}

// cleanupNode is upstream's runCleanupNode.
func cleanupNode(c *command, r *reset) error {
	dirs := []string{manifestsDir}
	if s, err := host.InitSystem(c.p); err != nil {
		c.warn("cleanupnode.go", 67, "[reset] The kubelet service could not be stopped by kubeadm. Unable to detect a supported init system!")
		c.warn("cleanupnode.go", 68, "[reset] Please ensure kubelet is stopped manually")
	} else if r.dryRun {
		fmt.Println("[dryrun] Would stop the kubelet service")
	} else {
		fmt.Println("[reset] Stopping the kubelet service")
		if err := s.ServiceStop("kubelet"); err != nil {
			c.warn("cleanupnode.go", 73, "[reset] The kubelet service could not be stopped by kubeadm: [%v]\n", err)
			c.warn("cleanupnode.go", 74, "[reset] Please ensure kubelet is stopped manually")
		}
	}
	if r.dryRun {
		fmt.Printf("[dryrun] Would unmount mounted directories in %q\n", kubeletDir)
		fmt.Println("[dryrun] Would remove Kubernetes-managed containers")
	} else {
		if dir, err := c.p.Files.EvalSymlinks(kubeletDir); err != nil {
			c.warn("cleanupnode.go", 86, "[reset] Skipping unmount of directories in %q: %v\n", kubeletDir, err)
		} else {
			fmt.Printf("[reset] Unmounting mounted directories in %q\n", kubeletDir)
			if err := c.unmountBelow(dir); err != nil {
				return err
			}
			dirs = append(dirs, dir)
		}
		if err := c.removeContainers(r.criSocket); err != nil {
			c.warn("cleanupnode.go", 104, "[reset] Failed to remove containers: %v\n", err)
		}
	}
	if r.certificatesDir != kubeadmapiv1.DefaultCertificatesDir {
		c.warn("cleanupnode.go", 112, "[reset] WARNING: Cleaning a non-default certificates directory: %q\n", r.certificatesDir)
	}
	dirs = append(dirs, r.certificatesDir)
	if r.cleanupTempDir {
		dirs = append(dirs, path.Join(kubernetesDir, "tmp"))
	}
	c.resetConfigDir(dirs, r.dryRun)
	return nil
}

// resetConfigDir is upstream's function of that name.
func (c *command) resetConfigDir(dirs []string, dryRun bool) {
	var files []string
	for _, f := range []string{"admin.conf", "super-admin.conf", "kubelet.conf", "bootstrap-kubelet.conf", "controller-manager.conf", "scheduler.conf"} {
		files = append(files, path.Join(kubernetesDir, f))
	}
	if dryRun {
		fmt.Printf("[dryrun] Would delete contents of directories: %v\n", dirs)
		fmt.Printf("[dryrun] Would delete files: %v\n", files)
		return
	}
	fmt.Printf("[reset] Deleting contents of directories: %v\n", dirs)
	for _, dir := range dirs {
		if err := c.cleanDir(dir); err != nil {
			c.warn("cleanupnode.go", 156, "[reset] Failed to delete contents of %q directory: %v", dir, err)
		}
	}
	fmt.Printf("[reset] Deleting files: %v\n", files)
	for _, f := range files {
		if err := c.p.Files.RemoveAll(f); err != nil {
			c.warn("cleanupnode.go", 176, "[reset] Failed to remove file: %q [%v]\n", f, err)
		}
	}
}

// cleanDir removes what is in a directory, if there is one.
func (c *command) cleanDir(dir string) error {
	l, err := c.p.Files.ReadDir(dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	for _, e := range l {
		if err := c.p.Files.RemoveAll(path.Join(dir, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// unmountBelow unmounts what is mounted below a directory.
func (c *command) unmountBelow(dir string) error {
	b, err := c.p.ReadFile("/proc/mounts")
	if err != nil {
		return err
	}
	var problems []error
	for line := range strings.Lines(string(b)) {
		f := strings.Fields(line)
		if len(f) < 2 || !strings.HasPrefix(f[1], dir+"/") {
			continue
		}
		if err := (host.Exec{P: c.p}).Command("umount", f[1]).Run(); err != nil {
			problems = append(problems, fmt.Errorf("failed to unmount %q: %w", f[1], err))
		}
	}
	if err := errors.Join(problems...); err != nil {
		return fmt.Errorf("encountered the following errors while unmounting directories in %q: %w", dir+"/", err)
	}
	return nil
}

func (c *command) removeContainers(socket string) error {
	r := host.ContainerRuntime(c.p, socket)
	if err := r.Connect(); err != nil {
		return err
	}
	defer r.Close()
	l, err := r.ListKubeContainers()
	if err != nil {
		return err
	}
	return r.RemoveContainers(l)
}
