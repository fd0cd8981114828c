package grader

import (
	"strings"
	"testing"

	"ckadrill/sim/kernel"
)

func TestChain(t *testing.T) {
	steps := []kernel.Step{
		{Verb: "create", Subject: "deployments/default/other", Actor: "u"},
		{Verb: "create", Subject: "deployments/default/web", Actor: "u"},
		{Verb: "create", Subject: "replicasets/default/web-1", Actor: "dc", Cause: "deployments/default/web"},
		{Verb: "create", Subject: "pods/default/web-1-a", Actor: "rsc", Cause: "replicasets/default/web-1"},
		{Verb: "create", Subject: "pods/default/web-1-b", Actor: "rsc", Cause: "replicasets/default/web-1"},
		{Verb: "bind", Subject: "pods/default/web-1-a", Actor: "s", Cause: "replicasets/default/web-1"},
		{Verb: "sync", Subject: "pods/default/web-1-a", Actor: "kubelet", Cause: "pods/default/web-1-a/binding"},
		{Verb: "create", Subject: "sandbox/1", Actor: "containerd", Cause: "pods/default/web-1-a"},
		{Verb: "start", Subject: "container/2", Actor: "containerd", Cause: "sandbox/1"},
		{Verb: "create", Subject: "sandbox/3", Actor: "containerd", Cause: "pods/default/web-1-b"},
	}
	show := func(l []link) string {
		var b strings.Builder
		for _, s := range l {
			b.WriteString(strings.Repeat(">", s.depth) + s.Verb + " " + s.Subject + "\n")
		}
		return b.String()
	}
	got := show(chain(steps, subjects("po", "default", "web-1-a")))
	want := `create deployments/default/web
>create replicasets/default/web-1
>>create pods/default/web-1-a
>>bind pods/default/web-1-a
>>sync pods/default/web-1-a
>>>create sandbox/1
>>>>start container/2
`
	if got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
	if got := show(chain(steps, subjects("deploy", "default", "web"))); strings.Count(got, "\n") != 9 || strings.Contains(got, "other") {
		t.Error(got)
	}
	if l := chain(steps, subjects("pod", "default", "nothing")); l != nil {
		t.Error(l)
	}
	loop := []kernel.Step{{Subject: "a/1", Cause: "b/1"}, {Subject: "b/1", Cause: "a/1"}}
	if l := chain(loop, []string{"a/1"}); len(l) != 2 {
		t.Error(l)
	}
}

func TestPlain(t *testing.T) {
	got := plain("Do **this** on `cka-w1`,\nand `a ** b`.\n\n- one that is long enough to be broken over two lines\n- two\n\n```\nkubectl  get\n```\n", 50)
	want := `Do this on cka-w1, and a ** b.

- one that is long enough to be broken over two
  lines
- two

    kubectl  get
`
	if got != want {
		t.Errorf("got\n%s", got)
	}
}
