package haproxy

import (
	"net"
	"slices"
	"strconv"
	"strings"
	"time"

	"ckadrill/sim/network"
)

// defaults are what a section "defaults" sets for the proxies below it.
type defaults struct {
	mode       string
	balance    string
	connect    time.Duration
	client     time.Duration
	server     time.Duration
	checkTime  time.Duration
	retries    int
	redispatch bool
	tcplog     bool
	log        []string // targets
	http       httpCheck
	defServer  server
	backend    string // default_backend
}

// newDefaults are haproxy's own.
func newDefaults() defaults {
	return defaults{mode: "tcp", balance: "roundrobin", retries: 3, defServer: server{inter: 2 * time.Second, rise: 2, fall: 3, weight: 1}}
}

// httpCheck is "option httpchk" with its "http-check" lines.
type httpCheck struct {
	on          bool
	method, uri string
	tls         bool // "http-check connect ssl"
	expect      int  // status, 0 is any of 200 to 399
}

// binding is an address to listen on, and where it stands.
type binding struct {
	address string
	file    string
	line    int
}

// config is a configuration file while it is read.
type config struct {
	b        *balancer
	file     string
	line     int
	errors   int
	section  string // global, defaults, frontend, backend, listen
	defaults defaults
	current  *proxy
	proxies  []*proxy
	globals  []string // targets of the global section's log
}

func (c *config) alert(format string, a ...any) {
	c.errors++
	c.b.say("ALERT", "config : "+format, a...)
}

func (c *config) parseError(format string, a ...any) {
	c.alert("parsing [%s:%d] : "+format, append([]any{c.file, c.line}, a...)...)
}

// Keywords that make no difference here.
var (
	ignoredGlobals = strings.Fields("chroot stats user group uid gid daemon maxconn nbthread nbproc cpu-map ca-base crt-base pidfile ulimit-n description node " +
		"ssl-default-bind-ciphers ssl-default-bind-ciphersuites ssl-default-bind-options ssl-default-server-options ssl-dh-param-file ssl-server-verify " +
		"tune.ssl.default-dh-param tune.bufsize tune.maxrewrite spread-checks log-send-hostname log-tag hard-stop-after master-worker set-dumpable quiet")
	ignoredOptions = strings.Fields("httplog dontlognull dontlog-normal log-health-checks log-separate-errors logasap http-server-close http-keep-alive httpclose forwardfor " +
		"tcp-smart-accept tcp-smart-connect tcpka clitcpka srvtcpka splice-auto splice-request splice-response abortonclose contstats nolinger allbackups persist tcp-check")
	ignoredKeywords = strings.Fields("errorfile maxconn fullconn description id disabled-on-404 rate-limit backlog errorloc hash-type")
	ignoredTimeouts = strings.Fields("http-request queue http-keep-alive tarpit tunnel client-fin server-fin")
	otherKeywords   = strings.Fields("acl use_backend use-server http-request http-response tcp-request tcp-response stick stick-table cookie redirect compression filter " +
		"capture server-template source dispatch monitor-uri monitor-net stats tcp-check email-alert external-check load-server-state-from-file unique-id-format log-format log-format-sd force-persist ignore-persist")
)

func (c *config) parse(text string) {
	c.line = 0
	for line := range strings.Lines(text) {
		c.line++
		words, ok := c.words(line)
		if !ok || len(words) == 0 {
			continue
		}
		switch words[0] {
		case "global", "defaults", "frontend", "backend", "listen":
			c.begin(words)
			continue
		case "peers", "resolvers", "userlist", "mailers", "program", "cache", "ring", "http-errors":
			c.unsupported("the section " + words[0])
			c.section = ""
			continue
		}
		switch c.section {
		case "":
			if c.errors == 0 {
				c.parseError("unknown keyword '%s' out of section.", words[0])
			}
		case "global":
			c.global(words)
		default:
			c.keyword(words)
		}
	}
}

// unsupported refuses what the real one has.
func (c *config) unsupported(what string) {
	c.parseError("ckadrill does not simulate haproxy's %s yet", what)
}

