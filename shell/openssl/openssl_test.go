package openssl

import (
	"bytes"
	"io/fs"
	"os"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"ckadrill/sim/kernel"
	"ckadrill/sim/machine/filesystem"
)

// machine is a world with one host whose home directory holds testdata/files.
type machine struct {
	t     *testing.T
	w     *kernel.World
	host  *kernel.Host
	files kernel.Files
	net   kernel.Network
}

func newMachine(t *testing.T, date time.Time) *machine {
	time.Sleep(time.Until(date))
	w := kernel.NewWorld(1)
	Register(w)
	view, err := filesystem.NewView([]filesystem.Mount{{Target: "/", Tree: filesystem.NewTree(w, "/dev/vda1", 1<<30)}})
	if err != nil {
		t.Fatal(err)
	}
	m := &machine{t: t, w: w, host: w.NewHost("cka-cp1"), files: view.Files(kernel.Root)}
	if err := m.files.MkdirAll("/root", 0o700); err != nil {
		t.Fatal(err)
	}
	entries, err := os.ReadDir("testdata/files")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range entries {
		b, err := os.ReadFile("testdata/files/" + e.Name())
		if err != nil {
			t.Fatal(err)
		}
		if err := m.files.WriteFile("/root/"+e.Name(), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// run runs one command with its input and returns standard output and error in the order they were written.
func (m *machine) run(argv []string, stdin string) (out, both string, code int) {
	prog, _ := m.w.Programs.Find("openssl")
	var o, b bytes.Buffer
	p := m.host.Processes.Start(kernel.Spec{
		Argv: argv, Dir: "/root", Env: []string{"HOME=/root"}, Files: m.files, Net: m.net,
		Stdin: strings.NewReader(stdin), Stdout: tee{&o, &b}, Stderr: &b,
	}, prog)
	code = p.Wait().ExitCode()
	return o.String(), b.String(), code
}

type tee struct{ a, b *bytes.Buffer }

func (t tee) Write(p []byte) (int, error) {
	t.a.Write(p)
	return t.b.Write(p)
}

// shell runs a line of commands joined by pipes.
func (m *machine) shell(line string) (string, int) {
	stdin, both, code := "", "", 0
	for i, c := range strings.Split(line, " | ") {
		argv := words(c)
		if argv[0] == "cat" {
			b, err := m.files.ReadFile("/root/" + argv[1])
			if err != nil {
				m.t.Fatal(err)
			}
			stdin = string(b)
			continue
		}
		var out string
		if i > 0 {
			out, both, code = m.run(argv, stdin)
		} else {
			out, both, code = m.run(argv, "")
		}
		stdin = out
	}
	return both, code
}

// words splits a command at spaces that are not quoted.
func words(c string) (l []string) {
	word, quoted, any := "", false, false
	for _, r := range c {
		switch {
		case r == '"':
			quoted, any = !quoted, true
		case r == ' ' && !quoted:
			if any {
				l = append(l, word)
			}
			word, any = "", false
		default:
			word, any = word+string(r), true
		}
	}
	if any {
		l = append(l, word)
	}
	return l
}

// normal removes what differs from run to run: threads, source lines, signatures and dates of what was made just now.
func normal(s string) string {
	for _, r := range [][2]string{
		{`(?m)^40[0-9A-F]{8}7F0000:`, "THREAD:"},
		{`(\.c):\d+:`, "$1:LINE:"},
		{`(?m)^\n`, ""},
	} {
		s = regexp.MustCompile(r[0]).ReplaceAllString(s, r[1])
	}
	return s
}

var signature = regexp.MustCompile(`(?s)Signature Value:\n.*`)

func TestOutputEqualsTheRecording(t *testing.T) {
	b, err := os.ReadFile("testdata/openssl.console")
	if err != nil {
		t.Fatal(err)
	}
	d, err := os.ReadFile("testdata/date")
	if err != nil {
		t.Fatal(err)
	}
	date, err := time.Parse(time.RFC3339, strings.TrimSpace(string(d)))
	if err != nil {
		t.Fatal(err)
	}
	made := regexp.MustCompile(`(Not Before: |Not After : ).*`)
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(t, date)
		for _, entry := range strings.Split("\n"+string(b), "\n$ ")[1:] {
			command, want, _ := strings.Cut(entry, "\n")
			got, code := m.shell(command)
			if code != 0 {
				got = strings.TrimSuffix(got, "\n") + "\n" + "[exit " + string(rune('0'+code)) + "]"
			}
			got, want = strings.TrimSuffix(normal(got), "\n"), strings.TrimSuffix(normal(want), "\n")
			if strings.Contains(command, "n.crt") || strings.Contains(command, "n2.crt") {
				got, want = made.ReplaceAllString(got, "$1DATE"), made.ReplaceAllString(want, "$1DATE")
				got, want = signature.ReplaceAllString(got, ""), signature.ReplaceAllString(want, "")
			}
			if strings.Contains(command, "r.csr") || strings.Contains(command, "r3.csr") {
				got, want = signature.ReplaceAllString(got, ""), signature.ReplaceAllString(want, "")
			}
			if got != want {
				t.Errorf("$ %s\n%s\nwant:\n%s", command, got, want)
			}
		}
	})
}

func TestNewKeysAndRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(t, time.Date(2026, 12, 2, 5, 0, 0, 0, time.UTC))
		for _, c := range []string{
			"openssl genrsa -out jane.key 2048", "openssl req -new -key jane.key -subj /CN=jane/O=dev -out jane.csr",
			"openssl x509 -req -in jane.csr -CA ca.crt -CAkey ca.key -CAcreateserial -days 365 -out jane.crt",
			"openssl req -x509 -newkey rsa:2048 -nodes -keyout tls.key -out tls.crt -subj /CN=web -days 365",
			"openssl genpkey -algorithm EC -pkeyopt ec_paramgen_curve:P-256 -out ec.key", "openssl ecparam -name prime256v1 -genkey -noout -out ec2.key",
		} {
			if out, code := m.shell(c); code != 0 {
				t.Fatalf("%s: exit %d: %s", c, code, out)
			}
		}
		if out, _ := m.shell("openssl verify -CAfile ca.crt jane.crt"); out != "jane.crt: OK\n" {
			t.Error(out)
		}
		if out, _ := m.shell("openssl x509 -in jane.crt -noout -subject -enddate"); out != "subject=CN = jane, O = dev\nnotAfter=Dec  2 05:00:00 2027 GMT\n" {
			t.Error(out)
		}
		for f, mode := range map[string]fs.FileMode{"jane.key": 0o600, "tls.key": 0o600, "jane.crt": 0o644, "ca.srl": 0o644} {
			i, err := m.files.Stat("/root/" + f)
			if err != nil || i.Mode().Perm() != mode {
				t.Errorf("%s: %v, %v", f, i, err)
			}
		}
		before, _ := m.files.ReadFile("/root/ca.srl")
		m.shell("openssl x509 -req -in jane.csr -CA ca.crt -CAkey ca.key -CAcreateserial -out again.crt")
		if after, _ := m.files.ReadFile("/root/ca.srl"); bytes.Equal(before, after) {
			t.Error("the serial number was not counted")
		}
		out, code := m.shell("openssl x509 -in jane.crt -noout -checkend 0")
		time.Sleep(366 * 24 * time.Hour)
		if later, exit := m.shell("openssl x509 -in jane.crt -noout -checkend 0"); out != "Certificate will not expire\n" || code != 0 || later != "Certificate will expire\n" || exit != 1 {
			t.Errorf("%s (%d), a year later %s (%d)", out, code, later, exit)
		}
		if out, code := m.shell("openssl verify -CAfile ca.crt jane.crt"); code != 2 || out != "CN = jane, O = dev\nerror 10 at 0 depth lookup: certificate has expired\nerror jane.crt: verification failed\n" {
			t.Errorf("exit %d: %s", code, out)
		}
	})
}

