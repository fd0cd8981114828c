package text

import (
	"context"
	"time"

	"ckadrill/sim/userland/libc"
)

// The interpreters of awk and jq compute without asking anybody for time. What they do ask, every few steps, is whether
// their context is done: that is where their steps take simulated time, so that an endless program can be timed out and
// interrupted as a real one can.

// jqMeter is gojq's context: it is asked for Done before each step.
type jqMeter struct {
	context.Context
	c     *libc.Prog
	steps int
}

const (
	jqSteps    = 1000
	jqStepTime = 100 * time.Nanosecond
)

func (m *jqMeter) Done() <-chan struct{} {
	if m.steps++; m.steps == jqSteps {
		m.steps = 0
		m.c.Spend(jqSteps * jqStepTime)
	}
	return m.Context.Done()
}

// awkMeter is GoAWK's context. GoAWK asks for Done once, looks whether it can receive from it after each thousand steps,
// and asks for Err if so.
type awkMeter struct {
	context.Context
	c    *libc.Prog
	tick chan struct{} // always holds an element
}

const (
	awkSteps    = 1000
	awkStepTime = 20 * time.Nanosecond
)

func newAwkMeter(c *libc.Prog) *awkMeter {
	m := &awkMeter{c.Context(), c, make(chan struct{}, 1)}
	m.tick <- struct{}{}
	return m
}

func (m *awkMeter) Done() <-chan struct{} { return m.tick }

func (m *awkMeter) Err() error {
	select {
	case m.tick <- struct{}{}:
	default:
	}
	m.c.Spend(awkSteps * awkStepTime)
	return m.Context.Err()
}
