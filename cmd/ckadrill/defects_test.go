package main

import (
	"fmt"
	"os"
	"syscall"

	"ckadrill/sim"
	"ckadrill/sim/kernel"
)

// Programs that do to a worker what only a defect of ours or of upstream's could do. They exist in the workers of this test
// binary alone, and there only where a boot's options ask for them.

const optionFaults = "test/faults"

var defects = map[string]kernel.Program{
	// spin computes without taking simulated time, but notices its end.
	"spin": func(p *kernel.Process) int {
		for p.Alive() {
		}
		return 0
	},
	// deaf never notices.
	"deaf": func(*kernel.Process) int {
		for {
		}
	},
	"panic": func(*kernel.Process) int { panic("a fault that was injected") },
	"exit":  func(*kernel.Process) int { os.Exit(7); return 0 },
	"eat": func(p *kernel.Process) int {
		var l [][]byte
		for p.Alive() {
			b := make([]byte, 16<<20)
			for i := range b { // no faster than a program that has something to write
				b[i] = byte(i * len(l))
			}
			l = append(l, b)
		}
		return len(l)
	},
	"recurse": func(*kernel.Process) int { return recurse(1) },
	// print writes where the worker talks to the front.
	"print": func(p *kernel.Process) int {
		fmt.Println("from upstream to os.Stdout")
		syscall.Write(1, []byte("from upstream to file 1"))
		var b [1]byte
		n, _ := os.Stdin.Read(b[:])
		p.Printf("printed, read %d\n", n)
		return 0
	},
}

func recurse(n int) int { return recurse(n+1) + n }

// injectFaults makes the programs known, and installs them on the control plane where the world is new.
func injectFaults(w *kernel.World, c *sim.Cluster, install bool) error {
	for name, main := range defects {
		w.Programs.Register("fault-"+name, main)
		if !install {
			continue
		}
		m, err := c.Machine(c.ControlPlane())
		if err != nil {
			return err
		}
		if err := m.Files(kernel.Root).WriteFile("/usr/local/bin/fault-"+name, kernel.Executable("fault-"+name), 0o755); err != nil {
			return err
		}
	}
	return nil
}