func TestQuestions(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newMachine(t, time.Date(2026, 12, 2, 5, 0, 0, 0, time.UTC))
		_, both, code := m.run([]string{"openssl", "req", "-new", "-key", "u.key", "-out", "q.csr"}, "DE\n.\n\nme\n\njane\n\n\n\n")
		if code != 0 || !strings.Contains(both, "Country Name (2 letter code) [AU]:State or Province Name (full name) [Some-State]:") {
			t.Errorf("exit %d: %s", code, both)
		}
		if out, _ := m.shell("openssl req -in q.csr -noout -subject"); out != "subject=C = DE, O = me, CN = jane\n" {
			t.Error(out)
		}
	})
}

func TestRandomnessComesFromTheSeed(t *testing.T) {
	draw := func() (out string) {
		synctest.Test(t, func(t *testing.T) {
			out, _ = newMachine(t, time.Date(2026, 12, 2, 5, 0, 0, 0, time.UTC)).shell("openssl rand -hex 16")
		})
		return out
	}
	if a, b := draw(), draw(); a != b || len(a) != 33 {
		t.Errorf("%q and %q", a, b)
	}
}

func FuzzSubject(f *testing.F) {
	f.Add("/CN=jane/O=dev")
	f.Add("/CN=a\\/b+OU=c/XX=")
	f.Fuzz(func(t *testing.T, s string) {
		raw, _, err := parseSubject(s)
		if err == nil {
			nameOptions{}.format(raw)
		}
	})
}

func FuzzConfig(f *testing.F) {
	f.Add([]byte("[alt]\nDNS.1 = a\nkeyUsage = critical, digitalSignature\n"), "alt")
	f.Fuzz(func(t *testing.T, b []byte, section string) {
		parseConfig(b).extensions(section, nil, nil)
	})
}
