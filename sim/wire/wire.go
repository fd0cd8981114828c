// Package wire is what the front process and its workers say to each other: gob messages over a pair of pipes. The front
// owns the terminal, the editor and the session on disk; a worker owns one world.
package wire

import (
	"bufio"
	"encoding/gob"
	"io"
	"time"

	"ckadrill/sim/kernel"
)

// Request is a message to a worker; exactly one field is set.
type Request struct {
	Boot      *Boot
	Run       *Run
	Answer    *Answer
	Interrupt *Interrupt
	Pace      *Pace
	Skip      *Skip
	Query     *Query
	Door      *Door
	Stream    *Stream
	Stop      *Stop
}

// Boot makes the world; it is the first message.
type Boot struct {
	Preset string
	Seed   uint64
	// Date is when a fresh world begins; a thawed one knows its date.
	Date time.Time
	// Parts is the state to thaw; nil boots the preset.
	Parts kernel.Parts
	Pace  Pace
	// Reseed gives a thawed world the seed above; else it keeps the one that it was frozen with.
	Reseed bool
	// Fresh builds the preset's cluster from nothing, by kubeadm's phases, instead of thawing the embedded one.
	Fresh bool
	// Processors is how many of the host's processors the worker may use until the world is ready, 0 for all; then it uses one.
	Processors int
	// Budget is the processor time that a user's command may use while simulated time stands still, 0 for what a user would
	// wait for.
	Budget time.Duration
	// Options are settings of the rooms above, by name.
	Options map[string]string
}

// Pace is how simulated time follows the host's. The zero value lets time run freely while something runs in the
// foreground, and holds it otherwise.
type Pace struct {
	// Speed is simulated seconds for one of the host's; 0 means free.
	Speed  float64
	Paused bool
}

// Run runs something in a shell that stays open under its name.
type Run struct {
	ID int
	// Shell is the name of the shell.
	Shell string
	// Script is a text for bash; with Interactive the shell reads its commands from the terminal instead.
	Script      string
	Interactive bool
	// Plain makes the shell a bash that is neither a login shell nor interactive, as one that a program feeds with commands.
	Plain bool
	// Stay leaves the shells open that the script opens inside of its own, by ssh or sudo -i: each reads the lines of the
	// script behind the one that opened it, and what comes in the next run when there are no more. Nothing can be read from
	// standard input then.
	Stay bool
	// Stdin is what the script may read.
	Stdin []byte
	// Env is added to the environment.
	Env []string
	// TTY gives the run a terminal of this size.
	TTY           bool
	Columns, Rows int
	// Machine and User are where the shell is opened; empty is the reference: candidate on the first control plane.
	Machine, User string
	// Limit is how long the run may take.
	Limit kernel.Limit
}

// Answer answers an [Ask].
type Answer struct {
	ID   int
	Text []byte
	// End is set for Ctrl-D, Interrupted for Ctrl-C, Error for an editor or pager that failed.
	End, Interrupted bool
	Error            string
}

// Interrupt is Ctrl-C while a run is in the foreground.
type Interrupt struct{ Run int }

// Skip lets simulated time pass, whatever the pace.
type Skip struct {
	ID int
	By time.Duration
	// Calm waits afterwards for an instant at which no change is under way, but not for long.
	Calm bool
}

// Query asks a question that some room of the worker registered under Name.
type Query struct {
	ID      int
	Name    string
	Payload []byte
}

// Door lets clients from outside in: from then on the worker takes streams, and tells by [Event.Door] whether they would be
// accepted, at once and after each change.
type Door struct{}

// StreamWindow is how many bytes of a stream may be under way in one direction.
const StreamWindow = 64 << 10

// Stream is about one connection of a client from outside to the API server, in either direction. Each side may send as
// many bytes as the other has given it credit for, at first [StreamWindow].
type Stream struct {
	ID int
	// Open begins the connection.
	Open *Open
	Data []byte
	// Credit is how many more bytes may come.
	Credit int
	// End says that no more data comes, Close that the connection is over, and Error why if it broke.
	End, Close bool
	Error      string
}

// Open is who connects: what is inside of the client's TLS, which the front has taken off.
type Open struct {
	// Protocol is what the client's TLS has agreed upon: "h2" or "http/1.1".
	Protocol string
	// Admin is set for a client that has shown the session's certificate: it is the cluster's administrator. Any other must
	// show the API server a token.
	Admin bool
}

// Stop ends the worker.
type Stop struct{}

// Event is a message from a worker; exactly one field is set.
type Event struct {
	Ready  *Ready
	Output *Output
	Ask    *Ask
	Done   *Done
	Reply  *Reply
	Clock  *Clock
	Door   *DoorState
	Stream *Stream
	Stall  *Stall
	Fail   *Fail
}

// Ready says that the world lives.
type Ready struct {
	Date time.Time
	// Delta is what has changed since the state that the world began with.
	Delta kernel.Delta
	// Embedded says that this was the embedded state of the preset, which the front has too.
	Embedded bool
}

// Output is what a run wrote.
type Output struct {
	Run  int
	FD   int // 1 or 2
	Data []byte
}

// AskKind is what a terminal is asked for.
type AskKind string

// Kinds of questions to the terminal.
const (
	AskLine     AskKind = "line"
	AskPassword AskKind = "password"
	AskEdit     AskKind = "edit"
	AskPage     AskKind = "page"
	// AskOutside is a question of the world itself to the user's side of the house, see [kernel.World.Outside].
	AskOutside AskKind = "outside"
)

// Ask asks the user at a run's terminal for something.
type Ask struct {
	ID, Run int
	Kind    AskKind
	Prompt  string // or a file's name
	Content []byte
	// Command is set when the line is a shell's next command. Delta is then what has changed since the last report, and
	// Date the simulated date: the command before it has finished.
	Command bool
	// More is set when the line goes on with the command that was typed before.
	More     bool
	LastLine string
	LastExit int
	Date     time.Time
	Delta    kernel.Delta
}

// Done says that a run or a skip has finished.
type Done struct {
	ID    int
	Exit  int
	Date  time.Time
	Delta kernel.Delta
	// Disconnected says that the run's machine went down.
	Disconnected bool
	// Error is set when it could not be run at all.
	Error string
}

// Reply answers a [Query].
type Reply struct {
	ID      int
	Payload []byte
	Error   string
}

// Clock tells the date now and then, for a clock in the prompt.
type Clock struct{ Date time.Time }

// DoorState says whether a connection from outside would be accepted, or why there is no door at all.
type DoorState struct {
	Accepts bool
	Error   string
}

// Stall is the watchdog's report: simulated time stands still.
type Stall struct{ Text string }

// Fail says why the worker ends.
type Fail struct{ Text string }

// Conn sends and receives. Send may be called from several goroutines only under the caller's own lock.
type Conn struct {
	enc *gob.Encoder
	dec *gob.Decoder
	buf *bufio.Writer
}

// NewConn makes a connection over a pair of pipes.
func NewConn(r io.Reader, w io.Writer) *Conn {
	b := bufio.NewWriterSize(w, 64<<10)
	return &Conn{gob.NewEncoder(b), gob.NewDecoder(bufio.NewReaderSize(r, 64<<10)), b}
}

// Send writes one message.
func (c *Conn) Send(m any) error {
	if err := c.enc.Encode(m); err != nil {
		return err
	}
	return c.buf.Flush()
}

// Receive reads one message.
func (c *Conn) Receive(m any) error { return c.dec.Decode(m) }
