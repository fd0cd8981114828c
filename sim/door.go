package sim

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"net/url"
	"time"

	"k8s.io/client-go/tools/clientcmd"

	"ckadrill/sim/kernel"
	"ckadrill/sim/network"
	"ckadrill/sim/wire"
	"ckadrill/sim/worker"
)

// door is the lab's own computer, on which the machines run as virtual ones: it has the router's address in their network,
// and a copy of the first control plane's admin.conf, made when the door was opened. From it the clients outside connect.
type door struct {
	p       *kernel.Process
	address string
	tls     *tls.Config
	cert    tls.Certificate
}

const adminConf = "/etc/kubernetes/admin.conf"

// Door implements the worker's World.
func (c *Cluster) Door() (worker.Door, error) {
	m, err := c.Machine(c.ControlPlane())
	if err != nil {
		return nil, err
	}
	b, err := m.Files(kernel.Root).ReadFile(adminConf)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.Name(), err)
	}
	conf, err := clientcmd.RESTConfigFromKubeConfig(b)
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", m.Name(), adminConf, err)
	}
	u, err := url.Parse(conf.Host)
	if err != nil {
		return nil, fmt.Errorf("%s: %s: %w", m.Name(), adminConf, err)
	}
	d := &door{address: u.Host, tls: &tls.Config{ServerName: u.Hostname(), RootCAs: x509.NewCertPool()}}
	if u.Port() == "" {
		d.address = net.JoinHostPort(u.Hostname(), "443")
	}
	if !d.tls.RootCAs.AppendCertsFromPEM(conf.CAData) {
		return nil, fmt.Errorf("%s: %s: no certificate of a CA", m.Name(), adminConf)
	}
	if d.cert, err = tls.X509KeyPair(conf.CertData, conf.KeyData); err != nil {
		return nil, fmt.Errorf("%s: %s: %w", m.Name(), adminConf, err)
	}
	lab := c.w.NewHost("lab")
	// Names are those that the control plane knows.
	spec := kernel.Spec{Argv: []string{"door"}, Files: m.Files(kernel.Root), Net: c.fabric.Gateway()}
	d.p = lab.Processes.Start(spec, func(p *kernel.Process) int { <-p.Done(); return 0 })
	return d, nil
}

// How long a connection and its TLS handshake may take: as long as client-go waits.
const (
	doorDialTimeout      = 30 * time.Second
	doorHandshakeTimeout = 10 * time.Second
)

// Connect implements [worker.Door].
func (d *door) Connect(ctx context.Context, o *wire.Open) (worker.Conn, error) {
	dialing, cancel := context.WithTimeout(ctx, doorDialTimeout)
	defer cancel()
	raw, err := d.p.Dial(dialing, "tcp", d.address)
	if err != nil {
		return nil, err
	}
	cfg := d.tls.Clone()
	cfg.NextProtos = []string{o.Protocol}
	if o.Admin {
		cfg.Certificates = []tls.Certificate{d.cert}
	}
	c := tls.Client(raw, cfg)
	shaking, cancel := context.WithTimeout(ctx, doorHandshakeTimeout)
	defer cancel()
	if err := c.HandshakeContext(shaking); err != nil {
		raw.Close()
		return nil, err
	}
	if got := c.ConnectionState().NegotiatedProtocol; got != o.Protocol {
		c.Close()
		return nil, errors.New("the API server does not speak " + o.Protocol)
	}
	return c, nil
}

// Accepts implements [worker.Door].
func (d *door) Accepts() bool {
	host, port, err := net.SplitHostPort(d.address)
	if err != nil {
		return false
	}
	ctx, cancel := context.WithTimeout(d.p.Context(), time.Second)
	defer cancel()
	ip, err := netip.ParseAddr(host)
	if err != nil {
		l, err := network.Resolve(ctx, d.p, host)
		if err != nil || len(l) == 0 {
			return false
		}
		ip = l[0]
	}
	to, err := netip.ParseAddrPort(net.JoinHostPort(ip.String(), port))
	return err == nil && d.p.Net.(*network.Namespace).Accepts(to)
}
