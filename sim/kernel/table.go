package kernel

import (
	"context"
	"path"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"
)

// Program is what a process runs: the whole life of a command or daemon. Its return value is the exit code. It must end
// soon after the process's context is done.
type Program func(p *Process) int

// Table is a machine's table of processes.
type Table struct {
	host *Host
	mu   sync.Mutex
	next int
	all  map[int]*Process
}

// startCPU is what the start of a process in a container costs.
const startCPU = time.Millisecond

// Start runs a program as a new process and returns at once.
func (t *Table) Start(s Spec, main Program) *Process {
	p := &Process{Spec: s, host: t.host, done: make(chan struct{}), handlers: map[Signal]func(){}, values: map[any]any{}, dir: s.Dir, cpu: NewCPUMeter(t.host.World, 0)}
	if p.dir == "" {
		p.dir = "/"
	}
	if len(s.Argv) > 0 {
		p.name = path.Base(s.Argv[0])
	}
	seen := map[string]int{}
	for _, kv := range s.Env {
		k, _, _ := strings.Cut(kv, "=")
		if i, ok := seen[k]; ok {
			p.env[i] = kv
			continue
		}
		seen[k] = len(p.env)
		p.env = append(p.env, kv)
	}
	if s.Stdin == nil {
		p.Stdin = nothing{}
	}
	p.Stdout, p.Stderr, p.Log = s.streams(p)
	if s.Started.IsZero() {
		p.Started = time.Now()
	} else {
		p.resumed = true
		p.turn = time.Now().Add(time.Duration(t.host.World.resumed.Add(1)) * turnStep)
	}
	p.startLag()
	t.mu.Lock()
	if s.PID != 0 {
		p.pid = s.PID
		t.next = max(t.next, s.PID+1)
	} else {
		p.pid = t.next
		t.next++
	}
	t.all[p.pid] = p
	p.joinNamespaces()
	t.mu.Unlock()
	p.ctx, p.cancel = context.WithCancelCause(context.Background())
	p.labelName = p.name + "[" + strconv.Itoa(p.pid) + "]@" + t.host.Name()
	p.label = newLabel(p, p.labelName)
	t.host.World.processes.add(p)
	if p.Cgroup != nil && !p.resumed {
		p.SpendCPU(startCPU)
	}
	go p.labelled(func() { p.end(Status{Code: main(p)}) })
	return p
}

// SetNext sets the least number that the next process may get, at boot and at a thaw.
func (t *Table) SetNext(pid int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.next = max(t.next, pid)
}

// Restart begins the numbers anew, as a kernel does that boots: the next process gets pid.
func (t *Table) Restart(pid int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.next = pid
}

// Next is the number that the next process will get.
func (t *Table) Next() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.next
}

// Find returns a running process, or nil.
func (t *Table) Find(pid int) *Process {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.all[pid]
}

// List returns the running processes in order of their numbers.
func (t *Table) List() []*Process {
	t.mu.Lock()
	defer t.mu.Unlock()
	l := make([]*Process, 0, len(t.all))
	for _, p := range t.all {
		l = append(l, p)
	}
	sort.Slice(l, func(i, j int) bool { return l[i].pid < l[j].pid })
	return l
}

func (t *Table) remove(p *Process) {
	t.mu.Lock()
	delete(t.all, p.pid)
	t.mu.Unlock()
	t.host.World.processes.remove(p)
}
