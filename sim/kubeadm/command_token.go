package kubeadm

import (
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/spf13/cobra"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	clientcmdapi "k8s.io/client-go/tools/clientcmd/api"

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
	p   *kernel.Process
	tls rest.TLSClientConfig
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
	return t
}

// failing is a transport that cannot be made.
type failing struct{ err error }

func (f failing) RoundTrip(*http.Request) (*http.Response, error) { return nil, f.err }

// connectableDir is where in the private directory the copies of kubeconfigs lie that clients are made from.
const connectableDir = "/connectable"

// connectable writes a copy of a kubeconfig of the machine to the private directory, whose clients use the process's network.
func (c *command) connectable(name string) (string, error) {
	private := c.d.path(path.Join(connectableDir, name))
	cfg, err := loadKubeconfig(c.p, name)
	if errors.Is(err, fs.ErrNotExist) {
		return private, nil
	}
	if err != nil {
		return "", fmt.Errorf("failed to load admin kubeconfig: %w", err)
	}
	for user := range cfg.AuthInfos {
		c.intercept(cfg, user)
	}
	return private, clientcmd.WriteToFile(*cfg, private)
}

func (c *command) intercept(cfg *clientcmdapi.Config, user string) {
	u := cfg.AuthInfos[user]
	k := &connection{p: c.p, tls: rest.TLSClientConfig{CertData: u.ClientCertificateData, KeyData: u.ClientKeyData}}
	for _, ctx := range cfg.Contexts {
		if cl := cfg.Clusters[ctx.Cluster]; ctx.AuthInfo == user && cl != nil {
			k.tls.CAData, k.tls.Insecure, k.tls.ServerName = cl.CertificateAuthorityData, cl.InsecureSkipTLSVerify, cl.TLSServerName
		}
	}
	key := fmt.Sprint(nextConnection.Add(1))
	connections.Store(key, k)
	c.p.OnExit(func() { connections.Delete(key) })
	u.ClientCertificateData, u.ClientKeyData = nil, nil
	u.AuthProvider = &clientcmdapi.AuthProviderConfig{Name: authProvider, Config: map[string]string{"key": key}}
}

// useKubeconfig lets --kubeconfig name a private copy, of the file that kubeadm would have taken: the flag's, else the first
// that exists of $KUBECONFIG or ~/.kube/config and admin.conf.
func (c *command) useKubeconfig(cmd *cobra.Command) error {
	if err := c.useConfigFile(cmd); err != nil {
		return err
	}
	f := cmd.Flags().Lookup("kubeconfig")
	if f == nil {
		return nil
	}
	name := f.Value.String()
	if name == "" {
		name = c.defaultKubeconfig()
	}
	private, err := c.connectable(c.p.Path(name))
	if err != nil {
		return err
	}
	return f.Value.Set(private)
}

func (c *command) defaultKubeconfig() string {
	candidates := []string{path.Join(c.p.Getenv("HOME"), ".kube/config")}
	if env := c.p.Getenv("KUBECONFIG"); env != "" {
		candidates = strings.Split(env, ":")
	}
	candidates = append(candidates, kubernetesDir+"/admin.conf")
	for _, f := range candidates {
		if _, err := c.p.Files.Stat(c.p.Path(f)); err == nil {
			return f
		}
	}
	return candidates[0]
}
