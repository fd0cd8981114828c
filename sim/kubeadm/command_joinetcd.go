package kubeadm

import (
	"fmt"
	"time"
	_ "unsafe" // for go:linkname

	clientset "k8s.io/client-go/kubernetes"
	kubeadmapi "k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm"
	"k8s.io/kubernetes/cmd/kubeadm/app/cmd/phases/workflow"
	"k8s.io/kubernetes/cmd/kubeadm/app/constants"
	etcdutil "k8s.io/kubernetes/cmd/kubeadm/app/util/etcd"

	"ckadrill/sim/kubeadm/host"
)

// onJoinManifests is the stage of the phase that writes a joining control plane's manifests.
func onJoinManifests(c *command, upstream run) run {
	return func(d workflow.RunData) error {
		j := d.(*join)
		if j.cfg.ControlPlane == nil {
			return nil
		}
		cfg, err := j.InitCfg()
		if err != nil {
			return err
		}
		defer func() { j.initCfg = cfg }()
		j.initCfg = c.withVolumes(cfg)
		return c.onMirror(j.files(), func() error { return upstream(d) })
	}
}

// joinCheckEtcd is upstream's runCheckEtcdPhase.
func joinCheckEtcd(c *command, j *join) error {
	if j.cfg.ControlPlane == nil {
		return nil
	}
	if _, err := j.InitCfg(); err != nil {
		return err
	}
	if j.DryRun() {
		fmt.Println("[dryrun] Would check that the etcd cluster is healthy")
		return nil
	}
	fmt.Println("[check-etcd] Checking that the etcd cluster is healthy")
	client, err := j.Client()
	if err != nil {
		return err
	}
	etcd, err := j.etcd(client)
	if err != nil {
		return err
	}
	if err := etcd.CheckClusterHealth(); err != nil {
		return fmt.Errorf("etcd cluster is not healthy: %w", err)
	}
	return nil
}

// etcd is a client of the cluster's etcd with the machine's certificates.
func (j *join) etcd(client clientset.Interface) (etcd *etcdutil.Client, err error) {
	err = j.c.onMirror(j.files(), func() error {
		etcd, err = host.EtcdFromCluster(j.c.p, client, j.CertificateWriteDir())
		return err
	})
	return etcd, err
}

//go:linkname prepareAndWriteEtcdStaticPod k8s.io/kubernetes/cmd/kubeadm/app/phases/etcd.prepareAndWriteEtcdStaticPod
func prepareAndWriteEtcdStaticPod(manifestDir, patchesDir string, cfg *kubeadmapi.ClusterConfiguration, endpoint *kubeadmapi.APIEndpoint, nodeName string, initialCluster []etcdutil.Member, isDryRun bool) error

// Upstream's constants etcdHealthyCheckInterval and etcdHealthyCheckRetries (phases/etcd).
const (
	etcdHealthyCheckInterval = 5 * time.Second
	etcdHealthyCheckRetries  = 8
)

// joinEtcd is upstream's runEtcdPhase.
func joinEtcd(c *command, j *join) error {
	if j.cfg.ControlPlane == nil {
		return nil
	}
	client, err := j.Client()
	if err != nil {
		return fmt.Errorf("couldn't create Kubernetes client: %w", err)
	}
	cfg, err := j.InitCfg()
	if err != nil {
		return err
	}
	if err := j.etcdDirectory("control-plane-join", cfg.Etcd.Local.DataDir); err != nil {
		return err
	}
	if err := j.addMember(client, cfg); err != nil {
		return fmt.Errorf("error creating local etcd static pod manifest file: %w", err)
	}
	return nil
}

// addMember is upstream's CreateStackedEtcdStaticPodManifestFile.
func (j *join) addMember(client clientset.Interface, cfg *kubeadmapi.InitConfiguration) error {
	peer := etcdutil.GetPeerURL(&cfg.LocalAPIEndpoint)
	var etcd *etcdutil.Client
	var members []etcdutil.Member
	if j.DryRun() {
		fmt.Printf("[etcd] Would add etcd member: %s\n", peer)
	} else {
		var err error
		if etcd, err = j.etcd(client); err != nil {
			return err
		}
		if members, err = etcd.AddMemberAsLearner(cfg.NodeRegistration.Name, peer); err != nil {
			return err
		}
		fmt.Println("[etcd] Announced new etcd member joining to the existing etcd cluster")
	}
	fmt.Printf("[etcd] Creating static Pod manifest for %q\n", constants.Etcd)
	err := j.c.onMirror(j.files(), func() error {
		return prepareAndWriteEtcdStaticPod(j.ManifestDir(), j.PatchesDir(), &cfg.ClusterConfiguration, &cfg.LocalAPIEndpoint, cfg.NodeRegistration.Name, members, j.DryRun())
	})
	if err != nil {
		return err
	}
	if j.DryRun() {
		fmt.Println("[etcd] Would wait for the new etcd member to join the cluster")
		return nil
	}
	id, err := etcd.GetMemberID(peer)
	if err != nil {
		return err
	}
	if err := etcd.MemberPromote(id); err != nil {
		return err
	}
	fmt.Printf("[etcd] Waiting for the new etcd member to join the cluster. This can take up to %v\n", etcdHealthyCheckInterval*etcdHealthyCheckRetries)
	_, err = etcd.WaitForClusterAvailable(etcdHealthyCheckRetries, etcdHealthyCheckInterval)
	return err
}
