package sim

import (
	"bytes"
	"fmt"
	"strings"
	"time"

	"ckadrill/sim/kernel"
	"ckadrill/sim/kubeadm"
	"ckadrill/sim/machine"
	"ckadrill/sim/runtime"
	"ckadrill/sim/userland"
)

// Build makes the cluster from nothing: the files by kubeadm's phases, then the first control plane is switched on, the
// objects are made through the API as kubeadm init does, other control planes join by kubeadm itself, and the workers one by one. It returns when all nodes are Ready and all system Pods run.
func (c *Cluster) Build() error {
	l, err := kubeadm.Build(c.w, c.spec)
	if err != nil {
		return err
	}
	for _, m := range c.spec.Machines {
		x, err := c.Machine(m.Name)
		if err != nil {
			return err
		}
		if err := l.Trees[m.Name].Install(x.Files(kernel.Root)); err != nil {
			return fmt.Errorf("machine %s: %w", m.Name, err)
		}
		for _, i := range m.Images {
			runtime.Of(x.Host()).AddImage(i)
		}
	}
	first, err := c.Machine(c.ControlPlane())
	if err != nil {
		return err
	}
	for _, m := range c.spec.Machines {
		if m.Role == kubeadm.ControlPlane || m.Role == kubeadm.Worker {
			continue
		}
		if err := c.start(m, ""); err != nil {
			return err
		}
	}
	first.Boot()
	var out bytes.Buffer
	var failed error
	p := first.Host().Processes.Start(kernel.Spec{
		Argv: []string{"kubeadm", "init"}, Env: []string{"HOME=/root", "PATH=" + machine.DefaultPath}, Files: first.Files(kernel.Root), Net: first.Network(), Stdout: &out, Stderr: &out,
	}, func(p *kernel.Process) int {
		failed = kubeadm.Bootstrap(p, l, c.start)
		return 0
	})
	p.Wait()
	if failed != nil {
		return fmt.Errorf("%w\n%s%s", failed, out.String(), c.diagnosis())
	}
	return nil
}

// joinTimeout is how long a machine may take to join a cluster under construction.
const joinTimeout = 10 * time.Minute

func (c *Cluster) start(m kubeadm.Machine, script string) error {
	x, err := c.Machine(m.Name)
	if err != nil {
		return err
	}
	if !x.PoweredOn() {
		x.Boot()
	}
	if script == "" {
		return nil
	}
	exit, out, err := c.Exec(m.Name, "root", script, joinTimeout)
	if err == nil && exit != 0 {
		err = fmt.Errorf("the script ended with %d", exit)
	}
	if err != nil {
		return fmt.Errorf("machine %s: %w\n%s", m.Name, err, out)
	}
	return nil
}

// diagnosisLines is how much of a journal's beginning and end a diagnosis shows.
const diagnosisLines = 30

// diagnosis is what an engineer wants to see when a cluster does not come up.
func (c *Cluster) diagnosis() string {
	var b, logs strings.Builder
	for _, m := range c.machines {
		l := m.Journal().After(0)
		for i, e := range l {
			if i < diagnosisLines || i >= len(l)-diagnosisLines {
				fmt.Fprintln(&b, e.Format("short-precise", m.Host().Name()))
			}
		}
	}
	for _, m := range c.machines {
		f := m.Files(kernel.Root)
		walkLogs(f, "/var/log/pods", func(name string, b []byte) {
			lines := strings.Split(strings.TrimSpace(string(b)), "\n")
			fmt.Fprintf(&logs, "%s %s\n  %s\n", m.Name(), name, strings.Join(lines[max(0, len(lines)-5):], "\n  "))
		})
	}
	b.WriteString(logs.String())
	for _, l := range kernel.StrayLines() {
		fmt.Fprintln(&b, "no process:", l)
	}
	return b.String()
}

// Thaw gives a new cluster a frozen state and starts what was running, silently. thawed is called in between.
func (c *Cluster) Thaw(parts kernel.Parts, thawed func()) error {
	if err := c.w.Thaw(parts); err != nil {
		return err
	}
	if err := c.complete(); err != nil {
		return err
	}
	thawed()
	for _, m := range c.machines {
		// containers live in their shims, whether containerd runs or not
		if err := runtime.Of(m.Host()).Resume(); err != nil {
			return fmt.Errorf("machine %s: %w", m.Name(), err)
		}
		if err := m.Resume(); err != nil {
			return fmt.Errorf("machine %s: %w", m.Name(), err)
		}
	}
	return nil
}

// complete adds to machines that an older ckadrill has frozen the programs and files that have come since.
func (c *Cluster) complete() error {
	for _, m := range c.machines {
		old, err := m.Complete()
		if err == nil && old {
			err = userland.Install(m.Files(kernel.Root), "ubuntu")
		}
		if err != nil {
			return fmt.Errorf("machine %s: %w", m.Name(), err)
		}
	}
	return nil
}

// walkLogs calls f for each regular file below a directory.
func walkLogs(files kernel.Files, dir string, f func(name string, b []byte)) {
	l, err := files.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range l {
		name := dir + "/" + e.Name()
		if e.IsDir() {
			walkLogs(files, name, f)
		} else if b, err := files.ReadFile(name); err == nil {
			f(name, b)
		}
	}
}
