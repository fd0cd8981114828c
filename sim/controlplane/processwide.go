package controlplane

import (
	"strings"
	"sync"
	"time"
	_ "unsafe" // for go:linkname

	"ckadrill/sim/kernel"

	"github.com/fsnotify/fsnotify"
	"go.etcd.io/etcd/client/pkg/v3/logutil"
	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"
	_ "google.golang.org/grpc" // whose channel numbers are reset
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/apiserver/pkg/util/compatibility"
	utilfeature "k8s.io/apiserver/pkg/util/feature"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
	basecompatibility "k8s.io/component-base/compatibility"
	"k8s.io/component-base/featuregate"
	"k8s.io/kubernetes/pkg/capabilities"
	"k8s.io/kubernetes/pkg/controller/volume/attachdetach"
)

// What upstream keeps once per host process, and how each is tamed:
//   - the version: version.go;
//   - feature gates: each program parses its own copy (newRegistry), so that errors are its own; the values then become
//     the host process's. Of several components with different gates the one that started last decides for all;
//   - transport.DialerStopCh ends client-go's reloaders of client certificates: made outside of the bubble it would hold
//     time, and it must end with the process (stopReloadersWith);
//   - capabilities.Setup works once only (setCapabilities);
//   - grpc numbers channels per host process (restartChannelNumbers);
//   - the default warning handler prints to the host's standard error: the control plane's clients have none;
//   - the attach/detach controller's reconciler looks every 100 ms, 36,000 times an idle hour: every second is enough;
//   - etcd's clients log to the host's standard error in JSON: to the process's (processStderr);
//   - file watchers: the fsnotify of this binary asks private.
func tame(*kernel.World) {
	fsnotify.Source = watchPrivate
	etcdClientLogger = zap.New(zapcore.NewCore(zapcore.NewJSONEncoder(logutil.DefaultZapLoggerConfig.EncoderConfig), processStderr{}, zap.InfoLevel), zap.AddCaller()).Named("etcd-client")
	attachdetach.DefaultTimerConfig.ReconcilerLoopPeriod = time.Second
	setVersion(DefaultVersion)
	transport.DialerStopCh = wait.NeverStop
	rest.SetDefaultWarningHandler(rest.NoWarnings{})
}

// newRegistry is a registry of a component of its own, with all of upstream's feature gates at their defaults.
func newRegistry(p *kernel.Process) basecompatibility.ComponentGlobalsRegistry {
	r := basecompatibility.NewComponentGlobalsRegistry()
	asVersion(p, func() {
		gate := utilfeature.DefaultMutableFeatureGate.DeepCopyAndReset()
		if err := r.Register(basecompatibility.DefaultKubeComponent, compatibility.DefaultBuildEffectiveVersion(), gate); err != nil {
			panic(err)
		}
	})
	return r
}

var gatesMu sync.Mutex

// setFeatureGates takes the component's parsed gates into use.
func setFeatureGates(r basecompatibility.ComponentGlobalsRegistry) error {
	if err := r.Set(); err != nil {
		return err
	}
	own, ok := r.FeatureGateFor(basecompatibility.DefaultKubeComponent).(featuregate.MutableVersionedFeatureGate)
	if !ok {
		return nil
	}
	gatesMu.Lock()
	defer gatesMu.Unlock()
	all := utilfeature.DefaultMutableFeatureGate
	for f := range all.GetAll() {
		if strings.HasPrefix(string(f), "All") {
			continue // AllAlpha and AllBeta have been applied to the gates one by one
		}
		if all.Enabled(f) == own.Enabled(f) {
			continue
		}
		if err := all.SetFromMap(map[string]bool{string(f): own.Enabled(f)}); err != nil {
			return err
		}
	}
	return nil
}

// stopReloadersWith lets the client certificate reloaders of transports that are made from now on end with the process.
func stopReloadersWith(p *kernel.Process) { transport.DialerStopCh = p.Context().Done() }

// setCapabilities lets the next capabilities.Setup work again.
func setCapabilities() { capabilities.ResetForTest() }

//go:linkname channelNumber google.golang.org/grpc/internal/channelz.IDGen
var channelNumber struct{ id int64 }

// restartChannelNumbers gives the process's first etcd channel the number 1 in grpc's log lines, as in a process of its own.
func restartChannelNumbers() { channelNumber.id = 0 }

//go:linkname etcdClientLogger k8s.io/apiserver/pkg/storage/storagebackend/factory.etcd3ClientLogger
var etcdClientLogger *zap.Logger

// processStderr is the standard error of the process that writes to it.
type processStderr struct{}

func (processStderr) Write(b []byte) (int, error) {
	if p := kernel.Current(); p != nil && p.Alive() {
		return p.Stderr.Write(b)
	}
	return len(b), nil
}

func (processStderr) Sync() error { return nil }
