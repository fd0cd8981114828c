// Package perl is as much of Perl as the examples of Jobs in Kubernetes' documentation need: -e with statements that print
// strings, numbers and digits of pi.
package perl

import (
	"math/big"
	"regexp"
	"strconv"
	"strings"
	"time"

	"ckadrill/sim/kernel"
	"ckadrill/sim/userland/libc"
)

// Register adds the program "perl".
func Register(ps *kernel.Programs) { ps.Register("perl", libc.Main("perl", run)) }

// mostDigits is how many digits of pi are computed at most.
const mostDigits = 20_000

func run(c *libc.Prog) int {
	program, modules, newline := "", "", false
	args := c.Args
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		flags := args[0][1:]
		args = args[1:]
	letters:
		for i := 0; i < len(flags); i++ {
			switch flags[i] {
			case 'M':
				modules += " " + flags[i+1:]
				break letters
			case 'e', 'E':
				if len(args) == 0 {
					c.Errorf("No code specified for -%c.\n", flags[i])
					return 2
				}
				program, args = program+args[0]+"\n", args[1:]
			case 'l':
				newline = true
			case 'w', 'W':
			case 'v':
				c.Put("\nThis is perl 5, version 34, subversion 0 (v5.34.0) built for x86_64-linux-gnu\n\n")
				return 0
			default:
				return c.Fail("ckadrill does not simulate perl -%c yet", flags[i])
			}
		}
	}
	if program == "" || strings.TrimSpace(modules) != "" && strings.TrimSpace(modules) != "bignum=bpi" {
		return c.Fail("ckadrill does not simulate perl beyond \"print\" of strings and bpi(N) yet")
	}
	for _, statement := range strings.Split(strings.TrimSpace(program), ";") {
		if statement = strings.TrimSpace(statement); statement == "" {
			continue
		}
		text, ok := value(c, statement, strings.Contains(modules, "bpi"))
		if !ok {
			return c.Fail("ckadrill does not simulate perl beyond \"print\" of strings and bpi(N) yet")
		}
		if newline {
			text += "\n"
		}
		c.Put("%s", text)
	}
	return 0
}

var (
	printed = regexp.MustCompile(`^(?:print|say)[ (]\s*(.*?)\)?$`)
	digits  = regexp.MustCompile(`^bpi\((\d+)$|^bpi\((\d+)\)$`)
	quoted  = regexp.MustCompile(`^'([^'\\]*)'$|^"([^"\\$@]*(?:\\n[^"\\$@]*)*)"$`)
	number  = regexp.MustCompile(`^\d+$`)
)

// value is what a statement prints.
func value(c *libc.Prog, statement string, bpi bool) (string, bool) {
	m := printed.FindStringSubmatch(statement)
	if m == nil {
		return "", false
	}
	if d := digits.FindStringSubmatch(m[1]); d != nil && bpi {
		n, err := strconv.Atoi(d[1] + d[2])
		if err != nil || n < 1 || n > mostDigits {
			return "", false
		}
		// Perl needs about five seconds for 2000 digits, and four times as long for twice as many.
		if c.Spend(time.Duration(n*n)*1250*time.Nanosecond) != nil {
			return "", true
		}
		return pi(n), true
	}
	if q := quoted.FindStringSubmatch(m[1]); q != nil {
		return strings.ReplaceAll(q[1]+q[2], `\n`, "\n"), true
	}
	return m[1], number.MatchString(m[1])
}

// pi is rounded to n significant digits, by Machin's formula.
func pi(n int) string {
	const guard = 10
	unit := new(big.Int).Exp(big.NewInt(10), big.NewInt(int64(n+guard)), nil)
	arctan := func(inverse int64) *big.Int {
		x, square := big.NewInt(inverse), big.NewInt(inverse*inverse)
		power := new(big.Int).Div(unit, x)
		sum := new(big.Int).Set(power)
		term := new(big.Int)
		for k := int64(3); power.Sign() != 0; k += 2 {
			power.Div(power, square)
			if term.Div(power, big.NewInt(k)); k%4 == 3 {
				sum.Sub(sum, term)
			} else {
				sum.Add(sum, term)
			}
		}
		return sum
	}
	v := new(big.Int).Mul(arctan(5), big.NewInt(16))
	v.Sub(v, new(big.Int).Mul(arctan(239), big.NewInt(4)))
	// v has n+guard digits behind the point; n-1 are wanted.
	cut := new(big.Int).Exp(big.NewInt(10), big.NewInt(guard+1), nil)
	v.Add(v, new(big.Int).Div(cut, big.NewInt(2)))
	s := v.Div(v, cut).String()
	if n == 1 {
		return s
	}
	return s[:1] + "." + s[1:]
}
