package kubeadm

import (
	"fmt"
	"os"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	clientset "k8s.io/client-go/kubernetes"
	kubeadmapi "k8s.io/kubernetes/cmd/kubeadm/app/apis/kubeadm"
	"k8s.io/kubernetes/cmd/kubeadm/app/constants"
	"k8s.io/kubernetes/cmd/kubeadm/app/util/apiclient"
	staticpodutil "k8s.io/kubernetes/cmd/kubeadm/app/util/staticpod"

	"ckadrill/sim/kubeadm/host"
)

// waitForControlPlane waits until the API server, the controller manager and the scheduler of this machine are healthy, whose
// addresses are read from their manifests.
func (c *command) waitForControlPlane(client clientset.Interface, timeout time.Duration, address, socket string) error {
	var pods map[string]*corev1.Pod
	err := c.onMirror([]string{manifestsDir}, func() (err error) {
		pods, err = staticpodutil.ReadMultipleStaticPodsFromDisk(c.d.path(manifestsDir), constants.ControlPlaneComponents...)
		return err
	})
	if err == nil {
		err = c.waiter(client, timeout, os.Stdout).WaitForControlPlaneComponents(pods, address)
	}
	if err != nil {
		apiclient.PrintControlPlaneErrorHelpScreen(os.Stdout, socket)
		return fmt.Errorf("failed while waiting for the control plane to start: %w", err)
	}
	return nil
}

// pullImages pulls the images of a control plane, or says that it would.
func (c *command) pullImages(cfg *kubeadmapi.InitConfiguration, ignore sets.Set[string], dryRun bool) error {
	if dryRun {
		fmt.Println("[preflight] Would pull the required images (like 'kubeadm config images pull')")
		return nil
	}
	fmt.Println("[preflight] Pulling images required for setting up a Kubernetes cluster")
	fmt.Println("[preflight] This might take a minute or two, depending on the speed of your internet connection")
	fmt.Println("[preflight] You can also perform this action beforehand using 'kubeadm config images pull'")
	return host.PullImages(c.p, cfg, ignore)
}
