package kernel

import "fmt"

// Signal is a Linux signal number. The host's own syscall.Signal is not used: it differs from system to system, and a
// simulated signal must never be taken for a real one.
type Signal int

// The signals that programs of the world send and handle.
const (
	SIGHUP   Signal = 1
	SIGINT   Signal = 2
	SIGQUIT  Signal = 3
	SIGABRT  Signal = 6
	SIGKILL  Signal = 9
	SIGUSR1  Signal = 10
	SIGUSR2  Signal = 12
	SIGPIPE  Signal = 13
	SIGTERM  Signal = 15
	SIGCHLD  Signal = 17
	SIGCONT  Signal = 18
	SIGSTOP  Signal = 19
	SIGWINCH Signal = 28
)

var signalNames = map[Signal]string{
	SIGHUP: "SIGHUP", SIGINT: "SIGINT", SIGQUIT: "SIGQUIT", SIGABRT: "SIGABRT", SIGKILL: "SIGKILL", SIGUSR1: "SIGUSR1",
	SIGUSR2: "SIGUSR2", SIGPIPE: "SIGPIPE", SIGTERM: "SIGTERM", SIGCHLD: "SIGCHLD", SIGCONT: "SIGCONT", SIGSTOP: "SIGSTOP",
	SIGWINCH: "SIGWINCH",
}

func (s Signal) String() string {
	if n, ok := signalNames[s]; ok {
		return n
	}
	return fmt.Sprintf("signal %d", int(s))
}

// Status is how a process ended: with an exit code, or by a signal (Signal is not 0).
type Status struct {
	Code   int
	Signal Signal
}

// ExitCode is the number that a shell shows in $?: the exit code, or 128 plus the signal.
func (s Status) ExitCode() int {
	if s.Signal != 0 {
		return 128 + int(s.Signal)
	}
	return s.Code
}
