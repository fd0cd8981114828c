package kubeadm

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/dynamic"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	kubeadmapi "k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm"
	"k8s.io/kubernetes/cmd/kubeadm/app/componentconfigs"
	"k8s.io/kubernetes/cmd/kubeadm/app/constants"
	dnsaddon "k8s.io/kubernetes/cmd/kubeadm/app/phases/addons/dns"
	proxyaddon "k8s.io/kubernetes/cmd/kubeadm/app/phases/addons/proxy"
	clusterinfophase "k8s.io/kubernetes/cmd/kubeadm/app/phases/bootstraptoken/clusterinfo"
	nodebootstraptokenphase "k8s.io/kubernetes/cmd/kubeadm/app/phases/bootstraptoken/node"
	kubeconfigphase "k8s.io/kubernetes/cmd/kubeadm/app/phases/kubeconfig"
	kubeletphase "k8s.io/kubernetes/cmd/kubeadm/app/phases/kubelet"
	markcontrolplanephase "k8s.io/kubernetes/cmd/kubeadm/app/phases/markcontrolplane"
	"k8s.io/kubernetes/cmd/kubeadm/app/phases/uploadconfig"

	"ckadrill/sim/kernel"
	"ckadrill/sim/machine"
)

// nodeTimeout is how long a node may take to register.
const nodeTimeout = 4 * time.Minute

// controlPlaneTimeout is how long kubeadm waits for the control plane (ControlPlaneComponentHealthCheck).
const controlPlaneTimeout = 4 * time.Minute

// settleTimeout is how long Bootstrap waits for nodes and system Pods. Images are local, so a minute is plenty.
const settleTimeout = 5 * time.Minute

// Starter switches a machine on, unless it is, and runs a script there as root.
type Starter func(m Machine, script string) error

// Bootstrap makes the objects of a cluster whose machines run with the files of l: what "kubeadm init" does after it has
// started the kubelet, and the Pod network. It runs as the process p on the first control plane, with root's view of its files,
// prints kubeadm's lines to p's standard output, and returns when all nodes are Ready and all system Pods run.
func Bootstrap(p *kernel.Process, l *Layout, start Starter) error {
	first, err := l.Cluster.FirstControlPlane()
	if err != nil {
		return err
	}
	client, dyn, err := clients(p, kubernetesDir+"/admin.conf")
	if err != nil {
		return err
	}
	err = withStdout(p.Stdout, func(b []byte) []byte { return b }, func(*capture) error {
		cfg, err := l.configuration(first)
		if err != nil {
			return err
		}
		if err := waitForControlPlane(p.Context(), client, controlPlaneTimeout); err != nil {
			return err
		}
		super, _, err := clients(p, kubernetesDir+"/super-admin.conf")
		if err != nil {
			return err
		}
		admin, err := loadKubeconfig(p, kubernetesDir+"/admin.conf")
		if err != nil {
			return err
		}
		return objects(p.Context(), cfg, admin, client, super)
	})
	if err != nil {
		return err
	}
	// kubelet-finalize: the kubelet uses its rotatable certificate from now on. The events that it could not post yet are lost.
	if err := machine.Of(p.Host()).Systemd().Restart("kubelet.service"); err != nil {
		return err
	}
	if err := waitForNode(p.Context(), client, l.Cluster.CNI, first); err != nil {
		return err
	}
	// One after the other, as an administrator does it: so the nodes' Pod networks come in the machines' order.
	if err := l.joinControlPlanes(p, client, first, start); err != nil {
		return err
	}
	for _, m := range l.Cluster.Machines {
		if m.Role != Worker {
			continue
		}
		if err := start(m, ""); err != nil {
			return err
		}
		if err := waitForNode(p.Context(), client, l.Cluster.CNI, m); err != nil {
			return err
		}
	}
	if err := podNetwork(p.Context(), dyn, l.Cluster); err != nil {
		return err
	}
	return waitUntilSettled(p.Context(), client, l.Cluster)
}

// joinScript waits for containerd, joins with a command and a certificate key, and does what kubeadm's closing words ask for.
const joinScript = `set -e
until crictl info >/dev/null 2>&1; do sleep 1; done
%s --control-plane --certificate-key %s
for home in /root /home/candidate; do
	mkdir -p $home/.kube
	cp /etc/kubernetes/admin.conf $home/.kube/config
done
chown -R candidate:candidate /home/candidate/.kube`

