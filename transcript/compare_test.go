package transcript

import (
	"strings"
	"testing"
)

func compare(command, recorded, printed string) string {
	diff, _ := Compare(&Step{Line: 1, Command: command, Output: recorded}, printed, nil)
	return diff
}

// What no two clusters share does not count.
func TestEqualAfterNormalising(t *testing.T) {
	for _, c := range []struct{ command, recorded, printed string }{
		{"kubectl get pods -o wide", "NAME                   READY   STATUS    RESTARTS      AGE    IP             NODE\nweb-5974c5bb9c-ksksm   1/1     Running   1 (2s ago)    2m3s   10.244.1.176   cka-w1\n",
			"NAME                   READY   STATUS    RESTARTS       AGE   IP            NODE\nweb-5974c5bb9c-9pxb2   1/1     Running   1 (17s ago)    45s   10.244.2.6    cka-w2\n"},
		{"kubectl get svc", "NAME   TYPE       CLUSTER-IP      EXTERNAL-IP   PORT(S)        AGE\nweb    NodePort   10.103.12.200   <none>        80:31234/TCP   5s\n",
			"NAME   TYPE       CLUSTER-IP     EXTERNAL-IP   PORT(S)        AGE\nweb    NodePort   10.96.220.4    <none>        80:30007/TCP   0s\n"},
		// events of one second stand in any order
		{"kubectl describe pod p", "Events:\n  Type    Reason   Age   From     Message\n  ----    ------   ----  ----     -------\n  Normal  Created  2s    kubelet  Container created\n  Normal  Started  2s    kubelet  Container started\n",
			"Events:\n  Type    Reason   Age   From     Message\n  ----    ------   ----  ----     -------\n  Normal  Started  1s    kubelet  Container started\n  Normal  Created  1s    kubelet  Container created\n"},
		{"kubectl logs x", `E1201 16:39:18.399939   26585 memcache.go:265] "x" uid="9a1b2c3d-1111-2222-3333-444455556666"` + "\n", `E1202 01:09:18.000001       1 memcache.go:265] "x" uid="00000000-1111-2222-3333-444455556666"` + "\n"},
		{"kubectl rollout status deploy web", "Waiting for deployment \"web\" rollout to finish: 0 of 2 updated replicas are available...\nWaiting for deployment \"web\" rollout to finish: 1 of 2 updated replicas are available...\ndeployment \"web\" successfully rolled out\n",
			"Waiting for deployment \"web\" rollout to finish: 1 of 2 updated replicas are available...\ndeployment \"web\" successfully rolled out\n"},
	} {
		if d := compare(c.command, c.recorded, c.printed); d != "" {
			t.Errorf("%s:\n%s", c.command, d)
		}
	}
}

// What means something is still seen: a rule that hides too much fails here.
func TestDifferencesAreSeen(t *testing.T) {
	pods := "NAME                   READY   STATUS    RESTARTS   AGE\nweb-5974c5bb9c-ksksm   1/1     Running   0          5s\n"
	events := "Events:\n  Type     Reason   Age   From     Message\n  ----     ------   ----  ----     -------\n  Normal   Pulled   50s   kubelet  Container image present\n  Warning  BackOff  5s    kubelet  Back-off restarting\n"
	for _, c := range []struct{ command, recorded, from, to string }{
		{"kubectl get pods", pods, "1/1 ", "0/1 "},
		{"kubectl get pods", pods, "Running ", "Pending "},
		{"kubectl get pods", pods, "Running   0", "Running   1"},
		{"kubectl get pods", pods, "web-5974c5bb9c", "web-5974c5bb9d"},
		{"kubectl get pods", pods, "\nweb-5974c5bb9c-ksksm   1/1     Running   0          5s", ""},
		{"kubectl get nodes", "NAME      STATUS     ROLES    AGE   VERSION\ncka-w1    Ready      <none>   5m    v1.35.4\ncka-w2    NotReady   <none>   5m    v1.35.4\n", "cka-w1    Ready      <none>   5m    v1.35.4\ncka-w2    NotReady", "cka-w1    NotReady   <none>   5m    v1.35.4\ncka-w2    Ready   "},
		{"kubectl get pods -o yaml", "      limits:\n        cpu: 100m\n", "100m", "200m"},
		{"kubectl get pods -o yaml", "  a:\n    b: 1\n", "    b: 1", "  b: 1"},
		{"kubectl describe pod p", events, "BackOff", "Failed"},
		{"kubectl describe pod p", events, "Normal   Pulled   50s   kubelet  Container image present\n  Warning  BackOff  5s    kubelet  Back-off restarting", "Warning  BackOff  50s   kubelet  Back-off restarting\n  Normal   Pulled   5s    kubelet  Container image present"},
		{"kubectl describe pod p", "Tolerations:     node.kubernetes.io/not-ready:NoExecute op=Exists for 300s\n", "300s", "30s"},
		{"kubectl describe pod p", "    Liveness:       http-get http://:80/ delay=0s timeout=1s period=10s #success=1 #failure=3\n", "timeout=1s", "timeout=2s"},
		{"kubectl get svc kubernetes", "NAME         TYPE        CLUSTER-IP   EXTERNAL-IP   PORT(S)   AGE\nkubernetes   ClusterIP   10.96.0.1    <none>        443/TCP   5m\n", "10.96.0.1 ", "10.96.0.9 "},
		{"kubectl get svc", "NAME   TYPE        CLUSTER-IP     EXTERNAL-IP   PORT(S)    AGE\nweb    ClusterIP   10.103.1.20    <none>        8080/TCP   5m\n", "8080/TCP", "8081/TCP"},
		{"kubectl apply -f x", "error: connection refused\n", "refused", "reset"},
		{"kubectl rollout status deploy web", "Waiting for deployment \"web\" rollout to finish: 1 of 2 updated replicas are available...\ndeployment \"web\" successfully rolled out\n", "deployment \"web\" successfully rolled out", "error: timed out waiting for the condition"},
	} {
		printed := strings.Replace(c.recorded, c.from, c.to, 1)
		if printed == c.recorded {
			t.Fatalf("%q is not in %q", c.from, c.recorded)
		}
		if compare(c.command, c.recorded, printed) == "" {
			t.Errorf("%s: %q for %q is not seen", c.command, c.to, c.from)
		}
	}
	if d, _ := Compare(&Step{Command: "x", Exit: 1}, "", nil); d == "" {
		t.Error("another status is not seen")
	}
}

