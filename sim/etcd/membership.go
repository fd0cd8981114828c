package etcd

import (
	"slices"

	"github.com/coreos/go-semver/semver"
	"go.etcd.io/etcd/api/v3/version"
	"go.etcd.io/etcd/client/pkg/v3/types"
	"go.etcd.io/etcd/server/v3/etcdserver/api/membership"
	serverversion "go.etcd.io/etcd/server/v3/etcdserver/version"
)

// membershipOf is upstream's view of a member, memberOf the store's.
func membershipOf(m Member) *membership.Member {
	return &membership.Member{ID: types.ID(m.ID), RaftAttributes: membership.RaftAttributes{PeerURLs: slices.Clone(m.PeerURLs), IsLearner: m.Learner},
		Attributes: membership.Attributes{Name: m.Name, ClientURLs: slices.Clone(m.ClientURLs)}}
}

func memberOf(m *membership.Member) Member {
	return Member{ID: uint64(m.ID), Name: m.Name, PeerURLs: slices.Clone(m.PeerURLs), ClientURLs: slices.Clone(m.ClientURLs), Learner: m.IsLearner}
}

// backend keeps the membership of upstream's RaftCluster in a store, whose lock its callers hold.
type backend struct{ s *Store }

var _ membership.MembershipBackend = backend{}

// MustCreateBackendBuckets does nothing: a store always has its place for members.
func (backend) MustCreateBackendBuckets() {}

// ClusterVersionFromBackend implements [membership.ClusterVersionBackend].
func (b backend) ClusterVersionFromBackend() *semver.Version {
	if b.s.meta.ClusterVersion == "" {
		return nil
	}
	return semver.Must(semver.NewVersion(b.s.meta.ClusterVersion + ".0"))
}

// MustSaveClusterVersionToBackend implements [membership.ClusterVersionBackend].
func (b backend) MustSaveClusterVersionToBackend(v *semver.Version) {
	b.s.meta.ClusterVersion = version.Cluster(v.String())
	b.s.touch()
}

// MustReadMembersFromBackend implements [membership.MemberBackend].
func (b backend) MustReadMembersFromBackend() (map[types.ID]*membership.Member, map[types.ID]bool) {
	members, removed := map[types.ID]*membership.Member{}, map[types.ID]bool{}
	for _, m := range b.s.meta.Members {
		members[types.ID(m.ID)] = membershipOf(m)
	}
	for _, id := range b.s.meta.Removed {
		removed[types.ID(id)] = true
	}
	return members, removed
}

// MustSaveMemberToBackend implements [membership.MemberBackend].
func (b backend) MustSaveMemberToBackend(m *membership.Member) {
	l := slices.Clone(b.s.meta.Members)
	i, ok := slices.BinarySearchFunc(l, uint64(m.ID), func(x Member, id uint64) int {
		switch {
		case x.ID < id:
			return -1
		case x.ID > id:
			return 1
		}
		return 0
	})
	if ok {
		l[i] = memberOf(m)
	} else {
		l = slices.Insert(l, i, memberOf(m))
	}
	b.s.meta.Members = l
	b.s.touch()
}

// MustHackySaveMemberToBackend implements [membership.MemberBackend].
func (b backend) MustHackySaveMemberToBackend(m *membership.Member) { b.MustSaveMemberToBackend(m) }

// TrimMembershipFromBackend implements [membership.MemberBackend].
func (b backend) TrimMembershipFromBackend() error {
	b.s.meta.Members, b.s.meta.Removed = nil, nil
	b.s.touch()
	return nil
}

// MustDeleteMemberFromBackend implements [membership.MemberBackend].
func (b backend) MustDeleteMemberFromBackend(id types.ID) {
	b.s.meta.Members = slices.DeleteFunc(slices.Clone(b.s.meta.Members), func(m Member) bool { return m.ID == uint64(id) })
	b.s.meta.Removed = append(slices.Clone(b.s.meta.Removed), uint64(id))
	b.s.touch()
}

// MustSaveDowngradeToBackend does nothing: no downgrade can be enabled here.
func (backend) MustSaveDowngradeToBackend(*serverversion.DowngradeInfo) {}

// DowngradeInfoFromBackend implements [membership.DowngradeInfoBackend].
func (backend) DowngradeInfoFromBackend() *serverversion.DowngradeInfo {
	return &serverversion.DowngradeInfo{}
}
