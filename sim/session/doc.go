// Package session keeps a session on disk: what was typed, when, what was printed, and the state that changed. The file
// is append-only and its records are chained by hashes, so that a session can be resumed after any crash, undone step by
// step, shared, and cannot be altered unnoticed.
package session
