package nettools

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"syscall"
	"time"

	"ckadrill/sim/network"
	"ckadrill/sim/userland/libc"
)

// ncOptions are what the two ncs share.
type ncOptions struct {
	scan, verbose, listen, udp, keep, numeric bool
	wait                                      time.Duration
	port                                      string
	unix                                      bool
	quit                                      time.Duration
}

// nc is OpenBSD's.
var nc = libc.Main("nc", func(c *libc.Prog) int {
	opts, words, err := libc.Getopt(c.Args, "zvlukw:p:nUN46q:di:s:Ct")
	if err != nil {
		c.Errorf("nc: %s\nusage: nc [-46CDdFhklNnrStUuvZz] [-I length] [-i interval] [-M ttl]\n\t  [-m minttl] [-O length] [-P proxy_username] [-p source_port]\n\t  [-q seconds] [-s sourceaddr] [-T keyword] [-V rtable] [-W recvlimit]\n\t  [-w timeout] [-X proxy_protocol] [-x proxy_address[:port]]\n\t  [destination] [port]\n", err)
		return 1
	}
	o := ncParse(opts)
	if o.listen {
		port := o.port
		switch {
		case len(words) > 0 && port == "":
			port = words[len(words)-1]
		case port == "":
			c.Errorf("nc: missing port number\n")
			return 1
		}
		return ncListen(c, o, port, func(err error) int { c.Errorf("nc: %s\n", libc.Strerror(err)); return 1 },
			func(where string) { c.Errorf("Listening on 0.0.0.0 %s\n", where) },
			func(a netip.AddrPort) { c.Errorf("Connection received on %s %d\n", a.Addr(), a.Port()) })
	}
	if o.unix && len(words) == 1 {
		conn, err := c.Dial(c.Context(), "unix", words[0])
		if err != nil {
			c.Errorf("nc: %s\n", libc.Strerror(err))
			return 1
		}
		return pipe(c, conn, o)
	}
	if len(words) != 2 {
		c.Errorf("usage: nc [-46CDdFhklNnrStUuvZz] [-I length] [-i interval] [-M ttl]\n\t  [-m minttl] [-O length] [-P proxy_username] [-p source_port]\n\t  [-q seconds] [-s sourceaddr] [-T keyword] [-V rtable] [-W recvlimit]\n\t  [-w timeout] [-X proxy_protocol] [-x proxy_address[:port]]\n\t  [destination] [port]\n")
		return 1
	}
	addrs, err := network.ResolveLibc(c.Context(), c.Process, words[0])
	if err != nil {
		c.Errorf("nc: getaddrinfo for host %q port %s: %s\n", words[0], words[1], gai(err))
		return 1
	}
	first, last, ok := ports(words[1])
	if !ok {
		c.Errorf("nc: port number invalid: %s\n", words[1])
		return 1
	}
	proto := map[bool]string{true: "udp", false: "tcp"}[o.udp]
	status := 1
	for port := first; port <= last; port++ {
		conn, err := ncDial(c, proto, addrs, port, o.wait)
		if err != nil {
			if o.verbose || !o.scan && o.verbose {
				text := libc.Strerror(err)
				if errors.Is(err, context.DeadlineExceeded) {
					text = "Operation now in progress"
				}
				c.Errorf("nc: connect to %s%s port %d (%s) failed: %s\n", words[0], shownAddr(words[0], addrs), port, proto, text)
			}
			continue
		}
		if o.verbose {
			service := portText(uint16(port), o.numeric)
			if service == strconv.Itoa(port) {
				service = "*"
			}
			c.Errorf("Connection to %s%s %d port [%s/%s] succeeded!\n", words[0], shownAddr(words[0], addrs), port, proto, service)
		}
		status = 0
		if o.scan {
			conn.Close()
			continue
		}
		return pipe(c, conn, o)
	}
	return status
})

func shownAddr(name string, addrs []netip.Addr) string {
	if name == addrs[0].String() {
		return ""
	}
	return " (" + addrs[0].String() + ")"
}

