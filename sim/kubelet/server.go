package kubelet

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"strings"
	"time"

	apiserver "k8s.io/apiserver/pkg/apis/apiserver"
	"k8s.io/apiserver/pkg/authentication/authenticatorfactory"
	"k8s.io/apiserver/pkg/authorization/authorizer"
	"k8s.io/apiserver/pkg/authorization/authorizerfactory"
	"k8s.io/apiserver/pkg/server/dynamiccertificates"
	genericoptions "k8s.io/apiserver/pkg/server/options"
	"k8s.io/klog/v2"
	kubeletconfig "k8s.io/kubernetes/pkg/kubelet/apis/config"
	"k8s.io/kubernetes/pkg/kubelet/server"

	"ckadrill/sim/network"
)

// auth is upstream's BuildAuth (cmd/kubelet/app/auth.go): client certificates, tokens and rights are checked as the
// configuration says.
func (n *node) auth() (server.AuthInterface, error) {
	kc := &n.s.KubeletConfiguration
	a := authenticatorfactory.DelegatingAuthenticatorConfig{
		Anonymous: &apiserver.AnonymousAuthConfig{Enabled: kc.Authentication.Anonymous.Enabled},
		CacheTTL:  kc.Authentication.Webhook.CacheTTL.Duration,
	}
	if ca := kc.Authentication.X509.ClientCAFile; ca != "" {
		b, err := n.p.Files.ReadFile(ca)
		if err != nil {
			return nil, err
		}
		content, err := dynamiccertificates.NewStaticCAContent("client-ca-bundle", b)
		if err != nil {
			return nil, err
		}
		a.ClientCertificateCAContentProvider = content
		logAt(n.p, "dynamic_cafile_content.go", 161).Info("Starting controller", "name", "client-ca-bundle::"+ca)
	}
	if kc.Authentication.Webhook.Enabled {
		if n.clients == nil {
			return nil, errors.New("no client provided, cannot use webhook authentication")
		}
		a.WebhookRetryBackoff = genericoptions.DefaultAuthWebhookRetryBackoff()
		a.TokenAccessReviewClient = n.clients.Kube.AuthenticationV1()
	}
	authn, _, err := a.New()
	if err != nil {
		return nil, err
	}
	authz, err := n.authorizer()
	if err != nil {
		return nil, err
	}
	return server.NewKubeletAuth(authn, server.NewNodeAuthorizerAttributesGetter(n.name), authz), nil
}

func (n *node) authorizer() (authorizer.Authorizer, error) {
	az := n.s.Authorization
	switch az.Mode {
	case kubeletconfig.KubeletAuthorizationModeAlwaysAllow:
		return authorizerfactory.NewAlwaysAllowAuthorizer(), nil
	case kubeletconfig.KubeletAuthorizationModeWebhook:
		if n.clients == nil {
			return nil, errors.New("no client provided, cannot use webhook authorization")
		}
		return authorizerfactory.DelegatingAuthorizerConfig{
			SubjectAccessReviewClient: n.clients.Kube.AuthorizationV1(),
			AllowCacheTTL:             az.Webhook.CacheAuthorizedTTL.Duration,
			DenyCacheTTL:              az.Webhook.CacheUnauthorizedTTL.Duration,
			WebhookRetryBackoff:       genericoptions.DefaultAuthWebhookRetryBackoff(),
		}.New()
	case "":
		return nil, errors.New("no authorization mode specified")
	}
	return nil, fmt.Errorf("unknown authorization mode %s", az.Mode)
}