// joinControlPlanes runs "kubeadm join --control-plane" on the other control planes, with the certificates that the first one has
// uploaded, and gives their users the copies of admin.conf.
func (l *Layout) joinControlPlanes(p *kernel.Process, client clientset.Interface, first Machine, start Starter) error {
	others := slices.DeleteFunc(slices.Clone(l.Cluster.Machines), func(m Machine) bool { return m.Role != ControlPlane || m.Name == first.Name })
	if len(others) == 0 {
		return nil
	}
	b := make([]byte, constants.CertificateKeySize)
	if _, err := io.ReadFull(p.World().Random("kubeadm/certificate-key"), b); err != nil {
		return err
	}
	key := hex.EncodeToString(b)
	if err := start(first, "kubeadm init phase upload-certs --upload-certs --certificate-key "+key); err != nil {
		return err
	}
	join, err := l.JoinCommand()
	if err != nil {
		return err
	}
	for _, m := range others {
		if err := start(m, fmt.Sprintf(joinScript, join, key)); err != nil {
			return err
		}
		if err := waitForNode(p.Context(), client, l.Cluster.CNI, m); err != nil {
			return err
		}
	}
	return nil
}

// configuration is kubeadm's configuration as it is uploaded: with the machine's paths.
func (l *Layout) configuration(m Machine) (*kubeadmapi.InitConfiguration, error) {
	c := l.Cluster
	c.Token = l.Token
	cfg, err := initConfiguration(c, m, certificatesDir)
	if err != nil {
		return nil, err
	}
	// Upstream does this when it writes the kubelet's file, before it uploads the ConfigMap.
	if err := cfg.ComponentConfigs[componentconfigs.KubeletGroup].Mutate(); err != nil {
		return nil, err
	}
	return cfg, nil
}

// waitForNode waits until a kubelet has registered its Node and the controller-manager has given it its Pod
// network.
func waitForNode(ctx context.Context, client clientset.Interface, cni CNI, m Machine) error {
	ctx, cancel := context.WithTimeout(ctx, nodeTimeout)
	defer cancel()
	for {
		n, err := client.CoreV1().Nodes().Get(ctx, m.Name, metav1.GetOptions{})
		if err == nil && n.Spec.PodCIDR != "" {
			// A bridge's configuration was written before. Upstream's allocator may see a node twice, take two networks for it, and
			// give the next node the one after them.
			if cni == Bridge && n.Spec.PodCIDR != m.PodCIDR.String() {
				return fmt.Errorf("node %s got the Pod network %s, not %s", m.Name, n.Spec.PodCIDR, m.PodCIDR)
			}
			return nil
		}
		if kernel.SleepContext(ctx, 500*time.Millisecond) != nil {
			return fmt.Errorf("node %s is not registered with a Pod network after %s", m.Name, nodeTimeout)
		}
	}
}

// waitForControlPlane waits until the API server answers that it is ready.
func waitForControlPlane(ctx context.Context, client clientset.Interface, timeout time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, timeout)
	defer cancel()
	for {
		_, err := client.Discovery().RESTClient().Get().AbsPath("/readyz").DoRaw(ctx)
		if err == nil {
			return nil
		}
		if kernel.SleepContext(ctx, 500*time.Millisecond) != nil {
			return fmt.Errorf("the API server is not ready after %s: %w", timeout, err)
		}
	}
}

// objects runs the phases upload-config, mark-control-plane, bootstrap-token and addon of "kubeadm init", with the content of
// admin.conf and the clients of admin.conf and super-admin.conf.
func objects(ctx context.Context, cfg *kubeadmapi.InitConfiguration, adminConfig *clientcmdapi.Config, admin, super clientset.Interface) error {
	client, err := kubeconfigphase.EnsureAdminClusterRoleBindingImpl(ctx, admin, super, 500*time.Millisecond, time.Minute)
	if err != nil {
		return err
	}
	for _, phase := range []struct {
		name string
		run  func() error
	}{
		{"upload-config kubeadm", func() error { return uploadconfig.UploadConfiguration(cfg, client) }},
		{"upload-config kubelet", func() error { return kubeletphase.CreateConfigMap(&cfg.ClusterConfiguration, client) }},
		{"mark-control-plane", func() error {
			return markcontrolplanephase.MarkControlPlane(client, cfg.NodeRegistration.Name, cfg.NodeRegistration.Taints)
		}},
		{"bootstrap-token", func() error {
			fmt.Printf("[bootstrap-token] Using token: %s\n", cfg.BootstrapTokens[0].Token)
			fmt.Println("[bootstrap-token] Configuring bootstrap tokens, cluster-info ConfigMap, RBAC Roles")
			return nodebootstraptokenphase.UpdateOrCreateTokens(client, false, cfg.BootstrapTokens)
		}},
		{"bootstrap-token", func() error { return nodebootstraptokenphase.AllowBootstrapTokensToGetNodes(client) }},
		{"bootstrap-token", func() error { return nodebootstraptokenphase.AllowBootstrapTokensToPostCSRs(client) }},
		{"bootstrap-token", func() error { return nodebootstraptokenphase.AutoApproveNodeBootstrapTokens(client) }},
		{"bootstrap-token", func() error { return nodebootstraptokenphase.AutoApproveNodeCertificateRotation(client) }},
		{"bootstrap-token", func() error { return clusterinfophase.CreateBootstrapConfigMapIfNotExists(client, adminConfig) }},
		{"bootstrap-token", func() error { return clusterinfophase.CreateClusterInfoRBACRules(client) }},
		{"addon coredns", func() error { return dnsaddon.EnsureDNSAddon(&cfg.ClusterConfiguration, client, "", os.Stdout, false) }},
		{"addon kube-proxy", func() error {
			return proxyaddon.EnsureProxyAddon(&cfg.ClusterConfiguration, &cfg.LocalAPIEndpoint, client, os.Stdout, false)
		}},
	} {
		if err := phase.run(); err != nil {
			return fmt.Errorf("phase %s: %w", phase.name, err)
		}
		if err := ctx.Err(); err != nil {
			return err
		}
	}
	return nil
}

