package kubeadm

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	goruntime "runtime"
	"sync"
	"sync/atomic"

	clientset "k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"
	kubeadmversion "k8s.io/component-base/version"
	kubeconfigutil "k8s.io/kubernetes/cmd/kubeadm/app/util/kubeconfig"

	"ckadrill/sim/kernel"
	"ckadrill/sim/network/apiclient"
)

// kubeadm makes its clients from kubeconfig files alone, so the file must say how to connect: the copy in the private
// directory names an auth provider, the one way that a kubeconfig has to put code around client-go's transport. It puts a
// transport over the process's network in its place.
const authProvider = "ckadrill-process"

// connections are the clients that private kubeconfigs stand for, by the key in the auth provider's configuration.
var (
	connections    sync.Map // key -> *connection
	nextConnection atomic.Int64
)

type connection struct {
	p    *kernel.Process
	tls  rest.TLSClientConfig
	user *clientcmdapi.AuthInfo // as it is in the machine's file
}

func init() {
	err := rest.RegisterAuthProviderPlugin(authProvider, func(host string, config map[string]string, _ rest.AuthProviderConfigPersister) (rest.AuthProvider, error) {
		v, ok := connections.Load(config["key"])
		if !ok {
			return nil, fmt.Errorf("the process that this kubeconfig belongs to has ended")
		}
		return &provider{host: host, connection: v.(*connection)}, nil
	})
	if err != nil {
		panic(err)
	}
}

type provider struct {
	*connection
	host string
}

func (*provider) Login() error { return nil }

// WrapTransport ignores client-go's own transport, which has not connected yet.
func (a *provider) WrapTransport(http.RoundTripper) http.RoundTripper {
	c := &rest.Config{Host: a.host, TLSClientConfig: a.tls}
	if err := apiclient.ConfigureREST(a.p, c); err != nil {
		return failing{err}
	}
	t, err := rest.TransportFor(c)
	if err != nil {
		return failing{err}
	}
	return lifeline{a.p, t, userAgent()}
}

// failing is a transport that cannot be made.
type failing struct{ err error }

func (f failing) RoundTrip(*http.Request) (*http.Response, error) { return nil, f.err }

// connectableDir is where in the command's own directory the copies of kubeconfigs lie that clients are made from.
const connectableDir = "/connectable"

// connectable writes a copy of a kubeconfig of the machine to the private directory, whose clients use the process's network.
func (c *command) connectable(name string) (string, error) {
	private := c.own.path(path.Join(connectableDir, name))
	if _, err := c.p.Files.Stat(name); errors.Is(err, fs.ErrNotExist) {
		return private, nil
	}
	cfg, err := loadKubeconfig(c.p, name)
	if err != nil {
		return "", fmt.Errorf("failed to load admin kubeconfig: %w", err)
	}
	return private, clientcmd.WriteToFile(*c.connected(cfg), private)
}

// connected is a kubeconfig from which upstream's functions make clients that use the process's network. Files that it names must
// have been read.
func (c *command) connected(cfg *clientcmdapi.Config) *clientcmdapi.Config {
	cfg = cfg.DeepCopy()
	for _, ctx := range cfg.Contexts {
		if cfg.AuthInfos[ctx.AuthInfo] == nil { // somebody anonymous
			cfg.AuthInfos[ctx.AuthInfo] = nobody.DeepCopy()
		}
	}
	for user := range cfg.AuthInfos {
		c.intercept(cfg, user)
	}
	for _, cluster := range cfg.Clusters {
		cluster.CertificateAuthority, cluster.ProxyURL = "", "" // client-go would open the one and dial the other on the host
	}
	return cfg
}

// nobody is the user of a context that names none.
var nobody = &clientcmdapi.AuthInfo{Username: "nobody"}

// clientSet makes a client as upstream's ToClientSet does, over the process's network.
func (c *command) clientSet(cfg *clientcmdapi.Config) (clientset.Interface, error) {
	return kubeconfigutil.ToClientSet(c.connected(cfg))
}

// clientSetFromFile makes a client from a file of the machine, as upstream's ClientSetFromFile does.
func (c *command) clientSetFromFile(name string) (clientset.Interface, error) {
	cfg, err := loadKubeconfig(c.p, name)
	if err != nil {
		return nil, fmt.Errorf("failed to load admin kubeconfig: %w", err)
	}
	return c.clientSet(cfg)
}

func (c *command) intercept(cfg *clientcmdapi.Config, user string) {
	u := cfg.AuthInfos[user]
	k := &connection{p: c.p, tls: rest.TLSClientConfig{CertData: u.ClientCertificateData, KeyData: u.ClientKeyData}, user: u.DeepCopy()}
	for _, ctx := range cfg.Contexts {
		if cl := cfg.Clusters[ctx.Cluster]; ctx.AuthInfo == user && cl != nil {
			k.tls.CAData, k.tls.Insecure, k.tls.ServerName = cl.CertificateAuthorityData, cl.InsecureSkipTLSVerify, cl.TLSServerName
		}
	}
	key := fmt.Sprint(nextConnection.Add(1))
	connections.Store(key, k)
	c.p.OnExit(func() { connections.Delete(key) })
	// Of the rest client-go would read files of the host, or run its programs.
	cfg.AuthInfos[user] = &clientcmdapi.AuthInfo{
		Token: u.Token, Impersonate: u.Impersonate, ImpersonateUID: u.ImpersonateUID, ImpersonateGroups: u.ImpersonateGroups, ImpersonateUserExtra: u.ImpersonateUserExtra,
		AuthProvider: &clientcmdapi.AuthProviderConfig{Name: authProvider, Config: map[string]string{"key": key}},
	}
}

// restoreCredentials gives the users of a kubeconfig that upstream wrote their own credentials back.
func (c *command) restoreCredentials(content []byte) []byte {
	if !bytes.Contains(content, []byte(authProvider)) {
		return content
	}
	cfg, err := clientcmd.Load(content)
	if err != nil {
		return content
	}
	disconnect(cfg)
	b, err := clientcmd.Write(*cfg)
	if err != nil {
		return content
	}
	return b
}

// disconnect undoes what connected has done to a configuration.
func disconnect(cfg *clientcmdapi.Config) {
	for name, u := range cfg.AuthInfos {
		if u.AuthProvider == nil || u.AuthProvider.Name != authProvider {
			continue
		}
		k, ok := connections.Load(u.AuthProvider.Config["key"])
		if !ok {
			continue
		}
		if user := k.(*connection).user; user.Username != nobody.Username {
			cfg.AuthInfos[name] = user
		} else {
			delete(cfg.AuthInfos, name)
		}
	}
}

// lifeline ends the goroutines of a kubeadm that has ended: upstream's loops know no end of their own, and all of them come
// by here. It also says who asks: client-go knows only the name of the host's program.
type lifeline struct {
	p *kernel.Process
	http.RoundTripper
	agent string
}

func (l lifeline) RoundTrip(r *http.Request) (*http.Response, error) {
	if !l.p.Alive() {
		goruntime.Goexit()
	}
	r = r.Clone(r.Context())
	r.Header.Set("User-Agent", l.agent)
	return l.RoundTripper.RoundTrip(r)
}

// userAgent is client-go's default of kubeadm on Linux.
func userAgent() string {
	v := kubeadmversion.Get()
	return fmt.Sprintf("kubeadm/%s (linux/amd64) kubernetes/%.7s", v.GitVersion, v.GitCommit)
}
