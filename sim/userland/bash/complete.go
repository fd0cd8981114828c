package bash

import (
	"fmt"
	"path"
	"sort"
	"strings"
	"sync"

	"ckadrill/sim/kernel"
)

// CompleterFunc proposes the words that may stand where words[cword] is being typed. It runs in the shell's process.
type CompleterFunc func(p *kernel.Process, words []string, cword int) []string

var (
	completersMu sync.Mutex
	completers   = map[string]CompleterFunc{}
)

// RegisterCompleter makes a completer known under a name: that of the shell function which "complete -F name command" would
// call ("__start_kubectl"). It is called while a world is built.
func RegisterCompleter(name string, f CompleterFunc) {
	completersMu.Lock()
	defer completersMu.Unlock()
	completers[name] = f
}

func completer(name string) CompleterFunc {
	completersMu.Lock()
	defer completersMu.Unlock()
	return completers[name]
}

func builtinComplete(sh *Shell, args []string) int {
	function, words, print, remove := "", "", len(args) == 0, false
	var names []string
	for i := 0; i < len(args); i++ {
		switch a := args[i]; {
		case (a == "-F" || a == "-W" || a == "-o" || a == "-A" || a == "-C" || a == "-G" || a == "-P" || a == "-S" || a == "-X") && i+1 < len(args):
			i++
			switch a {
			case "-F":
				function = args[i]
			case "-W":
				words = args[i]
			}
		case a == "-p":
			print = true
		case a == "-r":
			remove = true
		case strings.HasPrefix(a, "-"):
		default:
			names = append(names, a)
		}
	}
	if print {
		status := 0
		if len(names) == 0 {
			names = sortedKeys(sh.completions)
		}
		for _, n := range names {
			f, ok := sh.completions[n]
			if !ok {
				sh.complain("complete: %s: no completion specification", n)
				status = 1
				continue
			}
			if w, ok := strings.CutPrefix(f, "-W "); ok {
				fmt.Fprintf(sh.stdout(), "complete -W %s %s\n", singleQuoteRaw(w), n)
			} else {
				fmt.Fprintf(sh.stdout(), "complete -o default -F %s %s\n", f, n)
			}
		}
		return status
	}
	for _, n := range names {
		switch {
		case remove:
			delete(sh.completions, n)
		case len(sh.completions) > 1000:
		case function != "":
			sh.completions[n] = function
		case words != "":
			sh.completions[n] = "-W " + words
		}
	}
	if remove && len(names) == 0 {
		clear(sh.completions)
	}
	return 0
}

func builtinCompgen(sh *Shell, args []string) int {
	var list []string
	prefix := ""
	for i := 0; i < len(args); i++ {
		switch a := args[i]; a {
		case "-W":
			if i++; i < len(args) {
				list = append(list, strings.Fields(args[i])...)
			}
		case "-c":
			list = append(list, sh.commandNames()...)
		case "-b":
			list = append(list, sh.builtinNames()...)
		case "-v":
			list = append(list, sh.names(func(v *variable) bool { return v.Set })...)
		case "-f", "-d":
			if i+1 < len(args) {
				for _, c := range sh.fileCompletions(args[len(args)-1], a == "-d") {
					list = append(list, strings.TrimSuffix(strings.TrimSuffix(c, " "), "/"))
				}
			}
		case "-A", "-F", "-o", "-P", "-S":
			i++
		case "--":
		default:
			if !strings.HasPrefix(a, "-") {
				prefix = a
			}
		}
	}
	status := 1
	for _, w := range list {
		if strings.HasPrefix(w, prefix) {
			fmt.Fprintln(sh.stdout(), w)
			status = 0
		}
	}
	return status
}

// Complete proposes how a line goes on at the cursor: commands, variables, files, or what a completer of the command knows.
func (sh *Shell) Complete(line string, cursor int) []kernel.Completion {
	if cursor > len(line) {
		cursor = len(line)
	}
	words, current := completionWords(line[:cursor])
	first := len(words) == 1
	var found []string
	switch {
	case strings.HasPrefix(current, "$") && !strings.ContainsAny(current, "/("):
		brace := strings.HasPrefix(current, "${")
		for _, n := range sh.names(func(v *variable) bool { return v.Set }) {
			if brace {
				found = append(found, "${"+n+"}")
			} else {
				found = append(found, "$"+n)
			}
		}
		found = withPrefix(found, current)
	case first && !strings.Contains(current, "/"):
		found = withPrefix(sh.commandNames(), current)
		if len(found) == 0 {
			found = sh.fileCompletions(current, true)
		}
	case first:
		found = sh.fileCompletions(current, false)
	default:
		found = sh.commandCompletions(words, current)
	}
	sort.Strings(found)
	var out []kernel.Completion
	last := ""
	for _, f := range found {
		if f == last {
			continue
		}
		last = f
		text := f
		display := strings.TrimSuffix(f, " ")
		if strings.Contains(display, "/") {
			display = path.Base(display)
			if strings.HasSuffix(f, "/") {
				display += "/"
			}
		}
		if !strings.HasSuffix(f, "/") && !strings.HasSuffix(f, " ") && !strings.HasSuffix(f, "=") {
			text += " "
		}
		out = append(out, kernel.Completion{Text: text, Replace: len(current), Display: display})
	}
	return out
}

