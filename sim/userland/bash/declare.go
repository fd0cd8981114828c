package bash

import (
	"fmt"
	"io/fs"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

func modeOf(m uint32) fs.FileMode { return fs.FileMode(m) }

// declaration is one argument of declare and its like.
type declaration struct {
	name     string
	hasValue bool
	value    string
	appendTo bool
	sub      string
	element  bool
	array    *syntax.ArrayExpr
}

// declClause is declare, local, export, readonly and typeset as the parser knows them, arrays included.
func (sh *Shell) declClause(d *syntax.DeclClause) {
	var opts []string
	var decls []declaration
	files := len(sh.substFiles)
	defer sh.closeSubst(files)
	sh.substStatus = -1
	for _, a := range d.Args {
		if a.Name == nil || a.Naked && a.Index == nil && a.Name == nil {
			fields, err := sh.fields([]*syntax.Word{a.Value})
			if err != nil {
				sh.report(err)
				return
			}
			for _, f := range fields {
				if len(f) > 1 && (f[0] == '-' || f[0] == '+') && len(decls) == 0 {
					opts = append(opts, f)
				} else {
					decls = append(decls, parseDeclaration(f))
				}
			}
			continue
		}
		c := declaration{name: a.Name.Value, hasValue: !a.Naked, appendTo: a.Append, array: a.Array}
		if a.Index != nil {
			sub, err := sh.subscript(sh.get(c.name), a.Index)
			if err != nil {
				sh.report(err)
				return
			}
			c.sub, c.element = sub, true
		}
		if c.hasValue && c.array == nil {
			value, err := sh.assignment(a.Value)
			if err != nil {
				sh.report(err)
				return
			}
			c.value = value
		}
		decls = append(decls, c)
	}
	if sh.opt['x'] {
		words := append([]string{d.Variant.Value}, opts...)
		for _, c := range decls {
			switch {
			case c.array != nil:
				words = append(words, c.name+"="+sh.textOf(c.array))
			case c.hasValue:
				words = append(words, c.name+"="+traceQuote(c.value))
			default:
				words = append(words, c.name)
			}
		}
		sh.trace(strings.Join(words, " "))
	}
	sh.status = sh.declare(d.Variant.Value, opts, decls)
}

func parseDeclaration(s string) declaration {
	d := declaration{name: s}
	if i := strings.IndexByte(s, '='); i > 0 {
		d.name, d.value, d.hasValue = s[:i], s[i+1:], true
		if strings.HasSuffix(d.name, "+") {
			d.name, d.appendTo = d.name[:len(d.name)-1], true
		}
	}
	if base, sub, ok := splitSubscript(d.name); ok {
		d.name, d.sub, d.element = base, sub, true
	}
	return d
}

func declareArgs(args []string) (opts []string, decls []declaration) {
	for i, a := range args {
		if a == "--" {
			args = args[i+1:]
			break
		}
		if len(a) < 2 || a[0] != '-' && a[0] != '+' {
			args = args[i:]
			break
		}
		opts = append(opts, a)
		if i == len(args)-1 {
			return opts, nil
		}
	}
	for _, a := range args {
		decls = append(decls, parseDeclaration(a))
	}
	return opts, decls
}

func builtinDeclare(sh *Shell, args []string) int {
	o, d := declareArgs(args)
	return sh.declare("declare", o, d)
}

func builtinLocal(sh *Shell, args []string) int {
	o, d := declareArgs(args)
	return sh.declare("local", o, d)
}

func builtinExport(sh *Shell, args []string) int {
	o, d := declareArgs(args)
	return sh.declare("export", o, d)
}

func builtinReadonly(sh *Shell, args []string) int {
	o, d := declareArgs(args)
	return sh.declare("readonly", o, d)
}

var declareUsage = map[string]string{
	"declare":  "declare: usage: declare [-aAfFgiIlnrtux] [name[=value] ...] or declare -p [-aAfFilnrtux] [name ...]",
	"typeset":  "typeset: usage: typeset [-aAfFgiIlnrtux] name[=value] ... or typeset -p [-aAfFilnrtux] [name ...]",
	"local":    "local: usage: local [option] name[=value] ...",
	"export":   "export: usage: export [-fn] [name[=value] ...] or export -p",
	"readonly": "readonly: usage: readonly [-aAf] [name[=value] ...] or readonly -p",
}

func (sh *Shell) declare(what string, opts []string, decls []declaration) int {
	on, off := map[byte]bool{}, map[byte]bool{}
	allowed := "aAfFgiIlnprtux"
	switch what {
	case "export":
		allowed = "fnp"
	case "readonly":
		allowed = "aAfp"
	}
	for _, o := range opts {
		if o == "--" {
			continue
		}
		for i := 1; i < len(o); i++ {
			if strings.IndexByte(allowed, o[i]) < 0 {
				sh.complain("%s: %c%c: invalid option", what, o[0], o[i])
				fmt.Fprintln(sh.stderr(), declareUsage[what])
				return 2
			}
			if o[0] == '-' {
				on[o[i]] = true
			} else {
				off[o[i]] = true
			}
		}
	}
	if what == "local" && sh.function == "" {
		sh.complain("local: can only be used in a function")
		if sh.style == dashStyle {
			sh.flow = flowExit
			return 2
		}
		return 1
	}
	if on['f'] || on['F'] {
		return sh.declareFunctions(what, on, decls)
	}
	if len(decls) == 0 || on['p'] {
		return sh.printDeclarations(what, on, decls)
	}
	status := 0
	for _, d := range decls {
		if !validName(d.name) {
			text := d.name
			if d.hasValue {
				text += "=" + d.value
			}
			switch sh.style {
			case dashStyle:
				sh.complain("%s: %s: bad variable name", what, d.name)
				sh.flow = flowExit
				return 2
			default:
				sh.complain("%s: `%s': not a valid identifier", what, text)
			}
			status = 1
			continue
		}
		if err := sh.declareOne(what, on, off, d); err != nil {
			if ae, ok := err.(assignError); ok {
				if what == "export" && d.hasValue || what == "readonly" && d.hasValue {
					sh.complain("%s", ae.text)
				} else {
					sh.complain("%s: %s", what, ae.text)
				}
				status = 1
				continue
			}
			sh.report(err)
			return 1
		}
	}
	return status
}

func (sh *Shell) declareOne(what string, on, off map[byte]bool, d declaration) error {
	name := d.name
	local := what == "local" || (what == "declare" || what == "typeset") && sh.function != "" && !on['g']
	var v *variable
	switch {
	case local:
		s := sh.functionScope()
		if v = s.vars[name]; v == nil {
			if outer := sh.lookup(name); outer != nil && outer.Readonly {
				return assignError{name + ": readonly variable"}
			} else if outer != nil && sh.isTemp(name) {
				v = outer.copy() // an assignment before the function's call is its local
			} else {
				v = &variable{}
				if sh.style != bashStyle && outer != nil { // dash's locals begin with the outer value
					v = outer.copy()
				}
			}
			s.vars[name] = v
		}
	case on['g']:
		if v = sh.scopes[0].vars[name]; v == nil {
			v = &variable{}
			sh.scopes[0].vars[name] = v
		}
	case on['n'] && what != "export":
		v = sh.home(name)
	default:
		if !d.hasValue && what == "export" && on['n'] {
			if v = sh.get(name); v != nil {
				v.Exported = false
			}
			return nil
		}
		v = sh.home(sh.deref(name))
	}
	if (off['r'] || on['i'] || on['a'] || on['A']) && v.Readonly && off['r'] {
		return assignError{name + ": readonly variable"}
	}
	switch {
	case on['A'] && v.Kind == scalar && !v.Set:
		v.Kind = assoc
	case on['A'] && v.Kind == indexed:
		return assignError{name + ": cannot convert indexed to associative array"}
	case on['A'] && v.Kind == scalar:
		v.Kind, v.Assoc, v.Str = assoc, map[string]string{"0": v.Str}, ""
	case on['a'] && v.Kind == scalar:
		v.becomeIndexed()
	case on['a'] && v.Kind == assoc:
		return assignError{name + ": cannot convert associative to indexed array"}
	}
	if on['i'] {
		v.Integer = true
	}
	if off['i'] {
		v.Integer = false
	}
	if on['l'] {
		v.Lower, v.Upper = true, false
	}
	if on['u'] {
		v.Upper, v.Lower = true, false
	}
	if off['l'] {
		v.Lower = false
	}
	if off['u'] {
		v.Upper = false
	}
	if on['n'] && what != "export" {
		v.Nameref = true
		if d.hasValue {
			v.Str, v.Set = d.value, true
		}
		return nil
	}
	if off['n'] {
		v.Nameref = false
	}
	if d.hasValue {
		var err error
		switch {
		case d.array != nil:
			err = sh.inScope(name, v, func() error { return sh.assignArray(name, d.array, d.appendTo) })
		case d.element:
			err = sh.setElement(name, d.sub, d.value, d.appendTo)
		case v.Kind != scalar && strings.HasPrefix(d.value, "(") && strings.HasSuffix(d.value, ")"):
			err = sh.assignArrayText(name, d.value)
		default:
			value := d.value
			if d.appendTo {
				old, _ := v.value()
				value = old + value
			}
			err = sh.set(name, value)
		}
		if err != nil {
			return err
		}
	}
	v = sh.home(sh.deref(name))
	switch {
	case what == "export" && !on['n'], on['x']:
		v.Exported = true
	case off['x'], what == "export":
		v.Exported = false
	}
	if what == "readonly" || on['r'] {
		v.Readonly = true
	}
	return nil
}

func (sh *Shell) inScope(_ string, _ *variable, f func() error) error { return f() }

// assignArrayText is declare "a=(...)".
func (sh *Shell) assignArrayText(name, text string) error {
	f, err := sh.parser().Parse(strings.NewReader("x="+text), "")
	if err != nil || len(f.Stmts) != 1 {
		return assignError{name + ": " + text + ": cannot assign"}
	}
	call, ok := f.Stmts[0].Cmd.(*syntax.CallExpr)
	if !ok || len(call.Assigns) != 1 || call.Assigns[0].Array == nil {
		return sh.set(name, text)
	}
	return sh.assignArray(name, call.Assigns[0].Array, false)
}

func (sh *Shell) functionScope() *scope {
	for i := len(sh.scopes) - 1; i > 0; i-- {
		if !sh.scopes[i].temp {
			return sh.scopes[i]
		}
	}
	return sh.scopes[0]
}

// isTemp says whether the innermost variable of that name is an assignment before a command.
func (sh *Shell) isTemp(name string) bool {
	for i := len(sh.scopes) - 1; i >= 0; i-- {
		if _, ok := sh.scopes[i].vars[name]; ok {
			return sh.scopes[i].temp
		}
	}
	return false
}

func (sh *Shell) printDeclarations(what string, on map[byte]bool, decls []declaration) int {
	want := func(v *variable) bool {
		switch {
		case what == "export" && !v.Exported, what == "readonly" && !v.Readonly:
			return false
		case on['a'] && v.Kind != indexed, on['A'] && v.Kind != assoc, on['i'] && !v.Integer, on['x'] && !v.Exported, on['r'] && !v.Readonly,
			on['n'] && !v.Nameref && what != "export", on['l'] && !v.Lower, on['u'] && !v.Upper:
			return false
		}
		return true
	}
	if len(decls) > 0 {
		status := 0
		for _, d := range decls {
			v := sh.lookup(d.name)
			if v == nil {
				sh.complain("%s: %s: not found", what, d.name)
				status = 1
				continue
			}
			fmt.Fprintln(sh.stdout(), v.declaration(d.name))
		}
		return status
	}
	if what == "local" {
		s := sh.functionScope()
		for _, n := range sh.names(func(*variable) bool { return true }) {
			if v := s.vars[n]; v != nil {
				fmt.Fprintln(sh.stdout(), n+"="+v.literalShort())
			}
		}
		return 0
	}
	for _, n := range sh.names(want) {
		v := sh.lookup(n)
		switch {
		case sh.style != bashStyle:
			fmt.Fprintf(sh.stdout(), "%s %s=%s\n", what, n, singleQuoteRaw(v.Str))
		case (what == "declare" || what == "typeset") && len(on) == 0:
			if v.Set {
				fmt.Fprintln(sh.stdout(), n+"="+v.literalShort())
			}
		default:
			fmt.Fprintln(sh.stdout(), v.declaration(n))
		}
	}
	return 0
}

// literalShort is a value as set without arguments prints it.
func (v *variable) literalShort() string {
	if v.Kind != scalar {
		return v.literal()
	}
	if v.Str == "" {
		return ""
	}
	return traceQuote(v.Str)
}

func (sh *Shell) declareFunctions(what string, on map[byte]bool, decls []declaration) int {
	if what == "export" || what == "readonly" {
		for _, d := range decls {
			if sh.funcs[d.name] == nil {
				sh.complain("%s: %s: not a function", what, d.name)
				return 1
			}
		}
		if what == "export" && len(decls) > 0 {
			sh.complain("export: ckadrill does not simulate exported functions")
			return 1
		}
		return 0
	}
	if len(decls) == 0 {
		for _, n := range sortedKeys(sh.funcs) {
			if on['F'] {
				fmt.Fprintln(sh.stdout(), "declare -f "+n)
			} else {
				fmt.Fprintln(sh.stdout(), functionText(n, sh.funcs[n]))
			}
		}
		return 0
	}
	status := 0
	for _, d := range decls {
		f := sh.funcs[d.name]
		switch {
		case f == nil:
			status = 1
		case on['F']:
			fmt.Fprintln(sh.stdout(), d.name)
		default:
			fmt.Fprintln(sh.stdout(), functionText(d.name, f))
		}
	}
	return status
}

// functionText prints a function as type and declare -f do, near to bash's own layout.
func functionText(name string, f *function) string {
	var b strings.Builder
	p := syntax.NewPrinter(syntax.Indent(4))
	body := *f.body
	if _, ok := body.Cmd.(*syntax.Block); !ok {
		p.Print(&b, &body)
		return name + " () \n{ \n    " + strings.ReplaceAll(b.String(), "\n", "\n    ") + "\n}"
	}
	p.Print(&b, &body)
	text := strings.TrimSpace(b.String())
	if inner, ok := strings.CutPrefix(text, "{"); ok {
		inner = strings.TrimSuffix(strings.TrimSpace(inner), "}")
		inner = strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(inner), ";"))
		text = "{ \n    " + strings.ReplaceAll(inner, "\n\t", "\n    ") + "\n}"
		if strings.Contains(b.String(), "\n") {
			text = "{ \n    " + inner + "\n}"
		}
	}
	return name + " () \n" + separate(text)
}

