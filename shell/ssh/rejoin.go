package ssh

import (
	"bufio"
	"encoding/json"
	"fmt"
	"net/netip"

	"ckadrill/sim/kernel"
	"ckadrill/sim/machine"
	"ckadrill/sim/network"
	"ckadrill/sim/userland/bash"
	"ckadrill/sim/userland/libc"
)

// standing is a login at a terminal as plain data: what a client needs to find itself connected again after a thaw,
// whatever has become of its configuration, of names and of the server since it has logged in.
type standing struct {
	Machine string
	User    string
	Unit    string
	Session int
	Seat    int
	Parent  int // process id
	// Local and Remote are the connection's addresses as the client sees them.
	Local, Remote netip.AddrPort
}

func (s standing) encode() []byte {
	b, err := json.Marshal(s)
	if err != nil {
		panic(err) // only a type that JSON cannot encode
	}
	return b
}

func (v *visit) standing() standing {
	s := standing{Machine: v.server.machine.Name(), User: v.user.Name, Unit: v.p.Unit, Seat: v.seat}
	fmt.Sscanf(v.p.Unit, sessionUnit, &s.Session)
	if v.p.Parent != nil {
		s.Parent = v.p.Parent.ID()
	}
	s.Local, _ = netip.ParseAddrPort(v.conn.RemoteAddr().String())
	s.Remote, _ = netip.ParseAddrPort(v.conn.LocalAddr().String())
	return s
}

// rejoin puts a resumed client and its server's process where they were before a thaw. Nothing of it shows.
func rejoin(c *libc.Prog, s *settings, remote bash.Link) (*link, error) {
	lost := fmt.Errorf("Connection to %s closed by remote host.", s.host)
	var st standing
	if err := json.Unmarshal(remote.Detail, &st); err != nil {
		return nil, lost
	}
	here := network.Of(c.Host())
	there := here.Fabric().Machine(st.Machine)
	if there == nil || there.Host() == nil {
		return nil, lost
	}
	h := there.Host()
	m := machine.Of(h)
	user, ok := m.LookupUser(st.User)
	if !ok || !m.PoweredOn() {
		return nil, lost
	}
	parent := h.Processes.Find(st.Parent)
	if parent == nil {
		parent = h.Processes.Find(1)
	}
	spec := kernel.Spec{
		Argv: []string{"sshd"}, Files: m.Files(kernel.Root), Net: m.Network(), Parent: parent, Unit: st.Unit, PID: remote.PID, Started: remote.Started,
	}
	conn := make(chan *network.Conn, 1)
	p := h.Processes.Start(spec, func(p *kernel.Process) int {
		x := <-conn
		if x == nil {
			return failure
		}
		v := &visit{
			server: &server{p: parent, machine: m}, p: p, conn: x, user: user, seat: st.Seat, w: &wire{Conn: x, in: bufio.NewReaderSize(x, 64<<10)},
		}
		v.rejoin(c, remote.Detail, st)
		return 0
	})
	mine, theirs, ok := here.Establish(c.Process, st.Local, st.Remote, there, p)
	conn <- theirs
	if !ok {
		return nil, lost
	}
	return &link{wire: &wire{Conn: mine, in: bufio.NewReaderSize(mine, 64<<10)}, host: s.host, addr: st.Remote}, nil
}

// rejoin is the server's side of a login that goes on.
func (v *visit) rejoin(c *libc.Prog, detail []byte, st standing) {
	defer v.conn.Close()
	bash.Reach(v.p, c.Process, detail)
	seatsOf(v.p.Host()).keep(st.Seat, st.Session)
	spec := v.shell(nil)
	defer v.sitDown(c.TTY, &spec)()
	bash.Resume(v.p, &spec)
	in := newInput(v.w, true)
	defer in.close()
	v.farewell(v.attend(spec, in))
}
