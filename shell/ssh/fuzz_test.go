package ssh

import (
	"bufio"
	"bytes"
	"testing"

	"ckadrill/sim/kernel"
	"ckadrill/sim/machine"
)

// FuzzReceive reads whatever the other end may send.
func FuzzReceive(f *testing.F) {
	f.Add([]byte("i\x00\x00\x00\x02hi"))
	f.Add([]byte("i\xff\xff\xff\xff"))
	f.Fuzz(func(t *testing.T, b []byte) {
		w := &wire{in: bufio.NewReader(bytes.NewReader(b))}
		for {
			_, body, err := w.receive()
			if err != nil {
				return
			}
			if len(body) > maxBody {
				t.Fatalf("%d bytes were taken", len(body))
			}
		}
	})
}

// FuzzConfig reads whatever stands in a configuration file, of the server and of the client.
func FuzzConfig(f *testing.F) {
	f.Add("Port 22\nAllowUsers a b\nInclude /etc/ssh/*.conf\nMatch User x\n")
	f.Add("ListenAddress [::1]:22\nPermitRootLogin=yes")
	f.Add("User = x")
	files := machine.New(kernel.NewWorld(1), "m", machine.Options{}).Files(kernel.Root)
	f.Fuzz(func(t *testing.T, text string) {
		c := &serverConfig{}
		if c.parse(files, configFile, text, 0) == nil {
			c.addresses()
		}
		s := &settings{}
		s.set("config", 1, text)
		s.destination(text)
	})
}