// words splits a line: quotes, backslashes, comments, and variables of the environment in double quotes or bare words.
func (c *config) words(line string) (words []string, ok bool) {
	var w strings.Builder
	in, quote := false, byte(0)
	line = strings.TrimRight(line, "\r\n")
	for i := 0; i < len(line); i++ {
		ch := line[i]
		switch {
		case quote == 0 && (ch == ' ' || ch == '\t'):
			if in {
				words = append(words, w.String())
				w.Reset()
				in = false
			}
			continue
		case quote == 0 && ch == '#':
			i = len(line)
			continue
		case ch == '\\' && quote != '\'' && i+1 < len(line):
			i++
			w.WriteByte(line[i])
		case quote == 0 && (ch == '"' || ch == '\''):
			quote = ch
		case quote == ch:
			quote = 0
		case quote == '"' && ch == '$' && strings.HasPrefix(line[i:], "${"):
			end := strings.IndexByte(line[i:], '}')
			if end < 0 {
				c.parseError("unmatched brace in environment variable name at position %d:\n  %s", i+1, line)
				return nil, false
			}
			w.WriteString(c.b.p.Getenv(line[i+2 : i+end]))
			i += end
		default:
			w.WriteByte(ch)
		}
		in = true
	}
	if quote != 0 {
		c.parseError("unmatched quote at position %d:\n  %s", strings.IndexByte(line, quote)+1, line)
		return nil, false
	}
	if in {
		words = append(words, w.String())
	}
	return words, true
}

func (c *config) begin(words []string) {
	c.section, c.current = words[0], nil
	switch words[0] {
	case "global":
		return
	case "defaults":
		c.defaults = newDefaults()
		return
	}
	if len(words) < 2 {
		c.parseError("'%s' expects an <id> argument.", words[0])
		c.section = "" // which nothing belongs to
		return
	}
	name := words[1]
	for _, x := range c.proxies {
		if x.name == name && (x.front() && words[0] != "backend" || x.back() && words[0] != "frontend") {
			c.parseError("%s '%s' has the same name as %s '%s' declared at %s:%d.", words[0], name, x.kind, x.name, x.file, x.line)
		}
	}
	c.current = &proxy{b: c.b, kind: words[0], name: name, file: c.file, line: c.line, defaults: c.defaults, turn: -1}
	c.proxies = append(c.proxies, c.current)
}

func (c *config) global(words []string) {
	switch {
	case words[0] == "log" && len(words) > 1:
		c.globals = logTargets(c.globals, words)
	case !slices.Contains(ignoredGlobals, words[0]):
		c.parseError("unknown keyword '%s' in 'global' section", words[0])
	}
}

// logTargets adds the target of a line "log", unless the line says that it takes only what is more important than a session.
func logTargets(l, words []string) []string {
	if len(words) > 3 && slices.Contains(strings.Fields("emerg alert crit err warning notice"), words[len(words)-1]) {
		return l
	}
	return append(l, words[1])
}

func (c *config) settings() *defaults {
	if c.current != nil {
		return &c.current.defaults
	}
	return &c.defaults
}

func (c *config) keyword(words []string) {
	d, k := c.settings(), words[0]
	arg := func(i int) string {
		if i < len(words) {
			return words[i]
		}
		return ""
	}
	switch {
	case k == "mode":
		switch arg(1) {
		case "tcp", "http":
			d.mode = arg(1)
		default:
			c.parseError("unknown proxy mode '%s'.", arg(1))
		}
	case k == "balance" && c.section != "frontend":
		switch arg(1) {
		case "", "roundrobin", "static-rr", "leastconn", "source", "first":
			d.balance = arg(1)
		case "uri", "url_param", "hdr", "random", "rdp-cookie", "hash":
			c.unsupported("balance " + arg(1))
		default:
			c.parseError("%s : only supports 'roundrobin', 'static-rr', 'leastconn', 'source', 'uri', 'url_param', 'hash', 'hdr(name)', 'rdp-cookie(name)', 'log-hash' and 'log-sticky' options.", k)
		}
	case k == "retries":
		n, err := strconv.Atoi(arg(1))
		if err != nil {
			c.parseError("'%s' expects an integer argument (dispatch counts for one).", k)
		}
		d.retries = n
	case k == "timeout":
		c.timeout(d, arg(1), arg(2))
	case k == "log":
		if arg(1) == "global" {
			d.log = []string{"global"}
		} else if arg(1) != "" {
			d.log = logTargets(d.log, words)
		}
	case k == "no" && arg(1) == "log":
		d.log = nil
	case k == "no" && arg(1) == "option", k == "option":
		if k == "no" {
			words = words[1:]
		}
		c.option(d, words, k != "no")
	case k == "http-check" && c.section != "frontend":
		c.httpCheck(&d.http, words[1:])
	case k == "default-server" && c.section != "frontend":
		c.serverOptions(&d.defServer, words[1:])
	case k == "default_backend" && c.section != "backend":
		d.backend = arg(1)
	case k == "bind" && (c.section == "frontend" || c.section == "listen"):
		c.bind(words)
	case k == "server" && (c.section == "backend" || c.section == "listen"):
		c.server(words)
	case slices.Contains(ignoredKeywords, k):
	case slices.Contains(otherKeywords, k):
		c.unsupported("keyword " + k)
	default:
		c.parseError("unknown keyword '%s' in '%s' section", k, c.section)
	}
}

