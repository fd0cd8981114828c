package kubeadm

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"text/template"
	_ "unsafe" // for go:linkname

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	clientset "k8s.io/client-go/kubernetes"
	certutil "k8s.io/client-go/util/cert"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
	kubeadmapi "k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm"
	joinphases "k8s.io/kubernetes/cmd/kubeadm/app/cmd/phases/join"
	"k8s.io/kubernetes/cmd/kubeadm/app/cmd/phases/workflow"
	"k8s.io/kubernetes/cmd/kubeadm/app/componentconfigs"
	"k8s.io/kubernetes/cmd/kubeadm/app/constants"
	"k8s.io/kubernetes/cmd/kubeadm/app/features"
	kubeletphase "k8s.io/kubernetes/cmd/kubeadm/app/phases/kubelet"
	patchnodephase "k8s.io/kubernetes/cmd/kubeadm/app/phases/patchnode"
	kubeadmutil "k8s.io/kubernetes/cmd/kubeadm/app/util"
	"k8s.io/kubernetes/cmd/kubeadm/app/util/apiclient"
	dryrunutil "k8s.io/kubernetes/cmd/kubeadm/app/util/dryrun"
	kubeconfigutil "k8s.io/kubernetes/cmd/kubeadm/app/util/kubeconfig"

	"ckadrill/sim/kubeadm/host"
)

func init() {
	flows["kubeadm join"] = &flow{
		phases: func() []workflow.Phase {
			return []workflow.Phase{
				joinphases.NewPreflightPhase(), joinphases.NewControlPlanePreparePhase(), joinphases.NewCheckEtcdPhase(), joinphases.NewKubeletStartPhase(),
				joinphases.NewEtcdJoinPhase(), joinphases.NewKubeletWaitBootstrapPhase(), joinphases.NewControlPlaneJoinPhase(), joinphases.NewWaitControlPlanePhase(),
			}
		},
		stages: map[string]stage{
			"preflight":                           own(joinPreflight),
			"control-plane-prepare":               controlPlaneOnly,
			"control-plane-prepare/control-plane": onJoinManifests,
			"check-etcd":                          own(joinCheckEtcd),
			"kubelet-start":                       own(joinKubeletStart),
			"etcd-join":                           own(joinEtcd),
			"kubelet-wait-bootstrap":              own(joinKubeletWait),
			"control-plane-join":                  asIs,
			"control-plane-join/etcd":             own(joinEtcd),
			"wait-control-plane":                  own(joinWaitControlPlane),
		},
		data: joinData,
		end:  joinDone,
	}
}

//go:linkname joinWorkerNodeDoneMsg k8s.io/kubernetes/cmd/kubeadm/app/cmd.joinWorkerNodeDoneMsg
var joinWorkerNodeDoneMsg string

//go:linkname joinControlPlaneDoneTemp k8s.io/kubernetes/cmd/kubeadm/app/cmd.joinControlPlaneDoneTemp
var joinControlPlaneDoneTemp *template.Template

//go:linkname notReadyToJoinControlPlaneTemp k8s.io/kubernetes/cmd/kubeadm/app/cmd/phases/join.notReadyToJoinControlPlaneTemp
var notReadyToJoinControlPlaneTemp *template.Template

//go:linkname checkIfReadyForAdditionalControlPlane k8s.io/kubernetes/cmd/kubeadm/app/cmd/phases/join.checkIfReadyForAdditionalControlPlane
func checkIfReadyForAdditionalControlPlane(initConfiguration *kubeadmapi.ClusterConfiguration, hasCertificateKey bool) error

func joinDone(_ *command, d workflow.RunData) error {
	j := d.(*join)
	if j.cfg.ControlPlane == nil {
		fmt.Print(joinWorkerNodeDoneMsg)
		return nil
	}
	return joinControlPlaneDoneTemp.Execute(os.Stdout, map[string]string{
		"KubeConfigPath": adminConf, "etcdMessage": "* A new etcd member was added to the local/stacked etcd cluster.",
	})
}

// controlPlaneOnly is the stage of a phase that works on files, and does nothing for a worker.
func controlPlaneOnly(c *command, upstream run) run {
	return func(d workflow.RunData) error {
		j := d.(*join)
		if j.cfg.ControlPlane == nil {
			return nil
		}
		return onFiles(c, upstream)(d)
	}
}

