package bash

import (
	"strings"
	"sync"
	"time"

	"mvdan.cc/sh/v3/syntax"

	"ckadrill/sim/kernel"
)

// Nest holds the shells that a user has opened on one terminal, each inside of the one before: behind "ssh cka-w1" and
// "sudo -i" there are three. All but the last wait for the command that leads to the next.
//
// The nest is plain data in a freeze. After a thaw the outermost shell is restored and starts the command that it had been
// waiting for again. That is a resumed process: it comes to the next shell without a word, and without asking or checking
// anything, see [Resume]. That shell takes its own state from the nest, and so on.
type Nest struct {
	mu sync.Mutex
	// live are the shells that run, outermost first.
	live []*Shell
	// thawed are those that are still to be resumed, inside of the live ones.
	thawed []Frame
	// ended is set when no shell runs any more: then final is what is to be resumed, and jobs are what the outermost shell
	// has left in the background.
	ended  bool
	final  []Frame
	jobs   *Jobs
	before []Frame // as the nest was made
}

// Frame is one shell of a [Nest] as plain data.
type Frame struct {
	State State
	// Chain are the processes that lead from the shell outside of this one to it, which is the last of them.
	Chain []Link
	// Waiting is the command that leads to the next shell, nil in the innermost.
	Waiting *Command
}

// Link is a process on the way to a shell.
type Link struct {
	PID     int
	Started time.Time
	// Detail is what the process needs to know to be there again, see [Reach].
	Detail []byte
}

// Command is what a shell waits for.
type Command struct {
	Args []string
	Env  []string
	Dir  string
	// Replaced: the shell's own process has become the command, by exec.
	Replaced bool
	// Rest is what follows the command in the text that it was typed in.
	Rest string
	// Torn: the command was part of a compound one, the rest of which is lost.
	Torn bool
}

// NewNest makes a nest of frozen shells, outermost first; of none, for a terminal that nobody has opened a shell on. jobs
// are what the outermost shell has in the background, nil if that was lost in a thaw.
func NewNest(frames []Frame, jobs *Jobs) *Nest {
	return &Nest{thawed: frames, jobs: jobs, before: frames}
}

// Frames is the nest as plain data, outermost shell first.
func (n *Nest) Frames() []Frame {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.frames()
}

func (n *Nest) frames() []Frame {
	switch {
	case n.ended:
		return n.final
	case len(n.live) == 0:
		return n.thawed
	}
	var l []Frame
	for i, sh := range n.live {
		f := Frame{State: sh.State(), Chain: []Link{linkOf(sh.p)}}
		if i > 0 {
			w, chain := n.live[i-1].place.leading(sh.p)
			if w == nil {
				return l // its shell no longer waits for it
			}
			l[i-1].Waiting, f.Chain = w, chain
		}
		l = append(l, f)
	}
	if len(n.thawed) > 0 {
		if w := n.live[len(n.live)-1].place.resumed(); w != nil {
			l[len(l)-1].Waiting = w
			l = append(l, n.thawed...)
		}
	}
	return l
}

// Jobs are what the outermost shell has left in the background when it ended.
func (n *Nest) Jobs() *Jobs {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.jobs
}

// Innermost is the shell that reads commands now, nil if none is live.
func (n *Nest) Innermost() *Shell {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.live) == 0 {
		return nil
	}
	return n.live[len(n.live)-1]
}

// Outermost is the shell that was opened first, nil if none is live.
func (n *Nest) Outermost() *Shell {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.live) == 0 {
		return nil
	}
	return n.live[0]
}

// processes are the live shells' processes and what leads to them, outermost first.
func (n *Nest) processes() []*kernel.Process {
	var l []*kernel.Process
	for i, sh := range n.live {
		if i > 0 {
			if _, way := n.live[i-1].place.way(sh.p); len(way) > 0 {
				l = append(l, way...)
				continue
			}
		}
		l = append(l, sh.p)
	}
	return l
}

// On is a terminal that belongs to the nest: interactive shells on it become part of the nest.
func (n *Nest) On(t kernel.Terminal) kernel.Terminal {
	if t == nil {
		return nil
	}
	return &nestTerminal{t, n}
}

type nestTerminal struct {
	kernel.Terminal
	nest *Nest
}

// Nest is the nest that the terminal belongs to.
func (t *nestTerminal) Nest() *Nest { return t.nest }

