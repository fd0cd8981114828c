// Package console plays a world in a console: batch scripts, and the user at the prompt. It connects the user's terminal
// with a [front.Play] and carries on when a worker dies.
package console

import (
	"errors"
	"fmt"
	"io"
	"strings"

	"ckadrill/shell/terminal"
	"ckadrill/sim/front"
	"ckadrill/sim/session"
	"ckadrill/sim/wire"
)

// MainShell is the name of the shell that a session's commands run in.
const MainShell = "main"

// outputLimit bounds what one batch script may print.
const outputLimit = 256 << 20

// Batch runs a script in the session's shell and returns its exit status. One that runs for longer than the play's
// limit is stopped, with status 124; what it did until then is kept. In a session the shells that it opens inside of its
// own and does not leave stay open, and the next script is the innermost's.
func Batch(p *front.Play, script string, stdin []byte, stdout, stderr io.Writer) (int, error) {
	if err := p.Begin(script); err != nil {
		return 1, err
	}
	h := &terminal.Batch{Stdout: stdout, Stderr: stderr, Limit: outputLimit}
	running, err := p.Worker().Start(wire.Run{Shell: MainShell, Script: script, Stdin: stdin, Limit: p.Limit, Stay: p.Session != nil && len(stdin) == 0}, h)
	if err != nil {
		return 1, err
	}
	h.Stop = p.Worker().Kill
	defer terminal.Interrupts(running.Interrupt)()
	done, err := running.Wait()
	if h.Overflowed() {
		return 1, fmt.Errorf("the script printed more than %d MiB and was stopped; nothing of it was kept", outputLimit>>20)
	}
	if err != nil {
		return 1, err
	}
	return done.Exit, p.Step(script, h.Text(), done.Exit, done.Delta, done.Date)
}

// errLeave ends the asking when the play was moved (undone, reset) under the shell, or is left.
var errLeave = errors.New("the shell is left")

// Interactive lets the user work at the prompt until they leave. It returns the shell's exit status.
func Interactive(p *front.Play, t *terminal.Terminal) (int, error) {
	for {
		exit, again, err := once(p, t)
		if !again || err != nil {
			return exit, err
		}
	}
}

// once runs the interactive shell in the current worker. again says that a new worker has taken its place, or that the
// machine went down and is to be logged in to anew.
func once(p *front.Play, t *terminal.Terminal) (exit int, again bool, err error) {
	w := p.Worker()
	first := true
	t.OnCommand = func(done terminal.Command, a *wire.Ask) error {
		if p.Worker() != w {
			return errLeave
		}
		if first && done.Typed == "" {
			first = false
			p.Keep(a.Delta, a.Date) // the shell has opened
			return nil
		}
		first = false
		if err := p.Step(done.Typed, done.Output, 0, a.Delta, a.Date); err != nil {
			return err
		}
		if p.Leaving() {
			return errLeave
		}
		return nil
	}
	t.OnTyped = func(text string) {
		if err := p.Begin(text); err != nil {
			p.Say("%v", err)
		}
	}
	columns, rows := t.Size()
	running, err := w.Start(wire.Run{Shell: MainShell, Interactive: true, TTY: true, Columns: columns, Rows: rows}, t)
	if err != nil {
		return 1, false, err
	}
	stop := terminal.Interrupts(running.Interrupt)
	done, err := running.Wait()
	stop()
	if p.Worker() != w {
		t.Unfinished()
		return 0, true, nil
	}
	if err != nil {
		if !front.Lost(err) {
			return 1, false, err
		}
		if p.Leaving() {
			t.Unfinished()
			return 0, false, nil
		}
		lost := t.Unfinished()
		goesOn := "The cluster goes on from the state after the last command."
		if strings.TrimSpace(lost.Typed) != "" {
			goesOn = fmt.Sprintf("%q had not finished; the cluster goes on from the state before it.", front.FirstLine(lost.Typed))
		}
		p.Say("%v\n%s", err, goesOn)
		return 0, true, p.Revive()
	}
	last := t.Unfinished()
	return done.Exit, done.Disconnected, p.Step(last.Typed, last.Output, done.Exit, done.Delta, done.Date)
}

// History are the lines that were typed in a session, oldest first.
func History(s *session.Session) []string {
	if s == nil {
		return nil
	}
	var l []string
	for _, r := range s.Records() {
		if r.Kind == session.Command && r.Typed != "" && !strings.Contains(r.Typed, "\n") {
			l = append(l, r.Typed)
		}
	}
	return l
}
