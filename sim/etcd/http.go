package etcd

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"sort"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/raft/v3"
	"google.golang.org/grpc/status"
)

// check is one of the checks behind /livez and /readyz.
type check struct {
	name string
	ok   func(context.Context) error
}

// handler serves health, version and metrics, as on the client and metrics ports.
func (srv *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("/health", srv.health)
	read := check{"serializable_read", srv.canRead(true)}
	srv.checks(mux, "/livez", read)
	srv.checks(mux, "/readyz",
		check{"data_corruption", func(context.Context) error {
			srv.store.mu.RLock()
			defer srv.store.mu.RUnlock()
			if srv.store.meta.alarmed(pb.AlarmType_CORRUPT) {
				return errors.New("alarm activated: CORRUPT")
			}
			return nil
		}},
		read,
		check{"linearizable_read", srv.canRead(false)},
		check{"non_learner", func(context.Context) error {
			if srv.learner() {
				return errors.New("not supported for learner")
			}
			return nil
		}})
	mux.HandleFunc("/version", func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			w.Header().Set("Allow", "GET")
			http.Error(w, "Method Not Allowed", http.StatusMethodNotAllowed)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		cluster, storage := "not_decided", oldStorageVersion
		if v := srv.clusterVersion(); v != "" {
			cluster = v + ".0"
			if v == clusterVersion {
				storage = storageVersion
			}
		}
		fmt.Fprintf(w, `{"etcdserver":%q,"etcdcluster":%q,"storage":%q}`, Version, cluster, storage)
	})
	mux.HandleFunc("/metrics", srv.metrics)
	return mux
}

// canRead reads as a client would.
func (srv *Server) canRead(serializable bool) func(context.Context) error {
	return func(ctx context.Context) error {
		_, err := srv.Range(ctx, &pb.RangeRequest{Key: []byte{0}, KeysOnly: true, Limit: 1, Serializable: serializable})
		if s, ok := status.FromError(err); ok && err != nil {
			return errors.New(s.Message())
		}
		return err
	}
}

func (srv *Server) health(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet {
		w.Header().Set("Allow", http.MethodGet)
		http.Error(w, "Method Not Allowed", http.StatusMethodNotAllowed)
		srv.log.warn("etcdhttp/health.go:76", "/health error", "status-code", http.StatusMethodNotAllowed)
		return
	}
	h := struct {
		Health string `json:"health"`
		Reason string `json:"reason"`
	}{Health: "true"}
	excluded := r.URL.Query()["exclude"]
	srv.store.mu.RLock()
	for _, a := range srv.store.meta.Alarms {
		skip := false
		for _, x := range excluded {
			skip = skip || x == a.Type.String()
		}
		if !skip {
			h.Health, h.Reason = "false", "ALARM "+a.Type.String()
			break
		}
	}
	srv.store.mu.RUnlock()
	serializable := r.URL.Query().Get("serializable") == "true"
	if h.Health == "true" && !serializable && srv.leader() == raft.None {
		h.Health, h.Reason = "false", "RAFT NO LEADER"
		srv.log.warn("etcdhttp/health.go:214", "serving /health false; no leader")
	}
	if h.Health == "true" {
		ctx, cancel := context.WithTimeout(r.Context(), srv.timeout())
		defer cancel()
		if err := srv.canRead(serializable)(ctx); err != nil {
			h.Health, h.Reason = "false", fmt.Sprintf("RANGE ERROR:%s", err)
			srv.log.warn("etcdhttp/health.go:229", "serving /health false; Range fails", "error", err)
		}
	}
	b, _ := json.Marshal(h)
	if h.Health != "true" {
		http.Error(w, string(b), http.StatusServiceUnavailable)
		srv.log.warn("etcdhttp/health.go:98", "/health error", "output", string(b), "status-code", http.StatusServiceUnavailable)
		return
	}
	w.Write(b)
}

