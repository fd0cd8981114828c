package kubeadm

import (
	"fmt"
	"os"
	"path"

	"k8s.io/client-go/tools/clientcmd"
	kubeadmapi "k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm"
	initphases "k8s.io/kubernetes/cmd/kubeadm/app/cmd/phases/init"
	"k8s.io/kubernetes/cmd/kubeadm/app/cmd/phases/workflow"
	"k8s.io/kubernetes/cmd/kubeadm/app/constants"
	etcdphase "k8s.io/kubernetes/cmd/kubeadm/app/phases/etcd"
	kubeletphase "k8s.io/kubernetes/cmd/kubeadm/app/phases/kubelet"
	"k8s.io/kubernetes/cmd/kubeadm/app/util/apiclient"
	dryrunutil "k8s.io/kubernetes/cmd/kubeadm/app/util/dryrun"

	"ckadrill/sim/kubeadm/host"
)

func init() {
	flows["kubeadm init"] = &flow{
		phases: func() []workflow.Phase {
			return []workflow.Phase{
				initphases.NewPreflightPhase(), initphases.NewCertsPhase(), initphases.NewKubeConfigPhase(), initphases.NewEtcdPhase(), initphases.NewControlPlanePhase(),
				initphases.NewKubeletStartPhase(), initphases.NewWaitControlPlanePhase(), initphases.NewUploadConfigPhase(), initphases.NewUploadCertsPhase(),
				initphases.NewMarkControlPlanePhase(), initphases.NewBootstrapTokenPhase(), initphases.NewKubeletFinalizePhase(), initphases.NewAddonPhase(),
				initphases.NewShowJoinCommandPhase(),
			}
		},
		stages: map[string]stage{
			"preflight":          own(initPreflight),
			"certs":              onCertificates,
			"kubeconfig":         onCertificates,
			"etcd":               own(initEtcd),
			"control-plane":      onManifests,
			"kubelet-start":      own(initKubeletStart),
			"wait-control-plane": own(initWaitControlPlane),
			"upload-config":      asIs,
			"upload-certs":       onUploadedCertificates,
			"mark-control-plane": asIs,
			"bootstrap-token":    asIs,
			"kubelet-finalize":   own(initKubeletFinalize),
			"addon":              onFiles, // for the patches
			"show-join-command":  onFiles,
		},
		data: initData,
		begin: func(_ *command, d workflow.RunData) error {
			fmt.Printf("[init] Using Kubernetes version: %s\n", d.(*initialise).cfg.KubernetesVersion)
			return nil
		},
	}
}

// onCertificates is the stage of a phase that makes certificates. While it runs, upstream lets the configuration name the
// directory of the copies, and does not know the machine's to restore it.
func onCertificates(c *command, upstream run) run {
	return func(d workflow.RunData) error {
		i := d.(*initialise)
		defer func(dir string) { i.cfg.CertificatesDir = dir }(i.cfg.CertificatesDir)
		return c.onMirror(i.files(), func() error { return upstream(d) })
	}
}

// onUploadedCertificates is the stage of the phase that reads the certificates by the configuration.
func onUploadedCertificates(c *command, upstream run) run {
	return func(d workflow.RunData) error {
		i := d.(*initialise)
		if !i.uploadCerts {
			return upstream(d)
		}
		defer func(dir string) { i.cfg.CertificatesDir = dir }(i.cfg.CertificatesDir)
		i.cfg.CertificatesDir = i.CertificateWriteDir()
		return c.onMirror(i.files(), func() error { return upstream(d) })
	}
}

// onManifests is the stage of a phase that writes the manifests of the control plane.
func onManifests(c *command, upstream run) run {
	return func(d workflow.RunData) error {
		i := d.(*initialise)
		defer func(cfg *kubeadmapi.InitConfiguration) { i.cfg = cfg }(i.cfg)
		i.cfg = c.withVolumes(i.cfg)
		return c.onMirror(i.files(), func() error { return upstream(d) })
	}
}

// initPreflight is upstream's runPreflight.
func initPreflight(c *command, i *initialise) error {
	fmt.Println("[preflight] Running pre-flight checks")
	if err := host.RootCheck(c.p, i.ignore); err != nil {
		return err
	}
	if err := host.InitChecks(c.p, i.cfg, i.ignore, false, false); err != nil {
		return err
	}
	return c.pullImages(i.cfg, i.ignore, i.DryRun())
}

// initEtcd is upstream's runEtcdPhaseLocal.
func initEtcd(c *command, i *initialise) error {
	if err := i.etcdDirectory("etcd", i.cfg.Etcd.Local.DataDir); err != nil {
		return err
	}
	fmt.Printf("[etcd] Creating static Pod manifest for local etcd in %q\n", i.ManifestDir())
	return c.onMirror(i.files(), func() error {
		if err := etcdphase.CreateLocalEtcdStaticPodManifestFile(i.ManifestDir(), i.PatchesDir(), i.cfg.NodeRegistration.Name, &i.cfg.ClusterConfiguration, &i.cfg.LocalAPIEndpoint, i.DryRun()); err != nil {
			return fmt.Errorf("error creating local etcd static pod manifest file: %w", err)
		}
		return nil
	})
}

