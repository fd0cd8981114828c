package etcd

import (
	"context"
	"encoding/binary"
	"sync"
	"time"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/raft/v3"
)

// readIndexRetry is after what time the leader is asked again.
const readIndexRetry = 500 * time.Millisecond

// reads are the linearizable reads that wait for the leader to confirm how far they must see. One question serves all that came
// before it (etcdserver.linearizableReadLoop).
type reads struct {
	mu     sync.Mutex
	next   *confirmation
	wanted chan struct{}
	states chan raft.ReadState
}

// confirmation is an answer that is waited for.
type confirmation struct {
	done chan struct{}
	err  error
}

func (q *reads) init() {
	q.next, q.wanted, q.states = &confirmation{done: make(chan struct{})}, make(chan struct{}, 1), make(chan raft.ReadState, 1)
}

// arrived hands on raft's answer; only the latest is of interest.
func (q *reads) arrived(s raft.ReadState) {
	select {
	case <-q.states:
	default:
	}
	q.states <- s
}

// linearizable waits until the member has applied everything that was agreed on before the call.
func (r *replica) linearizable(ctx context.Context) error {
	r.reads.mu.Lock()
	c := r.reads.next
	r.reads.mu.Unlock()
	select {
	case r.reads.wanted <- struct{}{}:
	default:
	}
	select {
	case <-c.done:
		return c.err
	case <-ctx.Done():
		return ctx.Err()
	case <-r.done:
		return rpctypes.ErrGRPCStopped
	}
}

// confirm answers reads until the replica stops.
func (r *replica) confirm() {
	for {
		changed := r.leaderChanged.Receive()
		select {
		case <-changed:
			continue
		case <-r.reads.wanted:
		case <-r.done:
			return
		}
		r.reads.mu.Lock()
		c := r.reads.next
		r.reads.next = &confirmation{done: make(chan struct{})}
		r.reads.mu.Unlock()
		var index uint64
		if index, c.err = r.currentIndex(changed); c.err == nil {
			for r.applied.Load() < index {
				if !r.waitApplied(index, time.Hour) && r.over() {
					return
				}
			}
		}
		close(c.done)
	}
}

func (r *replica) over() bool {
	select {
	case <-r.done:
		return true
	default:
		return false
	}
}

// currentIndex asks the leader how far the log has been agreed on.
func (r *replica) currentIndex(changed <-chan struct{}) (uint64, error) {
	id := r.ids.Next()
	if err := r.askIndex(id); err != nil {
		return 0, err
	}
	log := r.srv.log
	giveUp, retry := time.NewTimer(r.timeout()), time.NewTimer(readIndexRetry)
	defer giveUp.Stop()
	defer retry.Stop()
	first := r.firstCommit.Receive()
	for {
		select {
		case s := <-r.reads.states:
			if len(s.RequestCtx) == 8 {
				if got := binary.BigEndian.Uint64(s.RequestCtx); got != id {
					log.warn("etcdserver/v3_server.go:888", "ignored out-of-date read index response; local node read indexes queueing up and waiting to be in sync with leader",
						"sent-request-id", id, "received-request-id", got)
					continue
				}
			}
			return s.Index, nil
		case <-changed:
			return 0, rpctypes.ErrGRPCLeaderChanged
		case <-first:
			first = r.firstCommit.Receive()
			log.info("etcdserver/v3_server.go:903", "first commit in current term: resending ReadIndex request")
		case <-retry.C:
			log.warn("etcdserver/v3_server.go:911", "waiting for ReadIndex response took too long, retrying", "sent-request-id", id, "retry-timeout", readIndexRetry)
		case <-giveUp.C:
			log.warn("etcdserver/v3_server.go:923", "timed out waiting for read index response (local node might have slow network)", "timeout", r.timeout())
			return 0, rpctypes.ErrGRPCTimeout
		case <-r.done:
			return 0, rpctypes.ErrGRPCStopped
		}
		if err := r.askIndex(id); err != nil {
			return 0, err
		}
		retry.Reset(readIndexRetry)
	}
}

func (r *replica) askIndex(id uint64) error {
	return r.with(func(n *raft.RawNode) error {
		n.ReadIndex(binary.BigEndian.AppendUint64(nil, id))
		return nil
	})
}
