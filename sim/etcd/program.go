package etcd

import (
	"crypto/tls"
	"errors"
	"flag"
	"fmt"
	"io/fs"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"ckadrill/sim/kernel"
)

// How long the steps of a start take, measured on a real member (etcd 3.6.6, files on an SSD).
const (
	openDatabase   = 300 * time.Microsecond // of a new member
	reopenDatabase = 14 * time.Millisecond
	createWAL      = 19 * time.Millisecond
	replayWAL      = 31 * time.Millisecond
	startServer    = 4 * time.Millisecond
	publish        = 3 * time.Millisecond
	shutdown       = 60 * time.Millisecond
	electionTicks  = 1 // ticks that are left after fast-forwarding
)

// program is one run of the program "etcd" before its server serves.
type program struct {
	p   *kernel.Process
	ss  *Stores
	c   *config
	log *logger
	dir dataDir

	peers, clients, httpOnly, metrics []net.Listener
	peerTLS                           *tls.Config
	founding                          founding

	mu                         sync.Mutex
	clientServers, peerServers []*server
}

// main is the program "etcd".
func (ss *Stores) main(p *kernel.Process) int {
	g := &program{p: p, ss: ss, c: newConfig(p.Stderr)}
	if len(p.Argv) > 1 {
		switch p.Argv[1] {
		case "gateway", "grpc-proxy":
			p.Errorf("ckadrill does not simulate etcd %s yet\n", p.Argv[1])
			return 1
		}
	}
	switch err := g.c.fs.Parse(p.Argv[1:]); {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	}
	g.log = &logger{w: p.Stderr, least: slices.Index(logLevels, "info")}
	g.log.silent.Store(p.Resumed())
	err := g.configure()
	if g.c.version {
		p.Printf("etcd Version: %s\nGit SHA: Not provided (use ./build instead of go build)\nGo Version: %s\nGo OS/Arch: linux/amd64\n", Version, goVersion)
		return 0
	}
	g.log.info("etcdmain/etcd.go:64", "Running: ", "args", p.Argv)
	if err != nil {
		g.log.warn("etcdmain/etcd.go:66", "failed to verify flags", "error", err)
		if errors.Is(err, errUnsetAdvertise) {
			g.log.warn("etcdmain/etcd.go:69", "advertise client URLs are not set", "error", err)
		}
		return 1
	}
	return g.run()
}

