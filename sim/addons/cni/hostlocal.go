package cni

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"path"
	"strings"

	"github.com/containernetworking/cni/pkg/types"
	types100 "github.com/containernetworking/cni/pkg/types/100"
)

// ipamRange is one range of addresses to give out.
type ipamRange struct {
	Subnet     string `json:"subnet"`
	RangeStart string `json:"rangeStart,omitempty"`
	RangeEnd   string `json:"rangeEnd,omitempty"`
	Gateway    string `json:"gateway,omitempty"`

	prefix            netip.Prefix
	first, last, gate netip.Addr
}

type ipamConf struct {
	Name string `json:"name"`
	IPAM *struct {
		ipamRange
		Type    string         `json:"type"`
		DataDir string         `json:"dataDir"`
		Routes  []*types.Route `json:"routes"`
		Ranges  [][]ipamRange  `json:"ranges"`
	} `json:"ipam"`
}

// loadIPAM reads the "ipam" part of a configuration.
func loadIPAM(stdin []byte) (*ipamConf, error) {
	conf := &ipamConf{}
	if err := json.Unmarshal(stdin, conf); err != nil {
		return nil, err
	}
	if conf.IPAM == nil {
		return nil, errors.New("IPAM config missing 'ipam' key")
	}
	if conf.IPAM.Subnet != "" {
		conf.IPAM.Ranges = append([][]ipamRange{{conf.IPAM.ipamRange}}, conf.IPAM.Ranges...)
	}
	if len(conf.IPAM.Ranges) == 0 {
		return nil, errors.New("no IP ranges specified")
	}
	if conf.IPAM.DataDir == "" {
		conf.IPAM.DataDir = "/var/lib/cni/networks"
	}
	for i := range conf.IPAM.Ranges {
		if len(conf.IPAM.Ranges[i]) == 0 {
			return nil, fmt.Errorf("invalid range set %d: empty range set", i)
		}
		for j := range conf.IPAM.Ranges[i] {
			if err := conf.IPAM.Ranges[i][j].canonicalize(); err != nil {
				return nil, fmt.Errorf("invalid range set %d: %w", i, err)
			}
		}
	}
	return conf, nil
}

func (r *ipamRange) canonicalize() error {
	p, err := netip.ParsePrefix(r.Subnet)
	if err != nil {
		return &net.ParseError{Type: "CIDR address", Text: r.Subnet}
	}
	if p != p.Masked() {
		return fmt.Errorf("Network has host bits set. For a subnet mask of length %d the network address is %s", p.Bits(), p.Masked().Addr())
	}
	if p.Addr().BitLen()-p.Bits() < 2 {
		return fmt.Errorf("Network %s too small to allocate from", p)
	}
	r.prefix = p
	at := func(s string, def netip.Addr) (netip.Addr, error) {
		if s == "" {
			return def, nil
		}
		a, err := netip.ParseAddr(s)
		if err != nil || !p.Contains(a) {
			return a, fmt.Errorf("%s not in network %s", s, p)
		}
		return a, nil
	}
	if r.gate, err = at(r.Gateway, p.Addr().Next()); err != nil {
		return err
	}
	if r.first, err = at(r.RangeStart, p.Addr().Next()); err != nil {
		return fmt.Errorf("RangeStart %w", err)
	}
	if r.last, err = at(r.RangeEnd, lastOf(p)); err != nil {
		return fmt.Errorf("RangeEnd %w", err)
	}
	return nil
}

// lastOf is the last address that can be given out: not an IPv4 network's broadcast address.
func lastOf(p netip.Prefix) netip.Addr {
	b := p.Addr().AsSlice()
	for i := p.Bits(); i < len(b)*8; i++ {
		b[i/8] |= 0x80 >> (i % 8)
	}
	a, _ := netip.AddrFromSlice(b)
	if a.Is4() {
		a = a.Prev()
	}
	return a
}

