package bash

import (
	"fmt"
	"sort"
	"strconv"
	"strings"

	"ckadrill/sim/kernel"
)

// job is a command in the background.
type job struct {
	number int
	pid    int // as the shell sees it
	p      *kernel.Process
	text   string
	told   bool // its end has been reported
}

func (j *job) running() bool {
	select {
	case <-j.p.Done():
		return false
	default:
		return true
	}
}

func (j *job) state() string {
	if j.running() {
		return "Running"
	}
	switch st := j.p.Wait(); {
	case st.Signal != 0:
		return signalText(st.Signal)
	case st.Code != 0:
		return "Exit " + strconv.Itoa(st.Code)
	}
	return "Done"
}

// jobTable holds a shell's jobs in order of their numbers.
type jobTable struct {
	all []*job
	// statuses remembers how the latest commands in the background ended, for a wait that comes late.
	statuses map[int]int
}

// Jobs are a shell's commands in the background.
type Jobs struct{ table *jobTable }

func newJobTable() *jobTable { return &jobTable{statuses: map[int]int{}} }

const maxStatuses = 1000

func (t *jobTable) add(p *kernel.Process, text string, pid int) *job {
	n := 1
	for _, j := range t.all {
		if j.running() || !j.told {
			n = max(n, j.number+1)
		}
	}
	if len(t.all) > maxStatuses {
		t.forgetDone()
	}
	j := &job{number: n, pid: pid, p: p, text: text}
	t.all = append(t.all, j)
	return j
}

func (t *jobTable) forgetDone() {
	var left []*job
	for _, j := range t.all {
		if j.running() {
			left = append(left, j)
		} else if len(t.statuses) < maxStatuses {
			t.statuses[j.pid] = j.p.Wait().ExitCode()
		}
	}
	t.all = left
}

func (t *jobTable) byPID(pid int) *job {
	for _, j := range t.all {
		if j.pid == pid {
			return j
		}
	}
	return nil
}

// running are the commands that still run, as they were typed.
func (t *jobTable) running() []string {
	var l []string
	for _, j := range t.all {
		if j.running() {
			l = append(l, j.text)
		}
	}
	return l
}

// current returns the jobs that %+ and %- mean: the latest that still run, or the latest.
func (t *jobTable) current() (plus, minus *job) {
	l := append([]*job(nil), t.all...)
	sort.SliceStable(l, func(i, k int) bool { return !l[i].running() && l[k].running() })
	if len(l) > 0 {
		plus = l[len(l)-1]
	}
	if len(l) > 1 {
		minus = l[len(l)-2]
	}
	return plus, minus
}

// find resolves a job specification: %1, %+, %%, %-, %name, %?text.
func (t *jobTable) find(spec string) *job {
	plus, minus := t.current()
	s := strings.TrimPrefix(spec, "%")
	switch s {
	case "", "+", "%":
		return plus
	case "-":
		return minus
	}
	if n, err := strconv.Atoi(s); err == nil {
		for _, j := range t.all {
			if j.number == n && (j.running() || !j.told) {
				return j
			}
		}
		return nil
	}
	for i := len(t.all) - 1; i >= 0; i-- {
		if j := t.all[i]; strings.HasPrefix(j.text, s) || strings.HasPrefix(s, "?") && strings.Contains(j.text, s[1:]) {
			return j
		}
	}
	return nil
}

// line is a job as the jobs builtin prints it.
func (t *jobTable) line(j *job, long bool) string {
	mark := " "
	switch plus, minus := t.current(); j {
	case plus:
		mark = "+"
	case minus:
		mark = "-"
	}
	state, text := j.state(), j.text
	if state == "Running" {
		text += " &"
	}
	if long {
		return fmt.Sprintf("[%d]%s %5d %-24s%s", j.number, mark, j.pid, state, text)
	}
	return fmt.Sprintf("[%d]%s  %-24s%s", j.number, mark, state, text)
}

// report prints the jobs that have ended since the last prompt.
func (sh *Shell) reportJobs() {
	for _, j := range sh.jobs.all {
		if !j.running() && !j.told {
			fmt.Fprintln(sh.stderr(), sh.jobs.line(j, false))
			j.told = true
		}
	}
	sh.jobs.forgetDone()
}

func builtinJobs(sh *Shell, args []string) int {
	long, pids := false, false
	for _, a := range args {
		switch a {
		case "-l":
			long = true
		case "-p":
			pids = true
		}
	}
	for _, j := range sh.jobs.all {
		switch {
		case j.told:
		case pids:
			fmt.Fprintln(sh.stdout(), j.pid)
		default:
			fmt.Fprintln(sh.stdout(), sh.jobs.line(j, long))
		}
		if !j.running() {
			j.told = true
		}
	}
	sh.jobs.forgetDone()
	return 0
}

func builtinFg(sh *Shell, args []string) int {
	if !sh.opt['m'] {
		sh.complain("fg: no job control")
		return 1
	}
	spec := "%+"
	if len(args) > 0 {
		spec = args[0]
	}
	j := sh.jobs.find(spec)
	if j == nil {
		sh.noJob("fg", spec)
		return 1
	}
	fmt.Fprintln(sh.stdout(), j.text)
	j.told = true
	sh.signals.foreground(j.p)
	status := sh.await(j.p)
	sh.jobs.forgetDone()
	return status
}

