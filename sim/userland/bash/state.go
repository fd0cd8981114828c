package bash

import (
	"slices"
	"strings"
	"time"
)

// State is an open shell as plain data: what survives a freeze of the world. Running commands are not part of it.
type State struct {
	Dir       string
	Status    int
	Args      []string
	Variables map[string]VariableState
	Functions map[string]string // name -> the source text of its definition
	Aliases   map[string]string
	Options   string // the letters of set
	Long      []string
	Shopt     map[string]bool
	History   []string
	DirStack  []string
	Traps     map[string]string
	Complete  map[string]string
	Umask     uint32
	LastJob   int
	// Jobs are the commands that run in the background. They are not part of the state, but their loss is worth a word.
	Jobs []string
	// Clock is what $SECONDS counts from, Seed and LastRandom are where $RANDOM is if it was given a seed.
	Clock        time.Time
	Seed         uint32
	LastRandom   int
	PipeStatus   []int
	LastArgument string // $_
	GetoptsAt    int
}

// VariableState is one variable of a [State].
type VariableState struct {
	Set, Exported, Readonly, Integer, Lower, Upper, Nameref bool
	Kind                                                    uint8
	Str                                                     string
	Keys                                                    []int
	Vals                                                    []string
	Assoc                                                   map[string]string
}

// callStack are the variables that only exist while a function or a sourced file runs.
var callStack = map[string]bool{"FUNCNAME": true, "BASH_LINENO": true, "BASH_SOURCE": true}

// State exports the shell between two commands.
func (sh *Shell) State() State {
	s := State{Dir: sh.dir, Status: sh.status, Args: slices.Clone(sh.place.arguments(sh.args)), Variables: map[string]VariableState{}, Functions: map[string]string{},
		Aliases: clone(sh.aliases), Shopt: clone(sh.shopt), History: append([]string(nil), sh.history...), DirStack: append([]string(nil), sh.dirStack...),
		Traps: clone(sh.traps), Complete: clone(sh.completions), Umask: sh.umask, LastJob: sh.lastBackground,
		Jobs: sh.jobs.running(), Clock: sh.secondsAt.Add(-time.Duration(sh.secondsBase) * time.Second), Seed: sh.seed, LastRandom: sh.lastRandom,
		PipeStatus: slices.Clone(sh.pipestatus), LastArgument: sh.lastArg, GetoptsAt: sh.getoptsAt}
	for n, v := range sh.scopes[0].vars {
		if callStack[n] {
			continue
		}
		c := v.copy()
		s.Variables[n] = VariableState{c.Set, c.Exported, c.Readonly, c.Integer, c.Lower, c.Upper, c.Nameref, uint8(c.Kind), c.Str, c.Keys, c.Vals, c.Assoc}
	}
	for n, f := range sh.funcs {
		s.Functions[n] = f.text
	}
	for c := range optionNames {
		if sh.opt[c] {
			s.Options += string(c)
		}
	}
	for _, n := range longOptions {
		if sh.longOpt[n] {
			s.Long = append(s.Long, n)
		}
	}
	return s
}

// Restore gives a new shell of the same kind the state of an earlier one. It prints nothing.
func (sh *Shell) Restore(s State) {
	g := map[string]*variable{}
	for n, v := range s.Variables {
		x := &variable{v.Set, kind(v.Kind), v.Str, v.Keys, v.Vals, v.Assoc, v.Exported, v.Readonly, v.Integer, v.Lower, v.Upper, v.Nameref}
		g[n] = x.copy()
	}
	if old := sh.scopes[0].vars["PPID"]; old != nil {
		g["PPID"] = old
	}
	sh.scopes = []*scope{{vars: g}}
	sh.dir, sh.status, sh.args = s.Dir, s.Status, append([]string(nil), s.Args...)
	sh.p.Chdir(s.Dir)
	sh.aliases, sh.history, sh.dirStack = clone(s.Aliases), append([]string(nil), s.History...), append([]string(nil), s.DirStack...)
	sh.completions, sh.lastBackground = clone(s.Complete), s.LastJob
	if !s.Clock.IsZero() {
		sh.secondsBase, sh.secondsAt = 0, s.Clock
	}
	sh.seed, sh.lastRandom, sh.pipestatus, sh.lastArg, sh.getoptsAt = s.Seed, s.LastRandom, slices.Clone(s.PipeStatus), s.LastArgument, s.GetoptsAt
	sh.opt, sh.longOpt = map[byte]bool{}, map[string]bool{}
	for i := 0; i < len(s.Options); i++ {
		sh.opt[s.Options[i]] = true
	}
	for _, n := range s.Long {
		sh.longOpt[n] = true
	}
	for n, on := range s.Shopt {
		sh.shopt[n] = on
	}
	sh.funcs = map[string]*function{}
	for _, text := range s.Functions {
		f, err := sh.parser().Parse(strings.NewReader(text), "")
		if err != nil || len(f.Stmts) != 1 {
			continue
		}
		oldSrc := sh.src
		sh.src = &source{text: text}
		sh.compound(f.Stmts[0].Cmd)
		sh.src = oldSrc
	}
	sh.status = s.Status
	if s.Umask != sh.umask {
		sh.setUmask(s.Umask)
	}
	sh.traps = clone(s.Traps)
	for n := range sh.traps {
		if sig, ok := signalByName(n); ok && sig != 0 {
			sh.listen(sig)
		}
	}
}
