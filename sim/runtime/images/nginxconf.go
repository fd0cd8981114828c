package images

import (
	"fmt"
	"path"
	"slices"
	"strings"

	"ckadrill/sim/kernel"
)

// directive is one directive of an nginx configuration, with the block that it may have.
type directive struct {
	name  string
	args  []string
	block []*directive
	body  bool // it has a block, maybe an empty one
	file  string
	line  int
}

// emerg is an error that keeps nginx from starting.
type emerg struct{ text string }

func (e *emerg) Error() string { return e.text }

func emergf(format string, a ...any) error { return &emerg{fmt.Sprintf(format, a...)} }

func (d *directive) errorf(format string, a ...any) error {
	return emergf(format+" in %s:%d", append(a, d.file, d.line)...)
}

// nginxDirectives are those that are known: an other one is an error, as in nginx. Most of them mean nothing here.
var nginxDirectives = func() map[string]bool {
	m := map[string]bool{}
	for _, n := range strings.Fields(`accept_mutex access_log add_header add_before_body aio alias allow ancient_browser auth_basic auth_basic_user_file auth_request autoindex autoindex_exact_size
		autoindex_format autoindex_localtime break charset chunked_transfer_encoding client_body_buffer_size client_body_in_file_only client_body_temp_path client_body_timeout client_header_buffer_size
		client_header_timeout client_max_body_size connection_pool_size daemon default default_type deny directio disable_symlinks env error_log error_page etag events expires fastcgi_pass
		fastcgi_param fastcgi_index fastcgi_temp_path geo gzip gzip_comp_level gzip_disable gzip_min_length gzip_proxied gzip_types gzip_vary gzip_static hash http http2 if ignore_invalid_headers include index internal ip_hash
		keepalive keepalive_requests keepalive_time keepalive_timeout large_client_header_buffers least_conn limit_conn limit_conn_zone limit_except limit_rate limit_req limit_req_zone listen load_module location log_format log_not_found
		log_subrequest map master_process max_ranges merge_slashes mirror multi_accept open_file_cache open_log_file_cache pcre_jit pid port_in_redirect proxy_buffer_size proxy_buffering proxy_buffers proxy_cache
		proxy_cache_path proxy_connect_timeout proxy_hide_header proxy_http_version proxy_intercept_errors proxy_next_upstream proxy_pass proxy_pass_header proxy_pass_request_headers proxy_read_timeout proxy_redirect
		proxy_request_buffering proxy_send_timeout proxy_set_header proxy_ssl_verify proxy_ssl_server_name proxy_temp_path proxy_timeout random real_ip_header reset_timedout_connection resolver resolver_timeout return rewrite root satisfy
		scgi_temp_path send_timeout sendfile sendfile_max_chunk server server_name server_name_in_redirect server_names_hash_bucket_size server_names_hash_max_size server_tokens set set_real_ip_from ssl ssl_certificate
		ssl_certificate_key ssl_ciphers ssl_prefer_server_ciphers ssl_protocols ssl_session_cache ssl_session_timeout ssl_session_tickets stream stub_status sub_filter tcp_nodelay tcp_nopush thread_pool timer_resolution try_files types
		types_hash_bucket_size types_hash_max_size underscores_in_headers upstream use user uwsgi_pass uwsgi_temp_path variables_hash_max_size worker_connections worker_cpu_affinity worker_priority worker_processes
		worker_rlimit_nofile worker_shutdown_timeout working_directory zone`) {
		m[n] = true
	}
	return m
}()

// nginxTokens splits a configuration into words, quoted strings, braces and semicolons.
type nginxToken struct {
	text   string
	quoted bool
	line   int
}

