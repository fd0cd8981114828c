package controlplane

import (
	"fmt"
	"io"
	"os"
	"path"

	"ckadrill/sim/kernel"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apiserver/pkg/audit"
	genericapiserver "k8s.io/apiserver/pkg/server"
	"k8s.io/apiserver/plugin/pkg/audit/buffered"
	auditlog "k8s.io/apiserver/plugin/pkg/audit/log"
	"k8s.io/kubernetes/cmd/kube-apiserver/app/options"
)

// auditLog writes audit events to a file of the simulated machine. Upstream's own log backend opens a host file, so its
// path is taken away from upstream's options and its backend is built here.
type auditLog struct {
	p                     *kernel.Process
	name, format, version string
	buffer                *buffered.BatchConfig
}

func (a *auditLog) take(p *kernel.Process, o *options.ServerRunOptions) {
	l := &o.Audit.LogOptions
	a.p, a.name, a.format, a.version = p, l.Path, l.Format, l.GroupVersionString
	if l.BatchOptions.Mode == "batch" {
		a.buffer = &l.BatchOptions.BatchConfig
	}
}

// applyTo adds the backend, if there are a path and a policy.
func (a *auditLog) applyTo(c *genericapiserver.Config) error {
	if a.name == "" || c.AuditPolicyRuleEvaluator == nil {
		return nil
	}
	w, err := a.open()
	if err != nil {
		return err
	}
	gv, err := schema.ParseGroupVersion(a.version)
	if err != nil {
		return err
	}
	b := auditlog.NewBackend(w, a.format, gv)
	if a.buffer != nil {
		b = buffered.NewBackend(b, *a.buffer)
	}
	if c.AuditBackend != nil {
		b = audit.Union(c.AuditBackend, b)
	}
	c.AuditBackend = b
	return nil
}

func (a *auditLog) open() (io.Writer, error) {
	if a.name == "-" {
		return a.p.Stdout, nil
	}
	name := a.p.Path(a.name)
	if err := a.p.Files.MkdirAll(path.Dir(name), 0o700); err != nil {
		return nil, fmt.Errorf("ensureLogFile: %w", err)
	}
	f, err := a.p.Files.OpenFile(name, os.O_CREATE|os.O_APPEND|os.O_RDWR, 0o600)
	if err != nil {
		return nil, fmt.Errorf("ensureLogFile: %w", err)
	}
	return f, nil
}
