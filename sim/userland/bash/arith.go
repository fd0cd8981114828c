package bash

import (
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// arith evaluates an arithmetic expression in 64 bits, as bash does.
func (sh *Shell) arith(x syntax.ArithmExpr) (int64, error) {
	return (&calculator{sh: sh, whole: x}).eval(x)
}

// arithString evaluates an expression that is the value of a variable or the argument of a builtin.
func (sh *Shell) arithString(s string) (int64, error) { return (&calculator{sh: sh}).text(s) }

type calculator struct {
	sh    *Shell
	whole syntax.ArithmExpr
	depth int
}

const maxArithDepth = 64

func (c *calculator) text(s string) (int64, error) {
	t := strings.TrimSpace(s)
	if t == "" {
		return 0, nil
	}
	if n, ok, err := c.number(t); ok || err != nil {
		return n, err
	}
	if c.depth++; c.depth > maxArithDepth {
		return 0, expandError{s + ": expression recursion level exceeded (error token is \"" + t + "\")"}
	}
	defer func() { c.depth-- }()
	if validName(t) {
		v, set := c.sh.param(t)
		if !set && c.sh.opt['u'] {
			return 0, c.sh.unbound(t)
		}
		return c.text(v)
	}
	x, err := syntax.NewParser().Arithmetic(strings.NewReader(t))
	if err != nil {
		token := t
		if i := strings.LastIndexAny(t, " +-*/%()"); i >= 0 && i+1 < len(t) {
			token = t[i+1:]
		}
		if strings.ContainsAny(t, " ") && !strings.ContainsAny(t, "+-*/%()") {
			token = t[strings.IndexByte(t, ' ')+1:]
		}
		return 0, expandError{s + ": syntax error: operand expected (error token is \"" + token + "\")"}
	}
	if w, ok := x.(*syntax.Word); ok && w.Lit() == t {
		return 0, expandError{s + ": syntax error: invalid arithmetic operator (error token is \"" + errorToken(t) + "\")"}
	}
	return c.eval(x)
}

// errorToken is the part of a malformed operand that bash complains about.
func errorToken(s string) string {
	i := 0
	for i < len(s) && (s[i] == '_' || s[i] >= '0' && s[i] <= '9' || s[i] >= 'a' && s[i] <= 'z' || s[i] >= 'A' && s[i] <= 'Z') {
		i++
	}
	return s[i:]
}

// number reads a constant: decimal, 0octal, 0xhex or base#digits.
func (c *calculator) number(s string) (int64, bool, error) {
	digits, neg := s, false
	if s[0] == '-' || s[0] == '+' {
		neg, digits = s[0] == '-', s[1:]
	}
	if digits == "" || digits[0] < '0' || digits[0] > '9' {
		return 0, false, nil
	}
	base := 10
	switch b, d, hash := strings.Cut(digits, "#"); {
	case hash:
		n, err := strconv.Atoi(b)
		if err != nil || n < 2 || n > 64 {
			return 0, false, expandError{s + ": invalid arithmetic base (error token is \"" + s + "\")"}
		}
		base, digits = n, d
	case strings.HasPrefix(digits, "0x"), strings.HasPrefix(digits, "0X"):
		base, digits = 16, digits[2:]
	case digits[0] == '0' && len(digits) > 1:
		base, digits = 8, digits[1:]
	}
	var n int64
	for i := 0; i < len(digits); i++ {
		d := digitValue(digits[i], base)
		if d < 0 {
			return 0, false, nil
		}
		if d >= base {
			return 0, false, expandError{s + ": value too great for base (error token is \"" + s + "\")"}
		}
		n = n*int64(base) + int64(d)
	}
	if neg {
		n = -n
	}
	return n, true, nil
}

func digitValue(ch byte, base int) int {
	switch {
	case ch >= '0' && ch <= '9':
		return int(ch - '0')
	case ch >= 'a' && ch <= 'z':
		return int(ch-'a') + 10
	case ch >= 'A' && ch <= 'Z' && base <= 36:
		return int(ch-'A') + 10
	case ch >= 'A' && ch <= 'Z':
		return int(ch-'A') + 36
	case ch == '@':
		return 62
	case ch == '_':
		return 63
	}
	return -1
}

// target is what an expression can assign to.
type target struct {
	name, sub string
	element   bool
}

func (c *calculator) target(x syntax.ArithmExpr) (target, error) {
	w, ok := x.(*syntax.Word)
	if !ok {
		return target{}, c.fail("attempted assignment to non-variable", c.sh.textOf(x))
	}
	if len(w.Parts) == 1 {
		if pe, ok := w.Parts[0].(*syntax.ParamExp); ok && pe.Index != nil && pe.Param != nil {
			sub, err := c.sh.subscript(c.sh.get(pe.Param.Value), pe.Index)
			return target{pe.Param.Value, sub, true}, err
		}
	}
	s, err := c.sh.literal(w)
	if err != nil {
		return target{}, err
	}
	if !validName(s) {
		return target{}, c.fail("attempted assignment to non-variable", s)
	}
	return target{name: s}, nil
}

func (c *calculator) load(t target) (int64, error) {
	if t.element {
		s, _ := c.sh.element(t.name, t.sub)
		return c.text(s)
	}
	return c.text(t.name)
}

func (c *calculator) store(t target, n int64) error {
	s := strconv.FormatInt(n, 10)
	if t.element {
		return c.sh.setElement(t.name, t.sub, s, false)
	}
	return c.sh.set(t.name, s)
}

func (c *calculator) fail(what, token string) error {
	text := token
	if c.whole != nil {
		text = c.sh.textOf(c.whole)
	}
	return expandError{strings.TrimSpace(text) + ": " + what + " (error token is \"" + token + "\")"}
}

func (c *calculator) eval(x syntax.ArithmExpr) (int64, error) {
	switch x := x.(type) {
	case nil:
		return 0, nil
	case *syntax.Word:
		if len(x.Parts) == 1 {
			if pe, ok := x.Parts[0].(*syntax.ParamExp); ok && pe.Short && pe.Index != nil { // a[i] without a dollar sign
				t, err := c.target(x)
				if err != nil {
					return 0, err
				}
				return c.load(t)
			}
		}
		s, err := c.sh.literal(x)
		if err != nil {
			return 0, err
		}
		return c.text(s)
	case *syntax.ParenArithm:
		return c.eval(x.X)
	case *syntax.UnaryArithm:
		return c.unary(x)
	case *syntax.BinaryArithm:
		return c.binary(x)
	}
	return 0, c.fail("syntax error", c.sh.textOf(x))
}

func (c *calculator) unary(x *syntax.UnaryArithm) (int64, error) {
	if x.Op == syntax.Inc || x.Op == syntax.Dec {
		t, err := c.target(x.X)
		if err != nil {
			return 0, err
		}
		old, err := c.load(t)
		if err != nil {
			return 0, err
		}
		n := old + 1
		if x.Op == syntax.Dec {
			n = old - 1
		}
		if err := c.store(t, n); err != nil {
			return 0, err
		}
		if x.Post {
			return old, nil
		}
		return n, nil
	}
	n, err := c.eval(x.X)
	if err != nil {
		return 0, err
	}
	switch x.Op {
	case syntax.Not:
		return int64(boolInt(n == 0)), nil
	case syntax.BitNegation:
		return ^n, nil
	case syntax.Minus:
		return -n, nil
	}
	return n, nil
}

var assignOps = map[syntax.BinAritOperator]syntax.BinAritOperator{
	syntax.AddAssgn: syntax.Add, syntax.SubAssgn: syntax.Sub, syntax.MulAssgn: syntax.Mul, syntax.QuoAssgn: syntax.Quo,
	syntax.RemAssgn: syntax.Rem, syntax.AndAssgn: syntax.And, syntax.OrAssgn: syntax.Or, syntax.XorAssgn: syntax.Xor,
	syntax.ShlAssgn: syntax.Shl, syntax.ShrAssgn: syntax.Shr,
}

func (c *calculator) binary(x *syntax.BinaryArithm) (int64, error) {
	switch x.Op {
	case syntax.Assgn:
		t, err := c.target(x.X)
		if err != nil {
			return 0, err
		}
		n, err := c.eval(x.Y)
		if err != nil {
			return 0, err
		}
		return n, c.store(t, n)
	case syntax.TernQuest:
		cond, err := c.eval(x.X)
		if err != nil {
			return 0, err
		}
		alt, ok := x.Y.(*syntax.BinaryArithm)
		if !ok {
			return 0, c.fail("`:' expected for conditional expression", "?")
		}
		if cond != 0 {
			return c.eval(alt.X)
		}
		return c.eval(alt.Y)
	case syntax.AndArit, syntax.OrArit:
		a, err := c.eval(x.X)
		if err != nil {
			return 0, err
		}
		if (x.Op == syntax.AndArit) != (a != 0) {
			return int64(boolInt(a != 0)), nil
		}
		b, err := c.eval(x.Y)
		return int64(boolInt(b != 0)), err
	}
	if op, ok := assignOps[x.Op]; ok {
		t, err := c.target(x.X)
		if err != nil {
			return 0, err
		}
		a, err := c.load(t)
		if err != nil {
			return 0, err
		}
		b, err := c.eval(x.Y)
		if err != nil {
			return 0, err
		}
		n, err := c.apply(op, a, b, x.Y)
		if err != nil {
			return 0, err
		}
		return n, c.store(t, n)
	}
	a, err := c.eval(x.X)
	if err != nil {
		return 0, err
	}
	b, err := c.eval(x.Y)
	if err != nil {
		return 0, err
	}
	return c.apply(x.Op, a, b, x.Y)
}

func (c *calculator) apply(op syntax.BinAritOperator, a, b int64, right syntax.ArithmExpr) (int64, error) {
	switch op {
	case syntax.Add:
		return a + b, nil
	case syntax.Sub:
		return a - b, nil
	case syntax.Mul:
		return a * b, nil
	case syntax.Quo, syntax.Rem:
		if b == 0 {
			return 0, c.fail("division by 0", c.sh.textOf(right))
		}
		if op == syntax.Quo {
			return a / b, nil
		}
		return a % b, nil
	case syntax.Pow:
		if b < 0 {
			return 0, c.fail("exponent less than 0", c.sh.textOf(right))
		}
		n := int64(1)
		for ; b > 0; b >>= 1 {
			if b&1 != 0 {
				n *= a
			}
			a *= a
		}
		return n, nil
	case syntax.Eql:
		return int64(boolInt(a == b)), nil
	case syntax.Neq:
		return int64(boolInt(a != b)), nil
	case syntax.Lss:
		return int64(boolInt(a < b)), nil
	case syntax.Gtr:
		return int64(boolInt(a > b)), nil
	case syntax.Leq:
		return int64(boolInt(a <= b)), nil
	case syntax.Geq:
		return int64(boolInt(a >= b)), nil
	case syntax.And:
		return a & b, nil
	case syntax.Or:
		return a | b, nil
	case syntax.Xor:
		return a ^ b, nil
	case syntax.Shl:
		return a << (uint64(b) & 63), nil
	case syntax.Shr:
		return a >> (uint64(b) & 63), nil
	case syntax.Comma:
		return b, nil
	}
	return 0, c.fail("syntax error: invalid arithmetic operator", op.String())
}
