package etcd

import (
	"context"
	"time"

	"github.com/coreos/go-semver/semver"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/membershippb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/api/v3/version"
	"go.etcd.io/etcd/server/v3/etcdserver/api/rafthttp"
	serverversion "go.etcd.io/etcd/server/v3/etcdserver/version"
)

// monitorInterval is after what time the leader looks at its members' versions again.
const monitorInterval = rafthttp.DefaultConnWriteTimeout - time.Second

// monitorVersions has the leader raise the cluster's version to what all members understand. Upstream's monitor decides.
func (r *replica) monitorVersions() {
	m := serverversion.NewMonitor(r.zap, versions{r})
	for {
		t := time.NewTimer(monitorInterval)
		select {
		case <-r.firstCommit.Receive():
		case <-t.C:
		case <-r.done:
		}
		t.Stop()
		if r.over() {
			return
		}
		if r.leads() {
			m.UpdateClusterVersionIfNeeded()
		}
	}
}

// versions is what upstream's monitor wants to know and to do.
type versions struct{ r *replica }

// GetClusterVersion implements [serverversion.Server].
func (v versions) GetClusterVersion() *semver.Version { return v.r.cl.Version() }

// GetDowngradeInfo implements [serverversion.Server].
func (v versions) GetDowngradeInfo() *serverversion.DowngradeInfo { return v.r.cl.DowngradeInfo() }

// GetMembersVersions implements [serverversion.Server]. The version of a member that does not answer is nil.
func (v versions) GetMembersVersions() map[string]*version.Versions {
	r, out := v.r, map[string]*version.Versions{}
	for _, m := range r.cl.Members() {
		id := m.ID.String()
		if m.ID == r.id() {
			// Upstream compares with its own release, which may be older than the simulated one.
			out[id] = &version.Versions{Server: version.Version, Cluster: "not_decided"}
			continue
		}
		x, err := askVersion(r.p.Context(), r.srv.log, m, r.peerRT, r.timeout())
		if err != nil {
			if r.over() {
				return out
			}
			r.srv.log.warn("etcdserver/cluster_util.go:162", "failed to get version", "remote-member-id", id, "error", err)
		} else if x.Server == Version {
			x.Server = version.Version
		}
		out[id] = x
	}
	return out
}

// UpdateClusterVersion implements [serverversion.Server].
func (v versions) UpdateClusterVersion(to string) {
	r, log := v.r, v.r.srv.log
	if old := r.cl.Version(); old == nil {
		log.info("etcdserver/server.go:2420", "setting up initial cluster version using v3 API", "cluster-version", version.Cluster(to))
	} else {
		log.info("etcdserver/server.go:2425", "updating cluster version using v3 API", "from", version.Cluster(old.String()), "to", version.Cluster(to))
	}
	ctx, cancel := context.WithTimeout(r.p.Context(), r.timeout())
	defer cancel()
	_, err := r.request(ctx, &pb.InternalRaftRequest{ClusterVersionSet: &membershippb.ClusterVersionSetRequest{Ver: to}})
	switch {
	case err == nil:
		log.info("etcdserver/server.go:2440", "cluster version is updated", "cluster-version", version.Cluster(to))
	case err == rpctypes.ErrGRPCStopped:
		log.warn("etcdserver/server.go:2444", "aborting cluster version update; server is stopped", "error", rpctypes.ErrorDesc(err))
	default:
		log.warn("etcdserver/server.go:2448", "failed to update cluster version", "error", rpctypes.ErrorDesc(err))
	}
}

// LinearizableReadNotify implements [serverversion.Server].
func (v versions) LinearizableReadNotify(ctx context.Context) error { return v.r.linearizable(ctx) }

// DowngradeEnable implements [serverversion.Server]; it is not called.
func (versions) DowngradeEnable(context.Context, *semver.Version) error { return nil }

// DowngradeCancel implements [serverversion.Server]; it is not called.
func (versions) DowngradeCancel(context.Context) error { return nil }

// GetStorageVersion implements [serverversion.Server]; the storage's version follows the cluster's at once.
func (v versions) GetStorageVersion() *semver.Version { return v.r.cl.Version() }

// UpdateStorageVersion implements [serverversion.Server].
func (versions) UpdateStorageVersion(semver.Version) error { return nil }

// storageUpdated says that the database has the form of the cluster's version.
func (srv *Server) storageUpdated() {
	srv.log.info("version/monitor.go:116", "cluster version differs from storage version.", "cluster-version", clusterVersion+".0", "storage-version", oldStorageVersion)
	srv.log.info("schema/migration.go:65", "updated storage version", "new-storage-version", storageVersion)
}
