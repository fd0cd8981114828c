package etcd

import (
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"

	"ckadrill/sim/kernel"
)

// Versions that the server reports.
const (
	// Version is the release of etcd that is simulated.
	Version        = "3.6.6"
	clusterVersion = "3.6"
	storageVersion = "3.6.0"
	// oldStorageVersion is a new database's until all members of its cluster are of release 3.6.
	oldStorageVersion = "3.5.0"
	goVersion         = "go1.26.8"
)

// Server is a running etcd process that serves a store.
type Server struct {
	p      *kernel.Process
	stores *Stores
	store  *Store
	c      *config
	log    *logger
	// replica is set when the server is, or has been, one of several members.
	replica atomic.Pointer[replica]
	growing sync.Mutex // while the only member gets its first companion

	failed chan error // why the member must end

	// token names the server to a client that has really connected to it, see [Dial].
	token string

	mu    sync.Mutex
	db    kernel.File
	flush *time.Timer
}

// batchInterval is how long etcd's backend collects writes before it commits them to the file.
const batchInterval = 100 * time.Millisecond

// alive says whether the server still answers.
func (srv *Server) alive() bool { return srv.p.Alive() }

// written is told of every write, under the store's lock: the database file shows it within batchInterval.
func (srv *Server) written() {
	srv.mu.Lock()
	defer srv.mu.Unlock()
	if srv.flush == nil && srv.db != nil && srv.p.Alive() {
		srv.flush = time.AfterFunc(batchInterval, srv.commit)
	}
}

// commit writes the revision to the database file. The file is the one that was opened, wherever it is by now.
func (srv *Server) commit() {
	rev := srv.store.Revision()
	srv.mu.Lock()
	defer srv.mu.Unlock()
	srv.flush = nil
	if srv.db == nil {
		return
	}
	b := databaseFile(srv.store.id, rev)
	if _, err := srv.db.Seek(0, 0); err != nil {
		return
	}
	if n, err := srv.db.Write(b); err == nil {
		srv.db.Truncate(int64(n))
	}
}

// stop ends the service of the store: the file is written a last time, as etcd's log would have kept each write.
func (srv *Server) stop() {
	if rep := srv.several(); rep != nil {
		rep.stop()
	}
	srv.store.runLeases(false)
	srv.commit()
	srv.mu.Lock()
	if srv.flush != nil {
		srv.flush.Stop()
		srv.flush = nil
	}
	if srv.db != nil {
		srv.db.Close()
		srv.db = nil
	}
	srv.mu.Unlock()
	srv.store.mu.Lock()
	if srv.store.owner == srv {
		srv.store.owner = nil
	}
	srv.store.mu.Unlock()
	srv.stores.closed(srv)
}

func (srv *Server) quota() int64 {
	if srv.c.quota == 0 {
		return DefaultQuota
	}
	return srv.c.quota
}

func (srv *Server) maxRequestBytes() int { return int(srv.c.maxRequest) }

// timeout is how long a request may take (config.ReqTimeout).
func (srv *Server) timeout() time.Duration {
	return 5*time.Second + 2*time.Duration(srv.c.electionMs)*time.Millisecond
}

func (srv *Server) minTTL() int64 {
	election := time.Duration(srv.c.electionMs) * time.Millisecond
	return int64((3*election/2 + time.Second - 1) / time.Second)
}

// alarmRaised says in the log that an alarm was raised, while the store's lock is held.
func (srv *Server) alarmRaised(t pb.AlarmType) {
	srv.log.warn("etcdserver/server.go:2051", "alarm raised", "alarm", t.String(), "from", hexID(srv.store.meta.MemberID))
}

func isIP(s string) bool {
	_, err := netip.ParseAddr(s)
	return err == nil
}

// listenAddress is the address that a URL's listener is bound to.
func listenAddress(hostport string) string {
	host, port, err := net.SplitHostPort(hostport)
	if err != nil {
		return hostport
	}
	if host == "localhost" {
		host = "127.0.0.1"
	}
	return net.JoinHostPort(host, port)
}