func (c *config) timeout(d *defaults, name, value string) {
	t, ok := duration(value)
	rest := strings.TrimLeft(value, "0123456789")
	switch {
	case value == "":
		c.parseError("'timeout %s' expects an integer value (in milliseconds)", name)
		return
	case !ok && rest == "":
		c.parseError("timer overflow in argument '%s' to 'timeout %s' (maximum value is 2147483647 ms or ~24.8 days)", value, name)
		return
	case !ok:
		c.parseError("unexpected character '%s' in 'timeout %s'", rest[:1], name)
		return
	}
	switch name {
	case "connect":
		d.connect = t
	case "client":
		d.client = t
	case "server":
		d.server = t
	case "check":
		d.checkTime = t
	default:
		if !slices.Contains(ignoredTimeouts, name) {
			c.parseError("'timeout' supports 'client', 'server', 'connect', 'check', 'queue', 'http-keep-alive', 'http-request', 'tunnel', 'tarpit', 'client-fin' and 'server-fin' (got '%s')", name)
		}
	}
}

// duration reads haproxy's times, which are in milliseconds without a unit.
func duration(s string) (time.Duration, bool) {
	number := strings.TrimRight(s, "usmhd")
	n, err := strconv.ParseUint(number, 10, 31)
	unit, ok := map[string]time.Duration{"": time.Millisecond, "us": time.Microsecond, "ms": time.Millisecond, "s": time.Second, "m": time.Minute, "h": time.Hour, "d": 24 * time.Hour}[s[len(number):]]
	return time.Duration(n) * unit, err == nil && ok
}

func (c *config) option(d *defaults, words []string, on bool) {
	name := ""
	if len(words) > 1 {
		name = words[1]
	}
	switch {
	case name == "redispatch":
		d.redispatch = on
	case name == "tcplog":
		d.tcplog = on
	case name == "httpchk":
		d.http = httpCheck{on: on, method: "OPTIONS", uri: "/", tls: d.http.tls, expect: d.http.expect}
		switch l := words[2:]; len(l) {
		case 0:
		case 1:
			d.http.uri = l[0]
		default:
			d.http.method, d.http.uri = l[0], l[1]
		}
	case slices.Contains(strings.Fields("ssl-hello-chk smtpchk mysql-check pgsql-check redis-check ldap-check external-check spop-check"), name):
		c.unsupported("option " + name)
	case !slices.Contains(ignoredOptions, name):
		c.parseError("unknown option '%s'.", name)
	}
}

func (c *config) httpCheck(h *httpCheck, words []string) {
	refuse := func() { c.unsupported("http-check " + strings.Join(words, " ")) }
	if len(words) == 0 {
		c.parseError("'http-check' expects 'comment', 'connect', 'disable-on-404', 'expect', 'send', 'send-state', 'set-var' or 'unset-var'.")
		return
	}
	switch words[0] {
	case "connect":
		for _, w := range words[1:] {
			if w != "ssl" {
				refuse()
				return
			}
			h.tls = true
		}
	case "send":
		for i := 1; i+1 < len(words); i++ {
			switch words[i] {
			case "meth":
				i++
				h.method = words[i]
			case "uri":
				i++
				h.uri = words[i]
			case "ver":
				i++
			case "hdr":
				i += 2
			default:
				refuse()
				return
			}
		}
	case "expect":
		if len(words) != 3 || words[1] != "status" {
			refuse()
			return
		}
		n, err := strconv.Atoi(words[2])
		if err != nil {
			refuse()
			return
		}
		h.expect = n
	case "comment", "disable-on-404", "send-state":
	default:
		refuse()
	}
}

// address is haproxy's IP:PORT, with "*" or nothing for all addresses.
func address(s string) (string, bool) {
	host, port, ok := strings.Cut(s, ":")
	if !ok || port == "" {
		return "", false
	}
	if n, err := strconv.Atoi(port); err != nil || n < 1 || n > 65535 {
		return "", false
	}
	if host == "" || host == "*" {
		host = "0.0.0.0"
	}
	return net.JoinHostPort(host, port), true
}

func (c *config) bind(words []string) {
	if len(words) < 2 {
		c.parseError("'bind' expects {<path>|[addr1]:port1[-end1]}{,[addr]:port[-end]}... as arguments.")
		return
	}
	for _, w := range words[2:] {
		if w == "ssl" || w == "crt" || w == "alpn" {
			c.unsupported("bind with " + w)
			return
		}
	}
	for _, a := range strings.Split(words[1], ",") {
		full, ok := address(a)
		if !ok {
			c.parseError("'bind' : missing port number: '%s'", a)
			continue
		}
		c.current.binds = append(c.current.binds, binding{full, c.file, c.line})
	}
}

