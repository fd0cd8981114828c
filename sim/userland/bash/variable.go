package bash

import (
	"sort"
	"strconv"
	"strings"
)

type kind uint8

const (
	scalar kind = iota
	indexed
	assoc
)

// variable is a shell variable with its attributes.
type variable struct {
	Set   bool
	Kind  kind
	Str   string
	Keys  []int // of an indexed array, ascending
	Vals  []string
	Assoc map[string]string

	Exported, Readonly, Integer, Lower, Upper, Nameref bool
}

func (v *variable) copy() *variable {
	c := *v
	c.Keys, c.Vals = append([]int(nil), v.Keys...), append([]string(nil), v.Vals...)
	if v.Assoc != nil {
		c.Assoc = make(map[string]string, len(v.Assoc))
		for k, s := range v.Assoc {
			c.Assoc[k] = s
		}
	}
	return &c
}

// value is what $name gives: the element 0 of an array.
func (v *variable) value() (string, bool) {
	switch v.Kind {
	case indexed:
		return v.at(0)
	case assoc:
		s, ok := v.Assoc["0"]
		return s, ok
	}
	return v.Str, v.Set
}

func (v *variable) at(i int) (string, bool) {
	if v.Kind == scalar {
		return v.Str, v.Set && i == 0
	}
	if k := sort.SearchInts(v.Keys, i); k < len(v.Keys) && v.Keys[k] == i {
		return v.Vals[k], true
	}
	return "", false
}

func (v *variable) setAt(i int, s string) {
	k := sort.SearchInts(v.Keys, i)
	if k < len(v.Keys) && v.Keys[k] == i {
		v.Vals[k] = s
		return
	}
	v.Keys, v.Vals = append(v.Keys, 0), append(v.Vals, "")
	copy(v.Keys[k+1:], v.Keys[k:])
	copy(v.Vals[k+1:], v.Vals[k:])
	v.Keys[k], v.Vals[k] = i, s
}

func (v *variable) unsetAt(i int) {
	if k := sort.SearchInts(v.Keys, i); k < len(v.Keys) && v.Keys[k] == i {
		v.Keys = append(v.Keys[:k], v.Keys[k+1:]...)
		v.Vals = append(v.Vals[:k], v.Vals[k+1:]...)
	}
}

// next is the index after the last one.
func (v *variable) next() int {
	if len(v.Keys) == 0 {
		return 0
	}
	return v.Keys[len(v.Keys)-1] + 1
}

// assocBuckets is the size of bash's hash tables for associative arrays, which decides the order of their elements.
const assocBuckets = 1024

// assocKeys are the keys in the order in which bash lists them: that of its hash table (FNV-1, lib/sh/hashlib.c).
func (v *variable) assocKeys() []string {
	keys := make([]string, 0, len(v.Assoc))
	for k := range v.Assoc {
		keys = append(keys, k)
	}
	bucket := func(s string) uint32 {
		h := uint32(2166136261)
		for i := 0; i < len(s); i++ {
			h *= 16777619
			h ^= uint32(s[i])
		}
		return h & (assocBuckets - 1)
	}
	sort.Slice(keys, func(i, j int) bool {
		a, b := bucket(keys[i]), bucket(keys[j])
		return a < b || a == b && keys[i] < keys[j]
	})
	return keys
}

// elements are all values in order.
func (v *variable) elements() []string {
	switch v.Kind {
	case indexed:
		return v.Vals
	case assoc:
		var l []string
		for _, k := range v.assocKeys() {
			l = append(l, v.Assoc[k])
		}
		return l
	}
	if v.Set {
		return []string{v.Str}
	}
	return nil
}

// subscripts are the keys that ${!name[@]} lists.
func (v *variable) subscripts() []string {
	switch v.Kind {
	case indexed:
		var l []string
		for _, k := range v.Keys {
			l = append(l, strconv.Itoa(k))
		}
		return l
	case assoc:
		return v.assocKeys()
	}
	if v.Set {
		return []string{"0"}
	}
	return nil
}

// flags are the attributes as declare -p and ${v@a} show them.
func (v *variable) flags() string {
	var b strings.Builder
	for _, f := range []struct {
		on bool
		c  byte
	}{{v.Kind == indexed, 'a'}, {v.Kind == assoc, 'A'}, {v.Integer, 'i'}, {v.Lower, 'l'}, {v.Nameref, 'n'}, {v.Readonly, 'r'}, {v.Upper, 'u'}, {v.Exported, 'x'}} {
		if f.on {
			b.WriteByte(f.c)
		}
	}
	return b.String()
}

