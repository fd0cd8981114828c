// Package apiclient lets client-go talk over the network of the world: as a process, with that process's files.
package apiclient

import (
	"crypto/sha256"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"

	"ckadrill/sim/kernel"
	"ckadrill/sim/network"

	"k8s.io/client-go/rest"
)

// ConfigureREST makes a client configuration use the network of the world. Certificate, key, CA and token files that it
// names are read from the process's files: the error for a missing one is what client-go's would be ("unable to load root
// certificates: open /x: no such file or directory"). It may be called once for a configuration; copies made of it
// afterwards keep the setting.
//
// Clients of one process with equal TLS settings share their connections, as client-go's cache of transports does.
func ConfigureREST(p *kernel.Process, c *rest.Config) error {
	t, err := TransportFor(p, c)
	if err != nil {
		return err
	}
	Use(p, c, t)
	return nil
}

// TransportFor is the transport that [ConfigureREST] gives to a configuration: the process's shared one for its TLS settings.
// Its Upgrades serve exec, attach and port-forward. Files that c names are read into it.
func TransportFor(p *kernel.Process, c *rest.Config) (*network.Transport, error) {
	if err := loadTLS(p, c); err != nil {
		return nil, err
	}
	tlsConfig, err := rest.TLSConfigFor(c)
	if err != nil {
		return nil, err
	}
	key := fmt.Sprintf("%x", sha256.Sum256(fmt.Appendf(nil, "%q %q %q %q %v %q", c.CAData, c.CertData, c.KeyData, c.ServerName, c.Insecure, c.NextProtos)))
	return shared(p, key, func() *network.Transport {
		t := network.NewTransport(p, tlsConfig)
		t.HTTP1 = len(c.NextProtos) == 1 && c.NextProtos[0] == "http/1.1"
		return t
	}), nil
}

// Use makes a client configuration, whose certificates have been loaded, send through a transport of the caller's own.
func Use(p *kernel.Process, c *rest.Config, t http.RoundTripper) {
	c.Dial = p.Dial
	// With a proxy function client-go does not keep what it builds from this configuration in its process-wide cache.
	c.Proxy = func(*http.Request) (*url.URL, error) { return nil, nil }
	if c.WarningHandler == nil && c.WarningHandlerWithContext == nil {
		c.WarningHandler = rest.NoWarnings{}
	}
	wrap := c.WrapTransport
	if c.BearerTokenFile != "" {
		token := &tokenFile{p: p, name: c.BearerTokenFile}
		c.BearerTokenFile = ""
		inner := wrap
		wrap = func(rt http.RoundTripper) http.RoundTripper {
			if inner != nil {
				rt = inner(rt)
			}
			return &bearer{rt, token}
		}
	}
	c.WrapTransport = func(http.RoundTripper) http.RoundTripper {
		if wrap != nil {
			return wrap(t)
		}
		return t
	}
}

// loadTLS reads the files that a configuration names into it.
func loadTLS(p *kernel.Process, c *rest.Config) error {
	for _, f := range []struct {
		name *string
		data *[]byte
		what string
	}{{&c.CAFile, &c.CAData, "unable to load root certificates"}, {&c.CertFile, &c.CertData, ""}, {&c.KeyFile, &c.KeyData, ""}} {
		if *f.name == "" {
			continue
		}
		if len(*f.data) == 0 {
			b, err := p.ReadFile(*f.name)
			if err != nil {
				if f.what != "" {
					return fmt.Errorf("%s: %w", f.what, err)
				}
				return err
			}
			*f.data = b
		}
		*f.name = ""
	}
	return nil
}

type transportsKey struct{}

type transports struct {
	mu  sync.Mutex
	all map[string]*network.Transport
}

var transportsMu sync.Mutex

func shared(p *kernel.Process, key string, newTransport func() *network.Transport) *network.Transport {
	transportsMu.Lock()
	ts, _ := p.Value(transportsKey{}).(*transports)
	if ts == nil {
		ts = &transports{all: map[string]*network.Transport{}}
		p.SetValue(transportsKey{}, ts)
	}
	transportsMu.Unlock()
	ts.mu.Lock()
	defer ts.mu.Unlock()
	t := ts.all[key]
	if t == nil {
		t = newTransport()
		ts.all[key] = t
	}
	return t
}

// tokenFile is a ServiceAccount's token, read again once a minute as client-go does.
type tokenFile struct {
	p    *kernel.Process
	name string

	mu    sync.Mutex
	token string
	read  time.Time
}

func (f *tokenFile) get() (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.token != "" && time.Since(f.read) < time.Minute {
		return f.token, nil
	}
	b, err := f.p.ReadFile(f.name)
	if err == nil && strings.TrimSpace(string(b)) == "" {
		err = fmt.Errorf("read empty token from file %q", f.name)
	} else if err != nil {
		err = fmt.Errorf("failed to read token file %q: %w", f.name, err)
	}
	if err != nil {
		if f.token != "" {
			return f.token, nil
		}
		return "", err
	}
	f.token, f.read = strings.TrimSpace(string(b)), time.Now()
	return f.token, nil
}

// bearer adds a token to requests that have no Authorization header yet.
type bearer struct {
	rt    http.RoundTripper
	token *tokenFile
}

func (b *bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Header.Get("Authorization") != "" {
		return b.rt.RoundTrip(r)
	}
	token, err := b.token.get()
	if err != nil {
		return nil, err
	}
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+token)
	return b.rt.RoundTrip(r)
}

// WrappedRoundTripper lets client-go find the transport below.
func (b *bearer) WrappedRoundTripper() http.RoundTripper { return b.rt }
