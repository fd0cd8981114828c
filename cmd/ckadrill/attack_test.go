package main

import (
	"bytes"
	"regexp"
	"strings"
	"testing"
	"time"

	"ckadrill/shell/console"
	"ckadrill/sim/front"
	"ckadrill/sim/kernel"
	"ckadrill/sim/session"
)

// budget is the processor time that these tests let a command compute on purpose.
const budget = 3 * time.Second

// hostile opens a world with faults in a session.
func hostile(t *testing.T, dir string) *front.Play {
	t.Helper()
	f := worldFlags{seed: 1, preset: "reference"}
	p := &front.Play{Boot: f.boot(), Say: t.Logf, Limit: kernel.Limit{Simulated: 10 * time.Minute, Host: 3 * time.Minute}}
	p.Boot.Options[optionFaults] = "yes"
	p.Boot.Budget = budget
	s, err := session.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	p.Session = s
	if err := p.Open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Close() })
	return p
}

// An attack is a script, and expressions that must match what it prints: all in one shell, one after the other, in one
// world, which works as before afterwards.
var attacks = []struct{ name, script, want string }{
	// loops
	{"awk loop", `timeout 2 awk 'BEGIN{while(1);}'; echo rc=$?`, `rc=124`},
	{"awk recursion", `awk 'function f(){return f()} BEGIN{f()}'; echo rc=$?`, `maximum call depth[^\n]*\nrc=2`},
	{"jq loop", `timeout 2 jq -n 'def f: f; f'; echo rc=$?`, `rc=124`},
	{"sed loop", `timeout 2 sed ':a;ba' /etc/passwd; echo rc=$?`, `rc=124`},
	{"yes", `timeout 2 yes >/dev/null; echo rc=$?`, `rc=124`},
	{"bash loop", `timeout 2 bash -c 'while :; do :; done'; echo rc=$?`, `rc=124`},
	{"until false", `timeout 2 bash -c 'until false; do false; done'; echo rc=$?`, `rc=124`},
	{"endless for", `timeout 2 bash -c 'for ((;;)); do :; done'; echo rc=$?`, `rc=124`},
	{"read zeros", `timeout 2 bash -c 'read -r x < /dev/zero'; echo rc=$?`, `rc=124`},
	{"trap TERM", `timeout -k 1 2 bash -c 'trap "" TERM; while :; do :; done'; echo rc=$?`, `rc=137`},
	{"tail of an endless file", `timeout 2 tail -c 1 /dev/zero | wc -c; timeout 2 sort /dev/zero | wc -c; echo end`, `end`},
	{"loop on another machine", `timeout 2 ssh cka-w1 'while :; do :; done'; echo rc=$?`, `rc=124`},
	// recursion
	{"recursive function", `bash -c 'f() { f; }; f'; echo rc=$?`, `nesting level exceeded[^\n]*\nrc=1`},
	{"recursive source", `printf '. $0\n' > x; bash x 2>&1 | tail -1; echo end`, `nesting level exceeded[^\n]*\nend`},
	{"exec of itself", `printf '#!/bin/bash\nexec $0\n' > x; chmod +x x; ./x; echo rc=$?`, `replaces itself more than 1000 times\nrc=126`},
	{"interpreter of itself", `printf '#!%s/x\n' $PWD > x; ./x; echo rc=$?`, `(?i)too many levels|bad interpreter`},
	{"nested substitution", `s='echo 1'; for i in $(seq 1200); do s="echo \$($s)"; done; bash -c "$s" 2>&1 | head -1; echo end`, `nesting level exceeded|1\nend`},
	{"arithmetic recursion", `(x='x+1'; echo $((x))); echo rc=$?`, `expression recursion level exceeded[^\n]*\nrc=1`},
	{"arithmetic overflow", `echo $((9223372036854775807+1)) $((-9223372036854775807-1)); (echo $((1/0))); echo rc=$?`, `-9223372036854775808 -9223372036854775808\n[^\n]*division by 0[^\n]*\nrc=1`},
	{"alias of itself", `alias ls='ls -d'; eval 'ls /'; unalias ls`, `/`},
	{"symbolic links in a ring", `ln -sf b a; ln -sf a b; cat a; rm a b; echo end`, `Too many levels of symbolic links\nend`},
	// expansions
	{"braces", `(echo {1..1000000000}) | wc -c; echo end`, `brace expansion would exceed[^\n]*\n(?s).*end`},
	{"width", `printf '%1000000000d' 1 | wc -c; echo end`, `end`},
	{"doubling", `(x=a; while :; do x=$x$x; done); echo rc=$?`, `cannot allocate \d+ bytes\nrc=\d+`},
	{"replacing", `(x=aaaaaaaa; while :; do x=${x//a/aaaaaaaa}; done); echo rc=$?`, `cannot allocate \d+ bytes\nrc=\d+`},
	{"endless substitution", `(x=$(yes)); echo rc=$?`, `cannot allocate \d+ bytes\nrc=\d+`},
	{"endless array", `(while :; do a+=(a a a a a a a a); a+=("${a[@]}"); done); echo rc=$?`, `cannot allocate \d+ bytes\nrc=\d+`},
	{"seq", `seq 1e18 | head -2; echo end`, `1\n2\nend`},
	{"jq range", `timeout 1 jq -n '[range(1e9)]|length'; echo rc=$?`, `rc=124`},
	{"long line", `head -c 3000000 /dev/zero | tr '\0' a > big; wc -c < big; grep -c a big; sed s/a/b/ big | wc -c; awk '{print length}' big; rm big`, `3000000\n1\n3000000\n3000000`},
	{"regular expression", `printf 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa!\n' | grep -cE '^(a+)+$'; echo 'a{1000}{1000}{1000}' > p; grep -cEf p /etc/passwd; echo end`, `0\n(?s).*end`},
	// files
	{"endless file", `yes > f; echo rc=$?; rm f`, `ckadrill holds at most 256 MiB[^\n]*\nrc=1`},
	{"sparse file", `truncate -s 15G f; dd if=/etc/hostname of=f bs=1 seek=8000000000000 conv=notrunc; echo rc=$?; rm f`, `(?s)(File too large|No space left).*rc=1`},
	{"sparse file in memory", `dd if=/etc/hostname of=/dev/shm/f bs=1 seek=800000000000 count=1; echo rc=$?; rm -f /dev/shm/f`, `(?s)(File too large|No space left).*rc=1`},
	{"deep directories", `(for i in $(seq 300); do mkdir d; cd d; done; echo in); rm -rf d; echo end`, `in\nend`},
	{"long name", `touch $(printf '%0300d' 1); echo rc=$?`, `File name too long\nrc=1`},
	// processes
	{"fork bomb", `timeout 3 bash -c 'f() { f | f; }; f' 2>&1 | tail -1; echo end`, `end`},
	{"script that calls itself", `printf '#!/bin/bash\n$0\n' > x; chmod +x x; timeout 5 ./x 2>&1 | tail -1; echo end`, `end`},
	// input
	{"binary script", `head -c 2000 /dev/urandom > x; chmod +x x; ./x; echo rc=$?; rm x`, `rc=12[67]`},
	{"binary manifest", `head -c 20000 /dev/urandom | kubectl apply -f -; echo rc=$?`, `error[^\n]*\nrc=1`},
	{"not YAML", `echo '{{{' | kubectl apply -f -; echo rc=$?`, `error[^\n]*(?s).*rc=1`},
	{"alias bomb", `(echo 'a: &a [x,x,x,x,x,x,x,x,x]'; for i in b c d e f g h i j k l m; do echo "$i: &$i [*$p,*$p,*$p,*$p,*$p,*$p,*$p,*$p,*$p]" | sed "s/\*,/*a,/g;s/\*]/*a]/"; p=$i; done) | kubectl apply -f -; echo rc=$?`, `rc=1`},
	{"binary in staticPodPath", `head -c 2000 /dev/urandom | sudo tee /etc/kubernetes/manifests/x.yaml >/dev/null; sleep 30; sudo journalctl -u kubelet -n 50 --no-pager | grep -c x.yaml; sudo rm /etc/kubernetes/manifests/x.yaml; kubectl get nodes cka-cp1 --no-headers`, `[1-9]\d*\ncka-cp1 +Ready`},
	{"10,000 containers by apply", `(printf 'apiVersion: v1\nkind: Pod\nmetadata: {name: many}\nspec:\n  containers:\n'; seq 10000 | sed 's/.*/  - {name: c&, image: nginx}/') > many.yaml; kubectl apply -f many.yaml 2>&1 | cut -c1-200; kubectl delete pod many --ignore-not-found --now; rm many.yaml; echo end`, `end`},
}

