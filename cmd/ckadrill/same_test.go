package main

import (
	"bytes"
	"cmp"
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"ckadrill/shell/console"
	"ckadrill/sim/front"
)

// soak is set in the environment for the tests that take hours: make soak.
const soak = "CKADRILL_SOAK"

// theSame are scripts, command by command, that are played several times and whose transcripts are compared. What
// upstream draws by chance while its goroutines run must not show in them: on which of two equal nodes a Pod comes to run, and
// so who has to pull an image; how much later than its back-off a Pod worker looks again (it jitters by half); and what comes
// just before or after a round of a loop, such as the collection of dead containers once a minute. A Pod whose start is under
// way at a thaw is up to two seconds late.
var theSame = map[string][]string{
	"deployment": {
		"kubectl create deployment web --image=nginx --replicas=2", "kubectl rollout status deploy/web >/dev/null", "kubectl get pods", "sleep 75", "kubectl get pods,rs,deploy",
		"kubectl scale deploy web --replicas=1", "sleep 40", "kubectl set env deploy/web A=1; kubectl rollout status deploy/web >/dev/null; sleep 12", "kubectl get pods",
		"kubectl get deploy,rs,pods", "kubectl get events --sort-by=.metadata.creationTimestamp", "kubectl delete deploy web", "sleep 35; kubectl get all", "date +%T",
	},
	"node": {
		"kubectl create deployment web --image=nginx --replicas=2", "sleep 20", "kubectl delete node cka-w2", "kubectl get nodes", "sleep 30; kubectl get pods",
		"ssh cka-w2 sudo systemctl restart kubelet", "sleep 20; kubectl get nodes", "ssh cka-w1 sudo systemctl stop kubelet", "sleep 33", "kubectl get nodes", "sleep 30", "kubectl get nodes",
		"ssh cka-w1 sudo systemctl start kubelet; sleep 15; kubectl get nodes", "date +%T",
	},
	"logs": {
		`kubectl run tick --image=busybox --overrides='{"spec":{"nodeName":"cka-w2"}}' -- sh -c 'while true; do date; sleep 5; done'; sleep 14`, "kubectl get pods",
		"sleep 30; kubectl logs tick | wc -l", "kubectl logs tick", "sleep 61; kubectl get pods", "kubectl logs tick --tail=3", "kubectl create job once --image=busybox -- true; sleep 9; kubectl get job,pods",
		"kubectl exec tick -- sh -c 'echo kept > /tmp/f'", "kubectl exec tick -- cat /tmp/f", "kubectl logs tick | wc -l", "kubectl delete pod tick; kubectl get pods", "date +%T",
	},
	"control plane": {
		"sudo mv /etc/kubernetes/manifests/kube-scheduler.yaml /tmp", "sleep 95; kubectl get pods -n kube-system", "kubectl run waits --image=nginx; sleep 5; kubectl get pods",
		"sudo mv /tmp/kube-scheduler.yaml /etc/kubernetes/manifests/", "sleep 30; kubectl get pods -A", "kubectl get lease -n kube-system", "kubectl describe pod waits | sed -n '/^Events/,$p'", "date +%T",
	},
}

// printed is what a command printed, and its exit status.
type printed struct {
	command, output string
	exit            int
}

// playCommands plays commands one after the other in one world; with thaw a new worker takes over after each of them.
func playCommands(t *testing.T, preset string, commands []string, thaw bool) []printed {
	t.Helper()
	f := worldFlags{seed: 1, preset: preset}
	p := &front.Play{Boot: f.boot(), Say: t.Logf}
	if err := p.Open(); err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	var l []printed
	for _, c := range commands {
		var out bytes.Buffer
		exit, err := console.Batch(p, c, nil, &out, &out)
		if err != nil {
			t.Fatalf("%s: %v", c, err)
		}
		l = append(l, printed{c, out.String(), exit})
		if thaw {
			p.Worker().Close()
			if err := p.Revive(); err != nil {
				t.Fatalf("after %s: %v", c, err)
			}
		}
	}
	return l
}