// gai words a failed look-up as gai_strerror(3).
func gai(err error) string {
	var de *net.DNSError
	if errors.As(err, &de) && !de.IsNotFound {
		return "Temporary failure in name resolution"
	}
	return "Name or service not known"
}

func ncParse(opts []libc.Opt) ncOptions {
	o := ncOptions{quit: -1}
	for _, x := range opts {
		switch x.Name {
		case "z":
			o.scan = true
		case "v":
			o.verbose = true
		case "l":
			o.listen = true
		case "u":
			o.udp = true
		case "k":
			o.keep = true
		case "n":
			o.numeric = true
		case "U":
			o.unix = true
		case "p":
			o.port = x.Value
		case "N":
			o.quit = 0
		case "q":
			if d, ok := seconds(x.Value); ok {
				o.quit = d
			}
		case "w":
			if d, ok := seconds(x.Value); ok {
				o.wait = d
			}
		}
	}
	return o
}

func ports(s string) (first, last int, ok bool) {
	a, b, both := strings.Cut(s, "-")
	first, err := strconv.Atoi(a)
	if last = first; both && err == nil {
		last, err = strconv.Atoi(b)
	}
	return first, last, err == nil && first > 0 && last < 65536
}

func ncDial(c *libc.Prog, proto string, addrs []netip.Addr, port int, wait time.Duration) (net.Conn, error) {
	ctx := c.Context()
	if wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, wait)
		defer cancel()
	}
	var last error
	for _, a := range addrs {
		conn, err := c.Dial(ctx, proto, netip.AddrPortFrom(a, uint16(port)).String())
		if err == nil && proto == "udp" { // it is probed with datagrams, whose refusal ICMP reports
			for range 2 {
				if _, err = conn.Write([]byte("X")); err != nil {
					break
				}
				c.Wait(time.Second)
			}
			if err != nil {
				conn.Close()
			}
		}
		if err == nil {
			return conn, nil
		}
		last = err
	}
	return nil, last
}

// pipe connects standard input and output with a connection until the other end closes, or quit after the end of input.
// pipe joins a connection with the standard streams. With -w it ends when nothing has moved for so long.
func pipe(c *libc.Prog, conn net.Conn, o ncOptions) int {
	defer conn.Close()
	idle := func() {
		if o.wait > 0 {
			conn.SetReadDeadline(time.Now().Add(o.wait))
		}
	}
	go func() {
		io.Copy(conn, c.Stdin)
		idle()
		if o.quit >= 0 {
			c.Sleep(o.quit)
			conn.Close()
		} else if h, ok := conn.(interface{ CloseWrite() error }); ok && o.quit == 0 {
			h.CloseWrite()
		}
	}()
	b := make([]byte, 16<<10)
	for {
		idle()
		n, err := conn.Read(b)
		c.Out.Write(b[:n])
		c.Out.Flush()
		if err != nil {
			return 0
		}
	}
}

func ncListen(c *libc.Prog, o ncOptions, port string, fail func(error) int, listening func(string), received func(netip.AddrPort)) int {
	if o.udp {
		k, err := c.ListenPacket("udp4", ":"+port)
		if err != nil {
			return fail(err)
		}
		defer k.Close()
		b := make([]byte, 64<<10)
		for {
			n, _, err := k.ReadFrom(b)
			if err != nil {
				return 0
			}
			c.Out.Write(b[:n])
			c.Out.Flush()
		}
	}
	k, err := c.Listen("tcp4", ":"+port)
	if err != nil {
		return fail(err)
	}
	defer k.Close()
	if o.verbose {
		listening(port)
	}
	for {
		conn, err := k.Accept()
		if err != nil {
			return 1
		}
		if o.verbose {
			a, _ := netip.ParseAddrPort(conn.RemoteAddr().String())
			received(a)
		}
		status := pipe(c, conn, o)
		if !o.keep {
			return status
		}
	}
}

