package kubeadm

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"ckadrill/sim/kernel"
)

// No name of a machine's file leads out of the private directory.
func TestNamesStayInThePrivateDirectory(t *testing.T) {
	d := privateDir{filepath.Join(t.TempDir(), "tree")}
	for name, want := range map[string]string{
		"/etc/kubernetes":            "/etc/kubernetes",
		"etc/kubernetes/":            "/etc/kubernetes",
		"":                           "",
		"/..":                        "",
		"..":                         "",
		"/../../tmp/victim/ca.crt":   "/tmp/victim/ca.crt",
		"../../tmp/victim/ca.crt":    "/tmp/victim/ca.crt",
		"/etc/../../../x":            "/x",
		"/etc/kubernetes/../..//./x": "/x",
	} {
		if got := d.path(name); got != d.root+filepath.FromSlash(want) {
			t.Errorf("%q becomes %q", name, got)
		}
	}
}

// What upstream would do to the host by the names in its flags and files is done to the machine, or refused.
func TestTheHostIsOutOfReach(t *testing.T) {
	host := t.TempDir()
	canary := filepath.Join(host, "canary")
	if err := os.WriteFile(canary, []byte("of the host"), 0o600); err != nil {
		t.Fatal(err)
	}
	up := strings.Repeat("/..", 20)
	withCommand(t, func(w *kernel.World, cp *Tree) {
		cp.Write("/external", 0o600, []byte("apiVersion: kubeadm.k8s.io/v1beta4\nkind: ClusterConfiguration\nkubernetesVersion: v1.35.4\n"+
			"etcd: {external: {endpoints: [https://192.168.122.11:2379], caFile: "+canary+", certFile: "+canary+", keyFile: "+canary+"}}\n"))
		const config = "apiVersion: v1\nkind: Config\nclusters: [{name: c, cluster: {server: \"https://192.168.122.11:6443\"}}]\n" +
			"contexts: [{name: c, context: {cluster: c, user: u}}]\ncurrent-context: c\nusers: [{name: u, user: "
		cp.Write("/exec", 0o600, []byte(config+"{exec: {apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, command: "+canary+"}}}]\n"))
		cp.Write("/token", 0o600, []byte(config+"{tokenFile: "+canary+"}}]\n"))
		cp.Write("/join", 0o600, []byte("apiVersion: kubeadm.k8s.io/v1beta4\nkind: JoinConfiguration\ndiscovery: {file: {kubeConfigPath: "+canary+"}}\n"))
		for _, c := range []struct{ args, want string }{
			{"init phase certs ca --cert-dir " + up + host, ""},
			{"init phase upload-certs --upload-certs --config /external", "ckadrill does not simulate an external etcd yet"},
			{"token list --kubeconfig /exec", "ckadrill does not simulate credential plugins of a kubeconfig yet"},
			{"token list --kubeconfig /token", "open " + canary + ": no such file or directory"},
			{"version --rootfs " + host, "ckadrill does not simulate kubeadm --rootfs yet"},
			{"join --config /join", `"` + canary + `": not a valid HTTPS URL or a file on disk`},
		} {
			_, errs, code := runKubeadm(w, cp, strings.Fields(c.args)...)
			if c.want == "" && code != 0 || !strings.Contains(errs, c.want) {
				t.Errorf("kubeadm %s: exit %d, %s", c.args, code, errs)
			}
		}
		if _, ok := cp.File(host + "/ca.key"); !ok {
			t.Error("the CA's key is not on the machine")
		}
	})
	if l, err := os.ReadDir(host); err != nil || len(l) != 1 {
		t.Errorf("on the host: %v %v", l, err)
	}
}
