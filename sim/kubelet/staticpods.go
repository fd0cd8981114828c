package kubelet

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"sort"
	"strings"
	"time"

	v1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/util/flowcontrol"
	"k8s.io/klog/v2"
	api "k8s.io/kubernetes/pkg/apis/core"
	kubetypes "k8s.io/kubernetes/pkg/kubelet/types"

	"ckadrill/sim/kernel"
)

// manifests is upstream's file source (pkg/kubelet/config/file.go and file_linux.go) over the machine's tree: a listing
// every fileCheckFrequency, and file events in between. Decoding, defaults and validation are upstream's functions.
type manifests struct {
	p       *kernel.Process
	dir     string
	node    types.NodeName
	store   cache.Store
	keys    map[string]string // file -> key of its Pod in store
	updates chan<- any
	events  chan kernel.FileEvent
	listed  time.Time // when the directory was listed last
	known   *manifestMemory
}

// watchManifests starts the source. It ends with the process.
func watchManifests(p *kernel.Process, dir string, node types.NodeName, period time.Duration, updates chan<- any) *manifests {
	if dir != "/" {
		dir = strings.TrimRight(dir, "/")
	}
	m := &manifests{p: p, dir: dir, node: node, keys: map[string]string{}, updates: updates, events: make(chan kernel.FileEvent, 10), known: knownManifests(p)}
	m.store = cache.NewUndeltaStore(func(objs []any) {
		pods := make([]*v1.Pod, 0, len(objs))
		for _, o := range objs {
			pods = append(pods, o.(*v1.Pod))
		}
		sort.Slice(pods, func(i, j int) bool {
			return pods[i].Namespace+"/"+pods[i].Name < pods[j].Namespace+"/"+pods[j].Name
		})
		m.send(pods)
	}, cache.MetaNamespaceKeyFunc)
	go m.run(period)
	go m.watch()
	return m
}

func (m *manifests) send(pods []*v1.Pod) {
	select {
	case m.updates <- kubetypes.PodUpdate{Pods: pods, Op: kubetypes.SET, Source: kubetypes.FileSource}:
	case <-m.p.Done():
	}
}

func (m *manifests) run(period time.Duration) {
	t := time.NewTicker(period)
	defer t.Stop()
	if next, ok := m.goOn(period); ok {
		t.Reset(next)
	} else if err := m.list(); err != nil {
		logAt(m.p, "file.go", 98).Error(err, "Unable to read config path", "path", m.dir)
	}
	for {
		select {
		case <-m.p.Done():
			return
		case <-t.C:
			t.Reset(period)
			if err := m.list(); err != nil {
				logAt(m.p, "file.go", 104).Error(err, "Unable to read config path", "path", m.dir)
			}
		case e := <-m.events:
			if err := m.consume(e); err != nil {
				logAt(m.p, "file.go", 108).Error(err, "Unable to process watch event")
			}
		}
	}
}

var errNoManifests = errors.New("path does not exist, ignoring")

func (m *manifests) list() error {
	m.listed = time.Now()
	info, err := m.p.Files.Stat(m.dir)
	if errors.Is(err, fs.ErrNotExist) {
		m.send([]*v1.Pod{}) // an empty list lets the source count as seen
		return errNoManifests
	}
	if err != nil {
		return err
	}
	switch {
	case info.IsDir():
		pods, err := m.readDir()
		if err != nil {
			return err
		}
		if len(pods) == 0 {
			m.send(pods)
			return nil
		}
		return m.replace(pods...)
	case info.Mode().IsRegular():
		pod, err := m.readFile(m.dir)
		if err != nil {
			return err
		}
		return m.replace(pod)
	}
	return errors.New("path is not a directory or file")
}

func (m *manifests) replace(pods ...*v1.Pod) error {
	objs := make([]any, len(pods))
	for i := range pods {
		objs[i] = pods[i]
	}
	return m.store.Replace(objs, "")
}

