package coreutils

import (
	"fmt"
	"math/big"
	"strconv"
	"strings"

	"ckadrill/sim/userland/libc"
	"ckadrill/sim/userland/regex"
)

type exprError struct{ text string }

func (e exprError) Error() string { return e.text }

// evaluator evaluates the arguments of expr(1).
type evaluator struct {
	c    *libc.Prog
	args []string
	pos  int
}

func expr(c *libc.Prog) (status int) {
	c.FailStatus = 2
	args := c.Args
	if len(args) > 0 && args[0] == "--" {
		args = args[1:]
	}
	if len(args) == 0 {
		return c.MissingOperand()
	}
	e := &evaluator{c: c, args: args}
	defer func() {
		if r := recover(); r != nil {
			x, ok := r.(exprError)
			if !ok {
				panic(r)
			}
			status = c.Fail("%s", x.text)
		}
	}()
	v := e.or()
	if e.pos < len(args) {
		return c.Fail("syntax error: unexpected argument %s", c.Quote(args[e.pos]))
	}
	c.Put("%s\n", v)
	if falsy(v) {
		return 1
	}
	return 0
}

func falsy(s string) bool { return s == "" || strings.Trim(strings.TrimPrefix(s, "-"), "0") == "" }

func (e *evaluator) peek(ops ...string) string {
	if e.pos < len(e.args) {
		for _, o := range ops {
			if e.args[e.pos] == o {
				e.pos++
				return o
			}
		}
	}
	return ""
}

func (e *evaluator) or() string {
	l := e.and()
	for e.peek("|") != "" {
		r := e.and()
		if falsy(l) {
			if l = r; falsy(r) {
				l = "0"
			}
		}
	}
	return l
}

func (e *evaluator) and() string {
	l := e.compare()
	for e.peek("&") != "" {
		if r := e.compare(); falsy(l) || falsy(r) {
			l = "0"
		}
	}
	return l
}

func integer(s string) (*big.Int, bool) {
	if len(s) > 4096 {
		return nil, false
	}
	return new(big.Int).SetString(s, 10)
}

func (e *evaluator) compare() string {
	l := e.add()
	for {
		op := e.peek("<", "<=", "=", "==", "!=", ">=", ">")
		if op == "" {
			return l
		}
		r := e.add()
		n := strings.Compare(l, r)
		if a, ok := integer(l); ok {
			if b, ok := integer(r); ok {
				n = a.Cmp(b)
			}
		}
		yes := map[string]bool{"<": n < 0, "<=": n <= 0, "=": n == 0, "==": n == 0, "!=": n != 0, ">=": n >= 0, ">": n > 0}[op]
		l = "0"
		if yes {
			l = "1"
		}
	}
}

func (e *evaluator) number(s string) *big.Int {
	n, ok := integer(s)
	if !ok {
		panic(exprError{"non-integer argument"})
	}
	return n
}

func (e *evaluator) add() string {
	l := e.multiply()
	for {
		op := e.peek("+", "-")
		if op == "" {
			return l
		}
		a, b := e.number(l), e.number(e.multiply())
		if op == "+" {
			l = a.Add(a, b).String()
		} else {
			l = a.Sub(a, b).String()
		}
	}
}

func (e *evaluator) multiply() string {
	l := e.match()
	for {
		op := e.peek("*", "/", "%")
		if op == "" {
			return l
		}
		a, b := e.number(l), e.number(e.match())
		if op != "*" && b.Sign() == 0 {
			panic(exprError{"division by zero"})
		}
		switch op {
		case "*":
			a.Mul(a, b)
		case "/":
			a.Quo(a, b)
		default:
			a.Rem(a, b)
		}
		l = a.String()
	}
}

func (e *evaluator) match() string {
	l := e.primary()
	for e.peek(":") != "" {
		l = matchStart(l, e.primary())
	}
	return l
}

func matchStart(s, pattern string) string {
	re, err := regex.Compile("^"+strings.TrimPrefix(pattern, "^"), regex.Flags{})
	if err != nil {
		panic(exprError{err.Error()})
	}
	m := re.FindStringSubmatch(s)
	group := re.NumSubexp() > 0
	switch {
	case m == nil && group:
		return ""
	case m == nil:
		return "0"
	case group:
		return m[1]
	}
	return strconv.Itoa(len([]rune(m[0])))
}

func (e *evaluator) primary() string {
	if e.pos >= len(e.args) {
		panic(exprError{fmt.Sprintf("syntax error: missing argument after %s", e.c.Quote(e.args[e.pos-1]))})
	}
	a := e.args[e.pos]
	e.pos++
	if e.pos >= len(e.args) && a != "(" {
		return a
	}
	switch a {
	case "(":
		v := e.or()
		if e.peek(")") == "" {
			panic(exprError{fmt.Sprintf("syntax error: expecting ')' after %s", e.c.Quote(e.args[e.pos-1]))})
		}
		return v
	case "+":
		v := e.args[e.pos]
		e.pos++
		return v
	case "length":
		return strconv.Itoa(len([]rune(e.primary())))
	case "match":
		s := e.primary()
		return matchStart(s, e.primary())
	case "index":
		s := e.primary()
		chars := e.primary()
		return strconv.Itoa(len([]rune(s[:max(0, strings.IndexAny(s, chars))])) + map[bool]int{true: 1}[strings.ContainsAny(s, chars)])
	case "substr":
		s := []rune(e.primary())
		p, n := e.number(e.primary()), e.number(e.primary())
		if p.Sign() <= 0 || n.Sign() <= 0 || !p.IsInt64() || p.Int64() > int64(len(s)) {
			return ""
		}
		start := int(p.Int64()) - 1
		end := len(s)
		if n.IsInt64() && n.Int64() < int64(end-start) {
			end = start + int(n.Int64())
		}
		return string(s[start:end])
	}
	return a
}

func factor(c *libc.Prog) int {
	for _, a := range c.Args {
		n, err := strconv.ParseUint(a, 10, 48)
		if err != nil {
			c.Fail("%s is not a valid positive integer", c.Quote(a))
			continue
		}
		c.Put("%d:", n)
		for d := uint64(2); d*d <= n; d++ {
			for n%d == 0 {
				c.Put(" %d", d)
				n /= d
			}
		}
		if n > 1 {
			c.Put(" %d", n)
		}
		c.Put("\n")
	}
	return c.Status
}
