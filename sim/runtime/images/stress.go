package images

import (
	"strconv"
	"strings"
	"time"

	"ckadrill/sim/kernel"
)

// stress is the program of polinux/stress: workers that use processors and memory.
func stress(p *kernel.Process) int {
	n := map[string]int64{}
	var timeout time.Duration
	args := p.Argv[1:]
	for len(args) > 0 {
		a := args[0]
		args = args[1:]
		name, v, ok := strings.Cut(a, "=")
		if !ok && len(args) > 0 && !strings.HasPrefix(args[0], "-") {
			v, args = args[0], args[1:]
		}
		switch name {
		case "-c", "--cpu":
			n["cpu"] = size(v)
		case "-m", "--vm":
			n["vm"] = size(v)
		case "--vm-bytes":
			n["bytes"] = size(v)
		case "-i", "--io":
			n["io"] = size(v)
		case "-d", "--hdd":
			n["hdd"] = size(v)
		case "-t", "--timeout":
			s := strings.TrimSuffix(v, "s")
			if d, err := time.ParseDuration(v); err == nil {
				timeout = d
			} else if k, err := strconv.Atoi(s); err == nil {
				timeout = time.Duration(k) * time.Second
			}
		case "--vm-hang", "--vm-stride", "--vm-keep", "--backoff", "-v", "--verbose", "-q", "--quiet":
		default:
			p.Errorf("stress: FAIL: [%d] (244) unrecognized option: %s\n", p.OwnPID(), a)
			return 1
		}
	}
	if n["bytes"] == 0 {
		n["bytes"] = 256 << 20
	}
	if !p.Resumed() {
		p.Printf("stress: info: [%d] dispatching hogs: %d cpu, %d io, %d vm, %d hdd\n", p.OwnPID(), n["cpu"], n["io"], n["vm"], n["hdd"])
	}
	start := p.StartTime()
	var workers []*kernel.Process
	hog := func(bytes int64) {
		s := p.Spec
		s.Parent, s.NamespacePID, s.PID, s.Started = p, 0, 0, time.Time{}
		workers = append(workers, p.Host().Processes.Start(s, func(w *kernel.Process) int {
			w.SetMemory(max(bytes, 1<<20))
			for w.Alive() {
				w.SpendCPU(time.Second)
				if w.Sleep(time.Second) != nil {
					break
				}
			}
			return 0
		}))
	}
	for range min(n["cpu"], 64) {
		hog(0)
	}
	for range min(n["vm"], 64) {
		hog(n["bytes"])
	}
	ended := make(chan *kernel.Process, len(workers))
	for _, w := range workers {
		go func() {
			<-w.Done()
			ended <- w
		}()
	}
	var alarm <-chan time.Time
	if timeout > 0 {
		t := time.NewTimer(time.Until(start.Add(timeout)))
		defer t.Stop()
		alarm = t.C
	}
	stop := make(chan struct{}, 1)
	p.Notify(kernel.SIGTERM, func() {
		select {
		case stop <- struct{}{}:
		default:
		}
	})
	kill := func() {
		for _, w := range workers {
			w.Signal(kernel.SIGKILL)
		}
	}
	select {
	case w := <-ended:
		p.Errorf("stress: FAIL: [%d] (415) <-- worker %d got signal %d\n", p.OwnPID(), w.OwnPID(), int(w.Wait().Signal))
		p.Errorf("stress: WARN: [%d] (417) now reaping child worker processes\n", p.OwnPID())
		kill()
		p.Errorf("stress: FAIL: [%d] (451) failed run completed in %ds\n", p.OwnPID(), int(time.Since(start).Seconds()))
		return 1
	case <-alarm:
		kill()
		p.Printf("stress: info: [%d] successful run completed in %ds\n", p.OwnPID(), int(time.Since(start).Seconds()))
		return 0
	case <-stop:
		kill()
		return 143
	case <-p.Context().Done():
		return 0
	}
}

// size reads a number with a unit of 1024.
func size(s string) int64 {
	if s == "" {
		return 0
	}
	unit := int64(1)
	switch s[len(s)-1] {
	case 'k', 'K':
		unit = 1 << 10
	case 'm', 'M':
		unit = 1 << 20
	case 'g', 'G':
		unit = 1 << 30
	}
	n, _ := strconv.ParseInt(strings.TrimRight(s, "bBkKmMgG"), 10, 64)
	return n * unit
}

// vishStress is the program of vish/stress: it grows to -mem-total and keeps -cpus busy.
func vishStress(p *kernel.Process) int {
	var cpus, total, step int64
	pause := time.Second
	args := p.Argv[1:]
	for len(args) > 1 {
		v := args[1]
		switch strings.TrimLeft(args[0], "-") {
		case "cpus":
			cpus = size(v)
		case "mem-total":
			total = quantity(v)
		case "mem-alloc-size":
			step = quantity(v)
		case "mem-alloc-sleep":
			if d, err := time.ParseDuration(v); err == nil {
				pause = d
			}
		}
		args = args[2:]
	}
	if step <= 0 {
		step = 4 << 10
	}
	step = max(step, total/1000+1)
	if !p.Resumed() {
		p.Errorf("I%s       1 main.go:26] Allocating \"%d\" memory, in \"%d\" chunks, with a %v sleep between allocations\n", time.Now().UTC().Format("0102 15:04:05.000000"), total, step, pause)
	}
	var held int64
	if p.Resumed() {
		held = total
		p.SetMemory(held)
	}
	for p.Alive() {
		if held < total {
			held = min(total, held+step)
			p.SetMemory(held)
		}
		wait := time.Second
		if held < total {
			wait = max(pause, time.Millisecond)
		}
		p.SpendCPU(time.Duration(cpus) * wait)
		if p.Sleep(wait) != nil {
			break
		}
	}
	return 0
}

// quantity reads a Kubernetes quantity of bytes.
func quantity(s string) int64 {
	for suffix, unit := range map[string]int64{"Ki": 1 << 10, "Mi": 1 << 20, "Gi": 1 << 30} {
		if n, ok := strings.CutSuffix(s, suffix); ok {
			return size(n) * unit
		}
	}
	return size(s)
}