func TestAttacks(t *testing.T) {
	t.Parallel()
	p := hostile(t, t.TempDir())
	run(t, p, "x=before; kubectl create deployment web --image=nginx; kubectl rollout status deployment/web")
	for _, a := range attacks {
		t.Run(a.name, func(t *testing.T) {
			out, _ := run(t, p, a.script)
			if !regexp.MustCompile(a.want).MatchString(out) {
				t.Errorf("$ %s\nhas not printed %q:\n%.2000s", a.script, a.want, out)
			}
			if out, _ := run(t, p, "echo $x"); out != "before\n" {
				t.Errorf("after it the shell prints %q", out)
			}
		})
	}
	if out, _ := run(t, p, "kubectl get deployment web --no-headers; kubectl get nodes --no-headers"); !strings.HasPrefix(out, "web   1/1") || strings.Count(out, " Ready ") != 3 {
		t.Errorf("after all of it:\n%s", out)
	}
}

// A script that runs for ever is stopped at a limit, which the message names, and the shell keeps what it knows.
func TestLimits(t *testing.T) {
	t.Parallel()
	p := hostile(t, t.TempDir())
	for _, c := range []struct {
		script, want string
		limit        kernel.Limit
	}{
		{"x=1; while :; do :; done", "within 5s of simulated time", kernel.Limit{Simulated: 5 * time.Second}},
		{"x=2; while :; do sleep 1; done", "within 10m0s of simulated time", kernel.Limit{Simulated: 10 * time.Minute}},
		{"x=3; f() { f | f & }; f 2>/dev/null; sleep 1000", "within 1m0s of simulated time", kernel.Limit{Simulated: time.Minute}},
		{"x=4; while :; do :; done", "kept the simulation busy for more than 3s", kernel.Limit{Host: 3 * time.Second}},
		{"x=5; trap '' INT; while :; do :; done", "within 5s of simulated time", kernel.Limit{Simulated: 5 * time.Second}},
	} {
		p.Limit = c.limit
		out, exit := run(t, p, c.script)
		if exit != 124 || !strings.Contains(out, c.want) {
			t.Errorf("$ %s\nends with %d and prints %.1000q", c.script, exit, out)
		}
		p.Limit = kernel.Limit{}
		want := regexp.MustCompile(`x=(\d)`).FindStringSubmatch(c.script)[1] + "\n"
		if c.script[2] == '5' {
			want = "4\n" // a shell that will not be interrupted is killed, and knows what it knew before
		}
		if out, _ := run(t, p, "trap - INT; echo $x"); out != want {
			t.Errorf("after %s the shell prints %q", c.script, out)
		}
		if out, _ := run(t, p, "ps -e | wc -l"); len(strings.TrimSpace(out)) > 2 {
			t.Errorf("after %s there are %s processes", c.script, out)
		}
	}
}

