package etcd

import (
	"reflect"
	"unsafe"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/raftpb"
)

// Upstream's raft keeps to itself what a world must decide and keep: when a follower loses patience, which upstream draws from
// the host's randomness; how long it has waited; and that a member leads, which upstream forgets when it restarts, while a
// thawed leader must go on leading in its term. Each is read and set where upstream has it. The functions are upstream's own,
// and need -ldflags=-checklinkname=0.

//go:linkname becomePreCandidate go.etcd.io/raft/v3.(*raft).becomePreCandidate
func becomePreCandidate(r unsafe.Pointer)

//go:linkname becomeLeader go.etcd.io/raft/v3.(*raft).becomeLeader
func becomeLeader(r unsafe.Pointer)

// innerRaft is the inside of a raft.RawNode.
type innerRaft struct {
	r          unsafe.Pointer
	timeout    *int // ticks until a follower campaigns
	elapsed    *int // ticks that have passed
	unstable   *[]raftpb.Entry
	afterWrite *[]raftpb.Message
}

// inner opens a RawNode; it panics if upstream's structures are others than those it knows.
func inner(n *raft.RawNode) innerRaft {
	r := reflect.ValueOf(n).Elem().FieldByName("raft")
	return innerRaft{
		r:          r.UnsafePointer(),
		timeout:    field[int](r, "randomizedElectionTimeout"),
		elapsed:    field[int](r, "electionElapsed"),
		unstable:   field[[]raftpb.Entry](r, "raftLog", "unstable", "entries"),
		afterWrite: field[[]raftpb.Message](r, "msgsAfterAppend"),
	}
}

// field is a pointer to a field of upstream's.
func field[T any](v reflect.Value, names ...string) *T {
	for _, n := range names {
		if v.Kind() == reflect.Pointer {
			v = v.Elem()
		}
		v = v.FieldByName(n)
	}
	if v.Type() != reflect.TypeFor[T]() {
		panic("etcd: upstream's " + names[len(names)-1] + " is of type " + v.Type().String())
	}
	return (*T)(v.Addr().UnsafePointer())
}

// lead makes a follower the leader that it was, in its term. A new leader begins its term with an empty entry; this one has done
// so already.
func (i innerRaft) lead() {
	becomePreCandidate(i.r)
	becomeLeader(i.r)
	*i.unstable = (*i.unstable)[:len(*i.unstable)-1]
	*i.afterWrite = nil
}

// follow makes a follower know its leader, as the leader's next heartbeat would.
func follow(n *raft.RawNode, leader uint64) {
	s := n.BasicStatus()
	n.Step(raftpb.Message{Type: raftpb.MsgHeartbeat, From: leader, To: s.ID, Term: s.Term})
}
