package runtime

import "k8s.io/klog/v2"

// logFailure logs a failed call as k8s.io/cri-client does, whose package for it every CRI client names in its lines:
// the header of the line must read "log.go:32]", which the directive below sees to.
func logFailure(err error, msg string, kv ...any) {
	logger := klog.Background()
//line log.go:32
	logger.Error(err, msg, kv...)
}