func (c *config) server(words []string) {
	if len(words) < 3 {
		c.parseError("'server' expects <name> and <addr>[:<port>] as arguments.")
		return
	}
	s := c.current.defServer
	s.proxy, s.name, s.file, s.line, s.up = c.current, words[1], c.file, c.line, true
	full, ok := address(words[2])
	if !ok {
		c.parseError("'server %s' : invalid address: '%s'", words[1], words[2])
		return
	}
	s.address = full
	c.serverOptions(&s, words[3:])
	c.current.servers = append(c.current.servers, &s)
}

func (c *config) serverOptions(s *server, words []string) {
	for i := 0; i < len(words); i++ {
		value := func() string {
			if i++; i < len(words) {
				return words[i]
			}
			return ""
		}
		k := words[i]
		switch k {
		case "check":
			s.checked = true
		case "no-check":
			s.checked = false
		case "check-ssl":
			s.checkTLS = true
		case "no-check-ssl":
			s.checkTLS = false
		case "backup":
			s.backup = true
		case "disabled":
			s.disabled = true
		case "enabled":
			s.disabled = false
		case "inter", "fastinter", "downinter":
			t, ok := duration(value())
			switch {
			case !ok:
				c.parseError("'server %s' : unexpected character in '%s' argument.", s.name, k)
				return
			case t == 0:
				c.parseError("'server %s' : invalid value 0 for argument '%s'.", s.name, k)
				return
			}
			switch k {
			case "inter":
				s.inter = t
			case "fastinter":
				s.fastInter = t
			default:
				s.downInter = t
			}
		case "rise", "fall", "weight", "port", "maxconn", "minconn", "maxqueue", "slowstart":
			n, err := strconv.Atoi(strings.TrimRight(value(), "sm"))
			switch {
			case err != nil || n < 0 || n == 0 && (k == "rise" || k == "fall"):
				c.parseError("'server %s' : '%s' has to be > 0.", s.name, k)
				return
			case k == "rise":
				s.rise = n
			case k == "fall":
				s.fall = n
			case k == "weight":
				s.weight = n
			case k == "port":
				s.checkPort = n
			}
		case "on-marked-down":
			switch v := value(); v {
			case "shutdown-sessions":
				s.shutDown = true
			default:
				c.parseError("'server %s' : 'on-marked-down' expects 'shutdown-sessions' but got '%s'", s.name, v)
				return
			}
		case "verify":
			if v := value(); v != "none" {
				c.unsupported("server with verify " + v)
				return
			}
		case "sni", "check-sni", "alpn", "check-alpn", "init-addr", "resolvers", "id", "on-error", "observe", "error-limit", "on-marked-up":
			value()
		case "no-backup", "no-ssl", "no-verifyhost":
		case "ssl", "send-proxy", "send-proxy-v2", "agent-check", "cookie", "track", "source", "ca-file", "crt":
			c.unsupported("server with " + k)
			return
		default:
			c.parseError("'server %s' : unknown keyword '%s'.", s.name, k)
			return
		}
	}
}

// resolve finds what the proxies name: backends and the servers' addresses.
func (c *config) resolve() {
	for _, x := range c.proxies {
		if len(x.log) == 1 && x.log[0] == "global" {
			x.log = c.globals
		}
		if x.front() && len(x.binds) == 0 {
			c.b.say("WARNING", "config : %s '%s' has no 'bind' directive. Please declare it as a backend if this was intended.", x.kind, x.name)
		}
		if x.mode == "http" && (len(x.binds) > 0 || len(x.servers) > 0) {
			c.alert("Proxy '%s': ckadrill does not simulate haproxy's mode http yet", x.name)
		}
		x.to = x
		if x.kind == "frontend" {
			x.to = nil
		}
		if x.backend != "" && x.front() {
			x.to = nil
			for _, y := range c.proxies {
				if y.name == x.backend && y.back() {
					x.to = y
				}
			}
			if x.to == nil {
				c.alert("Proxy '%s': unable to find required default_backend: '%s'.", x.name, x.backend)
			}
		}
		if missing := x.missingTimeouts(); missing {
			c.b.say("WARNING", "config : missing timeouts for %s '%s'.\n   | While not properly invalid, you will certainly encounter various problems\n   | with such a configuration. To fix this, please ensure that all following\n   | timeouts are set to a non-zero value: 'client', 'connect', 'server'.", x.kind, x.name)
		}
		for _, s := range x.servers {
			c.resolveServer(s)
		}
	}
}

func (c *config) resolveServer(s *server) {
	host, port, _ := net.SplitHostPort(s.address)
	l, err := network.ResolveLibc(c.b.p.Context(), c.b.p, host)
	if err != nil || len(l) == 0 {
		c.file, c.line = s.file, s.line
		c.alert("[%s:%d] : 'server %s/%s' : could not resolve address '%s'.", s.file, s.line, s.proxy.name, s.name, host)
		return
	}
	s.address = net.JoinHostPort(l[0].String(), port)
}
