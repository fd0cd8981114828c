package images

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"path"
	"slices"
	"sort"
	"strconv"
	"strings"
	"sync"
	"time"

	"ckadrill/sim/kernel"
)

// redis is one running redis-server: strings, counters, lists and expiry, as far as drills use them.
type redis struct {
	p        *kernel.Process
	version  string
	port     string
	bind     []string
	dir      string
	password string
	start    time.Time

	mu       sync.Mutex
	strings  map[string]string
	lists    map[string][]string
	expires  map[string]time.Time
	dirty    bool
	clients  int
	commands int
}

// redisServer is the program redis-server.
func redisServer(p *kernel.Process) int {
	r := &redis{p: p, version: binaryVersion(p), port: "6379", dir: p.Dir(), start: time.Now(), strings: map[string]string{}, lists: map[string][]string{}, expires: map[string]time.Time{}}
	args := p.Argv[1:]
	configured := len(args) > 0
	if len(args) > 0 && (args[0] == "-v" || args[0] == "--version") {
		p.Printf("Redis server v=%s sha=00000000:1 malloc=jemalloc-5.3.0 bits=64 build=2481ff7c5ac8a8c4\n", r.version)
		return 0
	}
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		b, err := p.Files.ReadFile(p.Path(args[0]))
		if err != nil {
			r.log("C", "#", "Fatal error, can't open config file '%s': %s", p.Path(args[0]), plainErrno(err))
			return 1
		}
		for n, line := range strings.Split(string(b), "\n") {
			if f := strings.Fields(line); len(f) > 0 && !strings.HasPrefix(f[0], "#") {
				if err := r.set(f[0], f[1:]); err != nil {
					p.Errorf("\n*** FATAL CONFIG FILE ERROR (Redis %s) ***\nReading the configuration file, at line %d\n>>> '%s'\n%s\n", r.version, n+1, strings.TrimSpace(line), err)
					return 1
				}
			}
		}
		args = args[1:]
	}
	for len(args) > 0 {
		name := strings.TrimLeft(args[0], "-")
		args = args[1:]
		var v []string
		for len(args) > 0 && !strings.HasPrefix(args[0], "--") {
			v = append(v, args[0])
			args = args[1:]
		}
		if err := r.set(name, v); err != nil {
			p.Errorf("\n*** FATAL CONFIG FILE ERROR (Redis %s) ***\nReading the configuration file, at line 2\n>>> '%s \"%s\"'\n%s\n", r.version, name, strings.Join(v, " "), err)
			return 1
		}
	}
	return r.run(configured)
}

func (r *redis) set(name string, v []string) error {
	arg := strings.Trim(strings.Join(v, " "), `"`)
	switch name {
	case "port":
		if !isPort(arg) {
			return fmt.Errorf("argument must be between 0 and 65535 inclusive")
		}
		r.port = arg
	case "bind":
		r.bind = v
	case "dir":
		i, err := r.p.Files.Stat(r.p.Path(arg))
		if err != nil || !i.IsDir() {
			return fmt.Errorf("No such file or directory")
		}
		r.dir = r.p.Path(arg)
	case "requirepass":
		r.password = arg
	case "appendonly", "save", "maxmemory", "maxmemory-policy", "protected-mode", "loglevel", "logfile", "databases", "timeout", "tcp-backlog", "tcp-keepalive", "daemonize", "pidfile", "dbfilename",
		"appendfsync", "appendfilename", "maxclients", "slowlog-log-slower-than", "slowlog-max-len", "replicaof", "masterauth", "cluster-enabled", "io-threads", "activedefrag", "hz":
	default:
		return fmt.Errorf("Bad directive or wrong number of arguments")
	}
	return nil
}

func (r *redis) log(role, level, format string, a ...any) {
	r.p.Printf("%d:%s %s %s %s\n", r.p.OwnPID(), role, time.Now().UTC().Format("02 Jan 2006 15:04:05.000"), level, fmt.Sprintf(format, a...))
}