func nginxTokens(file, text string) ([]nginxToken, error) {
	var l []nginxToken
	line := 1
	for i := 0; i < len(text); {
		switch c := text[i]; {
		case c == '\n':
			line++
			i++
		case c == ' ' || c == '\t' || c == '\r':
			i++
		case c == '#':
			for i < len(text) && text[i] != '\n' {
				i++
			}
		case c == '{' || c == '}' || c == ';':
			l = append(l, nginxToken{string(c), false, line})
			i++
		case c == '"' || c == '\'':
			start := line
			var b strings.Builder
			i++
			for i < len(text) && text[i] != c {
				if text[i] == '\\' && i+1 < len(text) && (text[i+1] == c || text[i+1] == '\\') {
					i++
				}
				if text[i] == '\n' {
					line++
				}
				b.WriteByte(text[i])
				i++
			}
			if i >= len(text) {
				return nil, emergf("unexpected end of file, expecting \";\" or \"}\" in %s:%d", file, line)
			}
			i++
			l = append(l, nginxToken{b.String(), true, start})
		default:
			start := i
			for i < len(text) && !strings.ContainsRune(" \t\r\n;", rune(text[i])) {
				if text[i] == '{' && (i == start || text[i-1] != '$') || text[i] == '}' && !strings.Contains(text[start:i], "${") {
					break
				}
				i++
			}
			l = append(l, nginxToken{text[start:i], false, line})
		}
	}
	return l, nil
}

// nginxParser reads a configuration with what it includes.
type nginxParser struct {
	p      *kernel.Process
	prefix string
	depth  int
	nested int // blocks that are open
}

// nestLimit bounds how deep blocks may be nested; nginx's own contexts are no deeper than a few.
const nestLimit = 64

func (n *nginxParser) file(name string) ([]*directive, error) {
	if n.depth++; n.depth > 20 {
		return nil, emergf("too many levels of include in %s", name)
	}
	defer func() { n.depth-- }()
	b, err := n.p.Files.ReadFile(name)
	if err != nil {
		return nil, emergf("open() %q failed (%s)", name, errnoText(err))
	}
	return n.text(name, string(b))
}

func (n *nginxParser) text(name, text string) ([]*directive, error) {
	tokens, err := nginxTokens(name, text)
	if err != nil {
		return nil, err
	}
	last := 1 + strings.Count(strings.TrimSuffix(text, "\n"), "\n")
	l, rest, err := n.block(name, tokens, false, last)
	if err == nil && len(rest) > 0 {
		err = emergf("unexpected \"}\" in %s:%d", name, rest[0].line)
	}
	return l, err
}

func (n *nginxParser) block(file string, t []nginxToken, inner bool, last int) (l []*directive, rest []nginxToken, err error) {
	for len(t) > 0 {
		if !t[0].quoted && t[0].text == "}" {
			if inner {
				return l, t[1:], nil
			}
			return l, t, nil
		}
		if !t[0].quoted && (t[0].text == ";" || t[0].text == "{") {
			return nil, nil, emergf("unexpected %q in %s:%d", t[0].text, file, t[0].line)
		}
		d := &directive{name: t[0].text, file: file, line: t[0].line}
		t = t[1:]
	args:
		for {
			if len(t) == 0 {
				return nil, nil, emergf("unexpected end of file, expecting \";\" or \"}\" in %s:%d", file, last)
			}
			k := t[0]
			t = t[1:]
			if !k.quoted {
				switch k.text {
				case ";":
					d.line = k.line
					break args
				case "{":
					d.line = k.line
					d.body = true
					if n.nested++; n.nested > nestLimit {
						return nil, nil, emergf("too many nested blocks in %s:%d", file, k.line)
					}
					if d.block, t, err = n.block(file, t, true, last); err != nil {
						return nil, nil, err
					}
					n.nested--
					break args
				case "}":
					return nil, nil, emergf("unexpected \"}\" in %s:%d", file, k.line)
				}
			}
			d.args = append(d.args, k.text)
		}
		if d.name == "include" && len(d.args) == 1 {
			included, err := n.include(d)
			if err != nil {
				return nil, nil, err
			}
			l = append(l, included...)
			continue
		}
		l = append(l, d)
	}
	if inner {
		return nil, nil, emergf("unexpected end of file, expecting \"}\" in %s:%d", file, last)
	}
	return l, nil, nil
}

