package kubectl

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path"
	"path/filepath"
	"strings"
	"sync/atomic"

	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	cmdconfig "k8s.io/kubectl/pkg/cmd/config"
)

// kubeconfigFiles are the machine's kubeconfigs without --kubeconfig: those of $KUBECONFIG, or ~/.kube/config.
func (i *invocation) kubeconfigFiles() (files []string, fromEnv bool) {
	for _, f := range strings.Split(i.p.Getenv("KUBECONFIG"), ":") {
		if f != "" && !contains(files, f) {
			files = append(files, f)
		}
	}
	if len(files) > 0 {
		return files, true
	}
	return []string{path.Join(i.home(), ".kube", "config")}, false
}

func contains(l []string, s string) bool {
	for _, x := range l {
		if x == s {
			return true
		}
	}
	return false
}

// kubeconfig is a copy of the kubeconfig that upstream would find. Several are merged by upstream's rules into one.
func (i *invocation) kubeconfig() string {
	files, _ := i.kubeconfigFiles()
	var copies []string
	for _, f := range files {
		b, err := i.p.ReadFile(f)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err == nil && !namesFiles(b):
			copies = append(copies, i.m.shared(i.p.Path(f), b))
		default:
			copies = append(copies, i.kubeconfigCopy(f))
		}
	}
	switch len(copies) {
	case 0: // not none, or upstream would look for the host's
		return i.m.shared("", i.inCluster())
	case 1:
		return copies[0]
	}
	c, err := (&clientcmd.ClientConfigLoadingRules{Precedence: copies, WarnIfAllMissing: false}).Load()
	if err == nil {
		var b []byte
		if b, err = clientcmd.Write(*c); err == nil {
			return i.m.content(strings.Join(files, ":"), "merged-kubeconfig", b)
		}
	}
	return copies[0] // upstream reports what is wrong with it
}

// namesFiles says whether a kubeconfig may name other files.
func namesFiles(b []byte) bool {
	for _, key := range []string{"certificate-authority:", "client-certificate:", "client-key:", "tokenFile:", "\"certificate-authority\"", "\"client-certificate\"", "\"client-key\"", "\"tokenFile\""} {
		if bytes.Contains(b, []byte(key)) {
			return true
		}
	}
	return false
}

// explicitKubeconfig is a copy of the file that --kubeconfig names.
func (i *invocation) explicitKubeconfig(f string) string {
	if f == "" {
		return f
	}
	i.m.writeBack(f)
	return i.kubeconfigCopy(f)
}

// kubeconfigCopy mirrors a kubeconfig, and the files that it names by full or relative names.
func (i *invocation) kubeconfigCopy(f string) string {
	if _, err := i.p.ReadFile(f); err != nil && !errors.Is(err, fs.ErrNotExist) {
		var pe *fs.PathError
		if errors.As(err, &pe) {
			err = &fs.PathError{Op: pe.Op, Path: i.p.Path(f), Err: pe.Err}
		}
		fatal(fmt.Sprintf("error: error loading config file \"%s\": %v", i.p.Path(f), err), 1)
	}
	host := i.m.file(f)
	b, err := os.ReadFile(host)
	if err != nil {
		return host
	}
	c, err := clientcmd.Load(b)
	if err != nil {
		return host
	}
	dir := path.Dir(i.p.Path(f))
	changed := false
	name := func(s *string) {
		if *s == "" {
			return
		}
		full := *s
		if !path.IsAbs(full) {
			full = path.Join(dir, full)
		}
		copy := i.m.file(full)
		if path.IsAbs(*s) {
			*s, changed = copy, true
		}
	}
	for _, k := range c.Clusters {
		name(&k.CertificateAuthority)
	}
	for _, u := range c.AuthInfos {
		name(&u.ClientCertificate)
		name(&u.ClientKey)
		name(&u.TokenFile)
	}
	if changed {
		rewriteNames(host, b, i.m)
	}
	return host
}

