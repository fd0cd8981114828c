package libc

import (
	"fmt"
	"strings"
)

// Opt is one option as it was given. Name is its short letter, or its long name where it has no letter.
type Opt struct {
	Name, Value string
	Long        bool // it was written in its long form
}

// Getopt is getopt_long(3), which permutes: options may follow operands, "--" ends them. short is C's option string
// ("an:o::", a leading "+" stops at the first operand). A long option is "name", "name:" (takes a value), "name::" (may take
// one), each optionally followed by "|x", the letter that it stands for. Errors read as glibc prints them, without the
// program's name.
func Getopt(args []string, short string, long ...string) (opts []Opt, operands []string, err error) {
	posix := strings.HasPrefix(short, "+")
	short = strings.TrimPrefix(short, "+")
	for i := 0; i < len(args); i++ {
		a := args[i]
		switch {
		case a == "--":
			return opts, append(operands, args[i+1:]...), nil
		case strings.HasPrefix(a, "--"):
			name, value, hasValue := strings.Cut(a[2:], "=")
			spec, err := longOption(name, long)
			if err != nil {
				return nil, nil, err
			}
			switch {
			case spec.takes == 0 && hasValue:
				return nil, nil, fmt.Errorf("option '--%s' doesn't allow an argument", spec.name)
			case spec.takes == 1 && !hasValue:
				if i++; i >= len(args) {
					return nil, nil, fmt.Errorf("option '--%s' requires an argument", spec.name)
				}
				value = args[i]
			}
			opts = append(opts, Opt{spec.letter, value, true})
		case len(a) > 1 && a[0] == '-':
			for j := 1; j < len(a); j++ {
				k := strings.IndexByte(short, a[j])
				if k < 0 || a[j] == ':' {
					return nil, nil, fmt.Errorf("invalid option -- '%c'", a[j])
				}
				o := Opt{Name: string(a[j])}
				if k+1 < len(short) && short[k+1] == ':' {
					optional := k+2 < len(short) && short[k+2] == ':'
					o.Value = a[j+1:]
					if o.Value == "" && !optional {
						if i++; i >= len(args) {
							return nil, nil, fmt.Errorf("option requires an argument -- '%c'", a[j])
						}
						o.Value = args[i]
					}
					j = len(a)
				}
				opts = append(opts, o)
			}
		default:
			if posix {
				return opts, append(operands, args[i:]...), nil
			}
			operands = append(operands, a)
		}
	}
	return opts, operands, nil
}

type longSpec struct {
	name, letter string
	takes        int // 0 no value, 1 a value, 2 may take one
}

func parseLong(s string) longSpec {
	name, letter, ok := strings.Cut(s, "|")
	spec := longSpec{name: strings.TrimRight(name, ":")}
	spec.takes = len(name) - len(spec.name)
	if spec.letter = letter; !ok {
		spec.letter = spec.name
	}
	return spec
}

func longOption(name string, long []string) (longSpec, error) {
	var found []longSpec
	for _, l := range long {
		s := parseLong(l)
		if s.name == name {
			return s, nil
		}
		if strings.HasPrefix(s.name, name) {
			found = append(found, s)
		}
	}
	switch len(found) {
	case 0:
		return longSpec{}, fmt.Errorf("unrecognized option '--%s'", name)
	case 1:
		return found[0], nil
	}
	same := true
	var names []string
	for _, f := range found {
		same = same && f.letter == found[0].letter
		names = append(names, "'--"+f.name+"'")
	}
	if same {
		return found[0], nil
	}
	return longSpec{}, fmt.Errorf("option '--%s' is ambiguous; possibilities: %s", name, strings.Join(names, " "))
}
