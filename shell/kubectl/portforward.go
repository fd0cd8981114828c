package kubectl

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"

	"github.com/spf13/cobra"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/httpstream"
	"k8s.io/apimachinery/pkg/util/runtime"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	cmdportforward "k8s.io/kubectl/pkg/cmd/portforward"
	cmdutil "k8s.io/kubectl/pkg/cmd/util"
)

// replacePortForward has "kubectl port-forward" listen on the simulated machine. Upstream's forwarder can only listen on the
// host, so this one takes its place; what it says and does is that of client-go/tools/portforward.
func (i *invocation) replacePortForward() {
	i.find("port-forward").Run = func(c *cobra.Command, args []string) {
		o := cmdportforward.NewDefaultPortForwardOptions(i.streams)
		o.Address, _ = c.Flags().GetStringSlice("address")
		o.PortForwarder = &forwarder{i: i}
		cmdutil.CheckErr(o.Complete(i.f, c, args))
		cmdutil.CheckErr(o.Validate())
		cmdutil.CheckErr(o.RunPortForward())
	}
}

type forwarder struct {
	i    *invocation
	conn httpstream.Connection
	mu   sync.Mutex
	id   int
}

type forwardedPort struct{ local, remote uint16 }

func parsePorts(l []string) ([]forwardedPort, error) {
	if len(l) == 0 {
		return nil, errors.New("you must specify at least 1 port")
	}
	var out []forwardedPort
	for _, s := range l {
		parts := strings.Split(s, ":")
		local, remote := parts[0], parts[0]
		switch {
		case len(parts) == 2:
			remote = parts[1]
			if local == "" {
				local = "0"
			}
		case len(parts) > 2:
			return nil, fmt.Errorf("invalid port format '%s'", s)
		}
		a, err := strconv.ParseUint(local, 10, 16)
		if err != nil {
			return nil, fmt.Errorf("error parsing local port '%s': %s", local, err)
		}
		b, err := strconv.ParseUint(remote, 10, 16)
		if err != nil {
			return nil, fmt.Errorf("error parsing remote port '%s': %s", remote, err)
		}
		if b == 0 {
			return nil, fmt.Errorf("remote port must be > 0")
		}
		out = append(out, forwardedPort{uint16(a), uint16(b)})
	}
	return out, nil
}

// addresses resolves --address: "localhost" is both loopbacks, and one of them may fail.
func addresses(l []string) (addrs []string, mayFail map[string]bool, err error) {
	mayFail = map[string]bool{}
	for _, a := range l {
		switch {
		case a == "localhost":
			addrs = append(addrs, "127.0.0.1", "::1")
			mayFail["127.0.0.1"], mayFail["::1"] = true, true
		case net.ParseIP(a) != nil:
			addrs = append(addrs, a)
			delete(mayFail, a)
		default:
			return nil, nil, fmt.Errorf("%s is not a valid IP", a)
		}
	}
	return addrs, mayFail, nil
}

