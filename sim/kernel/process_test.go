package kernel

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"k8s.io/klog/v2"
)

// inWorld runs f in a bubble with a world whose klog is tamed.
func inWorld(t *testing.T, f func(w *World)) {
	t.Helper()
	if err := mutexWaitsAreIdle(); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(*testing.T) {
		w := NewWorld(1)
		tameLog(w)
		f(w)
	})
}

func TestMutexWaitLetsTimeRun(t *testing.T) {
	inWorld(t, func(*World) {
		if err := proveMutexWaitsAreIdle(); err != nil {
			t.Fatal(err)
		}
	})
}

func TestExitCodes(t *testing.T) {
	for _, c := range []struct {
		name string
		main Program
		sig  Signal
		want Status
	}{
		{"returns", func(*Process) int { return 3 }, 0, Status{Code: 3}},
		{"exits in a goroutine of its own", func(p *Process) int {
			go func() { p.Exit(7) }()
			<-p.Context().Done()
			return 0
		}, 0, Status{Code: 7}},
		{"is killed", func(p *Process) int { <-p.Context().Done(); return 0 }, SIGKILL, Status{Signal: SIGKILL}},
		{"is terminated", func(p *Process) int { <-p.Context().Done(); return 0 }, SIGTERM, Status{Signal: SIGTERM}},
		{"handles TERM", func(p *Process) int {
			done := make(chan int)
			p.Notify(SIGTERM, func() { done <- 5 })
			return <-done
		}, SIGTERM, Status{Code: 5}},
	} {
		t.Run(c.name, func(t *testing.T) {
			inWorld(t, func(w *World) {
				p := w.NewHost("cka-w1").Processes.Start(Spec{Argv: []string{"/bin/x"}}, c.main)
				if c.sig != 0 {
					synctest.Wait()
					p.Signal(c.sig)
				}
				if got := p.Wait(); got != c.want {
					t.Errorf("status %+v, want %+v", got, c.want)
				}
				if p.Alive() || len(p.Host().Processes.List()) != 0 {
					t.Error("it is still in the table")
				}
			})
		})
	}
}

func TestFirstOfNamespaceIgnoresUnhandledTerm(t *testing.T) {
	inWorld(t, func(w *World) {
		p := w.NewHost("h").Processes.Start(Spec{Argv: []string{"sh"}, NamespacePID: 1}, func(p *Process) int { <-p.Context().Done(); return 0 })
		p.Signal(SIGTERM)
		time.Sleep(time.Minute)
		if !p.Alive() {
			t.Error("a container's first process ended by a signal that it does not handle")
		}
		p.Signal(SIGKILL)
		p.Wait()
	})
}

// Every line lands in the log of the process that wrote it, with that process's pid, whatever goroutine writes it.
func TestLogLinesFindTheirProcess(t *testing.T) {
	inWorld(t, func(w *World) {
		h := w.NewHost("cka-cp1")
		logs := map[string]*bytes.Buffer{}
		for _, name := range []string{"kube-apiserver", "kube-scheduler"} {
			b := &bytes.Buffer{}
			logs[name] = b
			p := h.Processes.Start(Spec{Argv: []string{name}, NamespacePID: 1, Log: b}, func(p *Process) int {
				klog.InfoS("hello", "from", name)
				done := make(chan bool)
				go func() {
					time.Sleep(time.Second)
					go func() { klog.Errorf("later from %s", name); close(done) }()
				}()
				<-done
				return 0
			})
			defer p.Wait()
		}
		time.Sleep(2 * time.Second)
		synctest.Wait()
		for name, b := range logs {
			other := "kube-scheduler"
			if name == other {
				other = "kube-apiserver"
			}
			if s := b.String(); strings.Count(s, "\n") != 2 || !strings.Contains(s, "later from "+name) || strings.Contains(s, other) {
				t.Errorf("log of %s:\n%s", name, s)
			}
			for _, l := range strings.Split(strings.TrimSpace(b.String()), "\n") {
				if l[21:30] != "       1 " {
					t.Errorf("pid column of %q", l)
				}
			}
		}
	})
}

