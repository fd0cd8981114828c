package network

import (
	"context"
	"errors"
	"net"
	"os"
	"syscall"
)

// opError builds the error that package net returns on Linux for a failed system call, so that it reads
// "dial tcp 127.0.0.1:6443: connect: connection refused".
func opError(op, call, network string, source, addr net.Addr, errno syscall.Errno) error {
	return &net.OpError{Op: op, Net: network, Source: source, Addr: addr, Err: os.NewSyscallError(call, errno)}
}

// timeoutError is what package net calls errTimeout: a dial whose deadline has passed.
type timeoutError struct{}

func (timeoutError) Error() string        { return "i/o timeout" }
func (timeoutError) Timeout() bool        { return true }
func (timeoutError) Temporary() bool      { return true }
func (timeoutError) Is(target error) bool { return target == context.DeadlineExceeded }

// canceledError is what package net calls errCanceled: a dial whose context was cancelled.
type canceledError struct{}

func (canceledError) Error() string        { return "operation was canceled" }
func (canceledError) Is(target error) bool { return target == context.Canceled }

// contextError turns a context's error into package net's.
func contextError(err error) error {
	if errors.Is(err, context.DeadlineExceeded) {
		return timeoutError{}
	}
	return canceledError{}
}