func (n *nginxParser) include(d *directive) (l []*directive, err error) {
	pattern := d.args[0]
	if !path.IsAbs(pattern) {
		pattern = path.Join(n.prefix, pattern)
	}
	names := []string{pattern}
	if strings.ContainsAny(pattern, "*?[") {
		names = nil
		entries, _ := n.p.Files.ReadDir(path.Dir(pattern))
		for _, e := range entries {
			if ok, _ := path.Match(path.Base(pattern), e.Name()); ok {
				names = append(names, path.Join(path.Dir(pattern), e.Name()))
			}
		}
	}
	for _, name := range names {
		part, err := n.file(name)
		if err != nil {
			if _, statErr := n.p.Files.Stat(name); statErr != nil {
				return nil, d.errorf("%s", err)
			}
			return nil, err
		}
		l = append(l, part...)
	}
	return l, nil
}

// The blocks in which a directive may stand; any other place is an error. Directives that are not listed are not checked.
var nginxContexts = map[string][]string{
	"http": {"main"}, "events": {"main"}, "user": {"main"}, "worker_processes": {"main"}, "pid": {"main"}, "daemon": {"main"},
	"server": {"http", "upstream", "stream"}, "location": {"server", "location"}, "upstream": {"http", "stream"}, "listen": {"server"}, "server_name": {"server"},
	"root": {"http", "server", "location", "if"}, "alias": {"location"}, "index": {"http", "server", "location"}, "return": {"server", "location", "if"}, "proxy_pass": {"location", "if", "server"},
	"try_files": {"server", "location"}, "worker_connections": {"events"}, "log_format": {"http", "stream"}, "autoindex": {"http", "server", "location"}, "stub_status": {"server", "location"},
}

// check finds the errors that nginx finds when it reads a configuration.
func nginxCheck(l []*directive, context string) error {
	for _, d := range l {
		if context == "types" || context == "map" || context == "geo" {
			continue
		}
		if !nginxDirectives[d.name] {
			return d.errorf("unknown directive %q", d.name)
		}
		if allowed, ok := nginxContexts[d.name]; ok && !slices.Contains(allowed, context) {
			return d.errorf("%q directive is not allowed here", d.name)
		}
		blocks := map[string]bool{"http": true, "events": true, "location": true, "types": true, "if": true, "stream": true, "limit_except": true, "upstream": true, "map": true, "geo": true}
		wants := blocks[d.name] || d.name == "server" && context != "upstream"
		switch {
		case wants && !d.body:
			return d.errorf("directive %q has no opening \"{\"", d.name)
		case !wants && d.body:
			return d.errorf("directive %q is not terminated by \";\"", d.name)
		}
		switch n := len(d.args); d.name {
		case "http", "events", "types":
			if n != 0 {
				return d.errorf("invalid number of arguments in %q directive", d.name)
			}
		case "root", "alias", "user", "worker_processes", "pid", "proxy_pass", "default_type", "worker_connections":
			if n == 0 || n > 1 && d.name != "user" {
				return d.errorf("invalid number of arguments in %q directive", d.name)
			}
		case "listen", "server_name", "index", "return", "location", "upstream":
			if n == 0 || (d.name == "location" || d.name == "return") && n > 2 {
				return d.errorf("invalid number of arguments in %q directive", d.name)
			}
		}
		if d.body {
			if err := nginxCheck(d.block, d.name); err != nil {
				return err
			}
		}
	}
	return nil
}

// find returns the directives of a name.
func find(l []*directive, name string) (out []*directive) {
	for _, d := range l {
		if d.name == name {
			out = append(out, d)
		}
	}
	return out
}

// value is the last value of a directive, or "".
func value(l []*directive, name string) string {
	v := ""
	for _, d := range find(l, name) {
		if len(d.args) > 0 {
			v = d.args[0]
		}
	}
	return v
}
