package kubelet

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"sort"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/api/resource"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	kubeletlogs "k8s.io/kubernetes/pkg/kubelet/logs"
)

// rotation is upstream's container log manager, which cleans, with a rotation that keeps to the machine's tree. Rotated
// logs are not compressed.
type rotation struct {
	kubeletlogs.ContainerLogManager
	n *node
}

// Start implements logs.ContainerLogManager.
func (r rotation) Start(context.Context) {
	interval := r.n.s.ContainerLogMonitorInterval.Duration
	logAt(r.n.p, "container_log_manager.go", 146).Info("Initializing container log rotate workers", "workers", r.n.s.ContainerLogMaxWorkers, "monitorPeriod", r.n.s.ContainerLogMonitorInterval)
	limit, err := resource.ParseQuantity(r.n.s.ContainerLogMaxSize)
	if err != nil || limit.Value() < 0 {
		return
	}
	paths := map[string]string{}
	r.n.forever(func() {
		if err := r.rotateAll(paths, limit.Value()); err != nil {
			logAt(r.n.p, "container_log_manager.go", 154).Error(err, "Failed to rotate container logs")
		}
	}, interval)
}

// rotateAll looks at the logs of all running containers; paths remembers where they are.
func (r rotation) rotateAll(paths map[string]string, limit int64) error {
	ctx := r.n.p.Context()
	running, err := r.n.cri.ListContainers(ctx, &runtimeapi.ContainerFilter{State: &runtimeapi.ContainerStateValue{State: runtimeapi.ContainerState_CONTAINER_RUNNING}})
	if err != nil {
		return fmt.Errorf("failed to list containers: %v", err)
	}
	live := map[string]bool{}
	for _, c := range running {
		live[c.Id] = true
		name, ok := paths[c.Id]
		if !ok {
			s, err := r.n.cri.ContainerStatus(ctx, c.Id, false)
			if err != nil {
				continue
			}
			name = s.GetStatus().GetLogPath()
			paths[c.Id] = name
		}
		info, err := r.n.p.Files.Stat(name)
		if err != nil || info.Size() < limit {
			continue
		}
		if err := r.rotate(ctx, c.Id, name); err != nil {
			logAt(r.n.p, "container_log_manager.go", 267).Error(err, "Failed to rotate log for container", "path", name, "containerID", c.Id)
		}
	}
	for id := range paths {
		if !live[id] {
			delete(paths, id)
		}
	}
	return nil
}

func (r rotation) rotate(ctx context.Context, id, name string) error {
	entries, err := r.n.p.Files.ReadDir(path.Dir(name))
	if err != nil {
		return err
	}
	var old []string
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), path.Base(name)+".") && e.Type()&fs.ModeType == 0 {
			old = append(old, path.Join(path.Dir(name), e.Name()))
		}
	}
	sort.Strings(old)
	for len(old) > max(0, int(r.n.s.ContainerLogMaxFiles)-2) {
		if err := r.n.p.Files.Remove(old[0]); err != nil {
			return err
		}
		old = old[1:]
	}
	if err := r.n.p.Files.Rename(name, name+"."+time.Now().Format("20060102-150405")); err != nil {
		return err
	}
	return r.n.cri.ReopenContainerLog(ctx, id)
}
