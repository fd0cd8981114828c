package kubeadm

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
