package front

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"ckadrill/sim/kernel"
	"ckadrill/sim/ready"
	"ckadrill/sim/session"
	"ckadrill/sim/wire"
)

// Play is a world that goes on: a worker, and the session on disk that its steps are written to.
type Play struct {
	Boot wire.Boot
	// Session may be nil: then nothing is kept, and a worker that dies is the end.
	Session *session.Session
	// Limit is how long a batch script may run.
	Limit kernel.Limit
	// Say tells the user something about the simulation itself, never about the cluster.
	Say func(format string, a ...any)
	// OnOutside answers the world's own questions.
	OnOutside func(p *Play, a *wire.Ask) wire.Answer

	moving sync.Mutex // held while one worker takes another's place
	mu     sync.Mutex
	worker *Worker
	parts  kernel.Parts // the state after the last step, without what lies below
	// below names the preset whose embedded state lies below parts, "" if parts are all; gone are those of it that are no more.
	below string
	gone  map[string]bool
	date  time.Time
	// unsaved is what has changed since the session's last record: a shell that opened, a question of the world.
	unsaved kernel.Delta
	leaving bool
}

// Open starts the world: where the session ended, or afresh. It returns when the world is ready.
func (p *Play) Open() error {
	if p.Say == nil {
		p.Say = func(string, ...any) {}
	}
	b := p.Boot
	if p.Session != nil && !p.Session.Empty() {
		if p.Session.Recovered != "" {
			p.Say("%s", p.Session.Recovered)
		}
		typed, lost, err := p.Session.Unfinished()
		if err != nil {
			return err
		}
		if lost {
			p.Say("%q had not finished when ckadrill ended; the cluster goes on from the state before it", FirstLine(typed))
		}
		parts, err := p.Session.State()
		if err != nil {
			return err
		}
		b.Parts = parts
	}
	return p.start(b)
}

func (p *Play) start(b wire.Boot) error {
	w, err := Start(b)
	if err != nil {
		return err
	}
	w.OnOutside = func(a *wire.Ask) wire.Answer {
		if p.OnOutside == nil {
			return wire.Answer{Error: "nobody is there to answer " + a.Prompt}
		}
		p.Keep(a.Delta, a.Date)
		return p.OnOutside(p, a)
	}
	w.OnStall = func(text string) { p.Say("%s", text) }
	r, err := w.Ready()
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.worker = w
	p.parts, p.below, p.gone = kernel.Parts{}, "", map[string]bool{}
	switch {
	case b.Parts != nil:
		p.parts = b.Parts
	case r.Embedded && p.Session == nil:
		p.below = b.Preset
	}
	p.mu.Unlock()
	if p.Session != nil && r.Embedded { // a session's first record has all
		all, err := ready.State(b.Preset)
		if err != nil {
			return err
		}
		p.Keep(kernel.Delta{Changed: all}, r.Date)
	}
	p.Keep(r.Delta, r.Date)
	if p.Session != nil && p.Session.Empty() {
		return p.record(session.Record{Kind: session.Boot, Meta: b.Options})
	}
	return nil
}

// Keep applies what has changed to the state that a new worker could be thawed from. The session gets it with its next
// record.
func (p *Play) Keep(d kernel.Delta, date time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	d.Apply(p.parts)
	if p.below != "" {
		for n := range d.Changed {
			delete(p.gone, n)
		}
		for _, n := range d.Removed {
			p.gone[n] = true
		}
	}
	p.date = date
	if p.Session == nil {
		return
	}
	u := &p.unsaved
	if u.Changed == nil {
		u.Changed = kernel.Parts{}
	}
	u.Removed = slices.DeleteFunc(u.Removed, func(n string) bool { _, back := d.Changed[n]; return back })
	for n, b := range d.Changed {
		u.Changed[n] = b
	}
	for _, n := range d.Removed {
		delete(u.Changed, n)
	}
	u.Removed = append(u.Removed, d.Removed...)
}