// declaration is the line that declare -p prints.
func (v *variable) declaration(name string) string {
	flags := v.flags()
	if flags == "" {
		flags = "-"
	}
	head := "declare -" + flags + " " + name
	switch {
	case v.Kind == scalar && !v.Set, v.Kind != scalar && !v.Set:
		return head
	}
	return head + "=" + v.literal()
}

// literal is the value as declare -p writes it.
func (v *variable) literal() string {
	switch v.Kind {
	case indexed:
		var b strings.Builder
		for i, k := range v.Keys {
			if i > 0 {
				b.WriteByte(' ')
			}
			b.WriteString("[" + strconv.Itoa(k) + "]=" + doubleQuote(v.Vals[i]))
		}
		return "(" + b.String() + ")"
	case assoc:
		var b strings.Builder
		for _, k := range v.assocKeys() {
			b.WriteString("[" + quoteSubscript(k) + "]=" + doubleQuote(v.Assoc[k]) + " ")
		}
		return "(" + b.String() + ")"
	}
	return doubleQuote(v.Str)
}

// scope is one level of variables: the global one, a function's, or that of the assignments before a command.
type scope struct {
	vars map[string]*variable
	temp bool // assignments before a command: exported, and no home for local
	// args are the positional parameters of a function's scope.
	function string
}

func newScope() *scope { return &scope{vars: map[string]*variable{}} }

// lookup finds a variable in the innermost scope that has it, without following a nameref.
func (sh *Shell) lookup(name string) *variable {
	if name == "PIPESTATUS" && sh.style == bashStyle {
		v := &variable{Set: true, Kind: indexed}
		for i, s := range sh.pipestatus {
			v.setAt(i, strconv.Itoa(s))
		}
		return v
	}
	for i := len(sh.scopes) - 1; i >= 0; i-- {
		if v, ok := sh.scopes[i].vars[name]; ok {
			return v
		}
	}
	return nil
}

const maxNameref = 8

// deref follows namerefs from a name; the result may carry a subscript.
func (sh *Shell) deref(name string) string {
	for range maxNameref {
		v := sh.lookup(name)
		if v == nil || !v.Nameref || v.Str == "" {
			return name
		}
		name = v.Str
	}
	return name
}

func (sh *Shell) get(name string) *variable { return sh.lookup(sh.deref(name)) }

// getStr is the value of a variable, "" if it is not set. It knows the dynamic ones.
func (sh *Shell) getStr(name string) string {
	s, _ := sh.param(name)
	return s
}

// home is the variable that an assignment to name changes, made in the global scope if there is none.
func (sh *Shell) home(name string) *variable {
	if v := sh.lookup(name); v != nil {
		return v
	}
	v := &variable{}
	sh.scopes[0].vars[name] = v
	return v
}

// assignError is an assignment that bash refuses.
type assignError struct{ text string }

func (e assignError) Error() string { return e.text }

// set assigns a string to a variable, with its attributes applied.
func (sh *Shell) set(name, value string) error {
	name = sh.deref(name)
	if base, sub, ok := splitSubscript(name); ok {
		return sh.setElement(base, sub, value, false)
	}
	if len(value) > maxValue {
		return sh.outOfMemory(len(value))
	}
	v := sh.home(name)
	if v.Readonly {
		return assignError{name + ": readonly variable"}
	}
	value, err := sh.convert(v, value)
	if err != nil {
		return err
	}
	switch v.Kind {
	case indexed:
		v.setAt(0, value)
	case assoc:
		if v.Assoc == nil {
			v.Assoc = map[string]string{}
		}
		v.Assoc["0"] = value
	default:
		v.Str = value
	}
	v.Set = true
	if sh.opt['a'] {
		v.Exported = true
	}
	sh.assigned(name, value)
	return nil
}

// assigned does what some variables do when they are assigned to.
func (sh *Shell) assigned(name, value string) {
	switch name {
	case "RANDOM":
		if n, err := strconv.ParseUint(value, 10, 32); err == nil {
			sh.randomSeed(uint32(n))
		}
	case "SECONDS":
		n, _ := strconv.Atoi(value)
		sh.secondsBase, sh.secondsAt = n, now()
	case "PATH":
		clear(sh.hashed)
	case "OPTIND":
		sh.getoptsAt = 0
	}
}