// configure completes what the command line says.
func (g *program) configure() error {
	c := g.c
	if n := c.fs.NArg(); n != 0 {
		return fmt.Errorf("%q is not a valid flag", c.fs.Arg(0))
	}
	if c.version {
		return nil
	}
	if err := c.fromEnv(g.p.LookupEnv); err != nil {
		return err
	}
	if c.configFile != "" {
		return errors.New("ckadrill does not simulate etcd's --config-file yet")
	}
	for _, w := range c.ignoredWarnings {
		g.log.warn("flags/ignored.go:38", w)
	}
	if err := g.openLog(); err != nil {
		return err
	}
	if err := c.validate(g.log.warn); err != nil {
		return err
	}
	names := make([]string, 0, len(deprecatedFlags))
	for n := range deprecatedFlags {
		if c.set[n] {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	for _, n := range names {
		g.log.warn("etcdmain/config.go:270", deprecatedFlags[n])
	}
	for _, n := range renamedFlags {
		if c.set["experimental-"+n] {
			g.log.warn("etcdmain/config.go:270", fmt.Sprintf("--experimental-%s is deprecated in v3.6 and will be decommissioned in v3.7. Use '--%s' instead.", n, n))
		}
	}
	return nil
}

// openLog follows --log-level, --log-format and --log-outputs.
func (g *program) openLog() error {
	c := g.c
	if c.logFormat != "json" && c.logFormat != "console" {
		return fmt.Errorf("unknown log format: %s, supported values json, console", c.logFormat)
	}
	g.log.console = c.logFormat == "console"
	i := slices.Index(logLevels, c.logLevel)
	if i < 0 {
		return fmt.Errorf("unrecognized level: %q", c.logLevel)
	}
	g.log.least = i
	switch c.logOutputs {
	case "default", "stderr":
	case "stdout":
		g.log.w = g.p.Stdout
	default:
		f, err := g.p.Files.OpenFile(g.p.Path(c.logOutputs), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o644)
		if err != nil {
			return err
		}
		g.log.w = f
		g.p.OnExit(func() { f.Close() })
	}
	return nil
}

func (g *program) fatal(caller, msg string, err error, stack string) int {
	g.log.write(line{level: "fatal", caller: caller, msg: msg, fields: []any{"error", err}, stack: stack})
	return 1
}

func (g *program) run() int {
	c, log := g.c, g.log
	if c.dataDir == "" {
		c.dataDir = c.name + ".etcd"
		log.warn("etcdmain/etcd.go:96", "'data-dir' was empty; using default", "data-dir", c.dataDir)
	}
	g.dir = dataDir{p: g.p, dir: c.dataDir, wal: c.walDir}
	kind, err := g.dir.kind(log)
	if err != nil {
		log.write(line{level: "fatal", caller: "etcdmain/etcd.go:227", msg: "failed to list data directory", fields: []any{"dir", c.dataDir, "error", err}, stack: stackMain})
		return 1
	}
	switch kind {
	case "member":
		log.info("etcdmain/etcd.go:107", "server has already been initialized", "data-dir", c.dataDir, "dir-type", kind)
	case "proxy":
		log.write(line{level: "panic", caller: "etcdmain/etcd.go:116", msg: "v2 http proxy has already been deprecated in 3.6", fields: []any{"dir-type", kind}, stack: stackMain})
		return 2
	default:
		log.info("etcdmain/etcd.go:124", "Initialize and start etcd server", "data-dir", c.dataDir, "dir-type", kind)
	}
	srv, code, err := g.start()
	if err != nil {
		closing := []any{"name", c.name, "data-dir", c.dataDir, "advertise-peer-urls", c.advertisePeer.strings(), "advertise-client-urls", c.advertiseClient.strings()}
		log.info("embed/etcd.go:426", "closing etcd server", closing...)
		g.closeListeners()
		log.info("embed/etcd.go:428", "closed etcd server", closing...)
		if s := err.Error(); strings.Contains(s, "include") && strings.Contains(s, "--initial-cluster") {
			log.warn("etcdmain/etcd.go:170", "failed to start", "error", err)
			return 1
		}
		return g.fatal("etcdmain/etcd.go:183", "discovery failed", err, stackMain)
	}
	if srv == nil {
		return code
	}
	return g.serve(srv)
}

func (g *program) closeListeners() {
	for _, ls := range [][]net.Listener{g.peers, g.clients, g.httpOnly, g.metrics} {
		for _, l := range ls {
			l.Close()
		}
	}
}

func (g *program) listen(urls urlList) ([]net.Listener, error) {
	var ls []net.Listener
	for _, u := range urls {
		var l net.Listener
		var err error
		if u.Scheme == "unix" || u.Scheme == "unixs" {
			l, err = g.p.Listen("unix", u.Host+u.Path)
		} else {
			l, err = g.p.Listen("tcp", listenAddress(u.Host))
		}
		if err != nil {
			for _, l := range ls {
				l.Close()
			}
			return nil, err
		}
		ls = append(ls, l)
	}
	return ls, nil
}

// start goes as far as embed.StartEtcd up to a server that has its store. Without an error and without a server, the
// process ends with the code.
func (g *program) start() (*Server, int, error) {
	c, log := g.c, g.log
	if err := c.validate(log.warn); err != nil {
		return nil, 0, err
	}
	log.info("embed/etcd.go:138", "configuring peer listeners", "listen-peer-urls", c.listenPeer.strings())
	if !c.peer.empty() {
		log.info("embed/etcd.go:544", "starting with peer TLS", "tls-info", c.peer.String(), "cipher-suites", []string{})
	}
	var err error
	if g.peers, err = g.listen(c.listenPeer); err != nil {
		log.write(line{level: "error", caller: "embed/etcd.go:586", msg: "creating peer listener failed", fields: []any{"error", err}, stack: stackPeers})
		return nil, 0, err
	}
	if slices.ContainsFunc(c.listenPeer.strings(), isHTTPS) {
		if g.peerTLS, err = serverTLS(g.p, c.peer, c.tlsMin, c.tlsMax); err != nil {
			log.write(line{level: "error", caller: "embed/etcd.go:586", msg: "creating peer listener failed", fields: []any{"error", err}, stack: stackPeers})
			return nil, 0, err
		}
	}
	log.info("embed/etcd.go:146", "configuring client listeners", "listen-client-urls", c.listenClient.strings())
	if g.clients, err = g.listen(c.listenClient); err != nil {
		return nil, 0, err
	}
	if g.httpOnly, err = g.listen(c.listenHTTP); err != nil {
		return nil, 0, err
	}
	initialized := g.dir.haveWAL()
	var members []Member
	if !initialized {
		if members, err = parseCluster(c.initialCluster); err != nil {
			return nil, 0, fmt.Errorf("error setting up initial cluster: %w", err)
		}
	}
	g.announce(initialized)
	s, code, err := g.bootstrap(initialized, members)
	if err != nil || s == nil {
		if err != nil {
			log.write(line{level: "error", caller: "etcdserver/server.go:309", msg: "bootstrap failed", fields: []any{"error", err}, stack: stackBootstrap})
		}
		return nil, code, err
	}
	srv := &Server{p: g.p, stores: g.ss, store: s, c: c, log: log, token: g.ss.w.UUID("etcd"), failed: make(chan error, 1)}
	if g.p.Resumed() {
		srv.db = g.dir.reopen(s)
	} else if srv.db, err = g.dir.write(s); err != nil {
		return nil, 0, err
	}
	if s.raft != nil {
		rep := newReplica(srv, g.founding.cl, g.founding.peers, g.p.Resumed())
		if g.p.Resumed() {
			rep.carryOn()
		}
		if err := rep.connect(); err != nil {
			return nil, 0, err
		}
		srv.replica.Store(rep)
	}
	return srv, 0, nil
}

func isHTTPS(url string) bool { return strings.HasPrefix(url, "https://") }

// announce prints the line with the whole configuration.
func (g *program) announce(initialized bool) {
	c := g.c
	cluster, token := c.initialCluster, c.token
	if initialized {
		cluster, token = "", ""
	}
	g.log.info("embed/etcd.go:323", "starting an etcd server",
		"etcd-version", Version, "git-sha", "Not provided (use ./build instead of go build)", "go-version", goVersion, "go-os", "linux", "go-arch", "amd64",
		"max-cpu-set", 2, "max-cpu-available", 2, "member-initialized", initialized, "name", c.name, "data-dir", c.dataDir,
		"wal-dir", c.walDir, "wal-dir-dedicated", c.walDir, "member-dir", g.dir.member(), "force-new-cluster", c.forceNew,
		"heartbeat-interval", time.Duration(c.tickMs)*time.Millisecond, "election-timeout", time.Duration(c.electionMs)*time.Millisecond,
		"initial-election-tick-advance", c.tickAdvance, "snapshot-count", c.snapshotCount, "max-wals", c.maxWALs, "max-snapshots", c.maxSnaps,
		"snapshot-catchup-entries", c.catchUp, "initial-advertise-peer-urls", c.advertisePeer.strings(), "listen-peer-urls", c.listenPeer.strings(),
		"advertise-client-urls", c.advertiseClient.strings(), "listen-client-urls", c.listenClient.strings(), "listen-metrics-urls", c.listenMetrics.strings(),
		"experimental-local-address", "", "cors", []string{"*"}, "host-whitelist", []string{"*"}, "initial-cluster", cluster,
		"initial-cluster-state", c.clusterState, "initial-cluster-token", token, "quota-backend-bytes", g.quota(),
		"max-request-bytes", c.maxRequest, "max-concurrent-streams", uint32(1<<32-1), "pre-vote", c.preVote, "feature-gates", c.gates,
		"initial-corrupt-check", false, "corrupt-check-time-interval", c.corruptCheck, "compact-check-time-interval", c.compactHashCheck,
		"auto-compaction-mode", c.compactionMode, "auto-compaction-retention", "0s", "auto-compaction-interval", "0s",
		"discovery-url", "", "discovery-proxy", "", "discovery-token", "", "discovery-endpoints", "", "discovery-dial-timeout", "2s",
		"discovery-request-timeout", "5s", "discovery-keepalive-time", "2s", "discovery-keepalive-timeout", "6s", "discovery-insecure-transport", true,
		"discovery-insecure-skip-tls-verify", false, "discovery-cert", "", "discovery-key", "", "discovery-cacert", "", "discovery-user", "",
		"downgrade-check-interval", c.downgradeCheck, "max-learners", 1, "v2-deprecation", "write-only")
}

func (g *program) quota() int64 {
	if g.c.quota == 0 {
		return DefaultQuota
	}
	return g.c.quota
}

// wait lets the time of a step of the start pass; a resumed process has long been through it.
func (g *program) wait(d time.Duration) {
	if !g.p.Resumed() {
		g.p.Sleep(d)
	}
}

func (g *program) bolt(level, caller, msg, stack string) {
	g.log.write(line{level: level, name: "bbolt", caller: caller, msg: msg, stack: stack})
}

// bootstrap opens the data directory. Without an error and without a store, the process ends with the code.
func (g *program) bootstrap(initialized bool, members []Member) (*Store, int, error) {
	c, log, d := g.c, g.log, g.dir
	if g.p.Resumed() {
		if s := g.ss.resumed(g.p); s != nil {
			if s.raft != nil {
				g.founding.cl = clusterOf(g.log.upstream(g.p), s)
			}
			return s, 0, nil
		}
	}
	if err := d.touch(d.dir, log); err != nil {
		return nil, 0, fmt.Errorf("cannot access data directory: %w", err)
	}
	if err := d.touch(d.member(), log); err != nil {
		return nil, 0, fmt.Errorf("cannot access member directory: %w", err)
	}
	if err := d.touch(d.snap(), log); err != nil {
		log.write(line{level: "fatal", caller: "etcdserver/bootstrap.go:176", msg: "failed to create snapshot directory", fields: []any{"path", d.snap(), "error", err}, stack: stackBootstrap})
		return nil, 1, nil
	}
	existed := d.exists(d.db())
	began := time.Now()
	g.bolt("info", "backend/backend.go:203", fmt.Sprintf("Opening db file (%s) with mode -rw------- and with options: {Timeout: 0s, NoGrowSync: false, NoFreelistSync: true, PreLoadFreelist: false, FreelistType: hashmap, ReadOnly: false, MmapFlags: 8000, InitialMmapSize: 10737418240, PageSize: 0, NoSync: false, OpenFile: 0x0, Mlock: false, Logger: 0xc00007a2e8}", d.db()), "")
	if initialized {
		g.wait(reopenDatabase)
	} else {
		g.wait(openDatabase)
	}
	if err := g.locked(); err != nil {
		return nil, 1, nil
	}
	s, err := d.open(g.ss)
	if err != nil {
		return nil, g.noDatabase(err), nil
	}
	g.bolt("info", "bbolt@v1.4.3/db.go:322", fmt.Sprintf("Opening bbolt db (%s) successfully", d.db()), "")
	log.info("storage/backend.go:80", "opened backend db", "path", d.db(), "took", time.Since(began))
	index := uint64(0)
	if s.Header().MemberId != 0 {
		index = s.applied()
	}
	log.info("etcdserver/bootstrap.go:220", "restore consistentIndex", "index", index)
	if initialized {
		log.info("etcdserver/bootstrap.go:441", "No snapshot found. Recovering WAL from scratch!")
	}
	if existed {
		file, inUse := s.Size()
		log.info("etcdserver/bootstrap.go:232", "recovered v3 backend", "backend-size-bytes", file, "backend-size", humanSize(file),
			"backend-size-in-use-bytes", inUse, "backend-size-in-use", humanSize(inUse))
	}
	switch {
	case initialized && s.raft != nil:
		g.restartSeveral(s)
		return s, 0, nil
	case initialized && len(s.Members()) > 1:
		g.ss.drop(s)
		return nil, 0, errors.New("ckadrill does not simulate a member of several whose database file was replaced yet")
	case initialized && s.Header().MemberId != 0:
		g.restart(s)
		return s, 0, nil
	}
	log.info("etcdserver/bootstrap.go:94", "bootstrapping cluster")
	i := slices.IndexFunc(members, func(m Member) bool { return m.Name == c.name })
	if i < 0 {
		return nil, 0, fmt.Errorf("couldn't find local name %q in the initial cluster configuration", c.name)
	}
	advertised := c.advertisePeer.strings()
	if urls := slices.Sorted(slices.Values(members[i].PeerURLs)); c.clusterState == "new" && !slices.Equal(urls, advertised) {
		return nil, 0, fmt.Errorf("--initial-cluster has %s but missing from --initial-advertise-peer-urls=%s (resolved urls: %q, %q)",
			strings.Join(missing(urls, advertised, c.name+"="), ","), strings.Join(advertised, ","), strings.Join(urls, ","), strings.Join(advertised, ","))
	}
	if len(members) > 1 || c.clusterState == "existing" {
		if err := g.bootstrapSeveral(s, members); err != nil {
			g.ss.drop(s)
			return nil, 0, err
		}
		return s, 0, nil
	}
	for i := range members {
		members[i].ID = MemberID(members[i].PeerURLs, c.token)
	}
	log.info("etcdserver/bootstrap.go:101", "bootstrapping storage")
	g.wait(createWAL)
	self := members[i].ID
	members[i].ClientURLs = c.advertiseClient.strings()
	s.found(self, members)
	id, cluster := hexID(self), hexID(s.Header().ClusterId)
	log.info("etcdserver/bootstrap.go:109", "bootstrapping raft")
	log.info("etcdserver/bootstrap.go:499", "starting local member", "local-member-id", id, "cluster-id", cluster)
	log.info("etcdserver/server.go:312", "bootstrap successfully")
	log.raft("raft.go:1981", "%s switched to configuration voters=()", id)
	log.raft("raft.go:897", "%s became follower at term 0", id)
	log.raft("raft.go:493", "newRaft %s [peers: [], term: 0, commit: 0, applied: 0, lastindex: 0, lastterm: 0]", id)
	log.raft("raft.go:897", "%s became follower at term 1", id)
	log.raft("raft.go:1981", "%s switched to configuration voters=(%d)", id, self)
	return s, 0, nil
}

func missing(have, want []string, prefix string) []string {
	var l []string
	for _, u := range have {
		if !slices.Contains(want, u) {
			l = append(l, prefix+u)
		}
	}
	if l == nil {
		for _, u := range have {
			l = append(l, prefix+u)
		}
	}
	return l
}

// restart is a bootstrap from a log that exists.
func (g *program) restart(s *Store) {
	log, h := g.log, s.Header()
	log.info("etcdserver/bootstrap.go:90", "Bootstrapping WAL from snapshot")
	g.wait(replayWAL)
	id, cluster := hexID(h.MemberId), hexID(h.ClusterId)
	commit := s.applied() - 1
	log.info("etcdserver/bootstrap.go:599", "restarting local member", "cluster-id", cluster, "local-member-id", id, "commit-index", commit)
	log.info("etcdserver/bootstrap.go:94", "bootstrapping cluster")
	log.info("etcdserver/bootstrap.go:101", "bootstrapping storage")
	for _, m := range s.Members() {
		log.info("membership/cluster.go:605", "Detected member only in v3store but missing in v2store", "member",
			fmt.Sprintf("{ID:%s RaftAttributes:{PeerURLs:%v IsLearner:%v} Attributes:{Name:%s ClientURLs:%v}}", hexID(m.ID), m.PeerURLs, m.Learner, m.Name, m.ClientURLs))
	}
	log.info("api/capability.go:76", "enabled capabilities for version", "cluster-version", clusterVersion)
	for _, m := range s.Members() {
		log.info("membership/cluster.go:297", "recovered/added member from store", "cluster-id", cluster, "local-member-id", id,
			"recovered-remote-peer-id", hexID(m.ID), "recovered-remote-peer-urls", m.PeerURLs, "recovered-remote-peer-is-learner", m.Learner)
	}
	log.info("membership/cluster.go:307", "set cluster version from store", "cluster-version", clusterVersion)
	log.info("etcdserver/bootstrap.go:109", "bootstrapping raft")
	log.info("etcdserver/server.go:312", "bootstrap successfully")
	log.raft("raft.go:1981", "%s switched to configuration voters=()", id)
	log.raft("raft.go:897", "%s became follower at term %d", id, h.RaftTerm)
	log.raft("raft.go:493", "newRaft %s [peers: [], term: %d, commit: %d, applied: 0, lastindex: %d, lastterm: %d]", id, h.RaftTerm, commit, commit+1, h.RaftTerm)
}

// locked waits while another process holds the database file, as bbolt's file lock makes it.
func (g *program) locked() error {
	info, err := g.p.Files.Stat(g.p.Path(g.dir.db()))
	if err != nil {
		return nil
	}
	mine := kernel.StatOf(info)
	for began := time.Now(); ; {
		other := g.ss.holder(g.p, mine)
		if other == nil {
			return nil
		}
		if err := g.p.Sleep(10 * time.Second); err != nil {
			return err
		}
		g.log.info("storage/backend.go:87", "db file is flocked by another process, or taking too long", "path", g.dir.db(), "took", time.Since(began))
	}
}

// holder is a server of another process that has a database file open.
func (ss *Stores) holder(p *kernel.Process, file *kernel.FileStat) *Server {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	for _, srv := range ss.servers {
		srv.mu.Lock()
		db := srv.db
		srv.mu.Unlock()
		if db == nil || srv.p.Host() != p.Host() || !srv.p.Alive() {
			continue
		}
		if info, err := db.Stat(); err == nil {
			if st := kernel.StatOf(info); st.Inode == file.Inode && st.Device == file.Device {
				return srv
			}
		}
	}
	return nil
}

// noDatabase says that the database file can't be opened; bbolt's caller panics.
func (g *program) noDatabase(err error) int {
	db := g.dir.db()
	if errors.Is(err, ErrInvalidDatabase) {
		g.bolt("error", "bbolt@v1.4.3/db.go:292", "both meta pages are invalid, meta0: invalid database, meta1: invalid database", "go.etcd.io/bbolt.Open\n\tgo.etcd.io/bbolt@v1.4.3/db.go:292\n"+stackBackend)
		g.bolt("error", "backend/backend.go:203", fmt.Sprintf("failed to map db file (%s): %v", db, err), stackBackend)
		g.bolt("error", "bbolt@v1.4.3/db.go:322", fmt.Sprintf("Opening bbolt db (%s) failed: %v", db, err), "go.etcd.io/bbolt.Open\n\tgo.etcd.io/bbolt@v1.4.3/db.go:322\n"+stackBackend)
	} else {
		var pe *fs.PathError
		if errors.As(err, &pe) {
			err = &fs.PathError{Op: pe.Op, Path: db, Err: pe.Err}
		}
		g.bolt("error", "bbolt@v1.4.3/db.go:219", fmt.Sprintf("failed to open db file (%s): %v", db, err), stackBackend)
		g.bolt("error", "bbolt@v1.4.3/db.go:322", fmt.Sprintf("Opening bbolt db (%s) failed: %v", db, err), stackBackend)
	}
	g.log.write(line{level: "panic", caller: "backend/backend.go:205", msg: "failed to open database", fields: []any{"path", db, "error", err},
		stack: strings.Replace(stackBackend, "backend.go:203", "backend.go:205", 1)})
	fmt.Fprintf(g.p.Stderr, "panic: failed to open database\n\ngoroutine 124 [running]:\n%s", panicTrace)
	return 2
}

// serve runs the server until it is told to end.
func (g *program) serve(srv *Server) int {
	c, log, s := g.c, g.log, srv.store
	h := s.Header()
	id, cluster := hexID(h.MemberId), hexID(h.ClusterId)
	initialized := s.meta.ClusterVersion != ""
	log.warn("auth/store.go:1135", "simple token is not cryptographically signed")
	log.info("mvcc/kvstore.go:408", "kvstore restored", "current-rev", h.Revision)
	if c.quota == 0 {
		log.info("storage/quota.go:93", "enabled backend quota with default value", "quota-name", "v3-applier", "quota-size-bytes", int64(DefaultQuota), "quota-size", "2.1 GB")
	} else {
		log.info("storage/quota.go:120", "enabled backend quota", "quota-name", "v3-applier", "quota-size-bytes", c.quota, "quota-size", humanSize(c.quota))
	}
	s.mu.Lock()
	s.owner = srv
	s.mu.Unlock()
	g.ss.opened(srv)
	g.p.OnExit(func() {
		g.closeClients()
		g.closePeers()
		srv.stop()
	})
	g.wait(startServer)
	if rep := srv.several(); rep != nil {
		return g.serveSeveral(srv, rep)
	}
	if initialized {
		if c.gate("InitialCorruptCheck") {
			log.info("etcdserver/corrupt.go:91", "starting initial corruption check", "local-member-id", id, "timeout", "7s")
			log.info("etcdserver/corrupt.go:172", "initial corruption checking passed; no corruption", "local-member-id", id)
		}
		log.info("etcdserver/server.go:589", "starting etcd server", "local-member-id", id, "local-server-version", Version, "cluster-id", cluster, "cluster-version", clusterVersion)
	} else {
		log.info("etcdserver/server.go:598", "starting etcd server", "local-member-id", id, "local-server-version", Version, "cluster-version", "to_be_decided")
	}
	if !c.client.empty() {
		log.info("embed/etcd.go:766", "starting with client TLS", "tls-info", c.client.String(), "cipher-suites", []string{})
	}
	if code := g.serveMetrics(srv); code != 0 {
		return code
	}
	tick := time.Duration(c.tickMs) * time.Millisecond
	if c.tickAdvance {
		n := c.electionMs/c.tickMs - 1
		log.info("etcdserver/server.go:483", "started as single-node; fast-forwarding election ticks", "local-member-id", id, "forward-ticks", n,
			"forward-duration", time.Duration(n)*tick, "election-ticks", c.electionMs/c.tickMs, "election-timeout", time.Duration(c.electionMs)*time.Millisecond)
	}
	g.servePeers(srv)
	log.raft("raft.go:1981", "%s switched to configuration voters=(%d)", id, h.MemberId)
	for _, m := range s.Members() {
		fields := []any{"cluster-id", cluster, "local-member-id", id, "added-peer-id", hexID(m.ID), "added-peer-peer-urls", m.PeerURLs, "added-peer-is-learner", m.Learner}
		if initialized {
			log.info("membership/cluster.go:433", "ignore already added member", fields...)
		} else {
			log.info("membership/cluster.go:424", "added member", fields...)
		}
	}
	g.elect(srv, initialized, tick)
	g.settled(srv, initialized)
	if code := g.serveClients(srv, initialized); code != 0 {
		return code
	}
	return g.untilEnd(srv, g.signals())
}

// serveMetrics begins to serve metrics and health; it returns the exit code if that fails.
func (g *program) serveMetrics(srv *Server) int {
	c, log := g.c, g.log
	var err error
	if g.metrics, err = g.listen(c.listenMetrics); err != nil {
		g.closeClients()
		g.closePeers()
		return g.fatal("etcdmain/etcd.go:183", "discovery failed", err, stackMain)
	}
	log.info("embed/etcd.go:292", "now serving peer/client/metrics", "local-member-id", hexID(srv.store.Header().MemberId), "initial-advertise-peer-urls", c.advertisePeer.strings(),
		"listen-peer-urls", c.listenPeer.strings(), "advertise-client-urls", c.advertiseClient.strings(), "listen-client-urls", c.listenClient.strings(),
		"listen-metrics-urls", c.listenMetrics.strings())
	for i, l := range g.metrics {
		var cfg *tls.Config
		if u := c.listenMetrics[i]; u.Scheme == "https" {
			if cfg, err = serverTLS(g.p, c.client, c.tlsMin, c.tlsMax); err != nil {
				return g.fatal("etcdmain/etcd.go:183", "discovery failed", err, stackMain)
			}
		}
		log.info("embed/etcd.go:890", "serving metrics", "address", c.listenMetrics[i].String())
		g.open(&g.clientServers, srv.serveClients(l, cfg, false, true))
	}
	return 0
}

// servePeers begins to serve the other members.
func (g *program) servePeers(srv *Server) {
	c, log := g.c, g.log
	log.info("fileutil/purge.go:49", "started to purge file", "dir", g.dir.snap(), "suffix", "snap.db", "max", c.maxSnaps, "interval", "30s")
	log.info("fileutil/purge.go:49", "started to purge file", "dir", g.dir.snap(), "suffix", "snap", "max", c.maxSnaps, "interval", "30s")
	log.info("fileutil/purge.go:49", "started to purge file", "dir", g.dir.walPath(), "suffix", "wal", "max", c.maxWALs, "interval", "30s")
	for i, l := range g.peers {
		var cfg *tls.Config
		if c.listenPeer[i].Scheme == "https" {
			cfg = g.peerTLS
		}
		log.info("embed/etcd.go:640", "serving peer traffic", "address", l.Addr().String())
		log.info("embed/etcd.go:611", "cmux::serve", "address", l.Addr().String())
		g.open(&g.peerServers, srv.servePeers(l, cfg))
	}
}

// open notes a server that must be closed when the process ends; it is closed at once if it has.
func (g *program) open(l *[]*server, s *server) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.p.Alive() {
		s.close()
		return
	}
	*l = append(*l, s)
}

func (g *program) closeClients() { g.shut(&g.clientServers, g.clients, g.httpOnly, g.metrics) }

func (g *program) closePeers() { g.shut(&g.peerServers, g.peers) }

func (g *program) shut(l *[]*server, listeners ...[]net.Listener) {
	g.mu.Lock()
	servers := *l
	*l = nil
	g.mu.Unlock()
	for _, s := range servers {
		s.close()
	}
	for _, ls := range listeners {
		for _, l := range ls {
			l.Close()
		}
	}
}

// elect makes the only member leader.
func (g *program) elect(srv *Server, initialized bool, tick time.Duration) {
	s, log := srv.store, g.log
	id := hexID(s.Header().MemberId)
	if g.p.Resumed() {
		s.runLeases(true)
		return
	}
	if initialized {
		g.wait(electionTicks * tick)
	} else { // the log of a new member is applied before its ticks are forwarded, so they count from the start
		g.wait(time.Duration(g.c.electionMs)*time.Millisecond - tick)
	}
	s.mu.Lock()
	old := s.meta.Term
	s.meta.Term++
	s.meta.ClusterVersion = clusterVersion
	for i := range s.meta.Members {
		if m := &s.meta.Members[i]; m.ID == s.meta.MemberID {
			m.Name, m.ClientURLs = g.c.name, g.c.advertiseClient.strings()
		}
	}
	s.touch()
	s.mu.Unlock()
	s.promote()
	s.runLeases(true)
	log.raft("raft.go:988", "%s is starting a new election at term %d", id, old)
	log.raft("raft.go:930", "%s became pre-candidate at term %d", id, old)
	log.raft("raft.go:1077", "%s received MsgPreVoteResp from %s at term %d", id, id, old)
	log.raft("raft.go:1693", "%s has received 1 MsgPreVoteResp votes and 0 vote rejections", id)
	log.raft("raft.go:912", "%s became candidate at term %d", id, old+1)
	log.raft("raft.go:1077", "%s received MsgVoteResp from %s at term %d", id, id, old+1)
	log.raft("raft.go:1693", "%s has received 1 MsgVoteResp votes and 0 vote rejections", id)
	log.raft("raft.go:970", "%s became leader at term %d", id, old+1)
	log.raft("node.go:370", "raft.node: %s elected leader %s at term %d", id, id, old+1)
}

// settled says what the only member of a cluster has agreed with itself on.
func (g *program) settled(srv *Server, initialized bool) {
	c, log, s := g.c, g.log, srv.store
	h := s.Header()
	id, cluster := hexID(h.MemberId), hexID(h.ClusterId)
	published := func() {
		log.info("etcdserver/server.go:1820", "published local member to cluster through raft", "local-member-id", id,
			"local-member-attributes", fmt.Sprintf("{Name:%s ClientURLs:%v}", c.name, c.advertiseClient.strings()), "cluster-id", cluster, "publish-timeout", "7s")
	}
	if initialized {
		log.info("membership/cluster.go:674", "updated cluster version", "cluster-id", cluster, "local-member-id", id, "from", clusterVersion, "to", clusterVersion)
		published()
	} else {
		log.info("embed/serve.go:138", "ready to serve client requests")
		log.info("etcdserver/server.go:2420", "setting up initial cluster version using v3 API", "cluster-version", clusterVersion)
		g.wait(publish)
		log.info("membership/cluster.go:682", "set initial cluster version", "cluster-id", cluster, "local-member-id", id, "cluster-version", clusterVersion)
		log.info("api/capability.go:76", "enabled capabilities for version", "cluster-version", clusterVersion)
		log.info("version/monitor.go:116", "cluster version differs from storage version.", "cluster-version", clusterVersion+".0", "storage-version", oldStorageVersion)
		log.info("etcdserver/server.go:2440", "cluster version is updated", "cluster-version", clusterVersion)
		log.info("schema/migration.go:65", "updated storage version", "new-storage-version", storageVersion)
		published()
	}
}

// serveClients begins to serve clients; it returns the exit code if that fails. ready says that this has not been announced yet.
func (g *program) serveClients(srv *Server, ready bool) int {
	c, log := g.c, g.log
	var failed error
	for _, x := range []struct {
		urls       urlList
		ls         []net.Listener
		grpc, http bool
		traffic    string
	}{{c.listenClient, g.clients, true, len(c.listenHTTP) == 0, "grpc+http"}, {c.listenHTTP, g.httpOnly, false, true, "http"}} {
		if !x.http {
			x.traffic = "grpc"
		}
		for i, l := range x.ls {
			if ready || i > 0 {
				log.info("embed/serve.go:138", "ready to serve client requests")
			}
			secure := x.urls[i].Scheme == "https" || x.urls[i].Scheme == "unixs"
			var cfg *tls.Config
			if secure {
				var err error
				if cfg, err = serverTLS(g.p, c.client, c.tlsMin, c.tlsMax); err != nil {
					log.write(line{level: "error", caller: "embed/serve.go:156", msg: "registerGateway failed", fields: []any{"error", err}, stack: stackGateway})
					log.write(line{level: "error", caller: "embed/etcd.go:912", msg: "setting up serving from embedded etcd failed.", fields: []any{"error", err}, stack: stackServing})
					failed = err
					continue
				}
			}
			log.info("v3rpc/health.go:63", "grpc service status changed", "service", "", "status", "SERVING")
			g.open(&g.clientServers, srv.serveClients(l, cfg, x.grpc, x.http))
			if secure {
				log.info("embed/serve.go:283", "serving client traffic securely", "traffic", x.traffic, "address", l.Addr().String())
			} else {
				log.info("embed/serve.go:221", "serving client traffic insecurely; this is strongly discouraged!", "traffic", x.traffic, "address", l.Addr().String())
			}
		}
	}
	log.info("etcdmain/main.go:44", "notifying init daemon")
	log.info("etcdmain/main.go:50", "successfully notified init daemon")
	if failed != nil {
		return g.fatal("etcdmain/etcd.go:198", "listener failed", failed, strings.Replace(stackMain, "etcd.go:183", "etcd.go:198", 1))
	}
	return 0
}

// signals hands on SIGTERM and SIGINT.
func (g *program) signals() <-chan kernel.Signal {
	got := make(chan kernel.Signal, 1)
	for _, s := range []kernel.Signal{kernel.SIGTERM, kernel.SIGINT} {
		g.p.Notify(s, func() {
			select {
			case got <- s:
			default:
			}
		})
	}
	return got
}

// untilEnd waits for a signal and shuts down, or for that the member can't go on.
func (g *program) untilEnd(srv *Server, signals <-chan kernel.Signal) int {
	// What a resumed process says while the world warms up was said before.
	if g.p.Resumed() && g.p.AwaitDate() != nil {
		return 0
	}
	g.log.silent.Store(false)
	select {
	case sig := <-signals:
		return g.shutDown(srv, sig)
	case err := <-srv.failed:
		return g.leave(srv, err)
	case <-g.p.Context().Done():
		return 0
	}
}

func (g *program) shutDown(srv *Server, sig kernel.Signal) int {
	c, log := g.c, g.log
	name := map[kernel.Signal]string{kernel.SIGTERM: "terminated", kernel.SIGINT: "interrupt"}[sig]
	fields := []any{"name", c.name, "data-dir", c.dataDir, "advertise-peer-urls", c.advertisePeer.strings(), "advertise-client-urls", c.advertiseClient.strings()}
	id := hexID(srv.store.Header().MemberId)
	log.info("osutil/interrupt_unix.go:65", "received signal; shutting down", "signal", name)
	log.info("embed/etcd.go:426", "closing etcd server", fields...)
	for i, l := range g.clients {
		kind := "insecure"
		caller := "embed/serve.go:193"
		if c.listenClient[i].Scheme == "https" {
			kind, caller = "secure", "embed/serve.go:245"
		}
		log.warn(caller, "stopping "+kind+" grpc server due to error", "error", fmt.Sprintf("accept tcp %s: use of closed network connection", l.Addr()))
		log.warn(caller, "stopped "+kind+" grpc server due to error", "error", fmt.Sprintf("accept tcp %s: use of closed network connection", l.Addr()))
	}
	g.closeClients()
	if rep := srv.several(); rep != nil {
		rep.handOver()
		rep.end()
	} else {
		log.info("etcdserver/server.go:1297", "skipped leadership transfer for single voting member cluster", "local-member-id", id, "current-leader-member-id", id)
	}
	for _, l := range g.peers {
		log.info("embed/etcd.go:622", "stopping serving peer traffic", "address", l.Addr().String())
	}
	g.closePeers()
	g.wait(shutdown)
	for _, l := range g.peers {
		log.info("embed/etcd.go:627", "stopped serving peer traffic", "address", l.Addr().String())
	}
	log.info("embed/etcd.go:428", "closed etcd server", fields...)
	if g.p.OwnPID() != 1 { // it kills itself by the signal that it had caught
		g.p.Notify(sig, nil)
		g.p.Signal(sig)
	}
	return 0
}
