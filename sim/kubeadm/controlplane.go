package kubeadm

import (
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
	kubeletconfig "k8s.io/kubelet/config/v1beta1"
	kubeadmapi "k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm"
	certsphase "k8s.io/kubernetes/cmd/kubeadm/app/phases/certs"
	controlplanephase "k8s.io/kubernetes/cmd/kubeadm/app/phases/controlplane"
	etcdphase "k8s.io/kubernetes/cmd/kubeadm/app/phases/etcd"
	kubeconfigphase "k8s.io/kubernetes/cmd/kubeadm/app/phases/kubeconfig"
	kubeletphase "k8s.io/kubernetes/cmd/kubeadm/app/phases/kubelet"
)

// initPhases runs the phases of "kubeadm init" that write files, in kubeadm's order, up to the start of the kubelet.
func initPhases(d privateDir, c Cluster, m Machine) error {
	cfg, err := initConfiguration(c, m, d.path(certificatesDir))
	if err != nil {
		return err
	}
	if err := certificates(cfg); err != nil {
		return err
	}
	for _, f := range []string{"admin.conf", "super-admin.conf", "kubelet.conf", "controller-manager.conf", "scheduler.conf"} {
		if err := kubeconfigphase.CreateKubeConfigFile(f, d.path(kubernetesDir), cfg); err != nil {
			return fmt.Errorf("%s: %w", f, err)
		}
	}
	if err := manifests(d, cfg); err != nil {
		return err
	}
	return kubeletFiles(d, cfg)
}

// certificates runs the phase "certs". Each certificate is a phase of its own, as in kubeadm init; upstream's function that
// makes all of them takes them in no order.
func certificates(cfg *kubeadmapi.InitConfiguration) error {
	byName := map[string]*certsphase.KubeadmCert{}
	for _, cert := range certsphase.GetDefaultCertList() {
		byName[cert.Name] = cert
		var err error
		if cert.CAName == "" {
			err = certsphase.CreateCACertAndKeyFiles(cert, cfg)
		} else {
			err = certsphase.CreateCertAndKeyFilesWithCA(cert, byName[cert.CAName], cfg)
		}
		if err != nil {
			return fmt.Errorf("certificate %s: %w", cert.Name, err)
		}
	}
	return certsphase.CreateServiceAccountKeyAndPublicKeyFiles(cfg.CertificatesDir, cfg.ClusterConfiguration.EncryptionAlgorithmType())
}

// manifests runs the phases "etcd local" and "control-plane all".
func manifests(d privateDir, cfg *kubeadmapi.InitConfiguration) error {
	if err := etcdphase.CreateLocalEtcdStaticPodManifestFile(d.path(manifestsDir), "", cfg.NodeRegistration.Name, &cfg.ClusterConfiguration, &cfg.LocalAPIEndpoint, false); err != nil {
		return fmt.Errorf("etcd's manifest: %w", err)
	}
	cfg = cfg.DeepCopy()
	cfg.APIServer.ExtraVolumes = append(cfg.APIServer.ExtraVolumes, controlPlaneVolumes()...)
	cfg.ControllerManager.ExtraVolumes = append(cfg.ControllerManager.ExtraVolumes, controlPlaneVolumes()...)
	if err := controlplanephase.CreateInitStaticPodManifestFiles(d.path(manifestsDir), "", cfg, false); err != nil {
		return fmt.Errorf("the control plane's manifests: %w", err)
	}
	return nil
}

// controlPlaneVolumes are the directories with CA certificates that exist on an Ubuntu machine (package ca-certificates),
// of those that kubeadm mounts if they exist.
func controlPlaneVolumes() (l []kubeadmapi.HostPathMount) {
	for _, v := range [][2]string{
		{"etc-ca-certificates", "/etc/ca-certificates"},
		{"usr-local-share-ca-certificates", "/usr/local/share/ca-certificates"},
		{"usr-share-ca-certificates", "/usr/share/ca-certificates"},
	} {
		l = append(l, kubeadmapi.HostPathMount{Name: v[0], HostPath: v[1], MountPath: v[1], ReadOnly: true, PathType: corev1.HostPathDirectoryOrCreate})
	}
	return l
}

// kubeletFiles runs the phase "kubelet-start" of init and join but for the start.
func kubeletFiles(d privateDir, cfg *kubeadmapi.InitConfiguration) error {
	dir := d.path(kubeletDir)
	// Upstream's WriteKubeletDynamicEnvFile compares the node's name with the host's own host name to add
	// --hostname-override. A simulated machine is named as its node is, so there are only the flags that were asked for.
	if err := kubeletphase.WriteKubeletArgsToFile(nil, cfg.NodeRegistration.KubeletExtraArgs, dir); err != nil {
		return err
	}
	if err := kubeletphase.WriteInstanceConfigToDisk(&kubeletconfig.KubeletConfiguration{ContainerRuntimeEndpoint: cfg.NodeRegistration.CRISocket}, dir); err != nil {
		return err
	}
	return kubeletphase.WriteConfigToDisk(&cfg.ClusterConfiguration, dir, "", io.Discard)
}