func (r *redis) run(configured bool) int {
	p := r.p
	quiet := p.Resumed()
	if !quiet {
		r.log("C", "*", "oO0OoO0OoO0Oo Redis is starting oO0OoO0OoO0Oo")
		r.log("C", "*", "Redis version=%s, bits=64, commit=00000000, modified=0, pid=%d, just started", r.version, p.OwnPID())
		if configured {
			r.log("C", "*", "Configuration loaded")
		} else {
			r.log("C", "#", "Warning: no config file specified, using the default config. In order to specify a config file use redis-server /path/to/redis.conf")
		}
		r.log("M", "*", "monotonic clock: POSIX clock_gettime")
	}
	addrs := []string{":" + r.port}
	if len(r.bind) > 0 {
		addrs = nil
		for _, b := range r.bind {
			addrs = append(addrs, net.JoinHostPort(strings.TrimPrefix(b, "-"), r.port))
		}
	}
	var listeners []net.Listener
	for _, a := range addrs {
		l, err := p.Listen("tcp", a)
		if err != nil {
			r.log("M", "#", "Warning: Could not create server TCP listening socket %s: bind: %s", strings.Replace(a, ":"+r.port, "*:"+r.port, 1), plainErrno(err))
			r.log("M", "#", "Failed listening on port %s (tcp), aborting.", r.port)
			return 1
		}
		listeners = append(listeners, l)
		go r.serve(l)
	}
	loaded := r.load()
	if !quiet {
		r.log("M", "*", "Running mode=standalone, port=%s.", r.port)
		r.log("M", "*", "Server initialized")
		if loaded {
			r.log("M", "*", "DB loaded from disk: 0.000 seconds")
		}
		r.log("M", "*", "Ready to accept connections tcp")
	}
	p.SetMemory(8 << 20)
	stop := make(chan kernel.Signal, 1)
	for _, s := range []kernel.Signal{kernel.SIGTERM, kernel.SIGINT} {
		p.Notify(s, func() {
			select {
			case stop <- s:
			default:
			}
		})
	}
	// The file is written soon after each change: what a real one holds in memory must outlive a thaw.
	save := time.NewTicker(time.Second)
	defer save.Stop()
	for {
		select {
		case <-save.C:
			r.save(false)
		case s := <-stop:
			p.Printf("%d:signal-handler (%d) Received %s scheduling shutdown...\n", p.OwnPID(), time.Now().Unix(), s)
			r.log("M", "*", "User requested shutdown...")
			r.log("M", "*", "Saving the final RDB snapshot before exiting.")
			if err := r.save(true); err != nil {
				r.log("M", "#", "Failed opening the temp RDB file temp-%d.rdb (in server root dir %s) for saving: %s", p.OwnPID(), r.dir, plainErrno(err))
				r.log("M", "#", "Error trying to save the DB, can't exit.")
				continue
			}
			r.log("M", "*", "DB saved on disk")
			r.log("M", "#", "Redis is now ready to exit, bye bye...")
			for _, l := range listeners {
				l.Close()
			}
			return 0
		case <-p.Context().Done():
			return 0
		}
	}
}

type redisDump struct {
	Strings map[string]string
	Lists   map[string][]string
	Expires map[string]time.Time
}

// save writes the data as dump.rdb, whose inside is not Redis' own format.
func (r *redis) save(always bool) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.dirty && !always {
		return nil
	}
	r.dirty = false
	b, err := json.Marshal(redisDump{r.strings, r.lists, r.expires})
	if err != nil {
		return err
	}
	return r.p.Files.WriteFile(path.Join(r.dir, "dump.rdb"), append([]byte("REDIS0012 ckadrill\n"), b...), 0o644)
}

func (r *redis) load() bool {
	b, err := r.p.Files.ReadFile(path.Join(r.dir, "dump.rdb"))
	if err != nil {
		return false
	}
	_, data, ok := strings.Cut(string(b), "\n")
	var d redisDump
	if !ok || json.Unmarshal([]byte(data), &d) != nil || d.Strings == nil {
		return false
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.strings, r.lists, r.expires = d.Strings, d.Lists, d.Expires
	return true
}

func (r *redis) serve(l net.Listener) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go r.client(c)
	}
}

