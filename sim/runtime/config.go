package runtime

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/pelletier/go-toml/v2"

	"ckadrill/sim/kernel"
)

// daemonConfig is what a running containerd took from its configuration file and flags.
type daemonConfig struct {
	Address       string
	Root, State   string
	SandboxImage  string
	SystemdCgroup bool
	CNIConfDir    string
	CNIBinDirs    []string
	// InternalLoopback brings lo up without the loopback plugin.
	InternalLoopback bool
	// CRI is off when one of its plugins is disabled or refused its configuration.
	CRI      bool
	CRIError error
	Runtimes map[string]bool
	Default  string
	MaxLine  int
	Warnings []configWarning
}

type configWarning struct {
	row, column int
	key         string
	err         error
}

// The fields of containerd's server configuration that mean something here; the plugins' parts are maps, as in containerd.
type serverConfig struct {
	Version         int                       `toml:"version"`
	Root            string                    `toml:"root"`
	State           string                    `toml:"state"`
	TempDir         string                    `toml:"temp"`
	GRPC            map[string]any            `toml:"grpc"`
	TTRPC           map[string]any            `toml:"ttrpc"`
	Debug           map[string]any            `toml:"debug"`
	Metrics         map[string]any            `toml:"metrics"`
	DisabledPlugins []string                  `toml:"disabled_plugins"`
	RequiredPlugins []string                  `toml:"required_plugins"`
	Plugins         map[string]map[string]any `toml:"plugins"`
	OOMScore        int                       `toml:"oom_score"`
	Cgroup          map[string]any            `toml:"cgroup"`
	ProxyPlugins    map[string]any            `toml:"proxy_plugins"`
	Timeouts        map[string]string         `toml:"timeouts"`
	Imports         []string                  `toml:"imports"`
	StreamProcs     map[string]any            `toml:"stream_processors"`
}

const configVersion = 4 // of containerd 2.3 and later; older files are migrated

// The plugins of which the CRI consists, by their identifiers.
const (
	pluginCRI     = "io.containerd.grpc.v1.cri"
	pluginImages  = "io.containerd.cri.v1.images"
	pluginRuntime = "io.containerd.cri.v1.runtime"
)

func defaultConfig() *daemonConfig {
	return &daemonConfig{
		Address: "/run/containerd/containerd.sock", Root: defaultRoot, State: "/run/containerd", SandboxImage: "registry.k8s.io/pause:3.10.1",
		CNIConfDir: "/etc/cni/net.d", CNIBinDirs: []string{"/opt/cni/bin"}, CRI: true, Runtimes: map[string]bool{"runc": true}, Default: "runc", MaxLine: 16 * 1024,
	}
}

// fileReader is the part of a tree that a configuration is read through.
type fileReader interface {
	ReadFile(name string) ([]byte, error)
}