// ReadMore is what [kernel.ReadMore] calls.
func (t *nestTerminal) ReadMore(prompt string, c kernel.Completer) (string, error) {
	return kernel.ReadMore(t.Terminal, prompt, c)
}

// NestOf is the nest that a terminal belongs to, nil if none. A terminal that stands for another one has a method Nest.
func NestOf(t kernel.Terminal) *Nest {
	if x, ok := t.(interface{ Nest() *Nest }); ok {
		return x.Nest()
	}
	return nil
}

// Open makes the outermost shell of the nest in the process p: it is restored if the nest knows it, else it reads its
// startup files.
func (n *Nest) Open(p *kernel.Process, o Options) *Shell {
	sh := New(p, o)
	n.mu.Lock()
	var f *Frame
	jobs := n.jobs
	if len(n.thawed) > 0 {
		f, n.thawed, n.jobs = &n.thawed[0], n.thawed[1:], nil
	}
	n.mu.Unlock()
	switch {
	case f != nil:
		p.ConsumeLag(p.Lag())
		sh.Restore(f.State)
		sh.place.before = f.Waiting
		if jobs != nil {
			sh.jobs = jobs.table
		} else {
			sh.mourn(f.State.Jobs)
		}
	case o.Interactive:
		sh.Startup()
	}
	n.enter(sh)
	return sh
}

// ProcessOf is the process of the outermost of some frozen shells, as it was before a thaw or before it ended.
func ProcessOf(frames []Frame) (Link, bool) {
	if len(frames) == 0 || len(frames[0].Chain) == 0 {
		return Link{}, false
	}
	c := frames[0].Chain
	return c[len(c)-1], true
}

// enter makes a shell the innermost; one of the same process takes its predecessor's place.
func (n *Nest) enter(sh *Shell) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if i := len(n.live) - 1; i >= 0 && n.live[i].p == sh.p {
		n.live[i] = sh
		return
	}
	n.live = append(n.live, sh)
	sh.p.OnExit(func() { n.leave(sh.p) })
}

func (n *Nest) leave(p *kernel.Process) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.ended {
		return
	}
	for i, sh := range n.live {
		if sh.p != p {
			continue
		}
		if len(n.live) == 1 && kernel.Current() != p {
			// Another process has killed it, and it may be running still: it is as it was when it was opened.
			n.end(n.before)
			return
		}
		if len(n.live) == 1 {
			n.end([]Frame{{State: sh.State(), Chain: []Link{linkOf(p)}}})
			return
		}
		n.live = append(n.live[:i:i], n.live[i+1:]...)
		return
	}
}

func (n *Nest) end(final []Frame) {
	n.ended, n.final, n.jobs = true, final, &Jobs{n.live[0].jobs}
}

// Suspend ends all shells of the nest at once and without a word, as if the world had been frozen and thawed: they are
// resumed when the outermost is opened again. It is called by the innermost; status is the outermost process's exit code.
func (n *Nest) Suspend(status int) {
	n.mu.Lock()
	if n.ended || len(n.live) == 0 {
		n.mu.Unlock()
		return
	}
	processes := n.processes()
	n.end(n.frames())
	n.mu.Unlock()
	mine := kernel.Current()
	for _, p := range processes { // outermost first, so that none goes on when what it waits for ends
		if p != mine {
			p.Exit(status)
		}
	}
	mine.Exit(status)
}

// Suspended says whether the shells on a terminal have been suspended: what leads to them must end without a word.
func Suspended(t kernel.Terminal) bool {
	n := NestOf(t)
	if n == nil {
		return false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ended
}

// take gives an interactive shell the state that it had before the thaw, nil if it is a new one.
func (n *Nest) take() *Frame {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.thawed) == 0 || len(n.live) == 0 {
		return nil
	}
	f := n.thawed[0]
	n.thawed = n.thawed[1:]
	return &f
}

// forget drops what has not been resumed: the command that led there has ended.
func (n *Nest) forget() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.thawed = nil
}

type reachedKey struct{}

type reached struct {
	from   *kernel.Process
	detail []byte
}

// Reach notes that shells below p, whose terminal is from's, are reached through from, which is none of p's ancestors: p
// may run on another machine. detail is what from finds by [Returning] when it is resumed.
func Reach(p, from *kernel.Process, detail []byte) { p.SetValue(reachedKey{}, reached{from, detail}) }

func linkOf(p *kernel.Process) Link {
	l := Link{PID: p.ID(), Started: p.StartTime()}
	if r, ok := p.Value(reachedKey{}).(reached); ok {
		l.Detail = r.detail
	}
	return l
}