func (srv *Server) checks(mux *http.ServeMux, root string, checks ...check) {
	serve := func(path string, of func(*http.Request) []check) {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			if r.Method != http.MethodGet {
				w.Header().Set("Allow", http.MethodGet)
				http.Error(w, "Method Not Allowed", http.StatusMethodNotAllowed)
				srv.log.warn("etcdhttp/health.go:340", "Health request error", "path", path, "status-code", http.StatusMethodNotAllowed)
				return
			}
			var b strings.Builder
			failed := false
			for _, c := range of(r) {
				if err := c.ok(r.Context()); err != nil {
					fmt.Fprintf(&b, "[-]%s failed: %v\n", c.name, err)
					failed = true
					continue
				}
				fmt.Fprintf(&b, "[+]%s ok\n", c.name)
			}
			if failed {
				http.Error(w, b.String(), http.StatusServiceUnavailable)
				srv.log.write(line{level: "error", caller: "etcdhttp/health.go:346", msg: "Health check error",
					fields: []any{"path", path, "reason", b.String(), "status-code", http.StatusServiceUnavailable}})
				return
			}
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			w.Header().Set("X-Content-Type-Options", "nosniff")
			if r.URL.Query().Has("verbose") {
				fmt.Fprint(w, b.String())
			}
			fmt.Fprint(w, "ok\n")
		})
	}
	serve(root, func(r *http.Request) []check {
		var l []check
		for _, c := range checks {
			skip := false
			for _, x := range r.URL.Query()["exclude"] {
				skip = skip || x == c.name
			}
			if !skip {
				l = append(l, c)
			}
		}
		return l
	})
	for _, c := range checks {
		serve(root+"/"+c.name, func(*http.Request) []check { return []check{c} })
	}
}

func number(b bool) int {
	if b {
		return 1
	}
	return 0
}

// metrics prints those of etcd's metrics that follow from the store.
func (srv *Server) metrics(w http.ResponseWriter, _ *http.Request) {
	s := srv.store
	file, inUse := s.Size()
	lead, learner, changes, committed := srv.leader(), srv.learner(), uint64(1), uint64(0)
	if rep := srv.several(); rep != nil {
		changes, committed = rep.changes.Load(), rep.committed.Load()
	}
	s.mu.RLock()
	defer s.mu.RUnlock()
	keys := 0
	s.tree.Ascend(func(e *entry) bool {
		if e.live() != nil {
			keys++
		}
		return true
	})
	type metric struct {
		name, kind, help string
		value            any
	}
	l := []metric{
		{"etcd_debugging_mvcc_compact_revision", "gauge", "The revision of the last compaction in store.", s.compact},
		{"etcd_debugging_mvcc_current_revision", "gauge", "The current revision of store.", s.rev},
		{"etcd_debugging_mvcc_keys_total", "gauge", "Total number of keys.", keys},
		{"etcd_debugging_mvcc_watcher_total", "gauge", "Total number of watchers.", s.watchers.n},
		{"etcd_mvcc_db_total_size_in_bytes", "gauge", "Total size of the underlying database physically allocated in bytes.", file},
		{"etcd_mvcc_db_total_size_in_use_in_bytes", "gauge", "Total size of the underlying database logically in use in bytes.", inUse},
		{"etcd_server_has_leader", "gauge", "Whether or not a leader exists. 1 is existence, 0 is not.", number(lead != raft.None)},
		{"etcd_server_is_leader", "gauge", "Whether or not this member is a leader. 1 if is, 0 otherwise.", number(lead == s.meta.MemberID)},
		{"etcd_server_is_learner", "gauge", "Whether or not this member is a learner. 1 if is, 0 otherwise.", number(learner)},
		{"etcd_server_leader_changes_seen_total", "counter", "The number of leader changes seen.", changes},
		{"etcd_server_lease_expired_total", "counter", "The total number of expired leases.", 0},
		{"etcd_server_proposals_applied_total", "gauge", "The total number of consensus proposals applied.", s.applied()},
		{"etcd_server_proposals_committed_total", "gauge", "The total number of consensus proposals committed.", max(committed, s.applied())},
		{"etcd_server_quota_backend_bytes", "gauge", "Current backend storage quota size in bytes.", srv.quota()},
		{"process_start_time_seconds", "gauge", "Start time of the process since unix epoch in seconds.", srv.p.StartTime().Unix()},
	}
	sort.Slice(l, func(i, j int) bool { return l[i].name < l[j].name })
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	for _, m := range l {
		fmt.Fprintf(w, "# HELP %s %s\n# TYPE %s %s\n%s %v\n", m.name, m.help, m.name, m.kind, m.name, m.value)
	}
	fmt.Fprintf(w, "# HELP etcd_server_version Which version is running. 1 for 'server_version' label with current version.\n# TYPE etcd_server_version gauge\netcd_server_version{server_version=%q} 1\n", Version)
}