func builtinBg(sh *Shell, args []string) int {
	if !sh.opt['m'] {
		sh.complain("bg: no job control")
		return 1
	}
	spec := "%+"
	if len(args) > 0 {
		spec = args[0]
	}
	j := sh.jobs.find(spec)
	if j == nil {
		sh.noJob("bg", spec)
		return 1
	}
	sh.complain("bg: job %d already in background", j.number)
	return 0
}

func (sh *Shell) noJob(what, spec string) {
	if spec == "%+" {
		spec = "current"
	}
	sh.complain("%s: %s: no such job", what, spec)
}

func builtinDisown(sh *Shell, args []string) int {
	if len(args) == 0 {
		args = []string{"%+"}
	}
	status := 0
	for _, a := range args {
		if a == "-a" || a == "-r" {
			sh.jobs.all = nil
			continue
		}
		if a == "-h" {
			continue
		}
		j := sh.jobs.find(a)
		if pid, err := strconv.Atoi(a); err == nil {
			j = sh.jobs.byPID(pid)
		}
		if j == nil {
			sh.noJob("disown", a)
			status = 1
			continue
		}
		j.told = true
		for i := range sh.jobs.all {
			if sh.jobs.all[i] == j {
				sh.jobs.all = append(sh.jobs.all[:i], sh.jobs.all[i+1:]...)
				break
			}
		}
	}
	return status
}

// builtinWait waits for commands in the background; a trapped signal ends it early.
func builtinWait(sh *Shell, args []string) int {
	any, into := false, ""
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		switch args[0] {
		case "-n":
			any = true
		case "-f":
		case "-p":
			if len(args) > 1 {
				into = args[1]
				args = args[1:]
			}
		case "--":
		default:
			sh.complain("wait: %s: invalid option", args[0])
			fmt.Fprintln(sh.stderr(), "wait: usage: wait [-fn] [-p var] [id ...]")
			return 2
		}
		args = args[1:]
	}
	if len(args) == 0 {
		if any {
			return sh.waitAny(sh.jobs.all, into)
		}
		for _, j := range append([]*job(nil), sh.jobs.all...) {
			if status, ok := sh.waitFor(j); !ok {
				return status
			}
		}
		sh.jobs.forgetDone()
		return 0
	}
	var listed []*job
	status := 0
	for _, a := range args {
		var j *job
		if strings.HasPrefix(a, "%") {
			if j = sh.jobs.find(a); j == nil {
				sh.noJob("wait", a)
				status = 127
				continue
			}
		} else {
			pid, err := strconv.Atoi(a)
			if err != nil {
				sh.complain("wait: `%s': not a pid or valid job spec", a)
				status = 1
				continue
			}
			if j = sh.jobs.byPID(pid); j == nil {
				if st, ok := sh.jobs.statuses[pid]; ok {
					status = st
					continue
				}
				sh.complain("wait: pid %d is not a child of this shell", pid)
				status = 127
				continue
			}
		}
		if any {
			listed = append(listed, j)
			continue
		}
		st, ok := sh.waitFor(j)
		if !ok {
			return st
		}
		status = st
		if into != "" {
			sh.set(into, strconv.Itoa(j.pid))
		}
	}
	if any {
		return sh.waitAny(listed, into)
	}
	return status
}

func (sh *Shell) waitFor(j *job) (int, bool) {
	for {
		select {
		case <-j.p.Done():
			j.told = true
			return j.p.Wait().ExitCode(), true
		case <-sh.p.Done():
			sh.flow = flowExit
			return 0, false
		case <-sh.signals.arrived():
			if n := sh.signals.first(); n != 0 {
				sh.handleSignals()
				return 128 + int(n), false
			}
			if sh.checkInterrupt() {
				return 130, false
			}
		}
	}
}

func (sh *Shell) waitAny(l []*job, into string) int {
	if len(l) == 0 {
		return 127
	}
	ended := make(chan *job, len(l))
	stop := make(chan struct{})
	defer close(stop)
	for _, j := range l {
		if j.told && !j.running() {
			continue
		}
		go func() {
			select {
			case <-j.p.Done():
				ended <- j
			case <-stop:
			case <-sh.p.Done():
			}
		}()
	}
	select {
	case j := <-ended:
		j.told = true
		if into != "" {
			sh.set(into, strconv.Itoa(j.pid))
		}
		for i := range sh.jobs.all {
			if sh.jobs.all[i] == j {
				sh.jobs.all = append(sh.jobs.all[:i:i], sh.jobs.all[i+1:]...)
				break
			}
		}
		sh.jobs.statuses[j.pid] = j.p.Wait().ExitCode()
		return j.p.Wait().ExitCode()
	case <-sh.p.Done():
		sh.flow = flowExit
	case <-sh.signals.arrived():
		sh.handleSignals()
		if sh.checkInterrupt() {
			return 130
		}
		return 129
	}
	return 0
}
