package transcript

import (
	"regexp"
	"slices"
	"sort"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// The recorder set some variables in steps that it did not show. What they held follows from their use, and they are bound
// here to what the same step would find in the simulated cluster.

// binding is a variable that no shown command sets.
type binding struct {
	Name string
	// Script prints its value, on the machine of the recording or, with ControlPlane, on the first control plane.
	Script       string
	ControlPlane bool
	// Before is the index of the step that it must be set before.
	Before int
}

// kubeletLog is where the recording's machines kept what the kubelet wrote: they had no journal.
const kubeletLog = "/var/log/kubelet.log"

// writeKubeletLog makes that file from the journal.
const writeKubeletLog = `journalctl -t kubelet -o cat --no-pager > ` + kubeletLog

// startsAtLine matches "tail -n +$NAME": the variable is the number of a line of the kubelet's log.
var startsAtLine = regexp.MustCompile(`tail -n \+\$\{?([A-Za-z_]\w*)`)

// given are variables that a shell has anyway.
var given = map[string]bool{
	"HOME": true, "PATH": true, "USER": true, "PWD": true, "OLDPWD": true, "SHELL": true, "HOSTNAME": true, "IFS": true, "RANDOM": true, "SECONDS": true,
	"LINENO": true, "BASH": true, "UID": true, "EUID": true, "PPID": true, "LANG": true, "KUBECONFIG": true, "EDITOR": true, "REPLY": true, "PIPESTATUS": true,
}

// bindings lists the variables of a recording that hidden steps set, in the order in which they must be bound.
func bindings(steps []Step) []binding {
	set := map[string]bool{}
	var l []binding
	for i := range steps {
		used, assigned := variables(steps[i].Command)
		for _, name := range used {
			if set[name] || given[name] || slices.Contains(assigned, name) {
				continue
			}
			set[name] = true
			l = append(l, bind(name, steps, i))
		}
		for _, name := range assigned {
			set[name] = true
		}
	}
	sort.SliceStable(l, func(i, j int) bool { return l[i].Before < l[j].Before })
	return l
}

func bind(name string, steps []Step, use int) binding {
	command := steps[use].Command
	if m := startsAtLine.FindStringSubmatch(command); m != nil && m[1] == name {
		return binding{Name: name, Script: `echo $(( $(cat ` + kubeletLog + ` | wc -l) + 1 ))`, Before: changeBefore(steps, use)}
	}
	b := binding{Name: name, Before: use}
	selector := ""
	if m := regexp.MustCompile(`(?:--pod-selector|--selector|-l)[= ](\S+)`).FindStringSubmatch(command); m != nil {
		selector = " -l " + m[1]
	}
	switch {
	case strings.Contains(command, `eval "$`+name) || name == "J" || strings.Contains(name, "JOIN"):
		b.Script, b.ControlPlane = `kubeadm token create --print-join-command`, true
	case strings.HasPrefix(name, "NODE") || strings.Contains(command, "cordon $"+name) || strings.Contains(command, "drain $"+name):
		b.Script = `kubectl get pods` + selector + ` -o jsonpath='{.items[0].spec.nodeName}'`
	default: // a Pod's name is all that is left
		b.Script = `kubectl get pods` + selector + ` -o jsonpath='{.items[0].metadata.name}'`
	}
	return b
}

// changeBefore is the step whose consequences a step looks for in a log: the first of the run of steps before it that the
// log was not looked at in.
func changeBefore(steps []Step, use int) int {
	i := use
	for i > 0 && !strings.Contains(steps[i-1].Command, kubeletLog) {
		i--
	}
	return i
}

// variables are the names of the variables that a command reads and sets, each once.
func variables(command string) (used, assigned []string) {
	f, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(command), "")
	if err != nil {
		return nil, nil
	}
	add := func(l *[]string, name string) {
		if syntax.ValidName(name) && !slices.Contains(*l, name) {
			*l = append(*l, name)
		}
	}
	syntax.Walk(f, func(n syntax.Node) bool {
		switch n := n.(type) {
		case *syntax.ParamExp:
			if n.Param != nil && (n.Exp == nil || n.Exp.Op != syntax.AssignUnsetOrNull) {
				add(&used, n.Param.Value)
			}
		case *syntax.Assign:
			if n.Name != nil {
				add(&assigned, n.Name.Value)
			}
		case *syntax.WordIter:
			add(&assigned, n.Name.Value)
		case *syntax.CallExpr:
			if len(n.Args) > 1 && n.Args[0].Lit() == "read" {
				for _, a := range n.Args[1:] {
					add(&assigned, a.Lit())
				}
			}
		}
		return true
	})
	return used, assigned
}
