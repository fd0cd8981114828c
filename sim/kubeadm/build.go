package kubeadm

import (
	"crypto"
	"fmt"

	"ckadrill/sim/kernel"
	"ckadrill/sim/kubeadm/keys"
)

// CandidateUID is the user and group id of the user "candidate", who works on the machines.
const CandidateUID = 1000

// Layout is what [Build] makes: the files of each machine, by its name.
type Layout struct {
	Cluster Cluster
	Trees   map[string]*Tree
	// Token is the bootstrap token that "kubeadm init" prints.
	Token string
	// Output is what kubeadm's phases printed on the way, by machine.
	Output map[string]string
}

// Build makes the files of a cluster that was created now, in the world's time. Keys are the preset public ones, serial
// numbers and the token come from the world's seed. It must be called before the machines run, see runUpstream.
func Build(w *kernel.World, c Cluster) (*Layout, error) {
	if err := c.Validate(); err != nil {
		return nil, err
	}
	if c.Token == "" {
		c.Token = newToken(w)
	}
	l := &Layout{Cluster: c, Trees: map[string]*Tree{}, Token: c.Token, Output: map[string]string{}}
	for _, m := range c.Machines {
		l.Trees[m.Name] = packageFiles(c, m)
	}
	b := &builder{w: w, c: c, l: l}
	for _, role := range []Role{ControlPlane, Worker} {
		for _, m := range c.Machines {
			if m.Role != role {
				continue
			}
			if err := b.machine(m); err != nil {
				return nil, fmt.Errorf("machine %s: %w", m.Name, err)
			}
		}
	}
	return l, nil
}

// builder runs kubeadm on one machine after the other.
type builder struct {
	w    *kernel.World
	c    Cluster
	l    *Layout
	keys int // how many preset keys are taken
	// first is the first control plane's files: joining machines get their CA from it.
	first *Tree
}

// newKey hands the preset keys out in order, so that equal clusters have equal keys.
func (b *builder) newKey() (crypto.Signer, error) {
	if b.keys >= keys.Assigned {
		return keys.New(b.w, 2048)
	}
	b.keys++
	return keys.Preset(b.keys - 1), nil
}

func (b *builder) machine(m Machine) error {
	if b.first == nil && m.Role != ControlPlane {
		_, err := b.c.FirstControlPlane()
		return err
	}
	if b.first != nil && m.Role == ControlPlane { // it joins when the cluster runs, see Bootstrap
		return nil
	}
	var t *Tree
	output, err := runUpstream(b.w, b.newKey, func(d privateDir) (err error) {
		if b.first == nil {
			err = initPhases(d, b.c, m)
		} else {
			err = joinWorkerPhases(d, b.first, b.c, m)
		}
		if err != nil {
			return err
		}
		if t, err = d.read(); err != nil {
			return err
		}
		if b.first == nil {
			b.first = t
		}
		return b.kubeletIdentity(t, m)
	})
	if err != nil {
		return err
	}
	b.l.Output[m.Name] = output
	if m.Role == ControlPlane {
		t.Dir("/var/lib/etcd", 0o700)
		admin, _ := t.File(kubernetesDir + "/admin.conf")
		userConfigs(t, admin.Content)
	}
	b.l.Trees[m.Name].Merge(t)
	return nil
}

// userConfigs are the copies of admin.conf that kubeadm's closing words ask for.
func userConfigs(t *Tree, admin []byte) {
	t.Dir("/root/.kube", 0o755)
	t.Write("/root/.kube/config", 0o600, admin)
	t.Dir("/home/candidate/.kube", 0o755)
	t.Write("/home/candidate/.kube/config", 0o600, admin)
	for _, f := range []string{"/home/candidate/.kube", "/home/candidate/.kube/config"} {
		t.Chown(f, CandidateUID, CandidateUID)
	}
}
