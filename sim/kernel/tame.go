package kernel

import (
	"time"

	"github.com/google/uuid"
	utilrand "k8s.io/apimachinery/pkg/util/rand"
	utilruntime "k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/apimachinery/pkg/util/wait"
	clientfeatures "k8s.io/client-go/features"
)

// tame brings upstream's process-wide state, as far as apimachinery and klog own it, under the world's rule. Rooms that
// import more of upstream tame theirs where they import it.
func tame(w *World) {
	time.Local = time.UTC
	// Made outside the bubble, whoever waits on it would hold time.
	wait.NeverStop = make(chan struct{})
	// The second one backs off from a time noted at the start of the host process: in a bubble it could sleep for years.
	utilruntime.ErrorHandlers = utilruntime.ErrorHandlers[:1]
	utilruntime.ReallyCrash = false
	if _, done := clientfeatures.FeatureGates().(orderedLists); !done { // by an earlier world of this host process
		clientfeatures.ReplaceFeatureGates(orderedLists{clientfeatures.FeatureGates()})
	}
	seedUpstream(w)
	tameLog(w)
}

// orderedLists are client-go's gates without WatchListClient in the warm-up of a thawed world: a reflector that fills its
// cache by a watch hands the first objects on in the order of a map, one that lists in the order of their keys. So a scheduler
// would see its nodes, and a controller its queue, in another order after each thaw.
type orderedLists struct{ clientfeatures.Gates }

func (g orderedLists) Enabled(f clientfeatures.Feature) bool {
	return (f != clientfeatures.WatchListClient || !Replaying()) && g.Gates.Enabled(f)
}

// seedUpstream seeds the process-wide sources that names, uids and jitter come from.
func seedUpstream(w *World) {
	utilrand.Seed(int64(w.source("apimachinery").Uint64()))
	drawFrom(w.seed)
	uuid.SetRand(w.source("uuid"))
}