func withPrefix(l []string, prefix string) []string {
	var out []string
	for _, s := range l {
		if strings.HasPrefix(s, prefix) {
			out = append(out, s)
		}
	}
	return out
}

func (sh *Shell) commandCompletions(words []string, current string) []string {
	name := words[0]
	for range 10 { // an alias completes as its command only where complete says so; bash does not look through it
		break
	}
	spec, ok := sh.completions[name]
	if !ok {
		if completer("__start_"+path.Base(name)) != nil && sh.completions[path.Base(name)] != "" {
			spec, ok = sh.completions[path.Base(name)], true
		}
	}
	if ok {
		if w, isList := strings.CutPrefix(spec, "-W "); isList {
			return withPrefix(strings.Fields(w), current)
		}
		if f := completer(spec); f != nil {
			if l := f(sh.p, words, len(words)-1); len(l) > 0 {
				return l
			}
		}
	}
	return sh.fileCompletions(current, name == "cd" || name == "pushd" || name == "rmdir")
}

// completionWords splits what stands before the cursor into the words of the command being typed; the last one, maybe
// empty, is current.
func completionWords(s string) (words []string, current string) {
	var cur strings.Builder
	quote := byte(0)
	inWord := false
	end := func() {
		if inWord {
			words = append(words, cur.String())
		}
		cur.Reset()
		inWord = false
	}
	for i := 0; i < len(s); i++ {
		c := s[i]
		switch {
		case quote != 0:
			if c == quote {
				quote = 0
			} else {
				cur.WriteByte(c)
			}
		case c == '\'' || c == '"':
			quote, inWord = c, true
		case c == '\\' && i+1 < len(s):
			i++
			cur.WriteByte(s[i])
			inWord = true
		case c == ' ' || c == '\t':
			end()
		case c == ';' || c == '|' || c == '&' || c == '\n' || c == '(' && !strings.HasSuffix(cur.String(), "$"):
			end()
			words = nil
		case c == '(' || c == '`':
			words, inWord = nil, false
			cur.Reset()
		case c == '>' || c == '<':
			end()
		default:
			cur.WriteByte(c)
			inWord = true
		}
	}
	current = cur.String()
	// assignments and the like before the command are not its words
	for len(words) > 0 {
		w := words[0]
		name, _, isAssign := strings.Cut(w, "=")
		if isAssign && validName(name) || w == "sudo" || w == "then" || w == "do" || w == "else" || w == "!" || w == "time" || w == "watch" || w == "{" {
			words = words[1:]
			continue
		}
		break
	}
	return append(words, current), current
}

// commandNames are all names that can begin a command.
func (sh *Shell) commandNames() []string {
	seen := map[string]bool{}
	for n := range sh.aliases {
		seen[n] = true
	}
	for n := range sh.funcs {
		seen[n] = true
	}
	for _, n := range sh.builtinNames() {
		seen[n] = true
	}
	for n := range keywords {
		seen[n] = true
	}
	for _, d := range strings.Split(sh.getStr("PATH"), ":") {
		entries, err := sh.files.ReadDir(sh.abs(d))
		if err != nil {
			continue
		}
		for _, e := range entries {
			if i, err := sh.files.Stat(path.Join(sh.abs(d), e.Name())); err == nil && !i.IsDir() && i.Mode()&0o111 != 0 {
				seen[e.Name()] = true
			}
		}
	}
	return sortedKeys(seen)
}

// fileCompletions lists files whose name begins with what was typed; directories end in a slash.
func (sh *Shell) fileCompletions(current string, onlyDirs bool) []string {
	dir, base := path.Split(current)
	look := dir
	if strings.HasPrefix(look, "~") {
		look = sh.tilde(look)
	}
	if look == "" {
		look = "."
	}
	entries, err := sh.files.ReadDir(sh.abs(look))
	if err != nil {
		return nil
	}
	var out []string
	for _, e := range entries {
		n := e.Name()
		if !strings.HasPrefix(n, base) || strings.HasPrefix(n, ".") && !strings.HasPrefix(base, ".") {
			continue
		}
		isDir := e.IsDir()
		if !isDir {
			if i, err := sh.files.Stat(path.Join(sh.abs(look), n)); err == nil {
				isDir = i.IsDir()
			}
		}
		switch {
		case isDir:
			out = append(out, dir+backslashQuote(n)+"/")
		case !onlyDirs:
			out = append(out, dir+backslashQuote(n))
		}
	}
	return out
}