func TestExceptions(t *testing.T) {
	r := &Recording{Steps: []Step{{Line: 1, Command: "kubectl get cm", Output: "NAME   DATA\na      1\nb      2\n"}, {Line: 5, Command: "uname -r", Output: "6.12\n"}}}
	e, err := ParseExceptions([]byte("- line: 1\n  command: kubectl get cm\n  recorded: ^b \n  reason: made by another session\n- line: 5\n  command: uname\n  whole: true\n  reason: another kernel\n"), r)
	if err != nil {
		t.Fatal(err)
	}
	if d, un := Compare(&r.Steps[0], "NAME   DATA\na      1\n", e.At(1)); d != "" || len(un) > 0 {
		t.Error(d, un)
	}
	if d, _ := Compare(&r.Steps[0], "NAME   DATA\na      3\n", e.At(1)); d == "" {
		t.Error("an exception hides another line")
	}
	if d, un := Compare(&r.Steps[1], "6.8\n", e.At(5)); d != "" || len(un) > 0 {
		t.Error(d, un)
	}
	if _, un := Compare(&r.Steps[1], "6.12\n", e.At(5)); len(un) != 1 {
		t.Error("an exception that is not needed is no error")
	}
	lucky := mustException(t, "x", "b")
	lucky.Chance = true
	if d, un := Compare(&Step{Command: "x", Output: "a\nb\n"}, "a\n", []*Exception{lucky}); d != "" || len(un) > 0 {
		t.Error(d, un)
	}
	if _, un := Compare(&Step{Command: "x", Output: "a\n"}, "a\n", []*Exception{lucky}); len(un) != 0 {
		t.Error("an exception by chance must be needed")
	}
	// only the recorded side is named, and the line is printed as well
	if _, un := Compare(&Step{Command: "x", Output: "a\n"}, "a\n", []*Exception{mustException(t, "x", "b")}); len(un) != 1 {
		t.Error("an exception that matches nothing is no error")
	}
	for text, want := range map[string]string{
		"- line: 2\n  command: x\n  whole: true\n  reason: y\n":                     "no command stands on line 2",
		"- line: 1\n  command: kubectl get pods\n  whole: true\n  reason: y\n":      "does not begin",
		"- line: 1\n  command: kubectl\n  whole: true\n":                            "there is no reason",
		"- line: 1\n  command: kubectl\n  reason: y\n":                              "either whole",
		"- line: 1\n  command: kubectl\n  whole: true\n  printed: x\n  reason: y\n": "either whole",
		"- line: 1\n  command: kubectl\n  recorded: '('\n  reason: y\n":             "recorded: error parsing",
		"- seed: 3\n": "no reason for the seed",
		"- seed: 3\n  whole: true\n  reason: y\n":                 "a seed stands alone",
		"- {seed: 3, reason: y}\n- {seed: 4, reason: y}\n":        "there is a seed already",
		"- line: 1\n  command: kubectl\n  typo: x\n  reason: y\n": "field typo not found",
	} {
		if _, err := ParseExceptions([]byte(text), r); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
	}
}

func mustException(t *testing.T, command, recorded string) *Exception {
	t.Helper()
	e := &Exception{Line: 1, Command: command, Recorded: recorded, Reason: "a test"}
	if err := e.check(&Step{Line: 1, Command: command}); err != nil {
		t.Fatal(err)
	}
	return e
}

func TestBindings(t *testing.T) {
	steps := []Step{
		{Command: "sed -i s/a/b/ /var/lib/kubelet/config.yaml; systemctl restart kubelet"}, {Command: "sleep 5"},
		{Command: "tail -n +$L0 /var/log/kubelet.log | head -1"}, {Command: "X=1; echo $X $HOME"}, {Command: "for i in a b; do echo $i; done"},
		{Command: "kubectl drain $NODE --pod-selector=app=web"}, {Command: `eval "$J --x"`}, {Command: "kubectl logs $P"}, {Command: "kubectl uncordon $NODE"},
	}
	var got []string
	for _, b := range bindings(steps) {
		got = append(got, b.Name+" "+b.Script)
	}
	want := []string{
		"L0 echo $(( $(cat /var/log/kubelet.log | wc -l) + 1 ))", "NODE kubectl get pods -l app=web -o jsonpath='{.items[0].spec.nodeName}'",
		"J kubeadm token create --print-join-command", "P kubectl get pods -o jsonpath='{.items[0].metadata.name}'",
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("%s", strings.Join(got, "\n"))
	}
}
