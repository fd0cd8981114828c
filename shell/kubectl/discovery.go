package kubectl

import (
	"encoding/json"
	"errors"
	"path"
	"reflect"
	"regexp"
	"strings"
	"sync"
	"time"
	"unsafe"

	openapi_v2 "github.com/google/gnostic-models/openapiv2"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/version"
	"k8s.io/client-go/discovery"
	"k8s.io/client-go/discovery/cached/memory"
	"k8s.io/client-go/openapi"
	"k8s.io/client-go/rest"
)

// discoveryTTL is how long kubectl believes what it has once discovered (genericclioptions.ConfigFlags).
const discoveryTTL = 6 * time.Hour

// cachedDiscovery is client-go's discovery/cached/disk over the files of the machine: what a server offers is kept below
// ~/.kube/cache/discovery and believed for [discoveryTTL]. So a resource whose definition is gone is still known by name,
// and a user who may discover nothing can use what another has discovered.
type cachedDiscovery struct {
	i *invocation

	mu          sync.Mutex
	live        discovery.CachedDiscoveryInterface // nil until the configuration is known
	err         error
	dir         string
	invalidated bool
	fresh       bool
	ours        map[string]bool
}

// cacheDiscovery puts the cache where ConfigFlags keeps the discovery client that it has made.
func (i *invocation) cacheDiscovery() {
	d := &cachedDiscovery{i: i, fresh: true, ours: map[string]bool{}}
	f := reflect.ValueOf(i.flags).Elem().FieldByName("discoveryClient")
	reflect.NewAt(f.Type(), unsafe.Pointer(f.UnsafeAddr())).Elem().Set(reflect.ValueOf(discovery.CachedDiscoveryInterface(d)))
}

var overlyCautious = regexp.MustCompile(`[^(\w/.)]`)

// client is the discovery client without the files, as ConfigFlags.toDiscoveryClient makes it.
func (d *cachedDiscovery) client() (discovery.CachedDiscoveryInterface, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.live != nil || d.err != nil {
		return d.live, d.err
	}
	c, err := d.i.flags.ToRESTConfig()
	if err != nil {
		d.err = err
		return nil, err
	}
	c = rest.CopyConfig(c)
	c.Burst, c.QPS = 300, 50
	live, err := discovery.NewDiscoveryClientForConfig(c)
	if err != nil {
		d.err = err
		return nil, err
	}
	d.live = memory.NewMemCacheClient(live)
	host := strings.Replace(strings.Replace(c.Host, "https://", "", 1), "http://", "", 1)
	d.dir = path.Join(d.i.cacheDir(), "discovery", overlyCautious.ReplaceAllString(host, "_"))
	return d.live, nil
}

// cacheDir is --cache-dir, $KUBECACHEDIR, or the default.
func (i *invocation) cacheDir() string {
	if d := i.typedCacheDir; d != "" {
		return i.p.Path(d)
	}
	if d := i.p.Getenv("KUBECACHEDIR"); d != "" {
		return i.p.Path(d)
	}
	return path.Join(i.home(), ".kube", "cache")
}

var errNotCached = errors.New("not cached")

// read is the content of a cached file that is still believed.
func (d *cachedDiscovery) read(name string, into any) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.invalidated && !d.ours[name] {
		return errNotCached
	}
	f := d.i.p.Files
	info, err := f.Stat(name)
	if err != nil {
		return err
	}
	if time.Now().After(info.ModTime().Add(discoveryTTL)) {
		return errNotCached
	}
	b, err := f.ReadFile(name)
	if err != nil {
		return err
	}
	if err := json.Unmarshal(b, into); err != nil {
		return err
	}
	d.fresh = d.fresh && d.ours[name]
	return nil
}

// write keeps an answer; who may not write does without.
func (d *cachedDiscovery) write(name string, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	f := d.i.p.Files
	if f.MkdirAll(path.Dir(name), 0o750) != nil || f.WriteFile(name, append(b, '\n'), 0o660) != nil {
		return
	}
	d.ours[name] = true
}

func (d *cachedDiscovery) ServerGroups() (*metav1.APIGroupList, error) {
	live, err := d.client()
	if err != nil {
		return nil, err
	}
	name := path.Join(d.dir, "servergroups.json")
	var known metav1.APIGroupList
	if d.read(name, &known) == nil {
		return &known, nil
	}
	l, err := live.ServerGroups()
	if err != nil || l == nil || len(l.Groups) == 0 {
		return l, err
	}
	l.Kind, l.APIVersion = "APIGroupList", "v1"
	d.write(name, l)
	return l, nil
}

func (d *cachedDiscovery) ServerResourcesForGroupVersion(groupVersion string) (*metav1.APIResourceList, error) {
	live, err := d.client()
	if err != nil {
		return nil, err
	}
	name := path.Join(d.dir, groupVersion, "serverresources.json")
	var known metav1.APIResourceList
	if d.read(name, &known) == nil {
		return &known, nil
	}
	l, err := live.ServerResourcesForGroupVersion(groupVersion)
	if err != nil || l == nil || len(l.APIResources) == 0 {
		return l, err
	}
	l.Kind, l.APIVersion = "APIResourceList", "v1"
	d.write(name, l)
	return l, nil
}

func (d *cachedDiscovery) ServerGroupsAndResources() ([]*metav1.APIGroup, []*metav1.APIResourceList, error) {
	return discovery.ServerGroupsAndResources(d)
}

func (d *cachedDiscovery) ServerPreferredResources() ([]*metav1.APIResourceList, error) {
	return discovery.ServerPreferredResources(d)
}

func (d *cachedDiscovery) ServerPreferredNamespacedResources() ([]*metav1.APIResourceList, error) {
	return discovery.ServerPreferredNamespacedResources(d)
}

func (d *cachedDiscovery) ServerVersion() (*version.Info, error) {
	live, err := d.client()
	if err != nil {
		return nil, err
	}
	return live.ServerVersion()
}

func (d *cachedDiscovery) OpenAPISchema() (*openapi_v2.Document, error) {
	live, err := d.client()
	if err != nil {
		return nil, err
	}
	return live.OpenAPISchema()
}

func (d *cachedDiscovery) OpenAPIV3() openapi.Client {
	live, err := d.client()
	if err != nil {
		return failingOpenAPI{err}
	}
	return live.OpenAPIV3()
}

type failingOpenAPI struct{ err error }

func (f failingOpenAPI) Paths() (map[string]openapi.GroupVersion, error) { return nil, f.err }

func (d *cachedDiscovery) RESTClient() rest.Interface {
	live, err := d.client()
	if err != nil {
		return nil
	}
	return live.RESTClient()
}

// Fresh says whether everything that was told comes from the server itself.
func (d *cachedDiscovery) Fresh() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.fresh
}

// Invalidate has everything asked of the server anew.
func (d *cachedDiscovery) Invalidate() {
	live, err := d.client()
	d.mu.Lock()
	d.ours, d.fresh, d.invalidated = map[string]bool{}, true, true
	d.mu.Unlock()
	if err == nil {
		live.Invalidate()
	}
}

func (d *cachedDiscovery) WithLegacy() discovery.DiscoveryInterface {
	live, err := d.client()
	if err != nil {
		return d
	}
	return live.WithLegacy()
}
