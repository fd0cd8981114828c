package systemd

import (
	"fmt"
	"strings"

	"ckadrill/sim/kernel"
)

// Exit codes with which systemd's own child ends when it can not become the service (systemd.exec(5)).
const (
	exitChdir = 200
	exitExec  = 203
	exitGroup = 216
	exitUser  = 217
)

// exitNames are systemd's names of exit codes.
var exitNames = map[int]string{0: "SUCCESS", 1: "FAILURE", 2: "INVALIDARGUMENT", 3: "NOTIMPLEMENTED", 4: "NOPERMISSION", 5: "NOTINSTALLED", 6: "NOTCONFIGURED", 7: "NOTRUNNING",
	exitChdir: "CHDIR", 201: "NICE", 202: "FDS", exitExec: "EXEC", 204: "MEMORY", 205: "LIMITS", 206: "OOM_ADJUST", 207: "SIGNAL_MASK", 208: "STDIN", 209: "STDOUT", 210: "CHROOT", 211: "IOPRIO",
	212: "TIMERSLACK", 213: "SECUREBITS", 214: "SETSCHEDULER", 215: "CPUAFFINITY", exitGroup: "GROUP", exitUser: "USER", 218: "CAPABILITIES", 219: "CGROUP", 220: "SETSID", 221: "CONFIRM", 222: "STDERR",
	224: "PAM", 225: "NETWORK", 226: "NAMESPACE", 227: "NO_NEW_PRIVILEGES", 228: "SECCOMP", 229: "SELINUX_CONTEXT", 230: "PERSONALITY", 231: "APPARMOR_PROFILE", 232: "ADDRESS_FAMILIES",
	233: "RUNTIME_DIRECTORY", 235: "CHOWN", 236: "SMACK_PROCESS_LABEL", 237: "KEYRING", 238: "STATE_DIRECTORY", 239: "CACHE_DIRECTORY", 240: "LOGS_DIRECTORY", 241: "CONFIGURATION_DIRECTORY",
	242: "NUMA_POLICY", 243: "CREDENTIALS", 245: "BPF", 255: "EXCEPTION"}

// describe is "code=exited, status=1/FAILURE" or "code=killed, status=9/KILL".
func describe(st kernel.Status) string {
	code, status := DescribeStatus(st)
	return "code=" + code + ", status=" + status
}

// DescribeStatus returns how systemd names an end: "exited" and "1/FAILURE", or "killed" and "9/KILL".
func DescribeStatus(st kernel.Status) (code, status string) {
	if st.Signal != 0 {
		return "killed", fmt.Sprintf("%d/%s", int(st.Signal), strings.TrimPrefix(st.Signal.String(), "SIG"))
	}
	n, ok := exitNames[st.Code]
	if !ok {
		n = "n/a"
	}
	return "exited", fmt.Sprintf("%d/%s", st.Code, n)
}

// listed says whether SuccessExitStatus= or a setting like it names an end, by its number or a signal's name.
func listed(d *Definition, key string, st kernel.Status) bool {
	for _, v := range d.words("Service", key) {
		switch {
		case st.Signal != 0:
			if strings.TrimPrefix(v, "SIG") == strings.TrimPrefix(st.Signal.String(), "SIG") {
				return true
			}
		case v == fmt.Sprint(st.Code) || exitNames[st.Code] == v:
			return true
		}
	}
	return false
}

// clean says whether an end is a success: code 0, the four clean signals, and what SuccessExitStatus= adds.
func clean(d *Definition, st kernel.Status) bool {
	switch st.Signal {
	case 0:
		if st.Code == 0 {
			return true
		}
	case kernel.SIGHUP, kernel.SIGINT, kernel.SIGTERM, kernel.SIGPIPE:
		return true
	}
	return listed(d, "SuccessExitStatus", st)
}

// resultOf is the Result of a service whose process ended so.
func resultOf(d *Definition, st kernel.Status) string {
	switch {
	case clean(d, st):
		return success
	case st.Signal != 0:
		return signaled
	}
	return exitCode
}

// shallRestart applies Restart= (the table of systemd.service(5)).
func shallRestart(d *Definition, result string, st kernel.Status) bool {
	if listed(d, "RestartPreventExitStatus", st) && st != (kernel.Status{}) {
		return false
	}
	if listed(d, "RestartForceExitStatus", st) && st != (kernel.Status{}) {
		return true
	}
	switch d.get("Service", "Restart", "no") {
	case "always":
		return true
	case "on-success":
		return result == success
	case "on-failure":
		return result != success
	case "on-abnormal":
		return result != success && result != exitCode
	case "on-abort":
		return result == signaled
	}
	return false
}
