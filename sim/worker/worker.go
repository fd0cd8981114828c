// Package worker is the process that holds one world: it boots or thaws it, runs what the front asks for and reports what
// changed. It knows the world only by the interface [World].
package worker

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"net"
	"time"

	"ckadrill/sim/kernel"
	"ckadrill/sim/wire"
	"ckadrill/sim/wire/early"
)

// World is what a worker runs commands in.
type World interface {
	// Open starts a shell process as the run says. It is called in the bubble.
	Open(r *wire.Run, tty kernel.Terminal, stdin io.Reader, stdout, stderr io.Writer) (*kernel.Process, error)
	// Await is closed when the machine of a run can be logged in to; it is nil when that is so already, or will never be.
	Await(r *wire.Run) <-chan struct{}
	// Disconnected says that a run has ended because its machine went down, and what that is called.
	Disconnected(p *kernel.Process) (machine string, ok bool)
	// Query answers a question of a room above. It runs in a goroutine of its own and may take simulated time.
	Query(name string, payload []byte) ([]byte, error)
	// Door is the way in for clients from outside. It is called in the bubble.
	Door() (Door, error)
}

// Door is the API server of a world for clients from outside.
type Door interface {
	// Connect makes a connection over which the client's HTTP goes. It is called in the bubble and may take simulated time.
	Connect(ctx context.Context, o *wire.Open) (Conn, error)
	// Accepts says whether a connection would be accepted, or lost on its way, but not refused.
	Accepts() bool
}

// Conn is a connection whose two directions end one by one.
type Conn interface {
	net.Conn
	CloseWrite() error
}

// Prepare completes a boot message outside of the bubble, before the world begins.
type Prepare func(b *wire.Boot) error

// Assemble builds the world of a boot message and returns when it is ready. It is called in the bubble. It calls thawed as
// soon as the world holds the state of the boot message, before anything runs in it.
type Assemble func(w *kernel.World, b *wire.Boot, thawed func()) (World, error)

// warmUp is how long before its date a thawed world starts. In it servers begin to listen, caches fill and the kubelets see
// their Pods again, and the controllers start, which alone takes five seconds at the pace of their client; so that at the date
// all is as it was. Nothing of it shows, and programs that count their time go on where
// they were.
const warmUp = 6 * time.Second

// Main serves the front over a pair of pipes. It does not return.
func Main(in io.Reader, out io.Writer, prepare Prepare, assemble Assemble) {
	conn := wire.NewConn(in, out)
	box := newOutbox(conn)
	fail := func(err error) {
		box.send(wire.Event{Fail: &wire.Fail{Text: err.Error()}})
		box.flush(make(chan struct{}))
		kernel.Exit(1)
	}
	var first wire.Request
	if err := conn.Receive(&first); err != nil || first.Boot == nil {
		fail(fmt.Errorf("the first message to a worker must be a boot: %v", err))
	}
	b := first.Boot
	useProcessors(b.Processors)
	embedded := b.Parts == nil
	if err := prepare(b); err != nil {
		fail(err)
	}
	embedded = embedded && b.Parts != nil
	start := b.Date
	if b.Parts != nil {
		date, err := kernel.DateOf(b.Parts)
		if err != nil {
			fail(err)
		}
		b.Date, start = date, date.Add(-warmUp)
	}
	limitMemory()
	urgent := kernel.NewUrgent()
	ward := &warden{budget: cmp.Or(b.Budget, commandBudget), urgent: urgent, fail: fail, report: func(text string) { box.send(wire.Event{Stall: &wire.Stall{Text: text}}) }}
	dog := kernel.NewWatchdog(wardPeriod, ward.look)
	s := &server{box: box, gate: kernel.NewGate(dog), urgent: urgent, runs: map[int]*run{}, questions: map[int]*question{}, streams: map[int]*stream{}}
	s.pacer = newPacer(s.gate)
	idle := make(chan struct{})
	go s.receive(conn)
	kernel.Run(b.Seed, start, func(w *kernel.World) int {
		dog.Watch()
		urgent.Serve()
		if b.Parts != nil {
			w.WarmUp(b.Date)
		}
		s.w, s.rec = w, kernel.NewRecorder(b.Parts) // the front has them too
		s.listen()
		exit := 0
		booted := make(chan struct{})
		var err error
		go func() {
			defer close(booted)
			thawed := func() { w.Adopt(s.rec); b.Parts = nil }
			if s.world, err = assemble(w, b, thawed); err == nil {
				time.Sleep(time.Until(b.Date))
			}
		}()
		s.gate.When(booted, kernel.Freely, func() {
			if err != nil {
				box.send(wire.Event{Fail: &wire.Fail{Text: err.Error()}})
				exit = 1
				s.gate.Quit()
				return
			}
			early.Over()
			useProcessors(1)
			box.send(wire.Event{Ready: &wire.Ready{Date: time.Now(), Delta: s.freeze(), Embedded: embedded}})
			s.setPace(b.Pace)
		})
		s.gate.Serve()
		box.flush(idle)
		return exit
	})
}