var busyboxNc = libc.Main("nc", func(c *libc.Prog) int {
	usage := func() int {
		c.Errorf("BusyBox v1.36.1 (2024-06-10 07:11:47 UTC) multi-call binary.\n\nUsage: nc [OPTIONS] HOST PORT  - connect\nnc [OPTIONS] -l -p PORT [HOST] [PORT]  - listen\n")
		return 1
	}
	opts, words, err := libc.Getopt(c.Args, "zvlukw:p:ne:i:")
	if err != nil {
		c.Errorf("nc: %s\n", err)
		return usage()
	}
	o := ncParse(opts)
	if o.listen {
		port := o.port
		if port == "" && len(words) > 0 {
			port = words[0]
		}
		return ncListen(c, o, port, func(err error) int { c.Errorf("nc: bind: %s\n", libc.Strerror(err)); return 1 },
			func(where string) { c.Errorf("listening on [::]:%s ...\n", where) },
			func(a netip.AddrPort) {
				c.Errorf("connect to [::ffff:%s]:%s from [::ffff:%s]:%d\n", a.Addr(), port, a.Addr(), a.Port())
			})
	}
	if len(words) != 2 {
		return usage()
	}
	addrs, err := network.ResolveLibc(c.Context(), c.Process, words[0])
	if err != nil {
		c.Errorf("nc: bad address '%s'\n", words[0])
		return 1
	}
	port, err := strconv.Atoi(words[1])
	if err != nil {
		c.Errorf("nc: bad port spec '%s'\n", words[1])
		return 1
	}
	conn, err := ncDial(c, map[bool]string{true: "udp", false: "tcp"}[o.udp], addrs[:1], port, o.wait)
	where := fmt.Sprintf("%s (%s)", words[0], netip.AddrPortFrom(addrs[0], uint16(port)))
	if err != nil {
		if errors.Is(err, context.DeadlineExceeded) {
			c.Errorf("nc: timed out\n")
			return 1
		}
		if !o.scan || o.verbose {
			c.Errorf("nc: %s: %s\n", where, libc.Strerror(err))
		}
		return 1
	}
	if o.verbose {
		c.Errorf("%s open\n", where)
	}
	if o.scan {
		conn.Close()
		return 0
	}
	return pipe(c, conn, o)
})

// pinger is one run of ping.
type pinger struct {
	*libc.Prog
	busybox  bool
	count    int
	interval time.Duration
	wait     time.Duration // for each answer
	deadline time.Duration
	size     int
	quiet    bool
}

var ping = libc.Main("ping", func(c *libc.Prog) int { return pingMain(c, false) })

var busyboxPing = libc.Main("ping", func(c *libc.Prog) int { return pingMain(c, true) })

func pingMain(c *libc.Prog, busybox bool) int {
	p := &pinger{Prog: c, busybox: busybox, interval: time.Second, wait: 10 * time.Second, size: 56}
	opts, words, err := libc.Getopt(c.Args, "c:i:w:W:s:qnv46I:t:")
	if err != nil || len(words) != 1 {
		if err != nil {
			c.Errorf("ping: %s\n", err)
		} else {
			c.Errorf("ping: usage error: Destination address required\n")
		}
		return map[bool]int{true: 1, false: 2}[busybox]
	}
	for _, o := range opts {
		n, err := strconv.ParseFloat(o.Value, 64)
		if o.Value != "" && err != nil && o.Name != "I" {
			c.Errorf("ping: invalid argument: '%s'\n", o.Value)
			return 1
		}
		d := time.Duration(n * float64(time.Second))
		switch o.Name {
		case "c":
			p.count = int(n)
		case "i":
			p.interval = max(d, 2*time.Millisecond)
		case "w":
			p.deadline = d
		case "W":
			p.wait = d
		case "s":
			p.size = int(n)
		case "q":
			p.quiet = true
		}
	}
	addrs, err := network.ResolveLibc(c.Context(), c.Process, words[0])
	if err != nil {
		if busybox {
			c.Errorf("ping: bad address '%s'\n", words[0])
			return 1
		}
		c.Errorf("ping: %s: %s\n", words[0], gai(err))
		return 2
	}
	return p.run(words[0], addrs[0])
}