// serve listens on the kubelet's port. A port that is taken ends the kubelet, as the real one's does.
func (n *node) serve(auth server.AuthInterface) {
	p, kc := n.p, &n.s.KubeletConfiguration
	address := net.JoinHostPort(kc.Address, strconv.Itoa(int(kc.Port)))
	logAt(p, "server.go", 180).Info("Starting to listen", "address", kc.Address, "port", kc.Port)
	l, err := p.Listen("tcp", address)
	if err != nil {
		logAt(p, "server.go", 211).Error(err, "Failed to listen and serve")
		p.Exit(1)
		return
	}
	c := n.tls.Clone()
	if n.serving != nil {
		c.GetCertificate = n.serving.get
	} else {
		pair := pairReader{n, kc.TLSCertFile, kc.TLSPrivateKeyFile}
		if _, err := pair.get(nil); err != nil {
			logAt(p, "server.go", 211).Error(err, "Failed to listen and serve")
			p.Exit(1)
			return
		}
		logAt(p, "dynamic_serving_content.go", 135).Info("Starting controller", "name", "kubelet-server-cert-files::"+kc.TLSCertFile+"::"+kc.TLSPrivateKeyFile)
		c.GetCertificate = pair.get
	}
	if err := network.Serve(l, c, n.handler(auth)); err != nil && p.Alive() {
		logAt(p, "server.go", 211).Error(err, "Failed to listen and serve")
		p.Exit(1)
	}
}

// pairReader serves the certificate that the files hold now, as upstream's file manager reloads it.
type pairReader struct {
	n         *node
	cert, key string
}

func (r pairReader) get(*tls.ClientHelloInfo) (*tls.Certificate, error) {
	pair, err := readPair(r.n.p, r.cert, r.key)
	if err != nil {
		return nil, err
	}
	c, err := tls.X509KeyPair(pair[0], pair[1])
	return &c, err
}

// handler is upstream's server, but for what streams: upstream redirects those to the runtime's own HTTP server.
func (n *node) handler(auth server.AuthInterface) http.Handler {
	kc := n.s.KubeletConfiguration.DeepCopy()
	kc.EnableProfilingHandler, kc.EnableDebugFlagsHandler = false, false // they show and change the host process
	kc.EnableSystemLogHandler = false                                    // below
	s := server.NewServer(context.Background(), n.kl, n.analyzer, nil, nil, auth, kc)
	stream := streams{n: n, auth: auth}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		root, _, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
		switch root {
		case "exec", "attach", "portForward":
			stream.ServeHTTP(w, r)
		case "debug":
			http.Error(w, "ckadrill does not simulate the kubelet's debug endpoints yet", http.StatusNotImplemented)
		default:
			s.ServeHTTP(w, r)
		}
	})
}

// streams serves exec, attach and port-forward by the runtime directly.
type streams struct {
	n    *node
	auth server.AuthInterface
}

// Time-outs of upstream's streaming: streamingConnectionIdleTimeout is configured, the other is the CRI server's.
const streamCreationTimeout = 30 * time.Second

// ServeHTTP implements http.Handler.
func (s streams) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if s.allowed(w, r) {
		s.serve(w, r)
	}
}

// allowed is upstream's InstallAuthFilter.
func (s streams) allowed(w http.ResponseWriter, r *http.Request) bool {
	info, ok, err := s.auth.AuthenticateRequest(r)
	if err != nil {
		klog.ErrorS(err, "Unable to authenticate the request due to an error")
	}
	if err != nil || !ok {
		http.Error(w, "Unauthorized", http.StatusUnauthorized)
		return false
	}
	var tried []string
	attrs := s.auth.GetRequestAttributes(r.Context(), info.User, r)
	for _, a := range attrs {
		tried = append(tried, a.GetSubresource())
		d, _, err := s.auth.Authorize(r.Context(), a)
		if err != nil {
			klog.ErrorS(err, "Authorization error", "user", a.GetUser().GetName(), "verb", a.GetVerb(), "resource", a.GetResource(), "subresource", a.GetSubresource())
			http.Error(w, fmt.Sprintf("Authorization error (user=%s, verb=%s, resource=%s, subresource=%s)", a.GetUser().GetName(), a.GetVerb(), a.GetResource(), a.GetSubresource()), http.StatusInternalServerError)
			return false
		}
		if d == authorizer.DecisionAllow {
			return true
		}
	}
	a := attrs[0]
	http.Error(w, fmt.Sprintf("Forbidden (user=%s, verb=%s, resource=%s, subresource(s)=%v)\n", a.GetUser().GetName(), a.GetVerb(), a.GetResource(), tried), http.StatusForbidden)
	return false
}
