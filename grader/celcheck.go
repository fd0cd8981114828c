package grader

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/google/go-cmp/cmp"

	"ckadrill/scenarios"
)

// lookCEL reads the object as an administrator does, with kubectl on the control plane, and evaluates the expression.
func lookCEL(c Cluster, q *scenarios.CEL) (bool, string) {
	prog, err := q.Compile()
	if err != nil {
		return false, err.Error()
	}
	words := []string{"kubectl", "--kubeconfig=/etc/kubernetes/admin.conf", "--request-timeout=10s", "get", quote(q.Resource)}
	switch {
	case q.Name != "":
		words = append(words, quote(q.Name), "--ignore-not-found")
	case q.Selector != "":
		words = append(words, "-l", quote(q.Selector))
	}
	switch {
	case q.Namespace != "":
		words = append(words, "-n", quote(q.Namespace))
	case q.Name == "":
		words = append(words, "-A")
	}
	words = append(words, "-o", "json")
	exit, out, err := c.Exec(c.ControlPlane(), "root", strings.Join(words, " "), checkTimeout)
	if err != nil {
		return false, err.Error()
	}
	if exit != 0 {
		return false, "the API gave no answer: " + lastLines(out, 3)
	}
	var v any
	if len(strings.TrimSpace(string(out))) > 0 {
		if err := json.Unmarshal(out, &v); err != nil {
			return false, "the API's answer cannot be read: " + err.Error()
		}
	}
	input := map[string]any{"object": v, "objects": []any{}, "now": time.Now()}
	if m, ok := v.(map[string]any); ok && q.Name == "" {
		if items, ok := m["items"].([]any); ok {
			input["objects"] = items
		}
	}
	r, _, err := prog.Eval(input)
	if err != nil {
		return false, fmt.Sprintf("%s: %v", q.Expression, err)
	}
	ok, _ := r.Value().(bool)
	if ok {
		return true, ""
	}
	return false, "not true: " + q.Expression + "\n" + summary(v)
}

// summary is the part of an object that usually decides: its spec and status, shortened.
func summary(v any) string {
	m, ok := v.(map[string]any)
	if !ok || v == nil {
		return "there is no such object"
	}
	if items, ok := m["items"].([]any); ok {
		return fmt.Sprintf("%d objects", len(items))
	}
	b, err := json.Marshal(map[string]any{"spec": m["spec"], "status": m["status"], "data": m["data"]})
	if err != nil {
		return err.Error()
	}
	const enough = 2000
	if len(b) > enough {
		return string(b[:enough]) + "..."
	}
	return string(b)
}

// Difference shows in which fields two JSON objects differ.
func Difference(want, got []byte) string {
	var a, b any
	if json.Unmarshal(want, &a) != nil || json.Unmarshal(got, &b) != nil {
		return cmp.Diff(string(want), string(got))
	}
	return cmp.Diff(a, b)
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
