package runtime

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path"
	"sort"
	"strings"
	"sync"

	"github.com/containernetworking/cni/libcni"
	"github.com/containernetworking/cni/pkg/invoke"
	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/version"

	"ckadrill/sim/kernel"
)

var (
	errCNINotInitialized = errors.New("cni plugin not initialized")
	errInvalidCNIConfig  = errors.New("invalid cni config")
)

// loopbackConfig is the network that containerd puts before the configured one, to have the loopback plugin set lo up.
const loopbackConfig = "{\n\"cniVersion\": \"0.3.1\",\n\"name\": \"cni-loopback\",\n\"plugins\": [{\n  \"type\": \"loopback\"\n}]\n}"

// cniPlugin is containerd's view of the CNI configuration: what it last loaded from the configuration directory, by the
// rules of containerd's conf syncer and go-cni.
type cniPlugin struct {
	d       *daemon
	confDir string
	binDirs []string
	watch   kernel.Watch

	mu       sync.Mutex
	networks []*cniNetwork
	last     error // of the last load
	watching bool
	version  uint64
}

type cniNetwork struct {
	config *libcni.NetworkConfigList
	ifName string
}

func newCNIPlugin(d *daemon, quiet bool) *cniPlugin {
	n := &cniPlugin{d: d, confDir: d.config.CNIConfDir, binDirs: d.config.CNIBinDirs, watching: true}
	files := d.c.files()
	if f := d.c.thawedCNI(); quiet && f != nil {
		n.recall(f)
	} else {
		files.MkdirAll(path.Dir(n.confDir), 0o755)
		files.MkdirAll(n.confDir, 0o700)
		n.load()
	}
	if n.last != nil && !quiet {
		d.log.line("error", "failed to load cni during init, please check CRI plugin status before setting up network for pods", "error", n.last)
	}
	if !n.watching {
		return n
	}
	if w, err := files.Watch(n.confDir); err == nil {
		n.watch = w
		go n.follow()
	}
	return n
}

func (n *cniPlugin) stop() {
	if n.watch != nil {
		n.watch.Close()
	}
}

// follow reloads the configuration as containerd does: after writes, renames and removals, not when a file merely appears
// (a file that is moved in from another directory is found at the next such event only).
func (n *cniPlugin) follow() {
	for {
		var e kernel.FileEvent
		var ok bool
		select {
		case e, ok = <-n.watch.Events():
			if !ok {
				return
			}
		case <-n.d.p.Done():
			n.watch.Close()
			return
		}
		if e.Op&(kernel.FileChmod|kernel.FileCreate) != 0 {
			continue
		}
		if e.Name == n.confDir && e.Op&(kernel.FileRename|kernel.FileRemove) != 0 {
			n.mu.Lock()
			n.watching, n.version = false, n.d.c.w.Version()
			n.mu.Unlock()
			n.d.log.line("error", "cni network conf syncer exits", "error", "cni conf dir is removed, stop watching")
			return
		}
		n.load()
		n.mu.Lock()
		err := n.last
		n.mu.Unlock()
		if err != nil {
			n.d.log.line("error", fmt.Sprintf("failed to reload cni configuration after receiving fs change event(%s)", eventString(e)), "error", err)
		}
	}
}

func eventString(e kernel.FileEvent) string {
	op := map[kernel.FileOp]string{kernel.FileCreate: "CREATE", kernel.FileWrite: "WRITE", kernel.FileRemove: "REMOVE", kernel.FileRename: "RENAME", kernel.FileChmod: "CHMOD"}[e.Op]
	return fmt.Sprintf("%-13s %q", op, e.Name)
}

// load reads the first usable file of the configuration directory.
func (n *cniPlugin) load() {
	networks, err := n.read()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.networks, n.last, n.version = networks, err, n.d.c.w.Version()
	if err != nil {
		n.last = fmt.Errorf("cni config load failed: %v: failed to load cni config", err)
	}
}

func (n *cniPlugin) read() (l []*cniNetwork, err error) {
	if !n.d.config.InternalLoopback {
		lo, err := libcni.ConfListFromBytes([]byte(loopbackConfig))
		if err != nil {
			return nil, err
		}
		l = append(l, &cniNetwork{lo, "lo"})
	}
	files := n.d.c.files()
	entries, err := files.ReadDir(n.confDir)
	if err != nil {
		return l, fmt.Errorf("failed to read config file: %v: failed to read config file", err)
	}
	var names []string
	for _, e := range entries {
		switch path.Ext(e.Name()) {
		case ".conf", ".conflist", ".json":
			if !e.IsDir() {
				names = append(names, path.Join(n.confDir, e.Name()))
			}
		}
	}
	if len(names) == 0 {
		return l, fmt.Errorf("no network config found in %s: %w", n.confDir, errCNINotInitialized)
	}
	sort.Strings(names)
	for _, name := range names {
		content, err := files.ReadFile(name)
		if err != nil {
			return l, fmt.Errorf("failed to load CNI config file %s: error reading %s: %v: %w", name, name, err, errInvalidCNIConfig)
		}
		var list *libcni.NetworkConfigList
		if strings.HasSuffix(name, ".conflist") {
			if list, err = libcni.ConfListFromBytes(content); err != nil {
				return l, fmt.Errorf("failed to load CNI config list file %s: %v: %w", name, err, errInvalidCNIConfig)
			}
		} else {
			one, err := libcni.ConfFromBytes(content)
			if err != nil {
				return l, fmt.Errorf("failed to load CNI config file %s: %v: %w", name, err, errInvalidCNIConfig)
			}
			if list, err = libcni.ConfListFromConf(one); err != nil {
				return l, fmt.Errorf("failed to convert CNI config file %s to CNI config list: %v: %w", name, err, errInvalidCNIConfig)
			}
		}
		if len(list.Plugins) == 0 {
			return l, fmt.Errorf("CNI config list in config file %s has no networks, skipping: %w", name, errInvalidCNIConfig)
		}
		return append(l, &cniNetwork{list, "eth0"}), nil
	}
	return l, nil
}