// A shell that replaces itself by a program gives it its redirected streams, and the lines of its log go there.
func TestExecTakesTheLogWithIt(t *testing.T) {
	inWorld(t, func(w *World) {
		var terminal, file bytes.Buffer
		p := w.NewHost("h").Processes.Start(Spec{Argv: []string{"sh"}, Stderr: &terminal}, func(p *Process) int {
			p.Exec(Spec{Argv: []string{"kubelet"}, Stderr: &file})
			klog.Info("started")
			return 0
		})
		p.Wait()
		synctest.Wait()
		if terminal.Len() != 0 || !strings.Contains(file.String(), "started") {
			t.Errorf("the terminal got %q, the file %q", terminal.String(), file.String())
		}
	})
}

func TestTimerLinesAreRoutedBySourceFile(t *testing.T) {
	inWorld(t, func(w *World) {
		var own bytes.Buffer
		p := w.NewHost("h").Processes.Start(Spec{Argv: []string{"kcm"}, Log: &own}, func(p *Process) int { <-p.Context().Done(); return 0 })
		w.RouteLog("process_test.go", func() *Process { return p })
		time.AfterFunc(time.Second, func() { klog.Warning("evicting") })
		time.Sleep(2 * time.Second)
		synctest.Wait()
		if !strings.Contains(own.String(), "evicting") {
			t.Errorf("log %q, stray %q", own.String(), StrayLines())
		}
		p.Signal(SIGKILL)
		p.Wait()
	})
}

func TestFatalEndsOneProcess(t *testing.T) {
	inWorld(t, func(w *World) {
		h := w.NewHost("h")
		var log bytes.Buffer
		other := h.Processes.Start(Spec{Argv: []string{"other"}}, func(p *Process) int { <-p.Context().Done(); return 0 })
		p := h.Processes.Start(Spec{Argv: []string{"x"}, Log: &log}, func(p *Process) int {
			go klog.Fatalf("Error creating leases: %v", context.DeadlineExceeded)
			<-p.Context().Done()
			return 0
		})
		if s := p.Wait(); s.Code != 255 {
			t.Errorf("status %+v", s)
		}
		if strings.Count(log.String(), "\n") != 1 || !strings.Contains(log.String(), "Error creating leases: context deadline exceeded") {
			t.Errorf("log %q", log.String())
		}
		if !other.Alive() {
			t.Error("the other process ended too")
		}
		klogStillWorks := make(chan bool)
		other.Go(func() { klog.Info("still here"); close(klogStillWorks) })
		<-klogStillWorks
		other.Signal(SIGKILL)
		other.Wait()
	})
}

func TestDeadProcessIsMute(t *testing.T) {
	inWorld(t, func(w *World) {
		var out, log bytes.Buffer
		p := w.NewHost("h").Processes.Start(Spec{Argv: []string{"x"}, Stdout: &out, Log: &log}, func(p *Process) int {
			go func() { // what upstream leaves behind
				time.Sleep(time.Minute)
				p.Printf("late\n")
				klog.Info("late")
			}()
			return 0
		})
		p.Wait()
		time.Sleep(2 * time.Minute)
		synctest.Wait()
		if out.Len()+log.Len() != 0 {
			t.Errorf("a dead process wrote %q and logged %q", out.String(), log.String())
		}
		if _, err := p.Dial(context.Background(), "tcp", "127.0.0.1:80"); !errors.Is(err, ErrDead) {
			t.Errorf("it dialled: %v", err)
		}
	})
}

func TestCallRunsUnderTheCalleesLabel(t *testing.T) {
	inWorld(t, func(w *World) {
		h := w.NewHost("h")
		idle := func(p *Process) int { <-p.Context().Done(); return 0 }
		server := h.Processes.Start(Spec{Argv: []string{"server"}}, idle)
		client := h.Processes.Start(Spec{Argv: []string{"client"}}, func(p *Process) int {
			var seen *Process
			if err := server.Call(p.Context(), func() { seen = Current() }); err != nil || seen != server || Current() != p {
				t.Errorf("err %v, in the call %v, after it %v", err, seen, Current())
			}
			err := server.Call(p.Context(), func() { Current().Exit(1) })
			if !errors.Is(err, ErrDead) {
				t.Errorf("a call that ended its server returned %v", err)
			}
			return 0
		})
		client.Wait()
		if server.Alive() {
			t.Error("server lives")
		}
	})
}
