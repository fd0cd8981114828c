package images

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"net"
	"strconv"
	"strings"

	"ckadrill/sim/kernel"
	"ckadrill/sim/network"
)

// redisCLI is the program redis-cli: one command from its arguments, or lines from standard input or the terminal.
func redisCLI(p *kernel.Process) int {
	host, port, password, raw, warn := "127.0.0.1", "6379", p.Getenv("REDISCLI_AUTH"), p.TTY == nil, false
	quiet := false
	args := p.Argv[1:]
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		a := args[0]
		args = args[1:]
		next := func() string {
			if len(args) == 0 {
				return ""
			}
			v := args[0]
			args = args[1:]
			return v
		}
		switch a {
		case "-h":
			host = next()
		case "-p":
			port = next()
		case "-a", "--pass":
			password, warn = next(), true
		case "--no-auth-warning":
			quiet = true
		case "--raw":
			raw = true
		case "--no-raw":
			raw = false
		case "-n":
			next()
		case "-v", "--version":
			p.Printf("redis-cli %s\n", binaryVersion(p))
			return 0
		default:
			p.Errorf("Unrecognized option or bad number of args for: '%s'\n", a)
			return 1
		}
	}
	if warn && !quiet {
		p.Errorf("Warning: Using a password with '-a' or '-u' option on the command line interface may not be safe.\n")
	}
	conn, err := redisDial(p, host, port)
	if err != nil {
		p.Errorf("Could not connect to Redis at %s:%s: %s\n", host, port, err)
		return 1
	}
	defer conn.Close()
	in := bufio.NewReader(conn)
	if password != "" {
		io.WriteString(conn, array([]string{"AUTH", password}))
		if reply, err := redisReply(in, raw, ""); err == nil && strings.HasPrefix(reply, "(error)") {
			p.Errorf("AUTH failed: %s\n", strings.TrimPrefix(reply, "(error) "))
		}
	}
	ask := func(args []string) bool {
		if _, err := io.WriteString(conn, array(args)); err != nil {
			p.Errorf("Error: Server closed the connection\n")
			return false
		}
		reply, err := redisReply(in, raw, "")
		if err != nil {
			p.Errorf("Error: Server closed the connection\n")
			return false
		}
		p.Printf("%s\n", reply)
		return true
	}
	if len(args) > 0 {
		if !ask(args) {
			return 1
		}
		return 0
	}
	lines := bufio.NewScanner(p.Stdin)
	for {
		var line string
		if p.TTY != nil {
			if line, err = p.TTY.ReadLine(host+":"+port+"> ", nil); err != nil {
				return 0
			}
		} else if !lines.Scan() {
			return 0
		} else {
			line = lines.Text()
		}
		words := redisWords(line)
		if len(words) == 0 {
			continue
		}
		if w := strings.ToLower(words[0]); w == "quit" || w == "exit" {
			return 0
		}
		if !ask(words) {
			return 1
		}
	}
}

func redisDial(p *kernel.Process, host, port string) (net.Conn, error) {
	addr := host
	if net.ParseIP(host) == nil {
		l, err := network.Resolve(p.Context(), p, host)
		if err != nil || len(l) == 0 {
			return nil, errors.New("Name or service not known")
		}
		addr = l[0].String()
	}
	c, err := p.Dial(p.Context(), "tcp", net.JoinHostPort(addr, port))
	if err != nil {
		return nil, errors.New(plainErrno(err))
	}
	return c, nil
}

// redisWords splits a line, keeping quoted strings together.
func redisWords(line string) (l []string) {
	var b strings.Builder
	quote, inWord := byte(0), false
	for i := 0; i < len(line); i++ {
		c := line[i]
		switch {
		case quote != 0 && c == quote:
			quote = 0
		case quote == '"' && c == '\\' && i+1 < len(line):
			i++
			b.WriteByte(line[i])
		case quote != 0:
			b.WriteByte(c)
		case c == '"' || c == '\'':
			quote, inWord = c, true
		case c == ' ' || c == '\t' || c == '\r':
			if inWord {
				l = append(l, b.String())
				b.Reset()
				inWord = false
			}
		default:
			b.WriteByte(c)
			inWord = true
		}
	}
	if inWord {
		l = append(l, b.String())
	}
	return l
}

// redisReply reads a reply and shows it as redis-cli does, for people or raw.
func redisReply(in *bufio.Reader, raw bool, prefix string) (string, error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return "", err
	}
	line = strings.TrimRight(line, "\r\n")
	if line == "" {
		return "", errors.New("empty reply")
	}
	kind, rest := line[0], line[1:]
	switch kind {
	case '+':
		return rest, nil
	case '-':
		if raw {
			return rest + "\n", nil
		}
		return "(error) " + rest, nil
	case ':':
		if raw {
			return rest, nil
		}
		return "(integer) " + rest, nil
	case '$':
		n, err := strconv.Atoi(rest)
		if err != nil {
			return "", err
		}
		if n < 0 {
			if raw {
				return "", nil
			}
			return "(nil)", nil
		}
		b := make([]byte, n+2)
		if _, err := io.ReadFull(in, b); err != nil {
			return "", err
		}
		if raw {
			return string(b[:n]), nil
		}
		return strconv.Quote(string(b[:n])), nil
	case '*':
		n, err := strconv.Atoi(rest)
		if err != nil {
			return "", err
		}
		if n == 0 && !raw {
			return "(empty array)", nil
		}
		var l []string
		width := len(strconv.Itoa(n))
		for i := range n {
			e, err := redisReply(in, raw, prefix+strings.Repeat(" ", width+2))
			if err != nil {
				return "", err
			}
			if !raw {
				e = fmt.Sprintf("%*d) %s", width, i+1, e)
				if i > 0 {
					e = prefix + e
				}
			}
			l = append(l, e)
		}
		return strings.Join(l, "\n"), nil
	}
	return line, nil
}