// loadConfig reads a configuration file as containerd's cmd/containerd/server/config does, with its error texts. The last
// result is a line to log before such an error.
func loadConfig(files fileReader, name string) (*daemonConfig, *configWarning, error) {
	c := defaultConfig()
	content, err := files.ReadFile(name)
	if err != nil {
		return nil, nil, err
	}
	var s serverConfig
	err = toml.NewDecoder(bytes.NewReader(content)).DisallowUnknownFields().Decode(&s)
	var missing *toml.StrictMissingError
	if errors.As(err, &missing) {
		for _, e := range missing.Errors {
			row, col := e.Position()
			c.Warnings = append(c.Warnings, configWarning{row, col, strings.Join(e.Key(), " "), err})
		}
		s = serverConfig{}
		err = toml.Unmarshal(content, &s)
	}
	var bad *toml.DecodeError
	switch {
	case errors.As(err, &bad):
		row, col := bad.Position()
		return nil, &configWarning{row: row, column: col, err: err}, fmt.Errorf("failed to unmarshal TOML at row %d column %d: %w", row, col, err)
	case err != nil:
		return nil, nil, fmt.Errorf("failed to unmarshal TOML: %w", err)
	}
	if s.Version > configVersion {
		return nil, nil, fmt.Errorf("failed to load TOML from %s: expected containerd config version equal to or less than `%d`, got `%d`", name, configVersion, s.Version)
	}
	off := map[string]bool{}
	for _, p := range s.DisabledPlugins {
		if s.Version <= 1 && !strings.Contains(p, ".") { // version 1 knew plugins by their short names
			p = map[string]string{"cri": pluginCRI}[p]
		} else if !validPluginURI(p) {
			return nil, nil, fmt.Errorf("failed to load TOML from %s: invalid disabled plugin URI %q expect io.containerd.x.vx", name, p)
		}
		off[p] = true
	}
	for _, p := range s.RequiredPlugins {
		if !validPluginURI(p) {
			return nil, nil, fmt.Errorf("failed to load TOML from %s: invalid required plugin URI %q expect io.containerd.x.vx", name, p)
		}
	}
	setString(&c.Root, s.Root)
	setString(&c.State, s.State)
	if a, ok := s.GRPC["address"].(string); ok {
		c.Address = a
	}
	c.CRI = !off[pluginCRI] && !off[pluginImages] && !off[pluginRuntime]
	c.readPlugins(s.Plugins)
	return c, nil, nil
}

func validPluginURI(p string) bool {
	return strings.HasPrefix(p, "io.containerd.") && strings.Count(p, ".") >= 3
}

func setString(to *string, v string) {
	if v != "" {
		*to = v
	}
}

// readPlugins takes the CRI's settings from version 3's two plugins, or from version 2's one.
func (c *daemonConfig) readPlugins(plugins map[string]map[string]any) {
	old, images, run := plugins[pluginCRI], plugins[pluginImages], plugins[pluginRuntime]
	if old == nil {
		old = plugins["cri"]
	}
	for _, v := range []any{old["sandbox_image"], dig(images, "pinned_images", "sandbox")} {
		if s, ok := v.(string); ok {
			c.SandboxImage = s
		}
	}
	for _, p := range []map[string]any{old, run} {
		if s, ok := dig(p, "cni", "conf_dir").(string); ok {
			c.CNIConfDir = s
		}
		if s, ok := dig(p, "cni", "bin_dir").(string); ok {
			c.CNIBinDirs = []string{s}
		}
		if l, ok := dig(p, "cni", "bin_dirs").([]any); ok {
			c.CNIBinDirs = nil
			for _, d := range l {
				c.CNIBinDirs = append(c.CNIBinDirs, fmt.Sprint(d))
			}
		}
		if b, ok := dig(p, "cni", "use_internal_loopback").(bool); ok {
			c.InternalLoopback = b
		}
		if s, ok := dig(p, "containerd", "default_runtime_name").(string); ok {
			c.Default = s
		}
		if n, ok := dig(p, "max_container_log_line_size").(int64); ok {
			c.MaxLine = int(n)
		}
		runtimes, _ := dig(p, "containerd", "runtimes").(map[string]any)
		for name := range runtimes {
			c.Runtimes[name] = true
		}
		if b, ok := dig(p, "containerd", "runtimes", c.Default, "options", "SystemdCgroup").(bool); ok {
			c.SystemdCgroup = b
		}
	}
	if c.CRI && !c.Runtimes[c.Default] {
		c.CRI = false
		c.CRIError = fmt.Errorf("invalid plugin config: no corresponding runtime configured in `containerd.runtimes` for `containerd` `default_runtime_name = %q", c.Default)
	}
}

func dig(m map[string]any, keys ...string) any {
	var v any = m
	for _, k := range keys {
		t, ok := v.(map[string]any)
		if !ok {
			return nil
		}
		v = t[k]
	}
	return v
}

// configExists says whether a configuration file is to be read: a missing one is an error only if it was asked for.
func configExists(files kernel.Files, name string, asked bool) bool {
	_, err := files.Stat(path.Clean(name))
	return asked || !errors.Is(err, fs.ErrNotExist)
}