// Returning says whether p is being resumed on its way to a shell of its terminal's nest. The link is the process that p
// had started and now starts again.
func Returning(p *kernel.Process) (Link, bool) {
	t := p.TTY
	if r, ok := p.Value(reachedKey{}).(reached); ok {
		t = r.from.TTY
	}
	n := NestOf(t)
	if n == nil || !p.Resumed() {
		return Link{}, false
	}
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.thawed) == 0 {
		return Link{}, false
	}
	chain := n.thawed[0].Chain
	for i, l := range chain {
		if l.PID == p.ID() && l.Started.Equal(p.StartTime()) && i+1 < len(chain) {
			return chain[i+1], true
		}
	}
	return Link{}, false
}

// Resume makes spec, of a process that p starts, resume what p had started before a thaw, if p itself is resumed on its
// way to a shell.
func Resume(p *kernel.Process, spec *kernel.Spec) bool {
	l, ok := Returning(p)
	if ok {
		spec.Started, spec.PID = l.Started, l.PID
	}
	return ok
}

// place is where a shell is in what it runs, shared with its subshells.
type place struct {
	mu sync.Mutex
	// waiting are the commands in the foreground.
	waiting []*waiting
	// line is what runs as it was typed.
	line *typedText
	// before is what the shell waited for before a thaw, until it has been resumed.
	before *Command
	// args are the positional parameters outside of the functions that run, innermost last.
	args [][]string
}

// enter notes the positional parameters outside of a function until done is called.
func (pl *place) enter(outside []string) (done func()) {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	pl.args = append(pl.args, outside)
	return func() {
		pl.mu.Lock()
		defer pl.mu.Unlock()
		pl.args = pl.args[:len(pl.args)-1]
	}
}

// arguments are the shell's own positional parameters; now are those that hold at the moment.
func (pl *place) arguments(now []string) []string {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	if len(pl.args) > 0 {
		return pl.args[0]
	}
	return now
}

type waiting struct {
	p        *kernel.Process
	args     []string
	replaced bool
}

// typedText is a text that was typed, and how far the shell has come in it.
type typedText struct {
	text string
	// at and end are the current statement's place in it, simple says that it is nothing but a command.
	at, end int
	simple  bool
	// from and taken enclose the lines of it that others have read: shells inside of this one.
	from, taken int
}

// rest is what is still to be run.
func (t *typedText) rest() string {
	if t.taken > t.end {
		return t.text[t.end:t.from] + t.text[t.taken:]
	}
	return t.text[t.end:]
}

// begin makes a text what runs as it was typed, unless it runs as part of another one: then it returns nil.
func (pl *place) begin(text string) *typedText {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	if pl.line != nil {
		return nil
	}
	pl.line = &typedText{text: text}
	return pl.line
}

func (pl *place) finish(t *typedText) {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	if t != nil {
		pl.line = nil
	}
}

// begin notes the statement that the shell runs next. It returns false if it is the shell's no more.
func (t *typedText) begin(st *syntax.Stmt) bool {
	if t == nil {
		return true
	}
	at, end := int(st.Pos().Offset()), int(st.End().Offset())
	if at >= t.from && at < t.taken {
		return false
	}
	call, ok := st.Cmd.(*syntax.CallExpr)
	t.at, t.end, t.simple = at, end, ok && len(call.Args) > 0 && !st.Negated
	return true
}

// wait notes a command in the foreground until done is called.
func (pl *place) wait(p *kernel.Process, args []string, replaced bool) (done func()) {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	w := &waiting{p, args, replaced}
	pl.waiting = append(pl.waiting, w)
	return func() {
		pl.mu.Lock()
		defer pl.mu.Unlock()
		for i := range pl.waiting {
			if pl.waiting[i] == w {
				pl.waiting = append(pl.waiting[:i:i], pl.waiting[i+1:]...)
				return
			}
		}
	}
}

// way finds the command in the foreground through which a shell was reached, and the processes from it to that shell.
func (pl *place) way(to *kernel.Process) (*waiting, []*kernel.Process) {
	pl.mu.Lock()
	defer pl.mu.Unlock()
	way := []*kernel.Process{to}
	for a := to; a != nil; {
		for _, w := range pl.waiting {
			if w.p == a {
				return w, way
			}
		}
		if r, ok := a.Value(reachedKey{}).(reached); ok {
			a = r.from
		} else {
			a = a.Parent
		}
		if a != nil {
			way = append([]*kernel.Process{a}, way...)
		}
	}
	return nil, nil
}

