package kernel

import (
	"testing"
	"time"
)

func TestResumedProcessMakesUpForItsPast(t *testing.T) {
	inWorld(t, func(w *World) {
		h := w.NewHost("h")
		sleep := func(p *Process, d time.Duration) { p.Sleep(p.ConsumeLag(d)) }
		start := time.Now()
		time.Sleep(25 * time.Second)
		var lines []time.Duration // of a loop that says something and then has a child sleep for 10 s
		p := h.Processes.Start(Spec{Argv: []string{"sh"}, Started: start}, func(p *Process) int {
			for range 5 {
				if p.Lag() == 0 {
					lines = append(lines, time.Since(start))
				}
				h.Processes.Start(Spec{Argv: []string{"sleep"}, Parent: p}, func(c *Process) int { sleep(c, 10*time.Second); return 0 }).Wait()
			}
			return 0
		})
		p.Wait()
		if len(lines) != 2 || lines[0] != 30*time.Second || lines[1] != 40*time.Second {
			t.Errorf("lines after %v", lines)
		}
	})
}

func TestLagEndsWhenTimeMovesOn(t *testing.T) {
	inWorld(t, func(w *World) {
		started := time.Now()
		time.Sleep(time.Hour)
		p := w.NewHost("h").Processes.Start(Spec{Argv: []string{"tail"}, Started: started}, func(p *Process) int {
			if p.Lag() != time.Hour {
				t.Errorf("it lags %v", p.Lag())
			}
			time.Sleep(time.Millisecond) // waits for anything
			if p.Lag() != 0 || p.ConsumeLag(time.Second) != time.Second {
				t.Error("it still lags")
			}
			return 0
		})
		p.Wait()
		q := w.NewHost("g").Processes.Start(Spec{Argv: []string{"x"}}, func(p *Process) int {
			if p.Lag() != 0 {
				t.Error("a new process lags")
			}
			return 0
		})
		q.Wait()
	})
}

func TestChildrenAreInTheirParentsContainer(t *testing.T) {
	inWorld(t, func(w *World) {
		h := w.NewHost("h")
		h.Processes.SetNext(4000)
		idle := func(p *Process) int { <-p.Context().Done(); return 0 }
		main := h.Processes.Start(Spec{Argv: []string{"sh"}, Container: "c1", NamespacePID: 1}, idle)
		child := h.Processes.Start(Spec{Argv: []string{"sleep"}, Parent: main}, idle)
		if child.ID() != 4001 || child.OwnPID() != 2 || child.Container != "c1" {
			t.Errorf("pid %d, in its namespace %d, container %q", child.ID(), child.OwnPID(), child.Container)
		}
		child.Signal(SIGTERM) // only the first of a namespace ignores it
		child.Wait()
		main.Signal(SIGKILL)
		main.Wait()
	})
}