// What upstream draws at random or numbers as its goroutines happen to run. Ages, dates and counts stay.
var drawn = []struct {
	re   *regexp.Regexp
	with string
}{
	{regexp.MustCompile(`-[bcdfghjklmnpqrstvwxz2456789]{5}\b`), "-SUFFIX"},
	{regexp.MustCompile(`\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`), "UID"},
	{regexp.MustCompile(`\b10\.244\.\d+\.\d+`), "POD-IP"},
	{regexp.MustCompile(`\b10\.(9[6-9]|1[01]\d)\.\d+\.\d+`), "CLUSTER-IP"},
	{regexp.MustCompile(`_[0-9a-f-]{36}\b`), "_ID"},
	{regexp.MustCompile(`(Successfully assigned \S+ to) cka-w[12]\b`), "$1 NODE"},
	{regexp.MustCompile(` +`), " "},
}

// age is what may be off by a second: something is said to be as old as the seconds that have passed, rounded down.
var age = regexp.MustCompile(`\b(?:\d+d)?(?:\d+h)?(?:\d+m)?\d+s\b|\b\d+m\b|\b\d\d:\d\d:\d\d\b`)

// slack is how much ages may be off.
const slack = time.Second

// similar is a line without its ages, and these.
type similar struct {
	text string
	ages []time.Duration
}

// lines makes equal what is drawn at random, and the order of lines that follows from it.
func (p printed) lines() []similar {
	s := p.output
	for _, d := range drawn {
		s = d.re.ReplaceAllString(s, d.with)
	}
	var l []similar
	for _, line := range strings.Split(fmt.Sprintf("%s[exit %d]", s, p.exit), "\n") {
		x := similar{text: age.ReplaceAllString(line, "AGE")}
		for _, a := range age.FindAllString(line, -1) {
			d, err := time.ParseDuration(a)
			if t, clock := time.Parse("15:04:05", a); clock == nil {
				d, err = t.Sub(t.Truncate(24*time.Hour)), nil
			}
			if err != nil {
				d = -1
			}
			x.ages = append(x.ages, d)
		}
		l = append(l, x)
	}
	slices.SortFunc(l, func(a, b similar) int {
		return cmp.Or(strings.Compare(a.text, b.text), slices.Compare(a.ages, b.ages))
	})
	return l
}

func (a similar) like(b similar) bool {
	return a.text == b.text && slices.EqualFunc(a.ages, b.ages, func(x, y time.Duration) bool { return (x - y).Abs() <= slack })
}

func (a similar) String() string { return fmt.Sprint(a.text, " ", a.ages) }

// differ reports where two plays of the same commands differ.
func differ(t *testing.T, what string, a, b []printed) {
	t.Helper()
	for i := range a {
		x, y := a[i].lines(), b[i].lines()
		if slices.EqualFunc(x, y, similar.like) {
			continue
		}
		var out strings.Builder
		for _, l := range x {
			if j := slices.IndexFunc(y, l.like); j >= 0 {
				y = slices.Delete(y, j, j+1)
			} else {
				fmt.Fprintln(&out, "-", l)
			}
		}
		for _, l := range y {
			fmt.Fprintln(&out, "+", l)
		}
		t.Errorf("%s: $ %s\n%s", what, a[i].command, out.String())
	}
}

// A freeze and a thaw in a new worker after every command change nothing that follows: no age, no count, no event.
func TestThawsChangeNothing(t *testing.T) {
	t.Parallel()
	for _, name := range sameNames() {
		t.Run(name, func(t *testing.T) {
			whole := playCommands(t, "reference", theSame[name], false)
			thawed := playCommands(t, "reference", theSame[name], true)
			differ(t, "thawed after each command", whole, thawed)
		})
	}
}

// The same seed and script give the same transcript, but for what is drawn. How many plays differ in some byte is logged:
// upstream's goroutines draw names and jitter from one source, in the order in which they happen to run.
func TestSameSeedSameTranscript(t *testing.T) {
	t.Parallel()
	times := 2
	if os.Getenv(soak) != "" {
		times = 50
	}
	for _, name := range sameNames() {
		t.Run(name, func(t *testing.T) {
			first := playCommands(t, "reference", theSame[name], false)
			bytesDiffer := 0
			for i := 1; i < times; i++ {
				again := playCommands(t, "reference", theSame[name], false)
				if !slices.Equal(first, again) {
					bytesDiffer++
				}
				differ(t, fmt.Sprintf("play %d", i+1), first, again)
			}
			t.Logf("%d of %d plays differ from the first in some byte", bytesDiffer, times-1)
		})
	}
}

// sameNames are the scripts to play: all in a soak, else one.
func sameNames() []string {
	if os.Getenv(soak) == "" {
		return []string{"deployment"}
	}
	var l []string
	for n := range theSame {
		l = append(l, n)
	}
	slices.Sort(l)
	return l
}