// Ctrl-C reaches a program that holds simulated time; one that nobody interrupts is stopped when it has computed for long
// enough.
func TestHeldTime(t *testing.T) {
	p := hostile(t, t.TempDir())
	var out bytes.Buffer
	time.AfterFunc(2*time.Second, interruptSelf)
	if exit, err := console.Batch(p, "fault-spin; echo not here", nil, &out, &out); err != nil || exit != 130 || strings.Contains(out.String(), "not") {
		t.Errorf("interrupted: %d %v %s", exit, err, out.String())
	}
	text, _ := run(t, p, "fault-spin; echo rc=$?")
	if !strings.Contains(text, "fault-spin was stopped: it computed for 3s of processor time") || !strings.Contains(text, "rc=137") {
		t.Errorf("not interrupted: %s", text)
	}
	text, _ = run(t, p, "fault-eat; echo rc=$?")
	if !strings.Contains(text, "fault-eat was stopped: the simulation needed more than 1 GiB") || !strings.Contains(text, "rc=137") {
		t.Errorf("memory: %s", text)
	}
	if text, _ = run(t, p, "fault-print; echo usable"); text != "printed, read 0\nusable\n" {
		t.Errorf("what upstream prints gets between the messages: %q", text)
	}
}

// What ends a worker ends nothing else: the front says why it ended and thaws the last state in another.
func TestWorkerLoss(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	p := hostile(t, dir)
	run(t, p, "echo kept > kept; x=kept")
	for _, c := range []struct{ fault, want string }{
		{"fault-panic", "panic: a fault that was injected"},
		{"fault-exit", "exit status 7"},
		{"fault-recurse", "stack overflow|stack exceeds"},
		{"fault-deaf", "could not be stopped"},
	} {
		var out bytes.Buffer
		_, err := console.Batch(p, "echo lost > kept; "+c.fault, nil, &out, &out)
		if err == nil || !front.Lost(err) || !regexp.MustCompile(c.want).MatchString(err.Error()) {
			t.Errorf("%s: %v\n%s", c.fault, err, out.String())
		}
		if err := p.Revive(); err != nil {
			t.Fatal(err)
		}
		if out, _ := run(t, p, "cat kept; echo $x; kubectl get --raw /readyz"); out != "kept\nkept\nok" {
			t.Errorf("after %s: %q", c.fault, out)
		}
	}
}