// joinPreflight is upstream's runPreflight.
func joinPreflight(c *command, j *join) error {
	fmt.Println("[preflight] Running pre-flight checks")
	if err := host.RootCheck(c.p, j.ignore); err != nil {
		return err
	}
	if err := host.JoinChecks(c.p, j.cfg, j.ignore); err != nil {
		return err
	}
	cfg, err := j.InitCfg()
	if err != nil || j.cfg.ControlPlane == nil {
		return err
	}
	hasKey := j.CertificateKey() != ""
	err = c.onMirror(j.files(), func() error {
		private := cfg.ClusterConfiguration.DeepCopy()
		private.CertificatesDir = c.d.path(cfg.CertificatesDir)
		return checkIfReadyForAdditionalControlPlane(private, hasKey)
	})
	if err != nil {
		var msg bytes.Buffer
		if err := notReadyToJoinControlPlaneTemp.Execute(&msg, map[string]string{"Error": err.Error()}); err != nil {
			return err
		}
		return errors.New(msg.String())
	}
	fmt.Println("[preflight] Running pre-flight checks before initializing the new control plane instance")
	if err := host.InitChecks(c.p, cfg, j.ignore, true, hasKey); err != nil {
		return err
	}
	return c.pullImages(cfg, j.ignore, j.DryRun())
}