// leading is way as plain data.
func (pl *place) leading(to *kernel.Process) (*Command, []Link) {
	w, way := pl.way(to)
	if w == nil {
		return nil, nil
	}
	var chain []Link
	for _, p := range way {
		chain = append(chain, linkOf(p))
	}
	return pl.command(w), chain
}

// resumed is the command that the shell has started again and that has not come to its shell yet.
func (pl *place) resumed() *Command {
	pl.mu.Lock()
	before := pl.before
	n := len(pl.waiting)
	var w *waiting
	if n > 0 {
		w = pl.waiting[n-1]
	}
	pl.mu.Unlock()
	if w == nil {
		return before
	}
	return pl.command(w)
}

func (pl *place) command(w *waiting) *Command {
	c := &Command{Args: w.args, Env: w.p.Spec.Env, Dir: w.p.Spec.Dir, Replaced: w.replaced}
	if w.replaced {
		c.Env, c.Dir = w.p.Environ(), w.p.Dir()
	}
	if t := pl.line; t != nil {
		c.Torn = !t.simple || len(pl.args) > 0
		c.Rest = strings.TrimLeft(t.rest(), " \t;")
	}
	return c
}

// resumeForeground starts the command again that the shell was waiting for, waits for it, and goes on behind it.
func (sh *Shell) resumeForeground() {
	c := sh.place.before
	if c == nil {
		return
	}
	n := NestOf(sh.p.TTY)
	t := sh.place.begin(c.Rest)
	t.simple = !c.Torn
	sh.place.before = nil
	main, argv, status := sh.load(c.Args)
	sh.status = status
	if main != nil {
		spec := sh.spec(argv)
		spec.Env, spec.Dir = c.Env, c.Dir
		spec.Stdin, spec.Stdout, spec.Stderr = sh.p.TTY, sh.p.TTY, sh.p.TTY
		if l, ok := n.first(); ok {
			spec.Started, spec.PID = l.Started, l.PID
		}
		if c.Replaced {
			done := sh.place.wait(sh.p, c.Args, true)
			sh.p.Exec(spec)
			code := main(sh.p)
			done()
			sh.p.Exit(code)
		}
		p := sh.p.Host().Processes.Start(spec, main)
		done := sh.place.wait(p, c.Args, false)
		sh.status = sh.await(p)
		done()
	}
	n.forget()
	sh.place.finish(t)
	if c.Torn {
		sh.complain("ckadrill: the simulation was started anew meanwhile; what was to follow %q in its compound command is lost", strings.Join(c.Args, " "))
	}
	rest := t.rest()
	if sh.flow == flowNone && strings.TrimSpace(rest) != "" {
		sh.RunLine(rest)
	}
}

// first is the process that the innermost live shell starts to come to the next one.
func (n *Nest) first() (Link, bool) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if len(n.thawed) == 0 || len(n.thawed[0].Chain) == 0 {
		return Link{}, false
	}
	return n.thawed[0].Chain[0], true
}

// Continue resumes the shells inside of this one, if there were any, and returns when they have ended and this shell has
// gone on behind them. It returns false where there were none.
func (sh *Shell) Continue() bool {
	if sh.place.before == nil {
		return false
	}
	sh.resumeForeground()
	return true
}

// TakeLine takes the next line of the text that the shell runs away from it, for a shell inside of it: both read from the
// same terminal.
func (sh *Shell) TakeLine() (line string, ok bool) {
	sh.place.mu.Lock()
	defer sh.place.mu.Unlock()
	t := sh.place.line
	if t == nil {
		return "", false
	}
	if t.taken <= t.end {
		i := strings.IndexByte(t.text[t.end:], '\n')
		if i < 0 {
			return "", false
		}
		t.from = t.end + i + 1
		t.taken = t.from
	}
	if t.taken >= len(t.text) {
		return "", false
	}
	line, _, _ = strings.Cut(t.text[t.taken:], "\n")
	t.taken = min(len(t.text), t.taken+len(line)+1)
	return line, true
}

// mourn says which commands in the background a thaw has lost.
func (sh *Shell) mourn(jobs []string) {
	for _, j := range jobs {
		sh.complain("ckadrill: %q was running in the background when the simulation was started anew, and is lost", j)
	}
}