// addHostLocal gives out the next free address of each range set. A file of the address's name, holding the container's id,
// marks it as taken.
func addHostLocal(c *call) (types.Result, error) {
	conf, err := loadIPAM(c.stdin)
	if err != nil {
		return nil, err
	}
	dir := path.Join(conf.IPAM.DataDir, conf.Name)
	if err := c.Files.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	r := &types100.Result{CNIVersion: types100.ImplementedSpecVersion, Routes: conf.IPAM.Routes}
	for i, set := range conf.IPAM.Ranges {
		ip, err := c.allocate(dir, i, set)
		if err != nil {
			c.release(dir)
			return nil, fmt.Errorf("failed to allocate for range %d: %w", i, err)
		}
		r.IPs = append(r.IPs, ip)
	}
	return r, nil
}

func (c *call) allocate(dir string, index int, set []ipamRange) (*types100.IPConfig, error) {
	owned, err := c.reservations(dir)
	if err != nil {
		return nil, err
	}
	for _, a := range owned {
		for _, r := range set {
			if r.prefix.Contains(a) {
				return nil, fmt.Errorf("%s has been allocated to %s, duplicate allocation is not allowed", a, c.id)
			}
		}
	}
	lastFile := path.Join(dir, fmt.Sprintf("last_reserved_ip.%d", index))
	var last netip.Addr
	if b, err := c.Files.ReadFile(lastFile); err == nil {
		last, _ = netip.ParseAddr(strings.TrimSpace(string(b)))
	}
	start := 0
	for i, r := range set {
		if last.IsValid() && r.prefix.Contains(last) {
			start = i
		}
	}
	for k := range set {
		r := set[(start+k)%len(set)]
		at := r.first
		if k == 0 && last.IsValid() && r.prefix.Contains(last) && !last.Less(r.first) && last.Less(r.last) {
			at = last.Next()
		}
		begin := at
		for {
			if at != r.gate {
				f, err := c.Files.OpenFile(path.Join(dir, at.String()), 0xc1, 0o600) // O_WRONLY|O_CREATE|O_EXCL
				switch {
				case err == nil:
					fmt.Fprintf(f, "%s\r\n%s", c.id, c.ifName)
					f.Close()
					if err := c.Files.WriteFile(lastFile, []byte(at.String()), 0o600); err != nil {
						return nil, err
					}
					return &types100.IPConfig{Address: net.IPNet{IP: at.AsSlice(), Mask: net.CIDRMask(r.prefix.Bits(), at.BitLen())}, Gateway: r.gate.AsSlice()}, nil
				case !errors.Is(err, fs.ErrExist):
					return nil, err
				}
			}
			if at = at.Next(); r.last.Less(at) {
				at = r.first
			}
			if at == begin {
				break
			}
		}
	}
	var names []string
	for _, r := range set {
		names = append(names, fmt.Sprintf("%s-%s", r.first, r.last))
	}
	return nil, fmt.Errorf("no IP addresses available in range set: %s", strings.Join(names, ","))
}

// reservations are the addresses that the container has.
func (c *call) reservations(dir string) ([]netip.Addr, error) {
	entries, err := c.Files.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	var l []netip.Addr
	for _, e := range entries {
		a, err := netip.ParseAddr(e.Name())
		if err != nil {
			continue
		}
		if b, err := c.Files.ReadFile(path.Join(dir, e.Name())); err == nil && strings.TrimSpace(string(b)) == c.id+"\r\n"+c.ifName {
			l = append(l, a)
		}
	}
	return l, nil
}

func (c *call) release(dir string) error {
	l, err := c.reservations(dir)
	if err != nil {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		return err
	}
	for _, a := range l {
		if err := c.Files.Remove(path.Join(dir, a.String())); err != nil {
			return err
		}
	}
	return nil
}

func delHostLocal(c *call) error {
	conf, err := loadIPAM(c.stdin)
	if err != nil {
		return err
	}
	return c.release(path.Join(conf.IPAM.DataDir, conf.Name))
}
