package libc

import "strings"

// Options parses the command line with [Getopt], and answers --help and --version. When ok is false the program has said
// what there is to say and ends with c.Status.
func (c *Prog) Options(short string, long ...string) (opts []Opt, operands []string, ok bool) {
	opts, operands, err := Getopt(c.Args, short, append(long, "help", "version")...)
	if err != nil {
		c.Status = c.usageError(err)
		return nil, nil, false
	}
	for _, o := range opts {
		switch {
		case !o.Long:
		case o.Name == "help":
			c.Put("ckadrill does not simulate %s --help; see the manual page %s(1).\n", c.Name, c.Name)
			return nil, nil, false
		case o.Name == "version":
			c.Put("%s (GNU coreutils) 9.4\n", c.Name)
			return nil, nil, false
		}
	}
	return opts, operands, true
}

func (c *Prog) usageError(err error) int {
	if !c.Busybox {
		return c.Usage(err)
	}
	text := err.Error()
	if s, ok := strings.CutPrefix(text, "invalid option -- "); ok {
		text = "unrecognized option: " + strings.Trim(s, "'")
	} else if s, ok := strings.CutPrefix(text, "option requires an argument -- "); ok {
		text = "option requires an argument: " + strings.Trim(s, "'")
	} else if s, ok := strings.CutPrefix(text, "unrecognized option "); ok {
		text = "unrecognized option: " + strings.TrimPrefix(strings.Trim(s, "'"), "--")
	}
	c.Warn("%s", text)
	c.Errorf("BusyBox v1.37.0 (2024-09-26 21:31:42 UTC) multi-call binary.\n")
	return 1
}

// MissingOperand is the usage error of a program that got no operands.
func (c *Prog) MissingOperand() int {
	c.Warn("missing operand")
	return c.TryHelp()
}

// ExtraOperand is the usage error of a program that got too many operands.
func (c *Prog) ExtraOperand(s string) int {
	c.Warn("extra operand %s", c.Quote(s))
	return c.TryHelp()
}

// Quote is a word as gettext's quotes surround it: ‘x’ in a UTF-8 locale, 'x' in the C locale. It is quote() of GNU programs;
// quoteaf(), which they use for most file names, is [Quote].
func (c *Prog) Quote(s string) string {
	if c.UTF8() {
		return "‘" + s + "’"
	}
	return "'" + s + "'"
}

// UTF8 says whether the process's locale has the character set UTF-8.
func (c *Prog) UTF8() bool {
	for _, k := range []string{"LC_ALL", "LC_CTYPE", "LANG"} {
		if v := c.Getenv(k); v != "" {
			v = strings.ToLower(v)
			return strings.HasSuffix(v, ".utf-8") || strings.HasSuffix(v, ".utf8")
		}
	}
	return false
}

// Quote is a word in quotes that a shell would read back: 'x', "it's", 'a'$'\n”b'. GNU programs quote file names in
// messages so.
func Quote(s string) string {
	if !strings.ContainsAny(s, "'\n\t\r\x1b") {
		return "'" + s + "'"
	}
	if !strings.ContainsAny(s, "\"$`\\!\n\t\r\x1b") {
		return `"` + s + `"`
	}
	var b strings.Builder
	b.WriteByte('\'')
	for i := 0; i < len(s); i++ {
		switch c := s[i]; c {
		case '\'':
			b.WriteString(`'\''`)
		case '\n':
			b.WriteString(`'$'\n''`)
		case '\t':
			b.WriteString(`'$'\t''`)
		case '\r':
			b.WriteString(`'$'\r''`)
		case '\x1b':
			b.WriteString(`'$'\033''`)
		default:
			b.WriteByte(c)
		}
	}
	b.WriteByte('\'')
	return b.String()
}

// QuoteN is a word that is quoted only where a shell would need it: what ls shows on a terminal.
func QuoteN(s string) string {
	if s == "" {
		return "''"
	}
	if strings.ContainsAny(s, " \t\n\r\x1b'\"\\$`!*?[]{}()<>|&;=^") || strings.HasPrefix(s, "~") || strings.HasPrefix(s, "#") {
		return Quote(s)
	}
	return s
}
