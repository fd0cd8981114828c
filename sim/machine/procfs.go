package machine

import (
	"fmt"
	"strconv"
	"strings"

	"ckadrill/sim/kernel"
	"ckadrill/sim/machine/filesystem"
)

// procfs makes the directories of processes below /proc.
type procfs struct{ m *Machine }

// Files of a process's directory; the number of an inode is made of the pid and the file's place here.
const (
	procDir = iota
	procCmdline
	procComm
	procStatus
	procStat
	procEnviron
	procExe
	procCwd
	procRoot
	procMountsFile
	procKinds
)

var procNames = map[string]int{"cmdline": procCmdline, "comm": procComm, "status": procStatus, "stat": procStat, "environ": procEnviron, "exe": procExe, "cwd": procCwd, "root": procRoot, "mounts": procMountsFile}

// procSelf is the inode of /proc/self; no process has the number 0.
const procSelf = filesystem.FirstGenerated

func procInode(pid, kind int) uint64 {
	return filesystem.FirstGenerated + uint64(pid)*procKinds + uint64(kind)
}

// Root implements [filesystem.Generator].
func (f procfs) Root() map[string]uint64 {
	l := map[string]uint64{}
	for _, p := range f.m.host.Processes.List() {
		l[strconv.Itoa(p.ID())] = procInode(p.ID(), procDir)
	}
	if p := kernel.Current(); p != nil && p.Host() == f.m.host {
		l["self"] = procSelf
	}
	return l
}

// File implements [filesystem.Generator].
func (f procfs) File(id uint64) (filesystem.Generated, bool) {
	if id == procSelf {
		p := kernel.Current()
		if p == nil {
			return filesystem.Generated{}, false
		}
		return filesystem.Generated{Mode: 0o777, Target: strconv.Itoa(p.ID()), Time: f.m.BootedAt()}, true
	}
	n := id - filesystem.FirstGenerated
	p := f.m.host.Processes.Find(int(n / procKinds))
	if p == nil {
		return filesystem.Generated{}, false
	}
	g := filesystem.Generated{Mode: 0o444, UID: p.Cred.UID, GID: p.Cred.GID, Time: p.StartTime()}
	content := func(s string) { g.Content = func() []byte { return []byte(s) } }
	argv := p.CommandLine()
	switch n % procKinds {
	case procDir:
		g.Mode, g.Entries = 0o555, map[string]uint64{}
		for name, kind := range procNames {
			g.Entries[name] = procInode(p.ID(), kind)
		}
	case procCmdline:
		content(strings.Join(argv, "\x00") + "\x00")
	case procComm:
		content(p.Comm() + "\n")
	case procEnviron:
		g.Mode = 0o400
		content(strings.Join(p.Environ(), "\x00") + "\x00")
	case procStatus:
		content(procStatusText(p))
	case procStat:
		content(fmt.Sprintf("%d (%s) S %d %d %d 0 -1 4194560 0 0 0 0 %d 0 0 0 20 0 1 0 %d 0 %d\n", p.ID(), p.Comm(), parentID(p), p.ID(), p.ID(),
			p.CPU().Milliseconds()/10, p.StartTime().Sub(f.m.BootedAt()).Milliseconds()/10, p.Memory()>>12))
	case procExe:
		g.Mode, g.Target = 0o777, executableOf(argv)
	case procCwd:
		g.Mode, g.Target = 0o777, p.Dir()
	case procRoot:
		g.Mode, g.Target = 0o777, "/"
	case procMountsFile:
		g.Content = func() []byte { return []byte(f.m.procMounts()) }
	}
	return g, true
}

// executableOf is where the program of a command line most likely lies; the kernel would know.
func executableOf(argv []string) string {
	if len(argv) == 0 {
		return "/"
	}
	name := strings.TrimPrefix(argv[0], "-")
	if strings.HasPrefix(name, "/") {
		return name
	}
	return "/usr/bin/" + name
}

func parentID(p *kernel.Process) int {
	switch {
	case p.ID() == 1:
		return 0
	case p.Parent != nil && p.Parent.Alive():
		return p.Parent.ID()
	}
	return 1
}

func procStatusText(p *kernel.Process) string {
	c := p.Cred
	groups := ""
	for _, g := range c.Groups {
		groups += strconv.Itoa(g) + " "
	}
	return fmt.Sprintf("Name:\t%s\nUmask:\t0022\nState:\tS (sleeping)\nTgid:\t%d\nNgid:\t0\nPid:\t%d\nPPid:\t%d\nTracerPid:\t0\nUid:\t%d\t%d\t%d\t%d\nGid:\t%d\t%d\t%d\t%d\nGroups:\t%s\nVmRSS:\t%8d kB\nThreads:\t1\n",
		p.Comm(), p.ID(), p.ID(), parentID(p), c.UID, c.UID, c.UID, c.UID, c.GID, c.GID, c.GID, c.GID, groups, p.Memory()>>10)
}
