// Package cni holds the CNI plugins of /opt/cni/bin as programs: loopback, bridge, host-local, portmap, flannel and calico. Each reads
// its configuration on standard input and its task in CNI_* variables, changes the machine's network, and prints a result or
// an error as the real one does. What they remember they keep in the same files.
package cni

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"strings"

	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
	"github.com/containernetworking/cni/pkg/types/create"
	"github.com/containernetworking/cni/pkg/version"

	"ckadrill/sim/kernel"
	"ckadrill/sim/network"
)

// Register adds the plugins under the names of their files, and those of images under names of their own.
func Register(ps *kernel.Programs) {
	ps.Register("loopback", plugin{add: addLoopback, del: delLoopback}.main)
	ps.Register("bridge", plugin{add: addBridge, del: delBridge}.main)
	ps.Register("host-local", plugin{add: addHostLocal, del: delHostLocal}.main)
	ps.Register("portmap", plugin{add: addPortmap, del: delPortmap}.main)
	ps.Register("cni-flannel", plugin{add: addFlannel, del: delFlannel}.main)
	ps.Register("cni-calico", plugin{add: addCalico, del: delCalico}.main)
	for _, name := range []string{"bandwidth", "dhcp", "dummy", "firewall", "host-device", "ipvlan", "macvlan", "ptp", "sbr", "static", "tap", "tuning", "vlan", "vrf"} {
		refuse := func(*call) (types.Result, error) {
			return nil, fmt.Errorf("ckadrill does not simulate the CNI plugin %q yet", name)
		}
		ps.Register(name, plugin{add: refuse, del: func(*call) error { return nil }}.main)
	}
}

// call is one call of a plugin.
type call struct {
	*kernel.Process
	command, id, netns, ifName string
	path                       []string
	stdin                      []byte
	conf                       types.NetConf
	prev                       *types100.Result
}

type plugin struct {
	add func(*call) (types.Result, error)
	del func(*call) error
}

// Codes of the CNI specification.
const (
	errInvalidEnvironment = 4
	errIOFailure          = 5
	errDecodingFailure    = 6
	errInternal           = 999
)

func (g plugin) main(p *kernel.Process) int {
	c := &call{Process: p, command: p.Getenv("CNI_COMMAND"), id: p.Getenv("CNI_CONTAINERID"), netns: p.Getenv("CNI_NETNS"), ifName: p.Getenv("CNI_IFNAME")}
	if s := p.Getenv("CNI_PATH"); s != "" {
		c.path = strings.Split(s, ":")
	}
	if c.command == "" {
		p.Errorf("CNI %s plugin v1.8.0\nCNI protocol versions supported: %s\n", p.Name(), strings.Join(version.All.SupportedVersions(), ", "))
		return 0
	}
	if err := g.run(c); err != nil {
		var e *types.Error
		if !errors.As(err, &e) {
			e = types.NewError(errInternal, err.Error(), "")
		}
		b, _ := json.MarshalIndent(struct {
			CNIVersion string `json:"cniVersion,omitempty"`
			*types.Error
		}{orVersion(c.conf.CNIVersion), e}, "", "    ")
		p.Printf("%s\n", b)
		return 1
	}
	return 0
}

func orVersion(v string) string {
	if v == "" {
		return "0.1.0"
	}
	return v
}

func (g plugin) run(c *call) error {
	var missing []string
	for _, v := range []struct{ name, value, needed string }{
		{"CNI_CONTAINERID", c.id, "ADD DEL CHECK"}, {"CNI_NETNS", c.netns, "ADD CHECK"}, {"CNI_IFNAME", c.ifName, "ADD DEL CHECK"}, {"CNI_PATH", strings.Join(c.path, ":"), "ADD DEL CHECK"}} {
		if v.value == "" && strings.Contains(v.needed, c.command) {
			missing = append(missing, v.name)
		}
	}
	if len(missing) > 0 {
		return types.NewError(errInvalidEnvironment, fmt.Sprintf("required env variables [%s] missing", strings.Join(missing, ",")), "")
	}
	var err error
	if c.stdin, err = io.ReadAll(io.LimitReader(c.Stdin, 4<<20)); err != nil {
		return types.NewError(errIOFailure, fmt.Sprintf("error reading from stdin: %v", err), "")
	}
	if err := json.Unmarshal(c.stdin, &c.conf); err != nil {
		return types.NewError(errDecodingFailure, err.Error(), "")
	}
	switch c.command {
	case "VERSION":
		return version.All.Encode(c.Stdout)
	case "ADD":
		if err := c.readPrev(); err != nil {
			return err
		}
		r, err := g.add(c)
		if err != nil {
			return err
		}
		if r, err = r.GetAsVersion(orVersion(c.conf.CNIVersion)); err != nil {
			return err
		}
		return r.PrintTo(c.Stdout)
	case "DEL":
		return g.del(c)
	case "CHECK", "STATUS", "GC":
		return nil
	}
	return types.NewError(errInvalidEnvironment, fmt.Sprintf("unknown CNI_COMMAND: %v", c.command), "")
}

// readPrev parses the result of the plugin before this one in a chain.
func (c *call) readPrev() error {
	if len(c.conf.RawPrevResult) == 0 {
		return nil
	}
	b, err := json.Marshal(c.conf.RawPrevResult)
	if err != nil {
		return err
	}
	r, err := create.Create(orVersion(c.conf.CNIVersion), b)
	if err != nil {
		return fmt.Errorf("could not parse prevResult: %w", err)
	}
	c.prev, err = types100.NewResultFromResult(r)
	return err
}

// machine is the network namespace of the machine.
func (c *call) machine() *network.Namespace { return network.Of(c.Host()) }

// sandbox is the network namespace that CNI_NETNS names.
func (c *call) sandbox() (*network.Namespace, error) {
	n := c.machine().Namespace(c.netns)
	if n == nil {
		return nil, fmt.Errorf("failed to open netns %q: failed to Statfs %q: no such file or directory", c.netns, c.netns)
	}
	return n, nil
}

// delegate runs another plugin with this one's environment and returns what it printed.
func (c *call) delegate(name string, conf []byte) ([]byte, error) {
	file := ""
	for _, d := range c.path {
		if i, err := c.Files.Stat(path.Join(d, name)); err == nil && i.Mode().IsRegular() {
			file = path.Join(d, name)
			break
		}
	}
	if file == "" {
		return nil, fmt.Errorf("failed to find plugin %q in path %s", name, c.path)
	}
	main, argv, err := c.World().Load(c.Files, file, []string{file})
	if err != nil {
		return nil, fmt.Errorf("netplugin failed with no error message: fork/%w", err)
	}
	var out, errs bytes.Buffer
	p := c.Host().Processes.Start(kernel.Spec{Argv: argv, Env: c.Environ(), Files: c.Files, Net: c.Net, Cred: c.Cred, Stdin: bytes.NewReader(conf), Stdout: &out, Stderr: &errs, Parent: c.Process}, main)
	if s := p.Wait(); s.ExitCode() != 0 {
		e := &types.Error{}
		if json.Unmarshal(out.Bytes(), e) != nil || e.Msg == "" {
			e.Msg = fmt.Sprintf("netplugin failed: %q", errs.String())
		}
		return nil, e
	}
	return out.Bytes(), nil
}

// delegateAdd is [call.delegate] for ADD.
func (c *call) delegateAdd(name string, conf []byte) (*types100.Result, error) {
	b, err := c.delegate(name, conf)
	if err != nil {
		return nil, err
	}
	r, err := create.CreateFromBytes(b)
	if err != nil {
		return nil, err
	}
	return types100.NewResultFromResult(r)
}
