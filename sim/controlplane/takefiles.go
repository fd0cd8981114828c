package controlplane

import (
	"fmt"
	"strings"

	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
)

// takeFiles puts private copies in the place of the files that the flags name, and refuses what is not simulated.
func (s *apiServer) takeFiles(o *options.ServerRunOptions) error {
	for flag, value := range map[string]string{
		"egress-selector-config-file":      o.EgressSelector.ConfigFile,
		"tracing-config-file":              o.Traces.ConfigFile,
		"service-account-signing-endpoint": o.ServiceAccountSigningEndpoint,
		"debug-socket-path":                o.Features.DebugSocketPath,
		"peer-ca-file":                     o.PeerCAFile,
	} {
		if value != "" {
			return errNotSimulated(flag)
		}
	}
	f := s.files
	authn, authz, etcd := o.Authentication, o.Authorization, &o.Etcd.StorageConfig.Transport
	f.set(&o.SecureServing.ServerCert.CertKey.CertFile, &o.SecureServing.ServerCert.CertKey.KeyFile,
		&o.ServiceAccountSigningKeyFile, &o.ProxyClientCertFile, &o.ProxyClientKeyFile,
		&o.KubeletConfig.TLSClientConfig.CertFile, &o.KubeletConfig.TLSClientConfig.KeyFile, &o.KubeletConfig.TLSClientConfig.CAFile,
		&etcd.CertFile, &etcd.KeyFile, &etcd.TrustedCAFile,
		&authn.ClientCert.ClientCA, &authn.RequestHeader.ClientCAFile, &authn.TokenFile.TokenFile, &authn.OIDC.CAFile, &authn.AuthenticationConfigFile,
		&authz.PolicyFile, &o.Audit.PolicyFile)
	for i := range authn.ServiceAccounts.KeyFiles {
		f.set(&authn.ServiceAccounts.KeyFiles[i])
	}
	for i := range o.SecureServing.SNICertKeys {
		f.set(&o.SecureServing.SNICertKeys[i].CertFile, &o.SecureServing.SNICertKeys[i].KeyFile)
	}
	for _, config := range []*string{&authn.WebHook.ConfigFile, &authz.WebhookConfigFile, &o.Audit.WebhookOptions.ConfigFile} {
		*config = f.config(*config, kubeconfigFiles...)
	}
	authz.AuthorizationConfigurationFile = f.config(authz.AuthorizationConfigurationFile, "kubeConfigFile")
	o.Admission.GenericAdmission.ConfigFile = f.config(o.Admission.GenericAdmission.ConfigFile, "path", "kubeConfigFile")
	if name := o.Etcd.EncryptionProviderConfigFilepath; name != "" {
		if b, err := s.p.ReadFile(name); err == nil && strings.Contains(string(b), "kms:") {
			return fmt.Errorf("ckadrill does not simulate the kms provider of --encryption-provider-config yet")
		}
		f.set(&o.Etcd.EncryptionProviderConfigFilepath)
	}
	s.audit.take(s.p, o)
	o.Audit.LogOptions.Path = ""
	return nil
}
