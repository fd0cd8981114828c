// Package faults is the table of what a candidate can break, or find broken: for each fault how it is made, what is seen of
// it and when, how it is undone, and how that shows. The table is data; a play of an entry proves it.
package faults

import (
	"math/rand/v2"
	"slices"
	"strings"
	"time"
)

// Fault is an entry of the table.
type Fault struct {
	File string
	Line int
	Name string
	// Title is what is wrong, in a line. Area is the part of the cluster where it is, see [Areas].
	Title, Area string
	// Machine is where the scripts Inject and Fix are run, as root, by bash -e. Fix may be run again after it has failed halfway,
	// because something that it needs is broken by another fault.
	Machine     string
	Inject, Fix string
	// Symptoms are seen after Inject, Recovered after Fix, both in the order of their times.
	Symptoms, Recovered []Observation
	// Touches names what only one fault at a time may break.
	Touches []string
}

// Areas are the files of the table, in the order in which they are shown, and what they are called.
var Areas = []struct{ Name, Title string }{
	{"apiserver", "kube-apiserver"},
	{"etcd", "etcd"},
	{"scheduler", "kube-scheduler"},
	{"controller-manager", "kube-controller-manager"},
	{"certificates", "Certificates and kubeconfigs"},
	{"kubelet", "kubelet"},
	{"containerd", "containerd"},
	{"network", "Pod network"},
	{"kube-proxy", "kube-proxy and Services"},
	{"coredns", "CoreDNS"},
	{"node", "Nodes and machines"},
	{"workload", "Workloads"},
	{"rbac", "Access control"},
}

// Observation is a look at the cluster: a command on a machine and what it shows.
type Observation struct {
	File string // of looks at a cluster's health
	Line int
	// After is the simulated time since the script before it ended; what the table omits is that of the observation before.
	After time.Duration
	// Machine and User are where the command runs, as root if there is no user.
	Machine, User, Run string
	// Output is a regular expression that the output matches, Not one that it does not match; ^ and $ are a line's ends.
	Output, Not string
	// Exit is the exit status, -1 for any.
	Exit int
	// Unchanged says that it is not a symptom: a healthy cluster shows it as well, and the fault does not change it.
	Unchanged bool
}

// NeedsAPI says whether the fault is made through the API, so that it cannot be made where that is broken.
func (f *Fault) NeedsAPI() bool { return strings.Contains(f.Inject, "kubectl") }

const (
	// objects is touched by what takes all objects of the API away.
	objects = "objects"
	// administrator is touched by what takes the administrator's rights away.
	administrator = "administrator"
)

// Compatible says whether two faults can be in one cluster at the same time.
func Compatible(a, b *Fault) bool {
	lost := func(a, b *Fault) bool { return a.NeedsAPI() && slices.Contains(b.Touches, objects) }
	return a.Name != b.Name && !lost(a, b) && !lost(b, a) && !overlap(a.Touches, b.Touches)
}

func overlap(a, b []string) bool {
	return slices.ContainsFunc(a, func(t string) bool { return slices.Contains(b, t) })
}

// Pick draws n faults that can be in one cluster at the same time, in an order in which they can be made: first those that
// need the API. There are fewer if the table has not so many.
func Pick(r *rand.Rand, table []*Fault, n int) []*Fault {
	var l []*Fault
	for _, i := range r.Perm(len(table)) {
		if len(l) < n && !slices.ContainsFunc(l, func(f *Fault) bool { return !Compatible(f, table[i]) }) {
			l = append(l, table[i])
		}
	}
	turn := func(f *Fault) int {
		switch {
		case !f.NeedsAPI():
			return 2
		case slices.Contains(f.Touches, administrator):
			return 1
		}
		return 0
	}
	slices.SortStableFunc(l, func(a, b *Fault) int { return turn(a) - turn(b) })
	return l
}