// redisArgs reads one command, as an array of RESP or as an inline line.
func redisArgs(in *bufio.Reader) ([]string, error) {
	line, err := in.ReadString('\n')
	if err != nil {
		return nil, err
	}
	line = strings.TrimRight(line, "\r\n")
	if !strings.HasPrefix(line, "*") {
		return strings.Fields(line), nil
	}
	n, err := strconv.Atoi(line[1:])
	if err != nil || n < 0 || n > 1<<16 {
		return nil, fmt.Errorf("Protocol error: invalid multibulk length")
	}
	var args []string
	total := 0
	for range n {
		if line, err = in.ReadString('\n'); err != nil {
			return nil, err
		}
		size, err := strconv.Atoi(strings.TrimRight(strings.TrimPrefix(line, "$"), "\r\n"))
		if total += size; err != nil || size < 0 || total > 16<<20 || !strings.HasPrefix(line, "$") {
			return nil, fmt.Errorf("Protocol error: invalid bulk length")
		}
		b := make([]byte, size+2)
		if _, err := io.ReadFull(in, b); err != nil {
			return nil, err
		}
		args = append(args, string(b[:size]))
	}
	return args, nil
}

func (r *redis) client(c net.Conn) {
	defer c.Close()
	r.mu.Lock()
	r.clients++
	r.mu.Unlock()
	defer func() {
		r.mu.Lock()
		r.clients--
		r.mu.Unlock()
	}()
	in := bufio.NewReader(c)
	trusted := r.password == ""
	for {
		args, err := redisArgs(in)
		if err != nil {
			if strings.HasPrefix(err.Error(), "Protocol") {
				fmt.Fprintf(c, "-ERR %s\r\n", err)
			}
			return
		}
		if len(args) == 0 {
			continue
		}
		name := strings.ToUpper(args[0])
		switch {
		case name == "QUIT":
			io.WriteString(c, "+OK\r\n")
			return
		case name == "AUTH":
			switch {
			case r.password == "":
				io.WriteString(c, "-ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?\r\n")
			case args[len(args)-1] == r.password:
				trusted = true
				io.WriteString(c, "+OK\r\n")
			default:
				io.WriteString(c, "-WRONGPASS invalid username-password pair or user is disabled.\r\n")
			}
		case !trusted:
			io.WriteString(c, "-NOAUTH Authentication required.\r\n")
		default:
			if _, err := io.WriteString(c, r.command(name, args)); err != nil {
				return
			}
		}
	}
}

func bulk(s string) string { return fmt.Sprintf("$%d\r\n%s\r\n", len(s), s) }

func array(l []string) string {
	var b strings.Builder
	fmt.Fprintf(&b, "*%d\r\n", len(l))
	for _, s := range l {
		b.WriteString(bulk(s))
	}
	return b.String()
}

const redisNil = "$-1\r\n"

