package sim

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"syscall"
	"time"

	"ckadrill/sim/kernel"
	"ckadrill/sim/network"
	"ckadrill/sim/runtime"
)

// Outcomes of a [Cluster.Probe] that are no HTTP status.
const (
	ProbeOpen       = "open"
	ProbeRefused    = "refused"
	ProbeTimeout    = "timeout"
	ProbeUnresolved = "unresolved"
)

// maxProbeBody is how much of an answer a probe returns.
const maxProbeBody = 1 << 20

// Probe tries to reach an address over the cluster's network, as a process on a machine ("machine/NAME") or inside of a
// Pod ("pod/NAMESPACE/NAME", "pod/NAMESPACE/LABEL=VALUE" for the first that has the label) would. to is an http or https
// URL, which curl fetches without looking at the certificate, or "tcp://HOST:PORT", which is only connected to. The outcome
// is an HTTP status, one of the words above, or what else went wrong.
func (c *Cluster) Probe(from, to string, timeout time.Duration) (outcome string, body []byte, err error) {
	host, spec, err := c.vantage(from)
	if err != nil {
		return "", nil, err
	}
	if address, ok := strings.CutPrefix(to, "tcp://"); ok {
		return c.probeTCP(host, spec, address, timeout), nil, nil
	}
	return c.probeHTTP(host, spec, to, timeout)
}

// vantage is a process specification for the place that a probe starts from.
func (c *Cluster) vantage(from string) (*kernel.Host, kernel.Spec, error) {
	kind, rest, _ := strings.Cut(from, "/")
	switch kind {
	case "machine":
		m, err := c.Machine(rest)
		if err != nil {
			return nil, kernel.Spec{}, err
		}
		if !m.PoweredOn() {
			return nil, kernel.Spec{}, fmt.Errorf("%s is switched off", rest)
		}
		return m.Host(), kernel.Spec{Files: m.Files(kernel.Root), Net: m.Network()}, nil
	case "pod":
		namespace, name, _ := strings.Cut(rest, "/")
		for _, m := range c.machines {
			if !m.PoweredOn() {
				continue
			}
			for _, s := range runtime.Of(m.Host()).PodSpaces() {
				if s.Namespace != namespace || !isPod(s, name) {
					continue
				}
				files := s.Files
				if files == nil {
					files = m.Files(kernel.Root)
				}
				return m.Host(), kernel.Spec{Files: files, Net: s.Network, Hostname: s.Hostname}, nil
			}
		}
		return nil, kernel.Spec{}, fmt.Errorf("no Pod %s runs in namespace %s", name, namespace)
	}
	return nil, kernel.Spec{}, fmt.Errorf("a probe starts from machine/NAME or pod/NAMESPACE/NAME, not from %q", from)
}

func isPod(s runtime.PodSpace, name string) bool {
	if key, value, ok := strings.Cut(name, "="); ok {
		v, has := s.Labels[key]
		return has && v == value
	}
	return s.Name == name
}

func (c *Cluster) probeTCP(host *kernel.Host, spec kernel.Spec, address string, timeout time.Duration) (outcome string) {
	spec.Argv = []string{"nc", "-z", address}
	p := host.Processes.Start(spec, func(p *kernel.Process) int {
		ctx, cancel := context.WithTimeout(p.Context(), timeout)
		defer cancel()
		conn, err := dialName(ctx, p, address)
		if err == nil {
			conn.Close()
		}
		outcome = probeWord(err)
		return 0
	})
	p.Wait()
	return outcome
}

// dialName resolves a name as libc does and connects to its first address.
func dialName(ctx context.Context, p *kernel.Process, address string) (net.Conn, error) {
	name, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	ip, err := netip.ParseAddr(name)
	if err != nil {
		l, err := network.Resolve(ctx, p, name)
		if err != nil || len(l) == 0 {
			return nil, &net.DNSError{Err: fmt.Sprint(err), Name: name}
		}
		ip = l[0]
	}
	return p.Dial(ctx, "tcp", net.JoinHostPort(ip.String(), port))
}

func probeWord(err error) string {
	var dns *net.DNSError
	var timed net.Error
	switch {
	case err == nil:
		return ProbeOpen
	case errors.As(err, &dns):
		return ProbeUnresolved
	case errors.Is(err, syscall.ECONNREFUSED):
		return ProbeRefused
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timed) && timed.Timeout():
		return ProbeTimeout
	}
	return err.Error()
}

// The exit codes of curl that have a word of their own.
var curlWords = map[int]string{6: ProbeUnresolved, 7: ProbeRefused, 28: ProbeTimeout}

func (c *Cluster) probeHTTP(host *kernel.Host, spec kernel.Spec, url string, timeout time.Duration) (string, []byte, error) {
	main, ok := c.w.Programs.Find("curl")
	if !ok {
		return "", nil, errors.New("there is no curl in this world")
	}
	var out, problem limited
	spec.Argv = []string{"curl", "-sS", "-k", "-m", strconv.FormatFloat(timeout.Seconds(), 'f', -1, 64), "-w", "\n%{http_code}", url}
	spec.Stdout, spec.Stderr = &out, &problem
	status := host.Processes.Start(spec, main).Wait()
	if word, ok := curlWords[status.ExitCode()]; ok {
		return word, nil, nil
	}
	if status.ExitCode() != 0 {
		return strings.TrimSpace(string(problem.bytes())), nil, nil
	}
	b := out.bytes()
	i := bytes.LastIndexByte(b, '\n')
	if i < 0 {
		return "", nil, errors.New("curl did not tell a status")
	}
	return string(b[i+1:]), b[:min(i, maxProbeBody)], nil
}
