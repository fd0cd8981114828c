package systemd

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"ckadrill/sim/kernel"
	"ckadrill/sim/machine/filesystem"
)

// onFiles runs f with a tree in which the given unit files stand.
func onFiles(t *testing.T, units map[string]string, f func(kernel.Files)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		v, err := filesystem.NewView([]filesystem.Mount{{Target: "/", Tree: filesystem.NewTree(kernel.NewWorld(1), "disk", 1<<30)}})
		if err != nil {
			t.Fatal(err)
		}
		files := v.Files(kernel.Root)
		for name, text := range units {
			dir := name[:strings.LastIndexByte(name, '/')]
			if err := files.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
			if err := files.WriteFile(name, []byte(text), 0o644); err != nil {
				t.Fatal(err)
			}
		}
		f(files)
	})
}

// The expected lines are those of systemd-analyze verify.
func TestProblemsOfUnitFiles(t *testing.T) {
	const at = "/etc/systemd/system/t.service:"
	for text, want := range map[string][]string{
		"Foo=1\n[Service]\nExecStart=/bin/true\ngarbage\n":                            {at + "1: Assignment outside of section. Ignoring.", at + "4: Missing '=', ignoring line."},
		"[Service]\nExecStart=/bin/true\nType=foo\nRestart=alwayss\nRestartSec=10x\n": {at + "3: Failed to parse service type, ignoring: foo", at + "4: Failed to parse service restart specifier, ignoring: alwayss", at + "5: Failed to parse sec value, ignoring: 10x"},
		"[Service]\nExecStart=/bin/true \"a\n":                                        {at + "2: Unbalanced quoting, ignoring: \"/bin/true \"a\"", "Unit configuration has fatal error, unit will not be started."},
		"[Service]\nExecStart=-/bin/true \"x\n":                                       {at + "2: Unbalanced quoting, ignoring: \"-/bin/true \"x\"", "Service has no ExecStart=, ExecStop=, or SuccessAction=. Refusing."},
		"[Service]\nExecStart=./bin/true\n":                                           {at + "2: Neither a valid executable name nor an absolute path: ./bin/true", "Unit configuration has fatal error, unit will not be started."},
		"[Service]\nExecStart=/bin/true\nUnknwn=3\n":                                  {at + "3: Unknown key 'Unknwn' in section [Service], ignoring."},
		"[Servce]\nExecStart=/bin/true\n[Service]\nExecStart=/bin/true\n":             {at + "1: Unknown section 'Servce'. Ignoring."},
		"[Service]\nExecStart=\n":                                                     {"Service has no ExecStart=, ExecStop=, or SuccessAction=. Refusing."},
		"[Service]\nExecStart=/bin/true\nExecStart=/bin/false\n":                      {"Service has more than one ExecStart= setting, which is only allowed for Type=oneshot services. Refusing."},
		"[Service]\nType=oneshot\nExecStart=/bin/true ; /bin/false\n":                 nil,
		"[Service]\nType=oneshot\nRestart=always\nExecStart=/bin/true\n":              {"Service has Restart= set to either always or on-success, which isn't allowed for Type=oneshot services. Refusing."},
		"[Service]\nExecStart=/bin/true\nWorkingDirectory=foo\n":                      {at + "3: WorkingDirectory= path is not absolute: foo", "Unit configuration has fatal error, unit will not be started."},
		"[Service\nExecStart=/bin/true\n":                                             {at + "1: Invalid section header '[Service'", "Service has no ExecStart=, ExecStop=, or SuccessAction=. Refusing."},
	} {
		onFiles(t, map[string]string{"/etc/systemd/system/t.service": text}, func(files kernel.Files) {
			d, _ := read(files, "t.service")
			got := d.Problems
			if b := d.bad(); b != "" {
				got = append(got, b)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%q: %s", text, diff)
			}
		})
	}
}

func TestDropInsOverrideInOrder(t *testing.T) {
	onFiles(t, map[string]string{
		"/usr/lib/systemd/system/x.service":                  "[Unit]\nDescription=vendor\n[Service]\nExecStart=/bin/a\nEnvironment=A=1\n",
		"/usr/lib/systemd/system/x.service.d/20-vendor.conf": "[Service]\nEnvironment=B=2\n",
		"/etc/systemd/system/x.service.d/10-mine.conf":       "[Service]\nExecStart=\nExecStart=/bin/b \\\n  --long\n",
		"/etc/systemd/system/x.service.d/20-vendor.conf":     "[Service]\nEnvironment=B=3\n",
		"/etc/systemd/system/x.service.d/ignored":            "[Service]\nExecStart=/bin/c\n",
	}, func(files kernel.Files) {
		d, found := read(files, "x.service")
		if !found {
			t.Fatal("not found")
		}
		if diff := cmp.Diff([]string{"/etc/systemd/system/x.service.d/10-mine.conf", "/etc/systemd/system/x.service.d/20-vendor.conf"}, d.DropIns); diff != "" {
			t.Error(diff)
		}
		if got := d.all("Service", "ExecStart"); len(got) != 1 || strings.Join(strings.Fields(got[0]), " ") != "/bin/b --long" {
			t.Errorf("%q", got)
		}
		if diff := cmp.Diff([]string{"A=1", "B=3"}, d.all("Service", "Environment")); diff != "" {
			t.Error(diff)
		}
	})
}

