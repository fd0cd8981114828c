package faults

import (
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
	"mvdan.cc/sh/v3/syntax"

	"ckadrill/scenarios"
)

// Drill makes a drill of faults: they are made in a healthy cluster with workloads, and the candidate's work is judged by the
// cluster's health and by what has not changed. same are the looks that a move Print has reported for these faults.
func Drill(name string, made []*Fault, same []Look) (*scenarios.Scenario, error) {
	type m = map[string]any
	setup := []m{{"run": stage}, {"wait": "30s"}}
	var solution strings.Builder
	var hints []string
	for i, f := range made {
		setup = append(setup, m{"machine": f.Machine, "run": "set -e\n" + f.Inject})
		hints = append(hints, fmt.Sprintf("Look at: %s.", title(f.Area)))
		if s := f.Symptoms[slices.IndexFunc(f.Symptoms, func(o Observation) bool { return !o.Unchanged })]; !strings.Contains(strings.TrimSpace(s.Run), "\n") {
			hints = append(hints, fmt.Sprintf("See what `%s` prints%s.", strings.TrimSpace(s.Run), on(s.Machine)))
		}
		fix, err := repair(made[len(made)-1-i])
		if err != nil {
			return nil, err
		}
		solution.WriteString(fix)
	}
	setup = append(setup, m{"wait": "2m"})
	healthy, err := together(health, trial)
	if err != nil {
		return nil, err
	}
	var checks []m
	for _, o := range healthy {
		checks = append(checks, m{"name": o.Name, "points": 1, "says": o.Says, "within": "7m", "command": command(o.Observation)})
	}
	for _, o := range same {
		checks = append(checks, m{"name": o.Name + "-unchanged", "points": 1, "says": o.Says, "within": "7m", "command": command(o.Observation)})
	}
	b, err := yaml.Marshal(m{
		"apiVersion": scenarios.APIVersion, "kind": "Scenario",
		"metadata": m{"name": name, "title": "Something is broken: " + name, "domain": "troubleshooting",
			"difficulty": scenarios.Difficulties[min(len(made), len(scenarios.Difficulties))-1], "minutes": 8 * len(made), "weight": 5},
		"setup": setup, "task": task, "checks": checks, "hints": hints, "solution": solution.String(),
		"traps": []m{{"name": "meddling", "why": "What is not broken must stay as it is.", "fails": []string{"workloads-unchanged"},
			"run": solution.String() + "until kubectl -n shop patch configmap settings -p '{\"data\": {\"greeting\": \"bye\"}}'; do sleep 10; done\n"}},
	})
	if err != nil {
		return nil, err
	}
	return scenarios.Parse(name+".yaml", b)
}

const task = `Something is wrong with this cluster: one to three things were changed by mistake, on any machine or in any namespace.

In the namespace ` + "`shop`" + ` there is a web server (Deployment and Service ` + "`web`" + `), a client on each worker (DaemonSet ` + "`client`" + `) and a
database with a volume (StatefulSet ` + "`db`" + `). They and the cluster's own components must run, on all nodes, as they did before, also
after the next reboot of a machine. New Pods must start on each worker and reach Services by name. ` + "`kubectl`" + ` must work for you and
for root, the administrator's kubeconfig is ` + "`/etc/kubernetes/admin.conf`" + `, and from cka-cp1 the workers must be reached by ssh.

Find what is wrong and repair it. Change nothing else.
`

// repair is a script by which a candidate on the control plane undoes a fault, as soon as it can be undone.
func repair(f *Fault) (string, error) {
	// The script is a file on the machine, because what it calls may read standard input.
	there := "sudo bash -e /tmp/repair"
	if f.Machine != "cka-cp1" {
		quoted, err := syntax.Quote("cat > /tmp/repair; "+there, syntax.LangBash)
		if err != nil {
			return "", err
		}
		return fmt.Sprintf("# %s\nuntil ssh %s %s <<'END'\n%s\nEND\ndo sleep 10; done\n", f.Title, f.Machine, quoted, strings.TrimSpace(f.Fix)), nil
	}
	return fmt.Sprintf("# %s\ncat > /tmp/repair <<'END'\n%s\nEND\nuntil %s; do sleep 10; done\n", f.Title, strings.TrimSpace(f.Fix), there), nil
}

func command(o Observation) map[string]any {
	c := map[string]any{"run": o.Run}
	for k, v := range map[string]string{"machine": o.Machine, "user": o.User, "output": o.Output, "not": o.Not} {
		if v != "" {
			c[k] = v
		}
	}
	return c
}

// title is what the area of a fault is called.
func title(area string) string {
	for _, a := range Areas {
		if a.Name == area {
			return a.Title
		}
	}
	return area
}

func on(machine string) string {
	if machine == "" {
		return ""
	}
	return " on " + machine
}