// initKubeletStart is upstream's runKubeletStart.
func initKubeletStart(c *command, i *initialise) error {
	if !i.DryRun() {
		c.stopKubelet()
	}
	cfg := &i.cfg.ClusterConfiguration
	err := c.onMirror(i.files(), func() error {
		if err := c.writeKubeletFlags(cfg, &i.cfg.NodeRegistration, false, i.KubeletDir()); err != nil {
			return fmt.Errorf("error writing a dynamic environment file for the kubelet: %w", err)
		}
		if err := writeInstanceConfig(cfg, i.cfg.NodeRegistration.CRISocket, i.KubeletDir()); err != nil {
			return err
		}
		if err := kubeletphase.WriteConfigToDisk(cfg, i.KubeletDir(), i.PatchesDir(), os.Stdout); err != nil {
			return fmt.Errorf("error writing kubelet configuration to disk: %w", err)
		}
		return nil
	})
	if err != nil || i.DryRun() {
		return err
	}
	fmt.Println("[kubelet-start] Starting the kubelet")
	c.startKubelet()
	return nil
}

// initWaitControlPlane is upstream's runWaitControlPlanePhase.
func initWaitControlPlane(c *command, i *initialise) error {
	if i.DryRun() {
		err := c.onMirror(i.files(), func() error { return dryrunutil.PrintFilesIfDryRunning(true, i.ManifestDir(), os.Stdout) })
		if err != nil {
			return fmt.Errorf("error printing files on dryrun: %w", err)
		}
	}
	client, err := i.WaitControlPlaneClient()
	if err != nil {
		return fmt.Errorf("cannot obtain client without bootstrap: %w", err)
	}
	fmt.Printf("[wait-control-plane] Waiting for the kubelet to boot up the control plane as static Pods from directory %q\n", i.ManifestDir())
	k, err := kubeletConfiguration(&i.cfg.ClusterConfiguration)
	if err != nil {
		return err
	}
	if i.DryRun() {
		return dryrunutil.NewWaiter().WaitForKubelet(k.HealthzBindAddress, *k.HealthzPort)
	}
	if err := c.waiter(client, i.cfg.Timeouts.KubeletHealthCheck.Duration, os.Stdout).WaitForKubelet(k.HealthzBindAddress, *k.HealthzPort); err != nil {
		apiclient.PrintKubeletErrorHelpScreen(os.Stdout)
		return fmt.Errorf("failed while waiting for the kubelet to start: %w", err)
	}
	return c.waitForControlPlane(client, i.cfg.Timeouts.ControlPlaneComponentHealthCheck.Duration, i.cfg.LocalAPIEndpoint.AdvertiseAddress, i.cfg.NodeRegistration.CRISocket)
}

// initKubeletFinalize is upstream's runKubeletFinalizeEnableClientCertRotation.
func initKubeletFinalize(c *command, i *initialise) error {
	pki := path.Join(kubeletDir, "pki")
	if i.DryRun() {
		pki = path.Join(i.dryRun, "pki")
	}
	if dir, n := kubeadmapi.GetArgValue(i.cfg.NodeRegistration.KubeletExtraArgs, "cert-dir", -1); n > -1 {
		pki = dir
	}
	pem := path.Join(pki, "kubelet-client-current.pem")
	if _, err := c.p.Files.Stat(pem); err != nil {
		return nil
	}
	name := path.Join(kubernetesDir, constants.KubeletKubeConfigFileName)
	fmt.Printf("[kubelet-finalize] Updating %q to point to a rotatable kubelet client certificate and key\n", name)
	if i.DryRun() {
		return nil
	}
	b, err := c.p.Files.ReadFile(name)
	if err != nil {
		return fmt.Errorf("could not load %q: %w", name, err)
	}
	cfg, err := clientcmd.Load(b)
	if err != nil {
		return fmt.Errorf("could not load %q: %w", name, err)
	}
	if cfg.CurrentContext == "" {
		return fmt.Errorf("the file %q does not have current context set", name)
	}
	ctx, ok := cfg.Contexts[cfg.CurrentContext]
	if !ok {
		return fmt.Errorf("the file %q is not a valid kubeconfig: %q set as current-context, but not found in context list", name, cfg.CurrentContext)
	}
	if ctx.AuthInfo == "" {
		return fmt.Errorf("the file %q is not a valid kubeconfig: empty username for current context", name)
	}
	u, ok := cfg.AuthInfos[ctx.AuthInfo]
	if !ok {
		return fmt.Errorf("the file %q does not contain authentication for user %q", name, i.cfg.NodeRegistration.Name)
	}
	u.ClientKeyData, u.ClientCertificateData = nil, nil
	u.ClientKey, u.ClientCertificate = pem, pem
	if b, err = clientcmd.Write(*cfg); err == nil {
		err = c.p.Files.WriteFile(name, b, 0o600)
	}
	if err != nil {
		return fmt.Errorf("failed to serialize %q: %w", name, err)
	}
	c.restartKubelet()
	return nil
}
