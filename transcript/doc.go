// Package transcript plays recorded console sessions of a real cluster on a simulated one and says where the two differ.
//
// A recording is what was typed and what came back. What no two clusters share - ages, dates, generated names, addresses,
// the node that the scheduler chose - is made equal on both sides before they are compared ([Normalise]); everything else
// must be the same. What differs for a stated reason stands in a counted [Exceptions] file beside the recording.
package transcript
