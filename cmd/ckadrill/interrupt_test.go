package main

import "os"

// interruptSelf sends this process what Ctrl-C at its terminal would.
func interruptSelf() {
	if p, err := os.FindProcess(os.Getpid()); err == nil {
		p.Signal(os.Interrupt)
	}
}
