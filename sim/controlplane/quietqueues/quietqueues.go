// Package quietqueues leaves client-go's work queues without metrics. A queue with metrics looks twice a second how long
// its work has been unfinished; the control plane has some 150 queues, so an idle simulated hour would pay for a million
// looks. Without it the workqueue_* metrics are missing from /metrics.
//
// It must be initialised before k8s.io/component-base/metrics/prometheus/workqueue, because only the first provider that
// is set counts. Go initialises packages in the order of their import paths as soon as their imports are, and this one
// imports nothing but the queues.
package quietqueues

import (
	_ "unsafe" // for go:linkname

	"k8s.io/client-go/util/workqueue"
)

// provider is still the one that provides nothing, whose type is not exported.
//
//go:linkname provider k8s.io/client-go/util/workqueue.globalMetricsProvider
var provider workqueue.MetricsProvider

func init() { workqueue.SetProvider(provider) }

// Quiet says whether the queues have been left without metrics.
func Quiet() bool {
	return provider != nil && provider.NewAddsMetric("x") == provider.NewAddsMetric("y")
}
