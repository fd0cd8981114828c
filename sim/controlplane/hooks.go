package controlplane

import (
	"fmt"
	"reflect"
	"time"
	"unsafe"

	"ckadrill/sim/kernel"

	genericapiserver "k8s.io/apiserver/pkg/server"
	rbacrest "k8s.io/kubernetes/pkg/registry/rbac/rest"
	schedulingrest "k8s.io/kubernetes/pkg/registry/scheduling/rest"
)

// onceHooks are the hooks that an apiserver runs when it starts, and then never again: they write objects that have to
// exist. One that carries on after a thaw ran them long ago. Were they run again, a default role that a candidate has
// deleted would be back; and they are two thirds of all requests of a boot.
var onceHooks = []string{rbacrest.PostStartHookName, schedulingrest.PostStartHookName}

// onceHooksDone is after how long of an apiserver's life they have run.
const onceHooksDone = time.Minute

// skipOnceHooks lets the hooks of a resumed apiserver that ran once before do nothing. They keep their names in /readyz.
func skipOnceHooks(p *kernel.Process, s *genericapiserver.GenericAPIServer) error {
	if !p.Resumed() || time.Since(p.StartTime()) < onceHooksDone {
		return nil
	}
	hooks := s.PostStartHooks()
	for _, name := range onceHooks {
		entry, ok := hooks[name]
		if !ok {
			continue // its API is disabled
		}
		f := reflect.ValueOf(&entry).Elem().FieldByName("hook")
		if !f.IsValid() {
			return fmt.Errorf("upstream keeps the hook %s otherwise", name)
		}
		*(*genericapiserver.PostStartHookFunc)(unsafe.Pointer(f.UnsafeAddr())) = func(genericapiserver.PostStartHookContext) error { return nil }
		hooks[name] = entry
	}
	return nil
}
