package calico

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io/fs"
	"net"
	"path"
	"strings"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"ckadrill/sim/kernel"
	"ckadrill/sim/network/apiclient"
)

const (
	hostBin        = "/host/opt/cni/bin"
	hostNet        = "/host/etc/cni/net.d"
	kubeconfigName = "calico-kubeconfig"
	pluginAccount  = "calico-cni-plugin"
	accountDir     = "/var/run/secrets/kubernetes.io/serviceaccount/"
)

// getenv is an environment variable, or what stands for it when it is not set.
func getenv(p *kernel.Process, key, def string) string {
	if v := p.Getenv(key); v != "" {
		return v
	}
	return def
}

// install is the program of the init container install-cni.
func install(p *kernel.Process) int {
	l := logger{p: p}
	fail := func(format string, a ...any) int {
		l.print("FATAL", "cni-installer/<nil>", 0, format, a...)
		return 1
	}
	entries, err := p.Files.ReadDir("/opt/cni/bin")
	if err != nil {
		return fail("Failed to read /opt/cni/bin: %v", err)
	}
	for _, e := range entries {
		if e.Name() == "install" {
			continue
		}
		b, err := p.Files.ReadFile("/opt/cni/bin/" + e.Name())
		if err == nil {
			err = replace(p, path.Join(hostBin, e.Name()), b, 0o755)
		}
		if err != nil {
			return fail("Failed to install %s: %v", e.Name(), err)
		}
		l.print("INFO", "cni-installer/<nil>", 0, "Installed %s", path.Join(hostBin, e.Name()))
	}
	l.print("INFO", "cni-installer/<nil>", 0, "Wrote Calico CNI binaries to %s", hostBin)
	l.print("INFO", "cni-installer/<nil>", 0, "CNI plugin version: %s", p.Version(defaultVersion))
	config, err := apiclient.InCluster(p)
	if err != nil {
		return fail("Failed to load in-cluster config: %v", err)
	}
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fail("Unable to create client: %v", err)
	}
	if _, err := writeKubeconfig(p.Context(), p, client); err != nil {
		return fail("Unable to create token for CNI kubeconfig: %v", err)
	}
	text := p.Getenv("CNI_NETWORK_CONFIG")
	if text == "" {
		return fail("CNI_NETWORK_CONFIG is not set")
	}
	l.print("INFO", "cni-installer/<nil>", 0, "Using CNI config template from CNI_NETWORK_CONFIG environment variable.")
	text = strings.NewReplacer("__KUBERNETES_NODE_NAME__", getenv(p, "KUBERNETES_NODE_NAME", p.HostName()), "__CNI_MTU__", getenv(p, "CNI_MTU", "0"), "__LOG_LEVEL__", getenv(p, "LOG_LEVEL", "info"), "__SERVICEACCOUNT_TOKEN__", "",
		"__KUBECONFIG_FILEPATH__", path.Join(getenv(p, "CNI_NET_DIR", "/etc/cni/net.d"), kubeconfigName)).Replace(text)
	if !json.Valid([]byte(text)) {
		return fail("%s is not a valid json object", text)
	}
	name := path.Join(hostNet, getenv(p, "CNI_CONF_NAME", "10-calico.conflist"))
	if err := replace(p, name, []byte(text+"\n"), 0o600); err != nil {
		return fail("Failed to write CNI configuration: %v", err)
	}
	l.print("INFO", "cni-installer/<nil>", 0, "Created %s", name)
	if s := getenv(p, "SLEEP", "false"); s != "false" {
		l.print("INFO", "cni-installer/<nil>", 0, "Done configuring CNI.  Sleep= %s", s)
		<-p.Context().Done()
	}
	return 0
}

// replace writes a file whose readers see the old one or the whole new one.
func replace(p *kernel.Process, name string, b []byte, mode fs.FileMode) error {
	if err := p.Files.WriteFile(name+".tmp", b, mode); err != nil {
		return err
	}
	return p.Files.Rename(name+".tmp", name)
}

// writeKubeconfig writes the plugin's kubeconfig with a new token of its ServiceAccount, and returns when the token expires.
func writeKubeconfig(ctx context.Context, p *kernel.Process, client kubernetes.Interface) (time.Time, error) {
	namespace := "kube-system"
	if b, err := p.ReadFile(accountDir + "namespace"); err == nil {
		namespace = strings.TrimSpace(string(b))
	}
	day := int64(24 * 60 * 60)
	t, err := client.CoreV1().ServiceAccounts(namespace).CreateToken(ctx, pluginAccount, &authenticationv1.TokenRequest{Spec: authenticationv1.TokenRequestSpec{ExpirationSeconds: &day}}, metav1.CreateOptions{})
	if err != nil {
		return time.Time{}, err
	}
	ca, err := p.ReadFile(accountDir + "ca.crt")
	if err != nil {
		return time.Time{}, err
	}
	text := fmt.Sprintf(`# The kubeconfig of the Calico CNI plugin, made by its installer.
apiVersion: v1
kind: Config
clusters:
- name: local
  cluster:
    server: https://%s
    certificate-authority-data: %q
users:
- name: calico
  user:
    token: %q
contexts:
- name: calico-context
  context:
    cluster: local
    user: calico
current-context: calico-context
`, net.JoinHostPort(p.Getenv("KUBERNETES_SERVICE_HOST"), p.Getenv("KUBERNETES_SERVICE_PORT")), base64.StdEncoding.EncodeToString(ca), t.Status.Token)
	return t.Status.ExpirationTimestamp.Time, replace(p, path.Join(hostNet, kubeconfigName), []byte(text), 0o600)
}