func TestCommandLines(t *testing.T) {
	env := []string{"ONE=1", "TWO=a  'b c'", "EMPTY="}
	for line, want := range map[string][]string{
		`/bin/x $ONE ${ONE} x${ONE}y`:   {"/bin/x", "1", "1", "x1y"},
		`/bin/x $TWO ${TWO}`:            {"/bin/x", "a", "b c", "a  'b c'"},
		`/bin/x $EMPTY $NONE ${NONE}`:   {"/bin/x", ""},
		`/bin/x "a b" 'c "d"' e\sf`:     {"/bin/x", "a b", `c "d"`, "e f"},
		`/bin/x $$ONE a$$b \q`:          {"/bin/x", "$ONE", "a$b", `\q`},
		`-/bin/x`:                       {"/bin/x"},
		`@/bin/x other arg`:             {"other", "arg"},
		`/bin/sh -c "echo $ONE ${ONE}"`: {"/bin/sh", "-c", "echo $ONE 1"},
	} {
		c, err := parseCommand(line, env)
		if err != nil {
			t.Errorf("%s: %v", line, err)
			continue
		}
		if d := cmp.Diff(want, c.argv); d != "" {
			t.Errorf("%s: %s", line, d)
		}
	}
}

// The values are those of systemd-analyze timespan, whose accuracy is a microsecond.
func TestTimespans(t *testing.T) {
	for s, want := range map[string]string{
		"90s": "1min 30s", "5.123s": "5.123000s", "1min 2.345s": "1min 2.345000s", "123ms": "123ms", "2h 13min 4.2s": "2h 13min 4.200000s", "3us": "3us", "1d 2h": "1d 2h", "999us": "999us", "61.5ms": "61.500ms",
		"0.1s": "100ms", "5": "5s", "infinity": "infinity", "1h30min": "1h 30min", "100 ms": "100ms",
	} {
		d, err := ParseTimespan(s)
		if got := FormatTimespan(d, time.Microsecond); err != nil || got != want {
			t.Errorf("%q: %q, %v", s, got, err)
		}
	}
	if got := FormatTimespan(time.Minute+2345678*time.Microsecond, time.Millisecond); got != "1min 2.345s" {
		t.Error(got)
	}
	for _, s := range []string{"", "x", "5 foo", "-1s", "1..2s"} {
		if d, err := ParseTimespan(s); err == nil {
			t.Errorf("%q is %v", s, d)
		}
	}
}

func TestRelativeTimes(t *testing.T) {
	now := time.Date(2026, 12, 1, 10, 0, 0, 0, time.UTC)
	for d, want := range map[time.Duration]string{
		0: "now", 250 * time.Millisecond: "250ms ago", 42 * time.Second: "42s ago", 3*time.Minute + 5*time.Second: "3min 5s ago", 7*time.Minute + 5*time.Second: "7min ago", 2*time.Hour + 3*time.Minute: "2h 3min ago",
		7*time.Hour + 59*time.Minute: "7h ago", 26 * time.Hour: "1 day 2h ago", 50 * time.Hour: "2 days ago", 8 * 24 * time.Hour: "1 week 1 day ago", -time.Hour: "1h 0min left",
	} {
		if got := FormatRelative(now, now.Add(-d)); got != want {
			t.Errorf("%v: %q, not %q", d, got, want)
		}
	}
}

func FuzzUnitFile(f *testing.F) {
	f.Add("[Service]\nExecStart=/bin/true \"a\n[Install]\nWantedBy=x\n")
	f.Add("[Unit\n=\n\\\n")
	f.Fuzz(func(t *testing.T, text string) {
		d := &Definition{Name: "t.service", Fragment: "/t.service"}
		d.parse("/t.service", []byte(text))
		d.bad()
		for _, l := range d.all("Service", "ExecStart") {
			parseCommand(l, []string{"A=b c"})
		}
	})
}

func FuzzCommandLine(f *testing.F) {
	f.Add(`/bin/x "$A" ${B} \x`, "a b")
	f.Fuzz(func(t *testing.T, line, value string) {
		if c, err := parseCommand(line, []string{"A=" + value}); err == nil && len(c.argv) == 0 {
			t.Errorf("%q has no argv", line)
		}
	})
}
