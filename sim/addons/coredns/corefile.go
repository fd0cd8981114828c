package coredns

import (
	"bytes"
	"fmt"
	"net"
	"regexp"
	"sort"
	"strconv"
	"strings"

	"github.com/coredns/caddy/caddyfile"
	"github.com/miekg/dns"

	"ckadrill/sim/kernel"
)

// directives are the plugins that the real binary is built with, in the order in which they handle a query.
var directives = []string{"root", "metadata", "geoip", "cancel", "tls", "quic", "timeouts", "multisocket", "reload", "nsid", "bufsize", "bind", "debug", "trace", "ready", "health", "pprof",
	"prometheus", "errors", "log", "dnstap", "local", "dns64", "acl", "any", "chaos", "loadbalance", "tsig", "cache", "rewrite", "header", "dnssec", "autopath", "minimal", "template", "transfer",
	"hosts", "route53", "azure", "clouddns", "k8s_external", "kubernetes", "file", "auto", "secondary", "etcd", "loop", "forward", "grpc", "erratic", "whoami", "on", "sign", "view", "nomad"}

// block is one server block of a Corefile for one zone and port.
type block struct {
	zone   string // absolute, lower case
	port   string
	bind   []string
	tokens map[string][]caddyfile.Token
}

// corefile is a parsed Corefile.
type corefile struct {
	name   string
	text   []byte
	blocks []*block
}

var (
	envReference = regexp.MustCompile(`\{\$[^}]+\}|\{%[^%]+%\}`)
	importLine   = regexp.MustCompile(`(?m)^\s*import\s`)
)

// parseCorefile parses a Corefile with caddy's own parser, whose errors name file and line.
func parseCorefile(p *kernel.Process, name string, text []byte, port string) (*corefile, error) {
	// The parser would take environment variables and imported files from the host.
	text = envReference.ReplaceAllFunc(text, func(b []byte) []byte { return []byte(p.Getenv(strings.Trim(string(b), "{}$%"))) })
	if importLine.Match(text) {
		return nil, fmt.Errorf("ckadrill does not simulate the Corefile's import yet")
	}
	blocks, err := caddyfile.Parse(name, bytes.NewReader(text), directives)
	if err != nil {
		return nil, err
	}
	c := &corefile{name: name, text: text}
	seen := map[string]bool{}
	for _, b := range blocks {
		for _, key := range b.Keys {
			for _, k := range strings.Fields(strings.ReplaceAll(key, ",", " ")) {
				zone, at, err := splitKey(k, port)
				if err != nil {
					return nil, err
				}
				if seen[zone+":"+at] {
					return nil, fmt.Errorf("cannot serve dns://%s:%s - it is already defined", zone, at)
				}
				seen[zone+":"+at] = true
				c.blocks = append(c.blocks, &block{zone: zone, port: at, tokens: b.Tokens})
			}
		}
	}
	return c, nil
}

func splitKey(key, port string) (zone, at string, err error) {
	zone, at = strings.TrimPrefix(key, "dns://"), port
	if strings.Contains(zone, "://") {
		return "", "", fmt.Errorf("ckadrill does not simulate CoreDNS servers of the kind %q yet", key)
	}
	if h, p, err := net.SplitHostPort(zone); err == nil {
		zone, at = h, p
	} else if strings.HasPrefix(zone, ":") {
		zone, at = ".", zone[1:]
	}
	if zone == "" {
		zone = "."
	}
	if _, n, err := net.ParseCIDR(zone); err == nil {
		rev, err := dns.ReverseAddr(n.IP.String())
		ones, _ := n.Mask.Size()
		if err == nil && n.IP.To4() != nil && ones%8 == 0 {
			l := dns.SplitDomainName(rev)
			zone = strings.Join(l[4-ones/8:], ".")
		}
	}
	if _, ok := dns.IsDomainName(zone); !ok {
		return "", "", fmt.Errorf("not a valid domain name: %q", key)
	}
	if n, err := strconv.Atoi(at); err != nil || n < 1 || n > 65535 {
		return "", "", fmt.Errorf("invalid port in %q", key)
	}
	return strings.ToLower(dns.Fqdn(zone)), at, nil
}

// has says whether the block names a plugin.
func (b *block) has(plugin string) bool { return len(b.tokens[plugin]) > 0 }

// dispenser walks the tokens of one plugin.
func (c *corefile) dispenser(b *block, plugin string) caddyfile.Dispenser {
	return caddyfile.NewDispenserTokens(c.name, b.tokens[plugin])
}

// plugins lists the block's plugins in order of directives.
func (b *block) plugins() []string {
	var l []string
	for _, d := range directives {
		if b.has(d) {
			l = append(l, d)
		}
	}
	return l
}

// ports lists the ports of all blocks.
func (c *corefile) ports() []string {
	seen := map[string]bool{}
	var l []string
	for _, b := range c.blocks {
		if !seen[b.port] {
			seen[b.port] = true
			l = append(l, b.port)
		}
	}
	sort.Strings(l)
	return l
}
