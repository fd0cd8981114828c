package session

import (
	"time"

	"ckadrill/sim/kernel"
)

// Kind says what a record is about.
type Kind string

// Kinds of records.
const (
	Boot    Kind = "boot"    // a world began
	Begin   Kind = "begin"   // something was typed; a command follows when it has finished
	Command Kind = "command" // something was typed and has finished
	Undo    Kind = "undo"    // the world went back to the state after the record Parent
	Note    Kind = "note"    // something beside the world: a check's result, a flagged task
)

// Record is one step of a session.
type Record struct {
	Seq int
	// Parent is the record whose state this one changes; it is Seq-1 but after an undo.
	Parent int
	Kind   Kind
	// Wall is when it was written, in the host's time; Date is the simulated date after it.
	Wall, Date time.Time
	Typed      string
	Output     []byte
	Exit       int
	// Changed and Removed are the parts of the world's state that differ from Parent's.
	Changed kernel.Parts
	Removed []string
	// Meta is data of whoever writes the session (scenario, preset, seed), set in the boot record, or a note's content.
	Meta map[string]string
}