// record writes a record with everything that has changed since the last one.
func (p *Play) record(r session.Record) error {
	if p.Session == nil {
		return nil
	}
	p.mu.Lock()
	r.Wall, r.Date, r.Changed, r.Removed = time.Now(), p.date, p.unsaved.Changed, p.unsaved.Removed
	p.mu.Unlock()
	if err := p.Session.Append(r); err != nil {
		return err
	}
	p.mu.Lock()
	p.unsaved = kernel.Delta{}
	p.mu.Unlock()
	return nil
}

// Note keeps something beside the world in the session, such as the result of a check.
func (p *Play) Note(meta map[string]string) error {
	return p.record(session.Record{Kind: session.Note, Meta: meta})
}

// Leave ends the user's shell when it next asks for a command.
func (p *Play) Leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.leaving = true
}

// Leaving says that the shell shall end.
func (p *Play) Leaving() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.leaving
}

// Worker is the current worker; while one takes another's place, it waits for the new one.
func (p *Play) Worker() *Worker {
	p.moving.Lock()
	defer p.moving.Unlock()
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.worker
}

// Date is the simulated date after the last step.
func (p *Play) Date() time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.date
}

// State is a copy of the state after the last step, from which other workers can be thawed.
func (p *Play) State() kernel.Parts {
	p.mu.Lock()
	defer p.mu.Unlock()
	c := kernel.Parts{}
	if p.below != "" {
		all, err := ready.State(p.below)
		if err != nil {
			panic(err) // the worker, which is this program, had it
		}
		for n, b := range all {
			if !p.gone[n] {
				c[n] = b
			}
		}
	}
	maps.Copy(c, p.parts)
	return c
}

// Begin notes in the session that something was typed, so that its loss can be told if it never finishes.
func (p *Play) Begin(typed string) error {
	return p.record(session.Record{Kind: session.Begin, Typed: typed})
}

// FirstLine is a command as a message names it.
func FirstLine(typed string) string {
	line, rest, _ := strings.Cut(strings.TrimSpace(typed), "\n")
	if rest != "" {
		line += " ..."
	}
	return line
}

// Step keeps what a finished command changed: in memory, and on disk before it returns.
func (p *Play) Step(typed string, output []byte, exit int, d kernel.Delta, date time.Time) error {
	p.Keep(d, date)
	return p.record(session.Record{Kind: session.Command, Typed: typed, Output: output, Exit: exit})
}

// Revive thaws the last kept state in a new worker, after the old one has died.
func (p *Play) Revive() error {
	p.moving.Lock()
	defer p.moving.Unlock()
	b := p.Boot
	b.Parts = p.State()
	if len(b.Parts) == 0 {
		return errors.New("there is no state to go on from")
	}
	return p.start(b)
}

// Undo goes back to the state before the last command and says which one that was. Commands that only look, as passive
// tells, do not count.
func (p *Play) Undo(passive func(typed string) bool) error {
	if p.Session == nil {
		return errors.New("there is no session, so nothing can be undone")
	}
	to, undone, ok := p.Session.Before(passive)
	if !ok {
		return errors.New("nothing to undo: the session is at its beginning")
	}
	return p.GoTo(to, "undone: "+undone)
}

// GoTo goes back to the state after a record of the session. It says text when it is there: before anybody can get hold of
// the new worker, whose shell has its own to say.
func (p *Play) GoTo(seq int, text string) error {
	parts, err := p.Session.StateAt(seq)
	if err != nil {
		return err
	}
	p.moving.Lock()
	defer p.moving.Unlock()
	p.worker.Close()
	p.mu.Lock()
	p.unsaved = kernel.Delta{}
	p.mu.Unlock()
	if err := p.Session.Undo(seq); err != nil {
		return err
	}
	b := p.Boot
	b.Parts = parts
	if err := p.start(b); err != nil {
		return err
	}
	p.Say("%s", text)
	return nil
}

// Close ends the worker and gives the session free.
func (p *Play) Close() error {
	p.moving.Lock()
	defer p.moving.Unlock()
	if p.worker != nil {
		p.worker.Close()
	}
	if p.Session != nil {
		return p.Session.Close()
	}
	return nil
}

// Lost says whether an error means that the worker has died under a command.
func Lost(err error) bool {
	var d *Dead
	return errors.As(err, &d)
}
