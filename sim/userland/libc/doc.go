// Package libc is what programs of a simulated machine take from their C library: the texts of errors, the user database,
// the parsing of options, buffered standard output, and whether a stream is a terminal.
package libc