// podNetwork installs what the cluster's network needs as objects.
func podNetwork(ctx context.Context, client dynamic.Interface, c Cluster) error {
	if c.CNI != Flannel {
		return nil
	}
	return apply(ctx, client, flannelManifest(c.PodCIDR))
}

// waitUntilSettled waits for all nodes and system Pods. Without a Pod network the nodes stay NotReady, as after kubeadm.
func waitUntilSettled(ctx context.Context, client clientset.Interface, c Cluster) error {
	if c.CNI == NoCNI {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	for {
		missing, err := unsettled(ctx, client, c)
		if err == nil && len(missing) == 0 {
			return nil
		}
		if kernel.SleepContext(ctx, time.Second) != nil {
			return errors.Join(fmt.Errorf("after %s the cluster still waits for: %s", settleTimeout, strings.Join(missing, "; ")), err)
		}
	}
}

// unsettled lists what is not as it should be: nodes that are missing or not Ready, system Pods that are not Ready.
func unsettled(ctx context.Context, client clientset.Interface, c Cluster) (missing []string, err error) {
	nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	ready := map[string]bool{}
	for _, n := range nodes.Items {
		for _, k := range n.Status.Conditions {
			if k.Type == corev1.NodeReady {
				ready[n.Name] = k.Status == corev1.ConditionTrue
			}
		}
	}
	members := 0
	for _, m := range c.Machines {
		if m.Role != ControlPlane && m.Role != Worker {
			continue
		}
		members++
		if !ready[m.Name] {
			missing = append(missing, "node "+m.Name)
		}
	}
	// Deployments and DaemonSets say how many Pods there must be; static Pods are mirrored one by one.
	for _, ns := range []string{metav1.NamespaceSystem, "kube-flannel"} {
		sets, err := client.AppsV1().DaemonSets(ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		for _, d := range sets.Items {
			if int(d.Status.NumberReady) < members {
				missing = append(missing, fmt.Sprintf("daemonset %s/%s (%d of %d)", ns, d.Name, d.Status.NumberReady, members))
			}
		}
		deployments, err := client.AppsV1().Deployments(ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		for _, d := range deployments.Items {
			if d.Spec.Replicas != nil && d.Status.ReadyReplicas < *d.Spec.Replicas {
				missing = append(missing, fmt.Sprintf("deployment %s/%s (%d of %d)", ns, d.Name, d.Status.ReadyReplicas, *d.Spec.Replicas))
			}
		}
		pods, err := client.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return nil, err
		}
		mirrored := map[string]bool{}
		for _, pod := range pods.Items {
			mirrored[pod.Name] = true
			if !podReady(&pod) {
				missing = append(missing, "pod "+ns+"/"+pod.Name)
			}
		}
		if ns != metav1.NamespaceSystem {
			continue
		}
		for _, m := range c.Machines {
			for _, component := range []string{"etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler"} {
				if name := component + "-" + m.Name; m.Role == ControlPlane && !mirrored[name] {
					missing = append(missing, "pod "+ns+"/"+name)
				}
			}
		}
	}
	return missing, nil
}

func podReady(pod *corev1.Pod) bool {
	for _, k := range pod.Status.Conditions {
		if k.Type == corev1.PodReady {
			return k.Status == corev1.ConditionTrue
		}
	}
	return false
}

// JoinCommand is what "kubeadm init" tells its user to type on the other machines, without the line's continuation.
func (l *Layout) JoinCommand() (string, error) {
	first, err := l.Cluster.FirstControlPlane()
	if err != nil {
		return "", err
	}
	f, ok := l.Trees[first.Name].File(kubernetesDir + "/admin.conf")
	if !ok {
		return "", fmt.Errorf("%s has no admin.conf", first.Name)
	}
	cfg, err := clientcmd.Load(f.Content)
	if err != nil {
		return "", err
	}
	cluster := cfg.Clusters[cfg.Contexts[cfg.CurrentContext].Cluster]
	hash, err := caCertHash(cluster.CertificateAuthorityData)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("kubeadm join %s --token %s --discovery-token-ca-cert-hash %s", strings.TrimPrefix(cluster.Server, "https://"), l.Token, hash), nil
}