// ready is go-cni's Status: there must be as many networks as a Pod is attached to.
func (n *cniPlugin) ready() ([]*cniNetwork, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	want := 2
	if n.d.config.InternalLoopback {
		want = 1
	}
	if len(n.networks) < want {
		return nil, errCNINotInitialized
	}
	return n.networks, nil
}

// cniArgs is the environment of a plugin. Upstream's would take the host's environment too.
type cniArgs struct {
	command, id, netns, ifName string
	binDirs                    []string
	labels                     [][2]string
}

func (a cniArgs) AsEnv() []string {
	kv := make([]string, len(a.labels))
	for i, l := range a.labels {
		kv[i] = l[0] + "=" + l[1]
	}
	return []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "CNI_COMMAND=" + a.command, "CNI_CONTAINERID=" + a.id, "CNI_NETNS=" + a.netns,
		"CNI_ARGS=" + strings.Join(kv, ";"), "CNI_IFNAME=" + a.ifName, "CNI_PATH=" + strings.Join(a.binDirs, ":")}
}

// cniExec runs plugins as processes of the machine.
type cniExec struct {
	n *cniPlugin
	version.PluginDecoder
}

func (e *cniExec) FindInPath(plugin string, dirs []string) (string, error) {
	switch {
	case plugin == "":
		return "", errors.New("no plugin name provided")
	case strings.Contains(plugin, "/"):
		return "", fmt.Errorf("invalid plugin name: %s", plugin)
	case len(dirs) == 0:
		return "", errors.New("no paths provided")
	}
	for _, d := range dirs {
		name := path.Join(d, plugin)
		if i, err := e.n.d.c.files().Stat(name); err == nil && i.Mode().IsRegular() {
			return name, nil
		}
	}
	return "", fmt.Errorf("failed to find plugin %q in path %s", plugin, dirs)
}

func (e *cniExec) ExecPlugin(ctx context.Context, name string, stdin []byte, env []string) ([]byte, error) {
	d := e.n.d
	files := d.c.files()
	var stdout, stderr bytes.Buffer
	fail := func(err error) error {
		msg := types.Error{}
		switch {
		case stdout.Len() == 0 && stderr.Len() == 0:
			msg.Msg = fmt.Sprintf("netplugin failed with no error message: %v", err)
		case stdout.Len() == 0:
			msg.Msg = fmt.Sprintf("netplugin failed: %q", stderr.String())
		default:
			if jerr := json.Unmarshal(stdout.Bytes(), &msg); jerr != nil {
				msg.Msg = fmt.Sprintf("netplugin failed but error parsing its diagnostic message %q: %v", stdout.String(), jerr)
			}
		}
		return &msg
	}
	main, argv, err := d.c.w.Load(files, name, []string{name})
	if err != nil {
		return nil, fail(fmt.Errorf("fork/%w", err))
	}
	p := d.c.host.Processes.Start(kernel.Spec{Argv: argv, Env: env, Files: files, Net: d.p.Net, Stdin: bytes.NewReader(stdin), Stdout: &stdout, Stderr: &stderr, Parent: d.p}, main)
	select {
	case <-p.Done():
	case <-ctx.Done():
		p.Signal(kernel.SIGKILL)
		<-p.Done()
		return nil, fail(errors.New("signal: killed"))
	}
	switch s := p.Wait(); {
	case s.Signal != 0:
		return nil, fail(fmt.Errorf("signal: %s", map[kernel.Signal]string{kernel.SIGKILL: "killed", kernel.SIGTERM: "terminated"}[s.Signal]))
	case s.Code != 0:
		return nil, fail(fmt.Errorf("exit status %d", s.Code))
	}
	return stdout.Bytes(), nil
}

// attachment says for which sandbox the plugins run.
type attachment struct {
	id, netns    string
	labels       [][2]string
	capabilities map[string]any
}

// setup attaches a sandbox to all networks and returns the result of each.
func (n *cniPlugin) setup(ctx context.Context, a attachment) ([]*types100.Result, error) {
	networks, err := n.ready()
	if err != nil {
		return nil, err
	}
	var results []*types100.Result
	for _, net := range networks {
		r, err := n.add(ctx, net, a)
		if err != nil {
			return nil, err
		}
		results = append(results, r)
	}
	return results, nil
}

