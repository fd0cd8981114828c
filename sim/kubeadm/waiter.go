package kubeadm

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strconv"
	"time"
	_ "unsafe" // for go:linkname

	corev1 "k8s.io/api/core/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/apimachinery/pkg/util/wait"
	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/kubernetes/cmd/kubeadm/app/constants"
	"k8s.io/kubernetes/cmd/kubeadm/app/util/apiclient"

	"ckadrill/sim/kernel"
	"ckadrill/sim/network"
)

// waiter is upstream's KubeWaiter. What that asks by HTTP without a client of the API is asked over the process's network.
type waiter struct {
	apiclient.Waiter
	p       *kernel.Process
	client  clientset.Interface
	timeout time.Duration
	out     io.Writer
}

var _ apiclient.Waiter = (*waiter)(nil)

func (c *command) waiter(client clientset.Interface, timeout time.Duration, out io.Writer) *waiter {
	return &waiter{apiclient.NewKubeWaiter(client, timeout, out), c.p, client, timeout, out}
}

// SetTimeout implements [apiclient.Waiter].
func (w *waiter) SetTimeout(d time.Duration) {
	w.timeout = d
	w.Waiter.SetTimeout(d)
}

func (w *waiter) poll(try func(ctx context.Context) error) error {
	var last error
	err := wait.PollUntilContextTimeout(w.p.Context(), constants.KubernetesAPICallRetryInterval, w.timeout, true, func(ctx context.Context) (bool, error) {
		last = try(ctx)
		return last == nil, nil
	})
	if err != nil && last != nil {
		return last
	}
	return err
}

func (w *waiter) get(ctx context.Context, url string) (status int, err error) {
	t := network.NewTransport(w.p, &tls.Config{InsecureSkipVerify: true})
	defer t.Close()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return 0, err
	}
	resp, err := (&http.Client{Transport: t}).Do(req)
	if err != nil {
		return 0, err
	}
	resp.Body.Close()
	return resp.StatusCode, nil
}

// WaitForKubelet implements [apiclient.Waiter].
func (w *waiter) WaitForKubelet(address string, port int32) error {
	start := time.Now()
	if port == 0 {
		fmt.Fprintln(w.out, "[kubelet-check] Skipping the kubelet health check because the healthz port is set to 0")
		return nil
	}
	url := fmt.Sprintf("http://%s/healthz", net.JoinHostPort(address, strconv.Itoa(int(port))))
	fmt.Fprintf(w.out, "[kubelet-check] Waiting for a healthy kubelet at %s. This can take up to %v\n", url, w.timeout)
	err := w.poll(func(ctx context.Context) error {
		cause := ""
		if status, err := w.get(ctx, url); err != nil {
			cause = fmt.Sprintf("error: %v", err)
		} else if status != http.StatusOK {
			cause = fmt.Sprintf("status code: %d", status)
		} else {
			return nil
		}
		return fmt.Errorf("The HTTP call equal to 'curl -sSL %s' returned %s\n", url, cause) //nolint:staticcheck // upstream's words
	})
	if err != nil {
		fmt.Fprintf(w.out, "[kubelet-check] The kubelet is not healthy after %v\n", time.Since(start))
		return err
	}
	fmt.Fprintf(w.out, "[kubelet-check] The kubelet is healthy after %v\n", time.Since(start))
	return nil
}

// controlPlaneComponent is upstream's struct of that name.
type controlPlaneComponent struct{ name, addressPort, endpoint string }

//go:linkname getControlPlaneComponents k8s.io/kubernetes/cmd/kubeadm/app/util/apiclient.getControlPlaneComponents
func getControlPlaneComponents(podMap map[string]*corev1.Pod, addressAPIServer string) ([]controlPlaneComponent, error)

// WaitForControlPlaneComponents implements [apiclient.Waiter].
func (w *waiter) WaitForControlPlaneComponents(pods map[string]*corev1.Pod, apiServer string) error {
	fmt.Fprintf(w.out, "[control-plane-check] Waiting for healthy control plane components. This can take up to %v\n", w.timeout)
	components, err := getControlPlaneComponents(pods, apiServer)
	if err != nil {
		return fmt.Errorf("could not parse the address and port of all control plane components: %w", err)
	}
	results := make(chan error, len(components))
	for _, k := range components {
		url := fmt.Sprintf("https://%s/%s", k.addressPort, k.endpoint)
		fmt.Fprintf(w.out, "[control-plane-check] Checking %s at %s\n", k.name, url)
		go func() {
			start := time.Now()
			err := w.poll(func(ctx context.Context) error { return w.check(ctx, k, url) })
			if err != nil {
				fmt.Fprintf(w.out, "[control-plane-check] %s is not healthy after %v\n", k.name, time.Since(start))
			} else {
				fmt.Fprintf(w.out, "[control-plane-check] %s is healthy after %v\n", k.name, time.Since(start))
			}
			results <- err
		}()
	}
	var problems []error
	for range components {
		if err := <-results; err != nil {
			problems = append(problems, err)
		}
	}
	return utilerrors.NewAggregate(problems)
}

func (w *waiter) check(ctx context.Context, k controlPlaneComponent, url string) (err error) {
	status := 0
	if k.name == constants.KubeAPIServer {
		err = w.client.Discovery().RESTClient().Get().AbsPath(k.endpoint).Do(ctx).StatusCode(&status).Error()
	} else {
		status, err = w.get(ctx, url)
	}
	switch {
	case err != nil:
		return fmt.Errorf("%s check failed at %s: %w", k.name, url, err)
	case status != http.StatusOK:
		return errors.New(k.name + " check failed at " + url + " with status: " + strconv.Itoa(status))
	}
	return nil
}