// command executes one command and returns the reply.
func (r *redis) command(name string, args []string) string {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.commands++
	for k, t := range r.expires {
		if !time.Now().Before(t) {
			delete(r.strings, k)
			delete(r.lists, k)
			delete(r.expires, k)
			r.dirty = true
		}
	}
	arity := map[string]int{"GET": 2, "SET": 3, "DEL": 2, "EXISTS": 2, "INCR": 2, "DECR": 2, "INCRBY": 3, "APPEND": 3, "STRLEN": 2, "KEYS": 2, "ECHO": 2, "EXPIRE": 3, "TTL": 2, "LPUSH": 3, "RPUSH": 3, "LPOP": 2, "RPOP": 2,
		"LRANGE": 4, "LLEN": 2, "TYPE": 2, "MGET": 2, "MSET": 3, "SETNX": 3, "SELECT": 2}
	if len(args) < arity[name] {
		return fmt.Sprintf("-ERR wrong number of arguments for '%s' command\r\n", strings.ToLower(name))
	}
	wrongType := "-WRONGTYPE Operation against a key holding the wrong kind of value\r\n"
	switch name {
	case "PING":
		if len(args) > 1 {
			return bulk(args[1])
		}
		return "+PONG\r\n"
	case "ECHO":
		return bulk(args[1])
	case "SELECT", "CLIENT", "FLUSHALL", "FLUSHDB", "SAVE", "BGSAVE", "CONFIG", "COMMAND":
		return r.admin(name, args)
	case "HELLO":
		return "-NOPROTO unsupported protocol version\r\n"
	case "INFO":
		return bulk(fmt.Sprintf("# Server\r\nredis_version:%s\r\nredis_mode:standalone\r\nos:Linux\r\nprocess_id:%d\r\ntcp_port:%s\r\nuptime_in_seconds:%d\r\n\r\n# Clients\r\nconnected_clients:%d\r\n\r\n# Stats\r\ntotal_commands_processed:%d\r\n\r\n# Replication\r\nrole:master\r\nconnected_slaves:0\r\n\r\n# Keyspace\r\ndb0:keys=%d,expires=%d,avg_ttl=0\r\n",
			r.version, r.p.OwnPID(), r.port, int(time.Since(r.p.StartTime()).Seconds()), r.clients, r.commands, len(r.strings)+len(r.lists), len(r.expires)))
	case "DBSIZE":
		return fmt.Sprintf(":%d\r\n", len(r.strings)+len(r.lists))
	case "SET", "SETNX":
		_, exists := r.strings[args[1]]
		var opts []string
		for _, a := range args[3:] {
			opts = append(opts, strings.ToUpper(a))
		}
		if exists && (name == "SETNX" || slices.Contains(opts, "NX")) {
			if name == "SETNX" {
				return ":0\r\n"
			}
			return redisNil
		}
		if slices.Contains(opts, "XX") && !exists {
			return redisNil
		}
		delete(r.lists, args[1])
		delete(r.expires, args[1])
		r.strings[args[1]], r.dirty = args[2], true
		if i := slices.Index(opts, "EX"); i >= 0 && i+1 < len(opts) {
			n, err := strconv.Atoi(opts[i+1])
			if err != nil || n <= 0 {
				return "-ERR invalid expire time in 'set' command\r\n"
			}
			r.expires[args[1]] = time.Now().Add(time.Duration(n) * time.Second)
		}
		if name == "SETNX" {
			return ":1\r\n"
		}
		return "+OK\r\n"
	case "MSET":
		if len(args)%2 == 0 {
			return "-ERR wrong number of arguments for 'mset' command\r\n"
		}
		for i := 1; i < len(args); i += 2 {
			r.strings[args[i]] = args[i+1]
		}
		r.dirty = true
		return "+OK\r\n"
	case "GET":
		if _, ok := r.lists[args[1]]; ok {
			return wrongType
		}
		if v, ok := r.strings[args[1]]; ok {
			return bulk(v)
		}
		return redisNil
	case "MGET":
		var b strings.Builder
		fmt.Fprintf(&b, "*%d\r\n", len(args)-1)
		for _, k := range args[1:] {
			if v, ok := r.strings[k]; ok {
				b.WriteString(bulk(v))
			} else {
				b.WriteString(redisNil)
			}
		}
		return b.String()
	case "STRLEN":
		return fmt.Sprintf(":%d\r\n", len(r.strings[args[1]]))
	case "APPEND":
		r.strings[args[1]] += args[2]
		r.dirty = true
		return fmt.Sprintf(":%d\r\n", len(r.strings[args[1]]))
	case "INCR", "DECR", "INCRBY":
		n, err := strconv.ParseInt(r.strings[args[1]], 10, 64)
		if err != nil && r.strings[args[1]] != "" {
			return "-ERR value is not an integer or out of range\r\n"
		}
		by := int64(1)
		if name == "DECR" {
			by = -1
		}
		if name == "INCRBY" {
			if by, err = strconv.ParseInt(args[2], 10, 64); err != nil {
				return "-ERR value is not an integer or out of range\r\n"
			}
		}
		r.strings[args[1]], r.dirty = strconv.FormatInt(n+by, 10), true
		return fmt.Sprintf(":%d\r\n", n+by)
	case "DEL", "EXISTS":
		n := 0
		for _, k := range args[1:] {
			_, s := r.strings[k]
			_, l := r.lists[k]
			if s || l {
				n++
			}
			if name == "DEL" {
				delete(r.strings, k)
				delete(r.lists, k)
				delete(r.expires, k)
				r.dirty = true
			}
		}
		return fmt.Sprintf(":%d\r\n", n)
	case "KEYS":
		var l []string
		match := func(k string) {
			if ok, _ := path.Match(args[1], k); ok {
				l = append(l, k)
			}
		}
		for k := range r.strings {
			match(k)
		}
		for k := range r.lists {
			match(k)
		}
		sort.Strings(l)
		return array(l)
	case "TYPE":
		if _, ok := r.lists[args[1]]; ok {
			return "+list\r\n"
		}
		if _, ok := r.strings[args[1]]; ok {
			return "+string\r\n"
		}
		return "+none\r\n"
	case "EXPIRE":
		n, err := strconv.Atoi(args[2])
		if err != nil {
			return "-ERR value is not an integer or out of range\r\n"
		}
		if _, ok := r.strings[args[1]]; !ok && r.lists[args[1]] == nil {
			return ":0\r\n"
		}
		r.expires[args[1]], r.dirty = time.Now().Add(time.Duration(n)*time.Second), true
		return ":1\r\n"
	case "TTL":
		if t, ok := r.expires[args[1]]; ok {
			return fmt.Sprintf(":%d\r\n", int(time.Until(t).Round(time.Second).Seconds()))
		}
		if _, ok := r.strings[args[1]]; ok || r.lists[args[1]] != nil {
			return ":-1\r\n"
		}
		return ":-2\r\n"
	}
	if _, ok := r.strings[argOr(args, 1)]; ok && strings.Contains("LPUSH RPUSH LPOP RPOP LRANGE LLEN", name) {
		return wrongType
	}
	return r.list(name, args)
}

