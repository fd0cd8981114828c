package host

import (
	"errors"
	"strings"

	"k8s.io/kubernetes/cmd/kubeadm/app/util/initsystem"

	"ckadrill/sim/kernel"
)

// InitSystem is the machine's systemd as upstream's SystemdInitSystem uses it, by the program systemctl. The error is that of
// upstream's GetInitSystem where there is no such program.
func InitSystem(p *kernel.Process) (initsystem.InitSystem, error) {
	if _, err := (Exec{p}).LookPath("systemctl"); err != nil {
		return nil, errors.New("no supported init system detected, skipping checking for services")
	}
	return systemctl{Exec{p}}, nil
}

type systemctl struct{ exec Exec }

func (s systemctl) run(args ...string) error { return s.exec.Command("systemctl", args...).Run() }

func (s systemctl) output(args ...string) string {
	b, _ := s.exec.Command("systemctl", args...).Output()
	return string(b)
}

func (s systemctl) EnableCommand(service string) string {
	return "systemctl enable " + service + ".service"
}

func (s systemctl) reloaded(verb, service string) error {
	if err := s.run("daemon-reload"); err != nil {
		return errors.New("failed to reload systemd: " + err.Error())
	}
	return s.run(verb, service)
}

func (s systemctl) ServiceStart(service string) error   { return s.reloaded("start", service) }
func (s systemctl) ServiceRestart(service string) error { return s.reloaded("restart", service) }
func (s systemctl) ServiceStop(service string) error    { return s.run("stop", service) }

func (s systemctl) ServiceExists(service string) bool {
	out := s.output("status", service)
	return !strings.Contains(out, "Loaded: not-found") && !strings.Contains(out, "could not be found")
}

func (s systemctl) ServiceIsEnabled(service string) bool { return s.run("is-enabled", service) == nil }

func (s systemctl) ServiceIsActive(service string) bool {
	out := strings.TrimSpace(s.output("is-active", service))
	return out == "active" || out == "activating"
}