// joinKubeletStart is upstream's runKubeletStartJoinPhase.
func joinKubeletStart(c *command, j *join) error {
	initCfg, err := j.InitCfg()
	if err != nil {
		return err
	}
	bootstrap, err := j.discovered()
	if err != nil {
		return err
	}
	var client clientset.Interface
	if j.DryRun() {
		client, err = j.Client()
	} else if client, err = c.clientSet(bootstrap); err != nil {
		err = errors.New("could not create client from bootstrap kubeconfig")
	}
	if err != nil {
		return err
	}
	if j.cfg.ControlPlane != nil {
		for _, cluster := range bootstrap.Clusters {
			if cluster.Server, err = kubeadmutil.GetLocalAPIEndpoint(&j.cfg.ControlPlane.LocalAPIEndpoint); err != nil {
				return fmt.Errorf("could not get LocalAPIEndpoint: %w", err)
			}
		}
	}
	caFile := c.p.Path(j.cfg.CACertPath)
	err = c.onMirror(append(j.files(), caFile), func() error {
		if err := kubeconfigutil.WriteToDisk(filepath.Join(j.KubeConfigDir(), constants.KubeletBootstrapKubeConfigFileName), bootstrap); err != nil {
			return fmt.Errorf("couldn't save bootstrap-kubelet.conf to disk: %w", err)
		}
		private := c.d.path(caFile)
		if j.DryRun() {
			private = filepath.Join(j.CertificateWriteDir(), constants.CACertName)
		}
		if _, err := os.Stat(private); os.IsNotExist(err) {
			cluster := bootstrap.Contexts[bootstrap.CurrentContext].Cluster
			if err := certutil.WriteCert(private, bootstrap.Clusters[cluster].CertificateAuthorityData); err != nil {
				return fmt.Errorf("couldn't save the CA certificate to disk: %w", err)
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := noSuchReadyNode(c.p.Context(), client, c.kubeletNode(&j.cfg.NodeRegistration)); err != nil {
		return err
	}
	if j.DryRun() {
		fmt.Println("[kubelet-start] Would stop the kubelet")
	} else {
		c.stopKubelet()
	}
	err = c.onMirror(j.files(), func() error {
		if err := writeInstanceConfig(&initCfg.ClusterConfiguration, j.cfg.NodeRegistration.CRISocket, j.KubeletDir()); err != nil {
			return err
		}
		if err := kubeletphase.WriteConfigToDisk(&initCfg.ClusterConfiguration, j.KubeletDir(), j.PatchesDir(), os.Stdout); err != nil {
			return err
		}
		if err := c.writeKubeletFlags(&initCfg.ClusterConfiguration, &initCfg.NodeRegistration, j.cfg.ControlPlane == nil, j.KubeletDir()); err != nil {
			return err
		}
		if j.DryRun() {
			fmt.Println("[kubelet-start] Would start the kubelet")
			if err := dryrunutil.PrintFilesIfDryRunning(j.cfg.ControlPlane != nil, j.ManifestDir(), os.Stdout); err != nil {
				return fmt.Errorf("error printing files on dryrun: %w", err)
			}
		}
		return nil
	})
	if err != nil || j.DryRun() {
		return err
	}
	fmt.Println("[kubelet-start] Starting the kubelet")
	c.startKubelet()
	return nil
}

// noSuchReadyNode refuses to take the name of a node that works.
func noSuchReadyNode(ctx context.Context, client clientset.Interface, name string) error {
	node, err := client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return fmt.Errorf("cannot get Node %q: %w", name, err)
	}
	for _, k := range node.Status.Conditions {
		if k.Type == corev1.NodeReady && k.Status == corev1.ConditionTrue {
			return fmt.Errorf("a Node with name %q and status %q already exists in the cluster. "+
				"You must delete the existing Node or change the name of this new joining Node", name, corev1.NodeReady)
		}
	}
	return nil
}

// kubeletConfiguration is the typed configuration of the kubelet in kubeadm's.
func kubeletConfiguration(cfg *kubeadmapi.ClusterConfiguration) (*kubeletconfig.KubeletConfiguration, error) {
	k, ok := cfg.ComponentConfigs[componentconfigs.KubeletGroup].Get().(*kubeletconfig.KubeletConfiguration)
	if !ok {
		return nil, errors.New("could not convert the KubeletConfiguration to a typed object")
	}
	return k, nil
}

// joinKubeletWait is upstream's runKubeletWaitBootstrapPhase.
func joinKubeletWait(c *command, j *join) error {
	initCfg, err := j.InitCfg()
	if err != nil {
		return err
	}
	var client clientset.Interface
	if j.DryRun() {
		fmt.Println("[kubelet-wait] Would wait for the kubelet to be bootstrapped")
		if client, err = j.Client(); err != nil {
			return fmt.Errorf("could not get client for dry-run: %w", err)
		}
	} else {
		defer func() {
			if err := c.p.Files.Remove(path.Join(kubernetesDir, constants.KubeletBootstrapKubeConfigFileName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				c.p.Errorf("%v\n", err)
			}
		}()
		if err := c.onMirror(j.files(), func() error { return kubeletphase.ApplyPatchesToConfig(&initCfg.ClusterConfiguration, j.PatchesDir()) }); err != nil {
			return fmt.Errorf("could not apply patches to the in-memory kubelet configuration: %w", err)
		}
		k, err := kubeletConfiguration(&initCfg.ClusterConfiguration)
		if err != nil {
			return err
		}
		if err := c.waiter(nil, j.cfg.Timeouts.KubeletHealthCheck.Duration, os.Stdout).WaitForKubelet(k.HealthzBindAddress, *k.HealthzPort); err != nil {
			apiclient.PrintKubeletErrorHelpScreen(os.Stdout)
			return fmt.Errorf("failed while waiting for the kubelet to start: %w", err)
		}
		fmt.Println("[kubelet-start] Waiting for the kubelet to perform the TLS Bootstrap")
		kubeletConf := path.Join(kubernetesDir, constants.KubeletKubeConfigFileName)
		err = wait.PollUntilContextTimeout(c.p.Context(), constants.TLSBootstrapRetryInterval, j.cfg.Timeouts.TLSBootstrap.Duration, true, func(context.Context) (bool, error) {
			client, err = c.clientSetFromFile(kubeletConf)
			return err == nil, nil
		})
		if err != nil {
			apiclient.PrintKubeletErrorHelpScreen(os.Stdout)
			return fmt.Errorf("failed while waiting for TLS bootstrap: %w", err)
		}
	}
	if features.Enabled(initCfg.FeatureGates, features.NodeLocalCRISocket) {
		return nil
	}
	if err := patchnodephase.AnnotateCRISocket(client, j.cfg.NodeRegistration.Name, j.cfg.NodeRegistration.CRISocket); err != nil {
		return fmt.Errorf("error writing CRISocket for this node: %w", err)
	}
	return nil
}

// joinWaitControlPlane is upstream's runWaitControlPlanePhase.
func joinWaitControlPlane(c *command, j *join) error {
	if j.cfg.ControlPlane == nil || j.DryRun() {
		return nil
	}
	client, err := j.WaitControlPlaneClient()
	if err != nil {
		return err
	}
	return c.waitForControlPlane(client, j.cfg.Timeouts.ControlPlaneComponentHealthCheck.Duration, j.cfg.ControlPlane.LocalAPIEndpoint.AdvertiseAddress, j.cfg.NodeRegistration.CRISocket)
}