func argOr(args []string, i int) string {
	if i < len(args) {
		return args[i]
	}
	return ""
}

func (r *redis) list(name string, args []string) string {
	switch name {
	case "LPUSH", "RPUSH":
		for _, v := range args[2:] {
			if name == "LPUSH" {
				r.lists[args[1]] = append([]string{v}, r.lists[args[1]]...)
			} else {
				r.lists[args[1]] = append(r.lists[args[1]], v)
			}
		}
		r.dirty = true
		return fmt.Sprintf(":%d\r\n", len(r.lists[args[1]]))
	case "LPOP", "RPOP":
		l := r.lists[args[1]]
		if len(l) == 0 {
			return redisNil
		}
		v := l[0]
		if l = l[1:]; name == "RPOP" {
			l = r.lists[args[1]]
			v, l = l[len(l)-1], l[:len(l)-1]
		}
		r.lists[args[1]], r.dirty = l, true
		if len(l) == 0 {
			delete(r.lists, args[1])
		}
		return bulk(v)
	case "LLEN":
		return fmt.Sprintf(":%d\r\n", len(r.lists[args[1]]))
	case "LRANGE":
		l := r.lists[args[1]]
		from, err1 := strconv.Atoi(args[2])
		to, err2 := strconv.Atoi(args[3])
		if err1 != nil || err2 != nil {
			return "-ERR value is not an integer or out of range\r\n"
		}
		if from < 0 {
			from = max(0, from+len(l))
		}
		if to < 0 {
			to += len(l)
		}
		to = min(to, len(l)-1)
		if from > to {
			return "*0\r\n"
		}
		return array(l[from : to+1])
	}
	var shown []string
	for _, a := range args[1:] {
		shown = append(shown, "'"+a+"'")
	}
	return fmt.Sprintf("-ERR unknown command '%s', with args beginning with: %s \r\n", args[0], strings.Join(shown, " "))
}

func (r *redis) admin(name string, args []string) string {
	switch name {
	case "FLUSHALL", "FLUSHDB":
		clear(r.strings)
		clear(r.lists)
		clear(r.expires)
		r.dirty = true
	case "COMMAND":
		return "*0\r\n"
	case "BGSAVE":
		r.dirty = true
		return "+Background saving started\r\n"
	case "CONFIG":
		if len(args) > 2 && strings.EqualFold(args[1], "GET") {
			v, ok := map[string]string{"port": r.port, "dir": r.dir, "requirepass": r.password, "maxmemory": "0", "appendonly": "no", "save": "3600 1 300 100 60 10000"}[strings.ToLower(args[2])]
			if !ok {
				return "*0\r\n"
			}
			return array([]string{args[2], v})
		}
	}
	return "+OK\r\n"
}
