package grader

import (
	"fmt"
	"slices"
	"strings"

	"ckadrill/sim/kernel"
)

// kinds maps what a candidate may call a kind to the resource that the trace calls it.
var kinds = map[string]string{
	"po": "pods", "pod": "pods", "deploy": "deployments", "deployment": "deployments", "rs": "replicasets", "replicaset": "replicasets",
	"ds": "daemonsets", "daemonset": "daemonsets", "sts": "statefulsets", "statefulset": "statefulsets", "job": "jobs", "cj": "cronjobs", "cronjob": "cronjobs",
	"svc": "services", "service": "services", "no": "nodes", "node": "nodes", "cm": "configmaps", "configmap": "configmaps", "secret": "secrets",
	"pv": "persistentvolumes", "pvc": "persistentvolumeclaims", "ns": "namespaces", "namespace": "namespaces", "ing": "ingresses", "ingress": "ingresses",
	"sa": "serviceaccounts", "serviceaccount": "serviceaccounts", "netpol": "networkpolicies", "networkpolicy": "networkpolicies",
	"endpointslice": "endpointslices", "hpa": "horizontalpodautoscalers", "pdb": "poddisruptionbudgets",
}

func traceMain(p *kernel.Process, args []string) int {
	namespace, subject := "default", ""
	for i := 0; i < len(args); i++ {
		switch a := args[i]; {
		case (a == "-n" || a == "--namespace") && i+1 < len(args):
			i++
			namespace = args[i]
		case strings.HasPrefix(a, "--namespace="):
			namespace = strings.TrimPrefix(a, "--namespace=")
		case !strings.HasPrefix(a, "-") && subject == "":
			subject = a
		default:
			p.Errorf("drill: trace takes KIND/NAME and -n NAMESPACE, not %q\n", a)
			return 2
		}
	}
	kind, name, ok := strings.Cut(subject, "/")
	if !ok || name == "" {
		p.Errorf("drill: trace takes KIND/NAME, for example pod/web or deployment/web\n")
		return 2
	}
	steps := chain(p.World().Trace.Steps(), subjects(kind, namespace, name))
	if len(steps) == 0 {
		p.Errorf("drill: nothing is known of %s\n", subject)
		return 1
	}
	for _, s := range steps {
		p.Printf("%s\n", s)
	}
	return 0
}

// subjects are the names that an object may have in the trace: with its namespace, and without one.
func subjects(kind, namespace, name string) []string {
	kind = strings.ToLower(kind)
	if r, ok := kinds[kind]; ok {
		kind = r
	}
	return []string{kind + "/" + namespace + "/" + name, kind + "/" + name}
}

// link is a step of a chain of causes and how deep below the first it stands.
type link struct {
	kernel.Step
	depth int
}

func (l link) String() string {
	verb, ok := verbs[l.Verb]
	if !ok {
		verb = l.Verb
	}
	who := l.Actor
	if l.Host != "" && !strings.Contains(who, ":") { // an API user's host is only that of the apiserver
		who += " on " + l.Host
	}
	s := fmt.Sprintf("%s  %s%s %s", l.Time.UTC().Format("15:04:05.000"), strings.Repeat("  ", l.depth), verb, short(l.Subject))
	if d, _, _ := strings.Cut(l.Detail, "uid "); strings.TrimSuffix(d, ", ") != "" {
		s += "  (" + strings.TrimSuffix(d, ", ") + ")"
	}
	return s + "  by " + who
}

// short leaves of a container's or sandbox's id what crictl shows of it.
func short(subject string) string {
	kind, id, _ := strings.Cut(subject, "/")
	if (kind == "sandbox" || kind == "container") && len(id) > 13 {
		return kind + "/" + id[:13]
	}
	return subject
}

// noise says of a step that it only reports what other steps have done: a controller counting the objects below its own.
func noise(s kernel.Step) bool {
	return s.Verb == "update" && strings.HasPrefix(s.Detail, "status, ") && !strings.HasPrefix(s.Subject, "pods/") && !strings.HasPrefix(s.Subject, "nodes/")
}

var verbs = map[string]string{
	"create": "created", "update": "updated", "delete": "deleted", "bind": "bound", "sync": "taken over", "start": "started", "stop": "stopped",
	"kill": "killed", "pull": "pulled", "write": "written", "fault": "fault:",
}

// maxChain bounds what a trace prints; of more, the beginning and the end are shown.
const maxChain = 200

// chain is what led to an object, and what followed from it, oldest first: from the step that began it all, along the
// causes, down to everything that happened because of it.
func chain(steps []kernel.Step, of []string) []link {
	subject := ""
	for _, s := range steps {
		if slices.Contains(of, s.Subject) {
			subject = s.Subject
			break
		}
	}
	if subject == "" {
		return nil
	}
	causes := map[string]string{} // the first cause of each subject that another subject has
	for _, s := range steps {
		if c := causeOf(s); c != "" && c != s.Subject && causes[s.Subject] == "" {
			causes[s.Subject] = c
		}
	}
	line := []string{subject} // from the object up to the first cause
	for c := causes[subject]; c != "" && !slices.Contains(line, c); c = causes[c] {
		line = append(line, c)
	}
	slices.Reverse(line)
	depth := map[string]int{}
	for i, s := range line {
		depth[s] = i
	}
	family := map[string]bool{subject: true} // what followed from the object
	var l []link
	for _, s := range steps {
		c := causeOf(s)
		if family[c] && s.Subject != c {
			if _, known := depth[s.Subject]; !known {
				depth[s.Subject] = depth[c] + 1
			}
			family[s.Subject] = true
		}
		if d, ok := depth[s.Subject]; ok && !noise(s) {
			l = append(l, link{s, d})
		}
	}
	if len(l) > maxChain {
		l = append(l[:maxChain/2:maxChain/2], l[len(l)-maxChain/2:]...)
	}
	return l
}

// causeOf is the subject that a step happened because of. A binding is told of the Pod itself.
func causeOf(s kernel.Step) string { return strings.TrimSuffix(s.Cause, "/binding") }
