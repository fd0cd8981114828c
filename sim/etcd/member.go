package etcd

import (
	"crypto/sha1"
	"encoding/binary"
	"slices"
	"sort"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
)

// Member is one of the servers of an etcd cluster.
type Member struct {
	ID         uint64
	Name       string
	PeerURLs   []string
	ClientURLs []string
	Learner    bool
}

// alarm is raised by a member and stays until it is disarmed.
type alarm struct {
	Member uint64
	Type   pb.AlarmType
}

// meta is what a data directory knows beside the keys.
type meta struct {
	ClusterID, MemberID uint64
	Term                uint64
	Members             []Member
	Removed             []uint64
	Alarms              []alarm
	// ClusterVersion is the version that all members agree on, "" until it has been decided.
	ClusterVersion string
}

func (m *meta) alarmed(t pb.AlarmType) bool {
	for _, a := range m.Alarms {
		if a.Type == t {
			return true
		}
	}
	return false
}

func (m *meta) raise(member uint64, t pb.AlarmType) {
	a := alarm{member, t}
	if !slices.Contains(m.Alarms, a) {
		m.Alarms = append(m.Alarms, a)
	}
}

func (m *meta) clone() meta {
	c := *m
	c.Members, c.Removed, c.Alarms = slices.Clone(m.Members), slices.Clone(m.Removed), slices.Clone(m.Alarms)
	return c
}

// MemberID is the id that a member of an initial cluster gets: a hash of its peer URLs and the cluster's token
// (membership.NewMember).
func MemberID(peerURLs []string, token string) uint64 {
	urls := slices.Clone(peerURLs)
	sort.Strings(urls)
	var b []byte
	for _, u := range urls {
		b = append(b, u...)
	}
	b = append(b, token...)
	h := sha1.Sum(b)
	return binary.BigEndian.Uint64(h[:8])
}

// ClusterID is a hash of the initial members' ids (membership.RaftCluster.genID).
func ClusterID(members []Member) uint64 {
	ids := make([]uint64, len(members))
	for i, m := range members {
		ids[i] = m.ID
	}
	slices.Sort(ids)
	var b []byte
	for _, id := range ids {
		b = binary.BigEndian.AppendUint64(b, id)
	}
	h := sha1.Sum(b)
	return binary.BigEndian.Uint64(h[:8])
}

func (s *Store) membersPB() []*pb.Member {
	var l []*pb.Member
	for _, m := range s.meta.Members {
		l = append(l, &pb.Member{ID: m.ID, Name: m.Name, PeerURLs: m.PeerURLs, ClientURLs: m.ClientURLs, IsLearner: m.Learner})
	}
	return l
}

// Members lists the members of the store's cluster.
func (s *Store) Members() []Member {
	s.mu.RLock()
	defer s.mu.RUnlock()
	return s.meta.clone().Members
}

// updateSelf changes the peer URLs of the only member.
func (s *Store) updateSelf(r *pb.MemberUpdateRequest) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	i := slices.IndexFunc(s.meta.Members, func(m Member) bool { return m.ID == r.ID })
	if i < 0 {
		return rpctypes.ErrGRPCMemberNotFound
	}
	s.meta.Members = slices.Clone(s.meta.Members)
	s.meta.Members[i].PeerURLs = r.PeerURLs
	s.touch()
	return nil
}

// found sets up a new cluster.
func (s *Store) found(self uint64, members []Member) {
	s.mu.Lock()
	defer s.mu.Unlock()
	slices.SortFunc(members, func(a, b Member) int {
		if a.ID < b.ID {
			return -1
		}
		return 1
	})
	s.meta.MemberID, s.meta.Members, s.meta.ClusterID = self, members, ClusterID(members)
	s.touch()
}