func (m *manifests) readDir() ([]*v1.Pod, error) {
	entries, err := m.p.Files.ReadDir(m.dir)
	if err != nil {
		return nil, fmt.Errorf("glob failed: %v", err)
	}
	pods := []*v1.Pod{}
	for _, e := range entries {
		if strings.HasPrefix(e.Name(), ".") {
			continue
		}
		name := path.Join(m.dir, e.Name())
		info, err := m.p.Files.Stat(name)
		switch {
		case err != nil:
			logAt(m.p, "file.go", 176).Error(err, "Could not get metadata", "path", name)
		case info.IsDir():
			logAt(m.p, "file.go", 182).Error(nil, "Provided manifest path is a directory, not recursing into manifest path", "path", name)
		case info.Mode().IsRegular():
			pod, err := m.readFile(name)
			if err == nil {
				pods = append(pods, pod)
			} else if !errors.Is(err, fs.ErrNotExist) {
				logAt(m.p, "file.go", 187).Error(err, "Could not process manifest file", "path", name)
			}
		default:
			logAt(m.p, "file.go", 193).Error(nil, "Manifest path is not a directory or file", "path", name, "mode", info.Mode())
		}
	}
	return pods, nil
}

// maxManifest is upstream's maxConfigLength in bytes.
const maxManifest = 10 << 20

func (m *manifests) readFile(name string) (*v1.Pod, error) {
	data, err := m.p.Files.ReadFile(name)
	if err != nil {
		return nil, err
	}
	if len(data) > maxManifest {
		return nil, errors.New("read limit reached")
	}
	parsed, pod, err := tryDecodeSinglePod(klog.Background(), data, func(l klog.Logger, pod *api.Pod) error {
		return applyStaticPodDefaults(l, pod, name, true, m.node)
	})
	if err != nil {
		if !parsed {
			err = fmt.Errorf("%v: couldn't parse as pod(%v), please check config file", name, err)
		}
		return nil, err
	}
	key, err := cache.MetaNamespaceKeyFunc(pod)
	if err != nil {
		return nil, err
	}
	m.keys[name] = key
	return pod, nil
}

// watch follows the directory's events, and looks for the directory each second while there is none.
func (m *manifests) watch() {
	backOff := flowcontrol.NewBackOff(fileWatchRetryPeriod, fileWatchMaxRetryPeriod)
	for {
		if !backOff.IsInBackOffSinceUpdate("watch", time.Now()) {
			err := m.follow()
			if err == nil {
				return
			}
			logAt(m.p, "file_linux.go", 61).Error(err, "Unable to read config path", "path", m.dir)
			if !errors.Is(err, errNoManifests) {
				backOff.Next("watch", time.Now())
			}
		}
		if m.p.Sleep(fileWatchRetryPeriod) != nil {
			return
		}
	}
}

func (m *manifests) follow() error {
	if _, err := m.p.Files.Stat(m.dir); errors.Is(err, fs.ErrNotExist) {
		m.send([]*v1.Pod{})
		return errNoManifests
	} else if err != nil {
		return err
	}
	w, err := m.p.Files.Watch(m.dir)
	if err != nil {
		return fmt.Errorf("unable to create inotify for path %q: %v", m.dir, err)
	}
	defer w.Close()
	for {
		select {
		case <-m.p.Done():
			return nil
		case e, ok := <-w.Events():
			if !ok {
				return errNoManifests
			}
			if strings.HasPrefix(path.Base(e.Name), ".") {
				continue
			}
			select {
			case m.events <- e:
			case <-m.p.Done():
				return nil
			}
		}
	}
}

func (m *manifests) consume(e kernel.FileEvent) error {
	switch {
	case e.Op&(kernel.FileCreate|kernel.FileWrite|kernel.FileChmod) != 0:
		pod, err := m.readFile(e.Name)
		if err != nil {
			return fmt.Errorf("can't process config file %q: %v", e.Name, err)
		}
		return m.store.Add(pod)
	case e.Op&(kernel.FileRemove|kernel.FileRename) != 0:
		key, ok := m.keys[e.Name]
		if !ok {
			return nil
		}
		pod, ok, err := m.store.GetByKey(key)
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("the pod with key %s doesn't exist in cache", key)
		}
		if err := m.store.Delete(pod); err != nil {
			return fmt.Errorf("failed to remove deleted pod from cache: %v", err)
		}
		delete(m.keys, e.Name)
	}
	return nil
}