// ForwardPorts listens and forwards until the connection to the Pod is lost or the process ends.
func (f *forwarder) ForwardPorts(method string, u *url.URL, o cmdportforward.PortForwardOptions) error {
	ports, err := parsePorts(o.Ports)
	if err != nil {
		return err
	}
	addrs, mayFail, err := addresses(o.Address)
	if err != nil {
		return err
	}
	rt, upgrader, err := spdy.RoundTripperFor(o.Config)
	if err != nil {
		return err
	}
	conn, protocol, err := spdy.NewDialer(upgrader, &http.Client{Transport: rt}, method, u).Dial(portforward.PortForwardProtocolV1Name)
	if err != nil {
		return fmt.Errorf("error upgrading connection: %s", err)
	}
	defer conn.Close()
	if protocol != portforward.PortForwardProtocolV1Name {
		return fmt.Errorf("unable to negotiate protocol: client supports %q, server returned %q", portforward.PortForwardProtocolV1Name, protocol)
	}
	f.conn = conn
	listening := false
	for _, port := range ports {
		var failed []error
		ok := false
		for _, a := range addrs {
			l, err := f.i.p.Listen("tcp", net.JoinHostPort(a, strconv.Itoa(int(port.local))))
			if err != nil {
				err = fmt.Errorf("unable to create listener: Error %s", err)
				if !mayFail[a] {
					failed = append(failed, err)
				} else if a == "127.0.0.1" {
					failed = append(failed, err)
				}
				continue
			}
			defer l.Close()
			_, s, _ := net.SplitHostPort(l.Addr().String())
			n, _ := strconv.Atoi(s)
			bound := forwardedPort{uint16(n), port.remote}
			fmt.Fprintf(f.i.streams.Out, "Forwarding from %s -> %d\n", net.JoinHostPort(a, s), port.remote)
			go f.accept(l, bound)
			ok, listening = true, true
		}
		if !ok {
			for _, e := range failed {
				fmt.Fprintf(f.i.streams.ErrOut, "Unable to listen on port %d: %v\n", port.local, e)
			}
		}
	}
	if !listening {
		return fmt.Errorf("unable to listen on any of the requested ports: %v", describe(ports))
	}
	select {
	case <-o.StopChannel:
	case <-conn.CloseChan():
		return portforward.ErrLostConnectionToPod
	case <-f.i.p.Done():
	}
	return nil
}

func describe(ports []forwardedPort) string {
	var l []string
	for _, p := range ports {
		l = append(l, fmt.Sprintf("{%d %d}", p.local, p.remote))
	}
	return "[" + strings.Join(l, " ") + "]"
}

func (f *forwarder) accept(l net.Listener, port forwardedPort) {
	for {
		c, err := l.Accept()
		if err != nil {
			return
		}
		go f.handle(c, port)
	}
}

// handle forwards one connection over a pair of streams.
func (f *forwarder) handle(c net.Conn, port forwardedPort) {
	defer c.Close()
	fmt.Fprintf(f.i.streams.Out, "Handling connection for %d\n", port.local)
	f.mu.Lock()
	id := f.id
	f.id++
	f.mu.Unlock()
	h := http.Header{}
	h.Set(corev1.StreamType, corev1.StreamTypeError)
	h.Set(corev1.PortHeader, fmt.Sprint(port.remote))
	h.Set(corev1.PortForwardRequestIDHeader, strconv.Itoa(id))
	errorStream, err := f.conn.CreateStream(h)
	if err != nil {
		runtime.HandleError(fmt.Errorf("error creating error stream for port %d -> %d: %v", port.local, port.remote, err))
		return
	}
	defer f.conn.RemoveStreams(errorStream)
	errorStream.Close()
	failed := make(chan error, 1)
	go func() {
		b, err := io.ReadAll(errorStream)
		switch {
		case err != nil:
			failed <- fmt.Errorf("error reading from error stream for port %d -> %d: %v", port.local, port.remote, err)
		case len(b) > 0:
			failed <- fmt.Errorf("an error occurred forwarding %d -> %d: %v", port.local, port.remote, string(b))
		}
		close(failed)
	}()
	h.Set(corev1.StreamType, corev1.StreamTypeData)
	data, err := f.conn.CreateStream(h)
	if err != nil {
		runtime.HandleError(fmt.Errorf("error creating forwarding stream for port %d -> %d: %v", port.local, port.remote, err))
		return
	}
	defer f.conn.RemoveStreams(data)
	localFailed, remoteDone := make(chan struct{}), make(chan struct{})
	go func() {
		io.Copy(c, data)
		close(remoteDone)
	}()
	go func() {
		defer data.Close()
		if _, err := io.Copy(data, c); err != nil && !errors.Is(err, net.ErrClosed) {
			close(localFailed)
		}
	}()
	select {
	case <-remoteDone:
	case <-localFailed:
	}
	data.Reset()
	if err := <-failed; err != nil {
		runtime.HandleError(err)
		f.conn.Close()
	}
}
