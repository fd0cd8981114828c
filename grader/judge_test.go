package grader

import (
	"errors"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"ckadrill/scenarios"
)

// stage is a cluster whose one script prints what the clock says it should.
type stage struct {
	start  time.Time
	mu     sync.Mutex
	print  func(since time.Duration) (int, string)
	looked int
}

func (s *stage) Exec(_, _, _ string, _ time.Duration) (int, []byte, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.looked++
	e, o := s.print(time.Since(s.start))
	return e, []byte(o), nil
}
func (*stage) Reboot(string) error              { return nil }
func (*stage) RestartUnit(string, string) error { return errors.New("no such unit") }
func (*stage) ControlPlane() string             { return "cka-cp1" }
func (s *stage) Probe(_, _ string, _ time.Duration) (string, []byte, error) {
	_, o := s.print(time.Since(s.start))
	return o, nil, nil
}

func TestDeadlineAndHold(t *testing.T) {
	up := func(from, to time.Duration) func(time.Duration) (int, string) {
		return func(d time.Duration) (int, string) {
			if d >= from && d < to {
				return 0, "up"
			}
			return 1, "down"
		}
	}
	for _, c := range []struct {
		name         string
		print        func(time.Duration) (int, string)
		within, hold time.Duration
		want         bool
	}{
		{"true at once", up(0, time.Hour), 0, 0, true},
		{"never true", up(time.Hour, time.Hour), time.Minute, 0, false},
		{"true in time", up(50*time.Second, time.Hour), time.Minute, time.Minute, true},
		{"too late", up(70*time.Second, time.Hour), time.Minute, 0, false},
		{"about to break", up(0, 40*time.Second), 0, time.Minute, false},
		{"breaks, and is true again in time", func(d time.Duration) (int, string) {
			if d > 10*time.Second && d < 20*time.Second {
				return 1, "down"
			}
			return 0, "up"
		}, time.Minute, 30 * time.Second, true},
		{"flickers", func(d time.Duration) (int, string) {
			if int(d.Seconds())%20 >= 10 {
				return 1, "down"
			}
			return 0, "up"
		}, time.Minute, 30 * time.Second, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := &stage{start: time.Now(), print: c.print}
				r := judge(s, []scenarios.Check{{Name: "a", Points: 2, Says: "no", Within: c.within, Hold: c.hold, Command: &scenarios.Command{Output: "^up$"}}}, everyCheck)
				if r[0].Passed != c.want || (r[0].Says == "") != c.want {
					t.Errorf("%+v", r[0])
				}
				if r[0].Took > c.within+c.hold+time.Minute {
					t.Errorf("it took %v", r[0].Took)
				}
			})
		})
	}
}

// Where one failure is enough, nobody waits for the deadlines of the other checks.
func TestFirstFailureIsEnough(t *testing.T) {
	checks := []scenarios.Check{
		{Name: "slow", Within: time.Hour, Command: &scenarios.Command{Output: "^up$"}},
		{Name: "passes", Command: &scenarios.Command{Output: "^down$"}},
		{Name: "quick", Within: time.Minute, Command: &scenarios.Command{Output: "^up$"}},
	}
	for until, want := range map[extent]time.Duration{everyCheck: time.Hour, firstFailure: time.Minute} {
		synctest.Test(t, func(t *testing.T) {
			s := &stage{start: time.Now(), print: func(time.Duration) (int, string) { return 0, "down" }}
			r := judge(s, checks, until)
			if r[0].Passed || !r[1].Passed || r[2].Passed || r[0].Name != "slow" {
				t.Errorf("%q: %+v", until, r)
			}
			if took := time.Since(s.start); took < want || took > want+time.Minute {
				t.Errorf("%q: it took %v, want %v", until, took, want)
			}
			time.Sleep(time.Hour) // until the last check ends
		})
	}
}

func TestCELSeesObjects(t *testing.T) {
	for _, c := range []struct {
		name, expression, answer, object string
		exit                             int
		want                             bool
	}{
		{"list", "objects.filter(o, o.spec.x == 1).size() == 1", `{"items":[{"spec":{"x":1}},{"spec":{"x":2}}]}`, "", 0, true},
		{"object", "object.status.ready && object.metadata.labels['a.b/c'] == 'd'", `{"status":{"ready":true},"metadata":{"labels":{"a.b/c":"d"}}}`, "n", 0, true},
		{"missing object", "object == null", "", "n", 0, true},
		{"missing field", "object.status.ready", `{"spec":{}}`, "n", 0, false},
		{"API down", "true", "The connection to the server was refused", "n", 1, false},
		{"not JSON", "true", "{", "n", 0, false},
		{"quantities of work are bounded", "objects.all(a, objects.all(b, objects.all(c, objects.all(d, objects.all(e, a != 0 && b != 0 && c != 0 && d != 0 && e != 0)))))", big(), "", 0, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := &stage{print: func(time.Duration) (int, string) { return c.exit, c.answer }}
			ok, evidence := lookCEL(s, &scenarios.CEL{Resource: "pods", Name: c.object, Expression: c.expression})
			if ok != c.want {
				t.Errorf("%v, %s", ok, evidence)
			}
		})
	}
}

func big() string {
	s := `{"items":[1`
	for range 200 {
		s += ",1"
	}
	return s + "]}"
}

func TestSetupStopsAtAFailingStep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &stage{print: func(time.Duration) (int, string) { return 3, "sed: no such file" }}
		err := RunSteps(s, []scenarios.Step{{Wait: time.Minute}, {Script: &scenarios.Script{Run: "x"}, Line: 12}, {Reboot: "cka-w1"}})
		if err == nil || err.Error() != "line 12: the script ended with exit status 3: sed: no such file" {
			t.Error(err)
		}
	})
}
