package controlplane

import (
	"crypto/sha256"
	"encoding/base32"
	"fmt"
	"strings"

	"ckadrill/sim/kernel"

	"golang.org/x/crypto/cryptobyte"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apiserverfeatures "k8s.io/apiserver/pkg/features"
	genericapiserver "k8s.io/apiserver/pkg/server"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	clientgoclientset "k8s.io/client-go/kubernetes"
	"k8s.io/component-helpers/apimachinery/lease"
	controlplaneapiserver "k8s.io/kubernetes/pkg/controlplane/apiserver"
	"k8s.io/utils/clock"
)

// instanceID is a UUID that stays the same as long as this instance of a program runs, also over a freeze and thaw: a
// leader that carries on must find itself in its lease. It comes from the container, whose name is random and which a restart
// replaces, and not from the world's seed, which a world that begins with an embedded state changes.
func instanceID(p *kernel.Process) string {
	h := sha256.Sum256(fmt.Appendf(nil, "%s %s %s %d", p.Name(), p.HostName(), p.Container, p.StartTime().UnixNano()))
	b := h[:16]
	b[6], b[8] = b[6]&0x0f|0x40, b[8]&0x3f|0x80
	return fmt.Sprintf("%x-%x-%x-%x-%x", b[:4], b[4:6], b[6:8], b[8:10], b[10:])
}

// apiServerID is genericapiserver.NewConfig's APIServerID, which takes the host's name instead of the machine's.
func apiServerID(hostname string) string {
	b := cryptobyte.NewBuilder(nil)
	for _, s := range []string{hostname, controlplaneapiserver.KubeAPIServer} {
		b.AddUint16LengthPrefixed(func(b *cryptobyte.Builder) { b.AddBytes([]byte(s)) })
	}
	h := sha256.Sum256(b.BytesOrPanic())
	return "apiserver-" + strings.ToLower(base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(h[:16]))
}

// identityLeaseHook is upstream's hook that addIdentityLease replaces.
const identityLeaseHook = "start-kube-apiserver-identity-lease-controller"

// addIdentityLease keeps the Lease that says that this apiserver lives. Upstream's hook labels it with the host's name.
func (s *apiServer) addIdentityLease(g *genericapiserver.GenericAPIServer) {
	if !utilfeature.DefaultFeatureGate.Enabled(apiserverfeatures.APIServerIdentity) {
		return
	}
	g.AddPostStartHookOrDie(identityLeaseHook, func(ctx genericapiserver.PostStartHookContext) error {
		client, err := clientgoclientset.NewForConfig(ctx.LoopbackClientConfig)
		if err != nil {
			return err
		}
		c := lease.NewController(clock.RealClock{}, client, g.APIServerID+"_"+instanceID(s.p), int32(controlplaneapiserver.IdentityLeaseDurationSeconds), nil,
			controlplaneapiserver.IdentityLeaseRenewIntervalPeriod, g.APIServerID, metav1.NamespaceSystem, func(l *coordinationv1.Lease) error {
				if l.Labels == nil {
					l.Labels = map[string]string{}
				}
				l.Labels[controlplaneapiserver.IdentityLeaseComponentLabelKey] = controlplaneapiserver.KubeAPIServer
				l.Labels[corev1.LabelHostname] = s.p.HostName()
				return nil
			})
		if s.p.Resumed() {
			go c.Run(ctx) // the lease is its own: Start would delete it
			return nil
		}
		return c.Start(ctx.Done())
	})
}