// convert applies the attributes -i, -l and -u.
func (sh *Shell) convert(v *variable, value string) (string, error) {
	switch {
	case v.Integer:
		n, err := sh.arithString(value)
		if err != nil {
			return "", err
		}
		return strconv.FormatInt(n, 10), nil
	case v.Lower:
		return strings.ToLower(value), nil
	case v.Upper:
		return strings.ToUpper(value), nil
	}
	return value, nil
}

// setElement assigns to name[sub], where sub is the text between the brackets, already expanded for an associative array.
func (sh *Shell) setElement(name, sub, value string, appendTo bool) error {
	name = sh.deref(name)
	v := sh.home(name)
	if v.Readonly {
		return assignError{name + ": readonly variable"}
	}
	if len(value) > maxValue {
		return sh.outOfMemory(len(value))
	}
	value, err := sh.convert(v, value)
	if err != nil {
		return err
	}
	if v.Kind == assoc {
		if sub == "" {
			return assignError{name + "[]: bad array subscript"}
		}
		if v.Assoc == nil {
			v.Assoc = map[string]string{}
		}
		if appendTo {
			value = v.Assoc[sub] + value
		}
		if len(v.Assoc) >= maxElements {
			return sh.outOfMemory(len(v.Assoc))
		}
		v.Assoc[sub], v.Set = value, true
		return nil
	}
	i, err := sh.index(v, name, sub)
	if err != nil {
		return err
	}
	if v.Kind == scalar {
		v.becomeIndexed()
	}
	if len(v.Keys) >= maxElements {
		return sh.outOfMemory(len(v.Keys))
	}
	if appendTo {
		old, _ := v.at(i)
		value = old + value
	}
	v.setAt(i, value)
	v.Set = true
	return nil
}

func (v *variable) becomeIndexed() {
	if v.Set {
		v.Keys, v.Vals = []int{0}, []string{v.Str}
	}
	v.Kind, v.Str = indexed, ""
}

// index evaluates the subscript of an indexed array; a negative one counts from its end.
func (sh *Shell) index(v *variable, name, sub string) (int, error) {
	n, err := sh.arithString(sub)
	if err != nil {
		return 0, err
	}
	if n < 0 && v != nil {
		n += int64(max(v.next(), boolInt(v.Kind == scalar && v.Set)))
	}
	if n < 0 || n > 1<<40 {
		return 0, assignError{name + "[" + sub + "]: bad array subscript"}
	}
	return int(n), nil
}

func boolInt(b bool) int {
	if b {
		return 1
	}
	return 0
}

// splitSubscript divides "a[x]".
func splitSubscript(s string) (base, sub string, ok bool) {
	i := strings.IndexByte(s, '[')
	if i <= 0 || !strings.HasSuffix(s, "]") {
		return s, "", false
	}
	return s[:i], s[i+1 : len(s)-1], true
}

// unset removes a variable, or fails if it is readonly.
func (sh *Shell) unset(name string) error {
	for i := len(sh.scopes) - 1; i >= 0; i-- {
		v, ok := sh.scopes[i].vars[name]
		if !ok {
			continue
		}
		if v.Readonly {
			return assignError{name + ": cannot unset: readonly variable"}
		}
		if i > 0 && !sh.scopes[i].temp && sh.scopes[i].function == sh.function {
			*v = variable{} // a local stays local, but unset
		} else {
			delete(sh.scopes[i].vars, name)
		}
		return nil
	}
	return nil
}

// names lists the variables that are visible, sorted.
func (sh *Shell) names(keep func(*variable) bool) []string {
	seen := map[string]bool{}
	var l []string
	for i := len(sh.scopes) - 1; i >= 0; i-- {
		for n, v := range sh.scopes[i].vars {
			if !seen[n] {
				seen[n] = true
				if keep(v) {
					l = append(l, n)
				}
			}
		}
	}
	sort.Strings(l)
	return l
}

// environ is the environment of a child.
func (sh *Shell) environ() []string {
	var env []string
	for _, n := range sh.names(func(v *variable) bool { return v.Exported && v.Kind == scalar && v.Set }) {
		env = append(env, n+"="+sh.lookup(n).Str)
	}
	return append(env, sh.passed...)
}

// validName says whether s is a name that can be assigned to.
func validName(s string) bool {
	for i := 0; i < len(s); i++ {
		c := s[i]
		if c != '_' && (c < 'a' || c > 'z') && (c < 'A' || c > 'Z') && (i == 0 || c < '0' || c > '9') {
			return false
		}
	}
	return s != ""
}