func (p *pinger) run(name string, a netip.Addr) int {
	n := namespaceOf(p.Process)
	if n == nil {
		p.Errorf("ping: connect: Network is unreachable\n")
		return 2
	}
	if e := n.Echo(a); e.Err == syscall.ENETUNREACH && e.Wait == 0 {
		if p.busybox {
			p.Put("PING %s (%s): %d data bytes\n", name, a, p.size)
			p.Out.Flush()
			p.Errorf("ping: sendto: Network is unreachable\n")
			return 1
		}
		p.Errorf("ping: connect: Network is unreachable\n")
		return 2
	}
	if p.busybox {
		p.Put("PING %s (%s): %d data bytes\n", name, a, p.size)
	} else {
		p.Put("PING %s (%s) %d(%d) bytes of data.\n", name, a, p.size, p.size+28)
	}
	interrupted := make(chan struct{})
	p.Notify(2, func() { close(interrupted) })
	start := time.Now()
	r := p.World().Rand("network/ping")
	sent, got, errors := 0, 0, 0
	var lo, hi, sum float64
loop:
	for seq := 1; p.count == 0 || seq <= p.count; seq++ {
		if p.deadline > 0 && time.Since(start) >= p.deadline {
			break
		}
		e := n.Echo(a)
		sent++
		shown := seq
		if p.busybox {
			shown--
		}
		pause := p.interval
		switch {
		case e.Answered:
			ms := 0.030 + r.Float64()*0.03
			if e.TTL < 64 || !a.IsLoopback() {
				ms += 0.2 + r.Float64()*0.2
			}
			got++
			sum += ms
			if lo == 0 || ms < lo {
				lo = ms
			}
			hi = max(hi, ms)
			if p.quiet {
				break
			}
			if p.busybox {
				p.Put("%d bytes from %s: seq=%d ttl=%d time=%.3f ms\n", p.size+8, a, shown, e.TTL, ms)
				break
			}
			from := a.String()
			if name != from {
				from = fmt.Sprintf("%s (%s)", name, a)
			}
			p.Put("%d bytes from %s: icmp_seq=%d ttl=%d time=%s ms\n", p.size+8, from, shown, e.TTL, digits3(ms))
		case e.Err != 0 && !p.busybox:
			pause = max(pause, e.Wait)
			errors++
			p.Put("From %s icmp_seq=%d %s\n", e.From, shown, map[bool]string{true: "Destination Host Unreachable", false: "Destination Port Unreachable"}[e.Err == syscall.EHOSTUNREACH])
		}
		p.Out.Flush()
		if p.count > 0 && seq == p.count {
			if !e.Answered && e.Err == 0 {
				pause = p.wait
			} else if e.Answered {
				break
			}
		}
		select {
		case <-time.After(pause):
		case <-interrupted:
			break loop
		case <-p.Done():
			return 1
		}
	}
	loss := 0
	if sent > 0 {
		loss = (sent - got) * 100 / sent
	}
	if p.busybox {
		p.Put("\n--- %s ping statistics ---\n%d packets transmitted, %d packets received, %d%% packet loss\n", name, sent, got, loss)
		if got > 0 {
			p.Put("round-trip min/avg/max = %.3f/%.3f/%.3f ms\n", lo, sum/float64(got), hi)
		}
	} else {
		extra := ""
		if errors > 0 {
			extra = fmt.Sprintf(", +%d errors", errors)
		}
		p.Put("\n--- %s ping statistics ---\n%d packets transmitted, %d received%s, %d%% packet loss, time %dms\n", name, sent, got, extra, loss, time.Since(start).Milliseconds())
		if got > 0 {
			p.Put("rtt min/avg/max/mdev = %.3f/%.3f/%.3f/%.3f ms\n", lo, sum/float64(got), hi, (hi-lo)/4)
		} else {
			p.Put("\n")
		}
	}
	if got == 0 {
		return 1
	}
	return 0
}

// digits3 is a number with three significant digits, as ping prints times below 100 ms.
func digits3(ms float64) string {
	switch {
	case ms < 1:
		return fmt.Sprintf("%.3f", ms)
	case ms < 10:
		return fmt.Sprintf("%.2f", ms)
	}
	return fmt.Sprintf("%.1f", ms)
}
