package runtime

import (
	"fmt"
	"strconv"
	"strings"

	"ckadrill/sim/kernel"
)

var signalNumbers = map[string]kernel.Signal{
	"ABRT": 6, "ALRM": 14, "BUS": 7, "CHLD": 17, "CONT": 18, "FPE": 8, "HUP": 1, "ILL": 4, "INT": 2, "IO": 29, "KILL": 9, "PIPE": 13, "PROF": 27, "PWR": 30, "QUIT": 3,
	"SEGV": 11, "STKFLT": 16, "STOP": 19, "SYS": 31, "TERM": 15, "TRAP": 5, "TSTP": 20, "TTIN": 21, "TTOU": 22, "URG": 23, "USR1": 10, "USR2": 12, "VTALRM": 26, "WINCH": 28,
	"XCPU": 24, "XFSZ": 25, "RTMIN": 34, "RTMIN+3": 37, "RTMAX": 64,
}

// parseSignal reads a signal's name or number.
func parseSignal(s string) (kernel.Signal, error) {
	if n, err := strconv.Atoi(s); err == nil {
		if n == 0 {
			return 0, fmt.Errorf("unknown signal %q", s)
		}
		return kernel.Signal(n), nil
	}
	if n, ok := signalNumbers[strings.TrimPrefix(strings.ToUpper(s), "SIG")]; ok {
		return n, nil
	}
	return 0, fmt.Errorf("unknown signal %q", s)
}

// signalText prints a signal as Go's syscall.Signal does.
func signalText(s kernel.Signal) string {
	if t, ok := map[kernel.Signal]string{1: "hangup", 2: "interrupt", 3: "quit", 6: "aborted", 9: "killed", 10: "user defined signal 1", 12: "user defined signal 2", 13: "broken pipe",
		15: "terminated", 28: "window changed"}[s]; ok {
		return t
	}
	return fmt.Sprintf("signal %d", int(s))
}
