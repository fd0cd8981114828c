package kubeadm

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"net/netip"
	"os"
	"path"
	"path/filepath"
	"slices"

	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
	"sigs.k8s.io/yaml"

	"ckadrill/sim/kubeadm/host"
)

// configDir is where in the command's own directory copies of configuration files lie.
const configDir = "/config"

// configuration copies a configuration file to where it is not taken for the machine's, with what upstream would else ask the
// real host for: the node's name, the container runtime's socket and the address to advertise. A file that is missing is so
// there, too, so that upstream says what is wrong.
func (c *command) configuration(name string) (private string, err error) {
	private = c.aside(name)
	b, err := c.p.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return private, nil
	}
	if err != nil {
		return "", err
	}
	b = c.filled(b)
	if err := os.MkdirAll(filepath.Dir(private), 0o700); err != nil {
		return "", err
	}
	return private, os.WriteFile(private, b, 0o600)
}

// aside is where a copy of a file lies.
func (c *command) aside(name string) (private string) {
	private = c.own.path(path.Join(configDir, c.p.Path(name)))
	c.nameAsGiven(private, name)
	return private
}

// givenName is the name by which a copy was asked for.
type givenName struct{ private, name string }

// nameAsGiven lets a copy be called what it was asked for by, which may be relative.
func (c *command) nameAsGiven(private, name string) {
	if path.IsAbs(name) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.given = append(c.given, givenName{private, name})
	// a name may begin with another
	slices.SortStableFunc(c.given, func(a, b givenName) int { return len(b.private) - len(a.private) })
}

// filled is a configuration file's text with what upstream would ask the real host for. Of one that is no YAML upstream says so.
func (c *command) filled(b []byte) []byte {
	if filled, err := c.fillConfiguration(b); err == nil {
		return filled
	}
	return b
}

type document = map[string]any

func (c *command) fillConfiguration(b []byte) ([]byte, error) {
	var out bytes.Buffer
	write := func(doc any) error {
		b, err := yaml.Marshal(doc)
		if err != nil {
			return err
		}
		out.WriteString("---\n")
		out.Write(b)
		return nil
	}
	hasInit, clusterVersion := false, ""
	r := utilyaml.NewYAMLReader(bufio.NewReader(bytes.NewReader(b)))
	for {
		part, err := r.Read()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		doc := document{}
		if err := yaml.Unmarshal(part, &doc); err != nil {
			return nil, err
		}
		switch doc["kind"] {
		case "InitConfiguration":
			hasInit = true
			c.fillInit(doc)
		case "ClusterConfiguration":
			clusterVersion, _ = doc["apiVersion"].(string)
			out.WriteString("---\n")
			out.Write(part)
			continue
		case "JoinConfiguration":
			c.fillNode(doc)
			c.fillDiscovery(doc)
			if cp, ok := doc["controlPlane"].(document); ok {
				c.fillEndpoint(cp)
			}
		case "ResetConfiguration":
			c.fillSocket(doc)
		default:
			out.WriteString("---\n")
			out.Write(part)
			continue
		}
		if err := write(doc); err != nil {
			return nil, err
		}
	}
	if clusterVersion != "" && !hasInit {
		doc := document{"apiVersion": clusterVersion, "kind": "InitConfiguration"}
		c.fillInit(doc)
		if err := write(doc); err != nil {
			return nil, err
		}
	}
	return out.Bytes(), nil
}

// within is the object below a key, which is made if there is none.
func within(doc document, key string) document {
	o, ok := doc[key].(document)
	if !ok {
		o = document{}
		doc[key] = o
	}
	return o
}

func fill(doc document, key, value string) {
	if s, ok := doc[key].(string); !ok || s == "" {
		doc[key] = value
	}
}

func (c *command) fillInit(doc document) {
	c.fillNode(doc)
	c.fillEndpoint(doc)
	// A token that upstream generates would not come from the world's seed.
	tokens, _ := doc["bootstrapTokens"].([]any)
	if len(tokens) == 0 {
		tokens = []any{document{}}
		doc["bootstrapTokens"] = tokens
	}
	for _, t := range tokens {
		if t, ok := t.(document); ok && t["token"] == nil {
			t["token"] = newToken(c.p.World())
		}
	}
}

func (c *command) fillNode(doc document) {
	reg := within(doc, "nodeRegistration")
	fill(reg, "name", c.hostName())
	c.fillSocket(reg)
}

// fillSocket names the socket that is found. Where none can be chosen, upstream's own detection is turned off, and takes
// containerd's.
func (c *command) fillSocket(doc document) {
	if socket, err := host.DetectCRISocket(c.p); err == nil {
		fill(doc, "criSocket", socket)
	}
}

// fillDiscovery lets a configuration name what stands for its discovery file.
func (c *command) fillDiscovery(doc document) {
	d, _ := doc["discovery"].(document)
	f, _ := d["file"].(document)
	if name, _ := f["kubeConfigPath"].(string); name != "" {
		f["kubeConfigPath"] = c.discoveryFile(name)
	}
}

func (c *command) fillEndpoint(doc document) {
	e := within(doc, "localAPIEndpoint")
	given, _ := e["advertiseAddress"].(string)
	e["advertiseAddress"] = c.advertised(given)
}

// advertised is the address to advertise: upstream takes that of the default route, too, where any or a loopback address is given.
func (c *command) advertised(given string) string {
	if a, err := netip.ParseAddr(given); given == "" || err == nil && (a.IsUnspecified() || a.IsLoopback()) {
		return c.address()
	}
	return given
}