func (n *cniPlugin) add(ctx context.Context, net *cniNetwork, a attachment) (*types100.Result, error) {
	var prev types.Result
	for _, plugin := range net.config.Plugins {
		r, err := n.runPlugin(ctx, "ADD", net, plugin, prev, a)
		if err != nil {
			return nil, fmt.Errorf("plugin %s failed (add): %w", describePlugin(plugin.Network), err)
		}
		prev = r
	}
	if prev == nil {
		return &types100.Result{}, nil
	}
	if err := n.cache(net, a, prev); err != nil {
		return nil, fmt.Errorf("failed to set network %q cached result: %w", net.config.Name, err)
	}
	return types100.NewResultFromResult(prev)
}

// teardown detaches a sandbox, in the reverse order of plugins; what is not found is taken as detached.
func (n *cniPlugin) teardown(ctx context.Context, a attachment) error {
	networks, err := n.ready()
	if err != nil {
		return err
	}
	for _, net := range networks {
		prev := n.cached(net, a)
		for i := len(net.config.Plugins) - 1; i >= 0; i-- {
			plugin := net.config.Plugins[i]
			if _, err := n.runPlugin(ctx, "DEL", net, plugin, prev, a); err != nil {
				if a.netns == "" && strings.Contains(err.Error(), "no such file or directory") || strings.Contains(err.Error(), "not found") {
					continue
				}
				return fmt.Errorf("plugin %s failed (delete): %w", describePlugin(plugin.Network), err)
			}
		}
		n.d.c.files().Remove(n.cacheName(net, a))
	}
	return nil
}

func describePlugin(c *types.PluginConf) string {
	s := fmt.Sprintf("type=%q", c.Type)
	if c.Name != "" {
		s += fmt.Sprintf(" name=%q", c.Name)
	}
	return s
}

func (n *cniPlugin) runPlugin(ctx context.Context, command string, net *cniNetwork, plugin *libcni.PluginConfig, prev types.Result, a attachment) (types.Result, error) {
	exec := &cniExec{n: n}
	name, err := exec.FindInPath(plugin.Network.Type, n.binDirs)
	if err != nil {
		return nil, err
	}
	inject := map[string]any{"name": net.config.Name, "cniVersion": net.config.CNIVersion}
	if prev != nil {
		inject["prevResult"] = prev
	}
	conf, err := libcni.InjectConf(plugin, inject)
	if err != nil {
		return nil, err
	}
	given := map[string]any{}
	for c, on := range plugin.Network.Capabilities {
		if v, ok := a.capabilities[c]; ok && on {
			given[c] = v
		}
	}
	if len(given) > 0 {
		if conf, err = libcni.InjectConf(conf, map[string]any{"runtimeConfig": given}); err != nil {
			return nil, err
		}
	}
	args := cniArgs{command, a.id, a.netns, net.ifName, n.binDirs, a.labels}
	if command == "DEL" {
		return nil, invoke.ExecPluginWithoutResult(ctx, name, conf.Bytes, args, exec)
	}
	return invoke.ExecPluginWithResult(ctx, name, conf.Bytes, args, exec)
}

// The result of ADD is kept in a file of libcni's form, for DEL.
const cniCacheDir = "/var/lib/cni/results"

type cniCached struct {
	Kind        string      `json:"kind"`
	ContainerID string      `json:"containerId"`
	Config      []byte      `json:"config"`
	IfName      string      `json:"ifName"`
	NetworkName string      `json:"networkName"`
	NetNS       string      `json:"netns,omitempty"`
	CniArgs     [][2]string `json:"cniArgs,omitempty"`
	Result      any         `json:"result,omitempty"`
}

func (n *cniPlugin) cacheName(net *cniNetwork, a attachment) string {
	return path.Join(cniCacheDir, fmt.Sprintf("%s-%s-%s", net.config.Name, a.id, net.ifName))
}

func (n *cniPlugin) cache(net *cniNetwork, a attachment, r types.Result) error {
	b, err := json.Marshal(cniCached{"cniCacheV1", a.id, net.config.Bytes, net.ifName, net.config.Name, a.netns, a.labels, r})
	if err != nil {
		return err
	}
	files := n.d.c.files()
	if err := files.MkdirAll(cniCacheDir, 0o700); err != nil {
		return err
	}
	return files.WriteFile(n.cacheName(net, a), b, 0o600)
}

func (n *cniPlugin) cached(net *cniNetwork, a attachment) types.Result {
	b, err := n.d.c.files().ReadFile(n.cacheName(net, a))
	if err != nil {
		return nil
	}
	var f struct {
		Result json.RawMessage `json:"result"`
	}
	if json.Unmarshal(b, &f) != nil || len(f.Result) == 0 {
		return nil
	}
	v, err := (&version.ConfigDecoder{}).Decode(f.Result)
	if err != nil {
		return nil
	}
	r, err := version.NewResult(v, f.Result)
	if err != nil {
		return nil
	}
	return r
}
