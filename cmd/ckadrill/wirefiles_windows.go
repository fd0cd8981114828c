package main

import "os"

// wireFiles takes the two ends of the front's pipes; nothing but the variables os.Stdin and os.Stdout leads to them here.
func wireFiles() (in, out *os.File, err error) {
	in, out = os.Stdin, os.Stdout
	null, err := os.Open(os.DevNull)
	os.Stdin = null
	return in, out, err
}
