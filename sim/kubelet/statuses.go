package kubelet

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	kubetypes "k8s.io/kubernetes/pkg/kubelet/types"

	"ckadrill/sim/kernel"
)

// heldStatus is what upstream's status manager knows of a Pod: its status, and which version of it the API has. A static
// Pod's counts as its mirror Pod's there.
type heldStatus struct {
	Namespace, Name string
	Version, Sent   uint64
	At              time.Time
	Finished        bool
	SentTo          string // UID in the API
	Status          []byte // JSON
}

// statusPart is the prefix of the parts' names; a Pod's UID follows.
const statusPart = "status/"

// freezeStatuses gives a part for each Pod. All goroutines of the world are blocked.
func (n *node) freezeStatuses(snap *kernel.Snapshot) {
	mirrors, _ := n.pods.GetUIDTranslations()
	sent := fieldOf(n.statuses, "apiStatusVersions").Interface().(map[kubetypes.MirrorPodUID]uint64)
	for it := fieldOf(n.statuses, "podStatuses").MapRange(); it.Next(); {
		uid := it.Key().String()
		v := reflect.New(it.Value().Type())
		v.Elem().Set(it.Value())
		get := func(name string) any { return getField(v.Interface(), name) }
		to := kubetypes.MirrorPodUID(uid)
		if m, ok := mirrors[kubetypes.ResolvedPodUID(uid)]; ok {
			to = m
		}
		h := heldStatus{Version: get("version").(uint64), Sent: sent[to], Finished: get("podIsFinished").(bool), SentTo: string(to)}
		snap.Put(statusPart+uid, stamp(uid, fmt.Sprint(h)), func() []byte {
			h.Namespace, h.Name, h.At = get("podNamespace").(string), get("podName").(string), get("at").(time.Time)
			h.Status = encodeObject(get("status"))
			return encodeObject(h)
		})
	}
}

// decodeStatuses reads the parts, by UID.
func decodeStatuses(parts kernel.Parts) (map[types.UID]heldStatus, error) {
	l := map[types.UID]heldStatus{}
	for name, b := range parts {
		uid, ok := strings.CutPrefix(name, statusPart)
		if !ok {
			continue
		}
		var h heldStatus
		if err := json.Unmarshal(b, &h); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		if err := json.Unmarshal(h.Status, &v1.PodStatus{}); err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		l[types.UID(uid)] = h
	}
	return l, nil
}

// restoreStatuses puts statuses into upstream's status manager as they are; its own way in would date every condition anew.
func (n *node) restoreStatuses(l map[types.UID]heldStatus) {
	table, sent := fieldOf(n.statuses, "podStatuses"), fieldOf(n.statuses, "apiStatusVersions").Interface().(map[kubetypes.MirrorPodUID]uint64)
	for uid, h := range l {
		var status v1.PodStatus
		if json.Unmarshal(h.Status, &status) != nil {
			continue // it was decoded once before
		}
		v := reflect.New(table.Type().Elem())
		for name, x := range map[string]any{"version": h.Version, "podName": h.Name, "podNamespace": h.Namespace, "at": h.At, "podIsFinished": h.Finished, "status": status} {
			setField(v.Interface(), name, x)
		}
		table.SetMapIndex(reflect.ValueOf(uid), v.Elem())
		if h.SentTo != "" && h.Sent > 0 {
			sent[kubetypes.MirrorPodUID(h.SentTo)] = h.Sent
		}
	}
}
