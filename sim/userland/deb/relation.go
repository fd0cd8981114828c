package deb

import "strings"

// Relation is a package that another one names, perhaps with a bound on its version: "kubernetes-cni (>= 1.2.0)".
type Relation struct {
	Name     string
	Operator string // <<, <=, =, >=, >>, or "" for any version
	Version  string
}

func (r Relation) String() string {
	if r.Operator == "" {
		return r.Name
	}
	return r.Name + " (" + r.Operator + " " + r.Version + ")"
}

// Allows says whether a version is within the bound.
func (r Relation) Allows(version string) bool {
	if r.Operator == "" {
		return true
	}
	c := Compare(version, r.Version)
	switch r.Operator {
	case "<<":
		return c < 0
	case "<=", "<":
		return c <= 0
	case "=":
		return c == 0
	case ">=", ">":
		return c >= 0
	case ">>":
		return c > 0
	}
	return false
}

// Relations are the alternatives of each item of a field like Depends.
func Relations(field string) (l [][]Relation) {
	for item := range strings.SplitSeq(field, ",") {
		var alternatives []Relation
		for one := range strings.SplitSeq(item, "|") {
			name, bound, _ := strings.Cut(strings.TrimSpace(one), "(")
			name, _, _ = strings.Cut(strings.TrimSpace(name), ":")
			if name == "" {
				continue
			}
			r := Relation{Name: name}
			bound = strings.TrimSpace(strings.TrimSuffix(strings.TrimSpace(bound), ")"))
			if n := strings.IndexFunc(bound, func(c rune) bool { return c != '<' && c != '=' && c != '>' }); n > 0 {
				r.Operator, r.Version = bound[:n], strings.TrimSpace(bound[n:])
			}
			alternatives = append(alternatives, r)
		}
		if alternatives != nil {
			l = append(l, alternatives)
		}
	}
	return l
}

// Provided are the names that a package stands for beside its own.
func (p Paragraph) Provided() (l []string) {
	for _, r := range Relations(p.Get("Provides")) {
		l = append(l, r[0].Name)
	}
	return l
}