// rewriteNames gives the files that a kubeconfig names by full names those of their copies, in place, so that all else in
// it stays as it was written.
func rewriteNames(host string, b []byte, m *mirror) {
	lines := strings.Split(string(b), "\n")
	for n, l := range lines {
		key, v, ok := strings.Cut(strings.TrimLeft(l, " -"), ":")
		v = strings.Trim(strings.TrimSpace(v), `"'`)
		switch {
		case !ok || !path.IsAbs(v):
		case key == "certificate-authority", key == "client-certificate", key == "client-key", key == "tokenFile":
			lines[n] = strings.Replace(l, v, m.hostName(path.Clean(v)), 1)
		}
	}
	info, err := os.Stat(host)
	if err == nil {
		os.WriteFile(host, []byte(strings.Join(lines, "\n")), 0o600)
		os.Chtimes(host, info.ModTime(), info.ModTime())
	}
}

// configEnv numbers the environment variables through which "kubectl config" is told where its files are.
var configEnv atomic.Int64

// replaceConfig has "kubectl config" work on copies of the machine's files, which are written back.
func (i *invocation) replaceConfig() {
	files, fromEnv := i.kubeconfigFiles()
	var copies []string
	for _, f := range files {
		copies = append(copies, i.kubeconfigCopy(f))
		i.m.writeBack(f)
	}
	po := clientcmd.NewDefaultPathOptions()
	po.GlobalFile = copies[0]
	po.LoadingRules = &clientcmd.ClientConfigLoadingRules{Precedence: copies}
	if fromEnv {
		po.EnvVar = fmt.Sprintf("CKADRILL_KUBECONFIG_%d", configEnv.Add(1))
		os.Setenv(po.EnvVar, strings.Join(copies, string(filepath.ListSeparator)))
		i.m.note(po.EnvVar, "KUBECONFIG")
		i.p.OnExit(func() { os.Unsetenv(po.EnvVar) })
	}
	i.root.RemoveCommand(i.find("config"))
	i.root.AddCommand(cmdconfig.NewCmdConfig(i.f, po, i.streams))
}

const serviceAccount = "/var/run/secrets/kubernetes.io/serviceaccount/"

// inCluster is a kubeconfig of the process's ServiceAccount, empty outside of a Pod. Upstream's own in-cluster rules look at
// the host's environment and files.
func (i *invocation) inCluster() []byte {
	c := clientcmdapi.NewConfig()
	host, port := i.p.Getenv("KUBERNETES_SERVICE_HOST"), i.p.Getenv("KUBERNETES_SERVICE_PORT")
	if token, err := i.p.Files.ReadFile(serviceAccount + "token"); err == nil && host != "" && port != "" {
		ca, _ := i.p.Files.ReadFile(serviceAccount + "ca.crt")
		namespace, _ := i.p.Files.ReadFile(serviceAccount + "namespace")
		c.Clusters["in-cluster"] = &clientcmdapi.Cluster{Server: "https://" + net.JoinHostPort(host, port), CertificateAuthorityData: ca}
		c.AuthInfos["in-cluster"] = &clientcmdapi.AuthInfo{Token: strings.TrimSpace(string(token))}
		c.Contexts["in-cluster"] = &clientcmdapi.Context{Cluster: "in-cluster", AuthInfo: "in-cluster", Namespace: strings.TrimSpace(string(namespace))}
		c.CurrentContext = "in-cluster"
	}
	b, err := clientcmd.Write(*c)
	if err != nil {
		i.m.fail(err)
	}
	return b
}

// inline reads the copies of certificates, keys and tokens into a client configuration.
func inline(c *rest.Config) error {
	for _, f := range []struct {
		name *string
		data *[]byte
	}{{&c.CAFile, &c.CAData}, {&c.CertFile, &c.CertData}, {&c.KeyFile, &c.KeyData}} {
		if *f.name == "" {
			continue
		}
		if len(*f.data) == 0 {
			b, err := os.ReadFile(*f.name)
			if err != nil {
				return err
			}
			*f.data = b
		}
		*f.name = ""
	}
	if c.BearerTokenFile != "" {
		if c.BearerToken == "" {
			b, err := os.ReadFile(c.BearerTokenFile)
			if err != nil {
				return err
			}
			c.BearerToken = strings.TrimSpace(string(b))
		}
		c.BearerTokenFile = ""
	}
	return nil
}
