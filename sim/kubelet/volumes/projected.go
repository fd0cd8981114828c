package volumes

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"
	"sync"
	"time"

	authenticationv1 "k8s.io/api/authentication/v1"
	v1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	utilerrors "k8s.io/apimachinery/pkg/util/errors"
	"k8s.io/kubernetes/pkg/volume"
	configmapvolume "k8s.io/kubernetes/pkg/volume/configmap"
	downwardvolume "k8s.io/kubernetes/pkg/volume/downwardapi"
	secretvolume "k8s.io/kubernetes/pkg/volume/secret"
	volumeutil "k8s.io/kubernetes/pkg/volume/util"
)

// projected joins several sources in one volume; the service account's token, CA and namespace come by here.
type projected struct {
	inPodDir
	tokens *tokens
}

func (projected) supports(s *volume.Spec) bool { return s.Volume != nil && s.Volume.Projected != nil }

func (k projected) setUp(m *mounter, args volume.MounterArgs) error {
	payload, err := k.collect(m, args)
	if err != nil {
		m.p.c.Errorf("projected.go", 196, "Error preparing data for projected volume %v for pod %v/%v: %s", m.spec.Name(), m.pod.Namespace, m.pod.Name, err.Error())
		return err
	}
	return project(m, payload, 0o777|fs.ModeSticky, args)
}

// collect is upstream's collectData (pkg/volume/projected).
func (k projected) collect(m *mounter, args volume.MounterArgs) (map[string]volumeutil.FileProjection, error) {
	src := m.spec.Volume.Projected
	if src.DefaultMode == nil {
		return nil, fmt.Errorf("no defaultMode used, not even the default value for it")
	}
	mode := *src.DefaultMode
	if args.FsUser != nil || args.FsGroup != nil {
		mode = 0o600
	}
	var problems []error
	payload := map[string]volumeutil.FileProjection{}
	add := func(p map[string]volumeutil.FileProjection, err error) {
		if err != nil {
			problems = append(problems, err)
			return
		}
		for n, f := range p {
			payload[n] = f
		}
	}
	for _, s := range src.Sources {
		switch {
		case s.Secret != nil:
			add(k.secret(m, s.Secret, src.DefaultMode))
		case s.ConfigMap != nil:
			add(k.configMap(m, s.ConfigMap, src.DefaultMode))
		case s.DownwardAPI != nil:
			add(downwardvolume.CollectData(s.DownwardAPI.Items, m.pod, m.p.host, src.DefaultMode))
		case s.ServiceAccountToken != nil:
			token, err := k.tokens.get(m, s.ServiceAccountToken)
			add(map[string]volumeutil.FileProjection{s.ServiceAccountToken.Path: {Data: []byte(token), Mode: mode, FsUser: args.FsUser}}, err)
		case s.ClusterTrustBundle != nil:
			problems = append(problems, errors.New("ckadrill does not simulate clusterTrustBundle volumes yet"))
		case s.PodCertificate != nil:
			problems = append(problems, errors.New("ckadrill does not simulate podCertificate volumes yet"))
		}
	}
	return payload, utilerrors.NewAggregate(problems)
}

func (projected) secret(m *mounter, s *v1.SecretProjection, mode *int32) (map[string]volumeutil.FileProjection, error) {
	optional := s.Optional != nil && *s.Optional
	o, err := m.p.host.GetSecretFunc()(m.pod.Namespace, s.Name)
	if err != nil {
		if !apierrors.IsNotFound(err) || !optional {
			m.p.c.Errorf("projected.go", 267, "Couldn't get secret %v/%v: %v", m.pod.Namespace, s.Name, err)
			return nil, err
		}
		o = &v1.Secret{ObjectMeta: metav1.ObjectMeta{Namespace: m.pod.Namespace, Name: s.Name}}
	}
	p, err := secretvolume.MakePayload(s.Items, o, mode, optional)
	if err != nil {
		m.p.c.Errorf("projected.go", 281, "Couldn't get secret payload %v/%v: %v", m.pod.Namespace, s.Name, err)
	}
	return p, err
}

func (projected) configMap(m *mounter, s *v1.ConfigMapProjection, mode *int32) (map[string]volumeutil.FileProjection, error) {
	optional := s.Optional != nil && *s.Optional
	o, err := m.p.host.GetConfigMapFunc()(m.pod.Namespace, s.Name)
	if err != nil {
		if !apierrors.IsNotFound(err) || !optional {
			m.p.c.Errorf("projected.go", 291, "Couldn't get configMap %v/%v: %v", m.pod.Namespace, s.Name, err)
			return nil, err
		}
		o = &v1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Namespace: m.pod.Namespace, Name: s.Name}}
	}
	p, err := configmapvolume.MakePayload(s.Items, o, mode, optional)
	if err != nil {
		m.p.c.Errorf("projected.go", 306, "Couldn't get configMap payload %v/%v: %v", m.pod.Namespace, s.Name, err)
	}
	return p, err
}

// tokens asks upstream's token manager for service account tokens, but lets a resumed kubelet go on with those that its
// volumes hold, until they would have been renewed.
type tokens struct {
	c    Config
	mu   sync.Mutex
	kept map[string]string // file -> token
}

func newTokens(c Config) *tokens { return &tokens{c: c, kept: map[string]string{}} }

func (t *tokens) get(m *mounter, s *v1.ServiceAccountTokenProjection) (string, error) {
	if token, ok := t.keep(path.Join(m.dir, s.Path)); ok {
		return token, nil
	}
	var audiences []string
	if s.Audience != "" {
		audiences = []string{s.Audience}
	}
	r, err := m.p.host.GetServiceAccountTokenFunc()(m.pod.Namespace, m.pod.Spec.ServiceAccountName, &authenticationv1.TokenRequest{
		Spec: authenticationv1.TokenRequestSpec{
			Audiences:         audiences,
			ExpirationSeconds: s.ExpirationSeconds,
			BoundObjectRef:    &authenticationv1.BoundObjectReference{APIVersion: "v1", Kind: "Pod", Name: m.pod.Name, UID: m.pod.UID},
		},
	})
	if err != nil {
		return "", err
	}
	return r.Status.Token, nil
}

// keep returns the token of a file that was written before a thaw and is not yet due for renewal, which upstream's token
// manager does after 80 % of a token's life, or a day.
func (t *tokens) keep(file string) (string, bool) {
	if !t.c.Resumed {
		return "", false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	token, ok := t.kept[file]
	if !ok {
		if b, err := t.c.Files.ReadFile(file); err == nil {
			token = string(b)
		}
		t.kept[file] = token
	}
	issued, expires, ok := life(token)
	if !ok {
		return "", false
	}
	due := min(expires.Sub(issued)*8/10, 24*time.Hour)
	if time.Since(issued) > due {
		t.kept[file] = ""
		return "", false
	}
	return token, true
}

// life reads the times of a JWT.
func life(token string) (issued, expires time.Time, ok bool) {
	parts := strings.Split(token, ".")
	if len(parts) != 3 {
		return issued, expires, false
	}
	b, err := base64.RawURLEncoding.DecodeString(parts[1])
	if err != nil {
		return issued, expires, false
	}
	var claims struct{ Iat, Exp int64 }
	if json.Unmarshal(b, &claims) != nil || claims.Exp == 0 {
		return issued, expires, false
	}
	return time.Unix(claims.Iat, 0), time.Unix(claims.Exp, 0), true
}
