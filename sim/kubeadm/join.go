package kubeadm

import (
	"fmt"
	"path"

	kubeadmapi "k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm"
	certsphase "k8s.io/kubernetes/cmd/kubeadm/app/phases/certs"
	controlplanephase "k8s.io/kubernetes/cmd/kubeadm/app/phases/controlplane"
	etcdphase "k8s.io/kubernetes/cmd/kubeadm/app/phases/etcd"
	kubeconfigphase "k8s.io/kubernetes/cmd/kubeadm/app/phases/kubeconfig"
	etcdutil "k8s.io/kubernetes/cmd/kubeadm/app/util/etcd"
	staticpodutil "k8s.io/kubernetes/cmd/kubeadm/app/util/staticpod"
)

// joinWorkerPhases leaves what "kubeadm join" leaves on a worker: the CA's certificate, the kubelet's configuration, and an
// empty directory for static Pods from the kubelet's package.
func joinWorkerPhases(d privateDir, first *Tree, c Cluster, m Machine) error {
	cfg, err := initConfiguration(c, m, d.path(certificatesDir))
	if err != nil {
		return err
	}
	if err := d.write(first, certificatesDir+"/ca.crt"); err != nil {
		return err
	}
	return kubeletFiles(d, cfg)
}

// sharedCertificates are what all control planes of a cluster have in common, relative to the certificates' directory.
var sharedCertificates = []string{"ca.crt", "ca.key", "sa.key", "sa.pub", "front-proxy-ca.crt", "front-proxy-ca.key", "etcd/ca.crt", "etcd/ca.key"}

// joinControlPlanePhases runs the phases of "kubeadm join --control-plane" that write files. members are the machines that
// etcd has members on already.
func joinControlPlanePhases(d privateDir, first *Tree, c Cluster, m Machine, members []Machine) error {
	cfg, err := initConfiguration(c, m, d.path(certificatesDir))
	if err != nil {
		return err
	}
	for _, n := range sharedCertificates {
		if err := d.write(first, path.Join(certificatesDir, n)); err != nil {
			return err
		}
	}
	byName := certsphase.GetDefaultCertList().AsMap()
	for _, cert := range certsphase.GetDefaultCertList() {
		if cert.CAName == "" {
			continue
		}
		if err := certsphase.CreateCertAndKeyFilesWithCA(cert, byName[cert.CAName], cfg); err != nil {
			return fmt.Errorf("certificate %s: %w", cert.Name, err)
		}
	}
	if err := kubeconfigphase.CreateJoinControlPlaneKubeConfigFiles(d.path(kubernetesDir), cfg); err != nil {
		return err
	}
	return joinManifests(d, cfg, members)
}

// joinManifests writes the manifests of a further control plane and the kubelet's files.
func joinManifests(d privateDir, cfg *kubeadmapi.InitConfiguration, members []Machine) error {
	withVolumes := cfg.DeepCopy()
	withVolumes.APIServer.ExtraVolumes = append(withVolumes.APIServer.ExtraVolumes, controlPlaneVolumes()...)
	withVolumes.ControllerManager.ExtraVolumes = append(withVolumes.ControllerManager.ExtraVolumes, controlPlaneVolumes()...)
	if err := controlplanephase.CreateInitStaticPodManifestFiles(d.path(manifestsDir), "", withVolumes, false); err != nil {
		return err
	}
	// kubeadm asks the running etcd for its members; here they are known.
	var initial []etcdutil.Member
	for _, m := range members {
		initial = append(initial, etcdutil.Member{Name: m.Name, PeerURL: etcdutil.GetPeerURL(&kubeadmapi.APIEndpoint{AdvertiseAddress: m.Address.String()})})
	}
	initial = append(initial, etcdutil.Member{Name: cfg.NodeRegistration.Name, PeerURL: etcdutil.GetPeerURL(&cfg.LocalAPIEndpoint)})
	pod := etcdphase.GetEtcdPodSpec(&cfg.ClusterConfiguration, &cfg.LocalAPIEndpoint, cfg.NodeRegistration.Name, initial)
	if err := staticpodutil.WriteStaticPodToDisk("etcd", d.path(manifestsDir), pod); err != nil {
		return err
	}
	return kubeletFiles(d, cfg)
}