// separate ends the lines of a printed function as bash does: with a semicolon where another command of the same list follows.
func separate(text string) string {
	lines := strings.Split(text, "\n")
	indent := func(s string) int { return len(s) - len(strings.TrimLeft(s, " ")) }
	for i := 1; i+1 < len(lines); i++ {
		line, next := lines[i], strings.TrimSpace(lines[i+1])
		last := line[strings.LastIndexByte(line, ' ')+1:]
		switch last {
		case "then", "do", "else", "{", "(", "in", "&&", "||", "|", "&", ";;", ";":
			continue
		}
		first, _, _ := strings.Cut(next, " ")
		switch strings.TrimSuffix(first, ";") {
		case "fi", "done", "}", ")", "esac", "else", "elif", ";;", "":
			if first != "else" && first != "elif" && first != "fi" && first != "done" {
				continue
			}
			if !strings.HasSuffix(line, ";") {
				lines[i] = line + ";"
			}
			continue
		}
		if indent(line) == indent(lines[i+1]) && !strings.HasSuffix(line, ";") && line != "" {
			lines[i] = line + ";"
		}
	}
	return strings.Join(lines, "\n")
}

func builtinUnset(sh *Shell, args []string) int {
	functions, variables := false, false
	for len(args) > 0 && strings.HasPrefix(args[0], "-") && len(args[0]) > 1 {
		switch args[0] {
		case "-f":
			functions = true
		case "-v":
			variables = true
		case "-n":
			variables = true
		case "--":
		default:
			sh.complain("unset: %s: invalid option", args[0])
			fmt.Fprintln(sh.stderr(), "unset: usage: unset [-f] [-v] [-n] [name ...]")
			return 2
		}
		args = args[1:]
	}
	status := 0
	for _, a := range args {
		if functions {
			delete(sh.funcs, a)
			continue
		}
		if base, sub, ok := splitSubscript(a); ok {
			v := sh.get(base)
			switch {
			case v == nil:
			case v.Readonly:
				sh.complain("unset: %s: cannot unset: readonly variable", base)
				status = 1
			case v.Kind == assoc:
				frags, err := sh.expandText(sub)
				if err == nil {
					sub = frags
				}
				delete(v.Assoc, sub)
			case sub == "@" || sub == "*":
				sh.unset(base)
			default:
				i, err := sh.index(v, base, sub)
				if err != nil {
					sh.complain("unset: %s", err)
					status = 1
					continue
				}
				if v.Kind == scalar {
					if i == 0 {
						sh.unset(base)
					}
					continue
				}
				v.unsetAt(i)
			}
			continue
		}
		if !validName(a) {
			if sh.funcs[a] != nil {
				delete(sh.funcs, a)
				continue
			}
			sh.complain("unset: `%s': not a valid identifier", a)
			status = 1
			continue
		}
		if sh.lookup(a) == nil && !variables {
			delete(sh.funcs, a)
			continue
		}
		if err := sh.unset(sh.deref(a)); err != nil {
			sh.complain("unset: %s", err)
			status = 1
		}
	}
	return status
}

// expandText removes the quotes of a subscript that came as text.
func (sh *Shell) expandText(s string) (string, error) {
	w, err := sh.parser().Document(strings.NewReader(s))
	if err != nil {
		return s, err
	}
	t, err := sh.plain(w.Parts, inHeredoc)
	return strings.Trim(join(t), `"'`), err
}
