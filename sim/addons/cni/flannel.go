package cni

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"path"
	"strconv"
	"strings"

	"github.com/containernetworking/cni/pkg/types"
)

const (
	defaultSubnetFile = "/run/flannel/subnet.env"
	defaultDataDir    = "/var/lib/cni/flannel"
)

type flannelConf struct {
	Name          string         `json:"name"`
	CNIVersion    string         `json:"cniVersion"`
	SubnetFile    string         `json:"subnetFile"`
	DataDir       string         `json:"dataDir"`
	Delegate      map[string]any `json:"delegate"`
	RuntimeConfig map[string]any `json:"runtimeConfig,omitempty"`
}

// subnetEnv is what flanneld has written for this node.
type subnetEnv struct {
	network, subnet string
	mtu             int
	ipMasq          bool
}

func loadSubnetEnv(c *call, name string) (*subnetEnv, error) {
	b, err := c.ReadFile(name)
	if err != nil {
		return nil, err
	}
	e := &subnetEnv{}
	seen := map[string]bool{}
	for line := range strings.Lines(string(b)) {
		k, v, _ := strings.Cut(strings.TrimSpace(line), "=")
		seen[k] = true
		switch k {
		case "FLANNEL_NETWORK":
			e.network = v
		case "FLANNEL_SUBNET":
			if _, _, err := net.ParseCIDR(v); err != nil {
				return nil, err
			}
			e.subnet = v
		case "FLANNEL_MTU":
			if e.mtu, err = strconv.Atoi(v); err != nil {
				return nil, err
			}
		case "FLANNEL_IPMASQ":
			e.ipMasq = v == "true"
		}
	}
	var missing []string
	for _, k := range []string{"FLANNEL_NETWORK", "FLANNEL_SUBNET", "FLANNEL_MTU", "FLANNEL_IPMASQ"} {
		if !seen[k] {
			missing = append(missing, k)
		}
	}
	if len(missing) > 0 {
		return nil, fmt.Errorf("%v is missing %s", name, strings.Join(missing, ", "))
	}
	return e, nil
}

func loadFlannel(c *call) (*flannelConf, error) {
	conf := &flannelConf{SubnetFile: defaultSubnetFile, DataDir: defaultDataDir}
	if err := json.Unmarshal(c.stdin, conf); err != nil {
		return nil, fmt.Errorf("failed to load netconf: %w", err)
	}
	return conf, nil
}

// addFlannel turns the node's subnet into a configuration for the plugin that does the work, bridge unless told otherwise.
func addFlannel(c *call) (types.Result, error) {
	conf, err := loadFlannel(c)
	if err != nil {
		return nil, fmt.Errorf("loadFlannelNetConf failed: %w", err)
	}
	env, err := loadSubnetEnv(c, conf.SubnetFile)
	if err != nil {
		return nil, fmt.Errorf("failed to load flannel 'subnet.env' file: %w. Check the flannel pod log for this node.", err)
	}
	d := conf.Delegate
	if d == nil {
		d = map[string]any{}
	}
	if t, ok := d["type"]; ok {
		if _, ok := t.(string); !ok {
			return nil, errors.New("'delegate' dictionary, if present, must have (string) 'type' field")
		}
	} else {
		d["type"] = "bridge"
	}
	if _, ok := d["name"]; ok {
		return nil, errors.New("'delegate' dictionary must not have 'name' field, it'll be set by flannel")
	}
	if _, ok := d["ipam"]; ok {
		return nil, errors.New("'delegate' dictionary must not have 'ipam' field, it'll be set by flannel")
	}
	d["name"] = conf.Name
	if conf.CNIVersion != "" {
		d["cniVersion"] = conf.CNIVersion
	}
	if conf.RuntimeConfig != nil {
		d["runtimeConfig"] = conf.RuntimeConfig
	}
	setDefault := func(k string, v any) {
		if _, ok := d[k]; !ok {
			d[k] = v
		}
	}
	setDefault("ipMasq", !env.ipMasq)
	setDefault("mtu", env.mtu)
	if d["type"] == "bridge" {
		setDefault("isGateway", true)
	}
	_, subnet, _ := net.ParseCIDR(env.subnet)
	d["ipam"] = map[string]any{"type": "host-local", "ranges": [][]map[string]any{{{"subnet": subnet.String()}}}, "routes": []map[string]any{{"dst": env.network}}}
	b, err := json.Marshal(d)
	if err != nil {
		return nil, fmt.Errorf("error serializing delegate netconf: %w", err)
	}
	// DEL will need what was delegated.
	if err := c.Files.MkdirAll(conf.DataDir, 0o700); err != nil {
		return nil, err
	}
	if err := c.Files.WriteFile(path.Join(conf.DataDir, c.id), b, 0o600); err != nil {
		return nil, err
	}
	return c.delegateAdd(d["type"].(string), b)
}

func delFlannel(c *call) error {
	conf, err := loadFlannel(c)
	if err != nil {
		return err
	}
	name := path.Join(conf.DataDir, c.id)
	b, err := c.Files.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil // an earlier DEL has done it
	}
	if err != nil {
		return err
	}
	var d struct {
		Type string `json:"type"`
	}
	if err := json.Unmarshal(b, &d); err != nil {
		return fmt.Errorf("failed to parse netconf: %w", err)
	}
	if _, err := c.delegate(d.Type, b); err != nil {
		return err
	}
	return c.Files.Remove(name)
}
