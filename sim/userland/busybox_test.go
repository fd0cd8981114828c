package userland_test

import (
	"testing"
	"testing/synctest"
	"time"

	"ckadrill/sim/kernel"
	"ckadrill/sim/machine/filesystem"
	"ckadrill/sim/userland"
)

// inContainer runs f with a function that runs a script by the shell of a container that has a system's commands.
func inContainer(t *testing.T, system string, f func(run func(script string) string)) {
	t.Helper()
	inContainerAs(t, system, kernel.Credential{}, f)
}

func inContainerAs(t *testing.T, system string, cred kernel.Credential, f func(run func(script string) string)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		time.Sleep(time.Date(2026, 1, 5, 10, 0, 0, 0, time.UTC).Sub(time.Now()))
		w := kernel.NewWorld(1)
		userland.Register(w.Programs)
		h := w.NewHost("cka-w1")
		v, err := filesystem.NewView([]filesystem.Mount{{Target: "/", Tree: filesystem.NewTree(w, "overlay", 1<<30), Type: "overlay"}})
		if err != nil {
			t.Fatal(err)
		}
		files := v.Files(kernel.Root)
		for _, d := range []string{"/etc", "/tmp", "/root"} {
			files.MkdirAll(d, 0o755)
		}
		files.WriteFile("/etc/passwd", []byte("root:x:0:0:root:/root:/bin/sh\nwww-data:x:33:33::/var/www:/bin/false\n"), 0o644)
		files.WriteFile("/etc/group", []byte("root:x:0:\nwww-data:x:33:\n"), 0o644)
		if err := userland.Install(files, system); err != nil {
			t.Fatal(err)
		}
		first := h.Processes.Start(kernel.Spec{Argv: []string{"sleep", "3600"}, Files: files, Container: "c1", NamespacePID: 1, Hostname: "web-0"}, func(p *kernel.Process) int { <-p.Done(); return 0 })
		f(func(script string) string {
			var out stream
			main, argv, err := w.Load(files, "/bin/sh", []string{"sh", "-c", script})
			if err != nil {
				t.Fatal(err)
			}
			p := h.Processes.Start(kernel.Spec{Argv: argv, Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin", "HOME=/root", "HOSTNAME=web-0"}, Files: files, Stdout: &out, Stderr: &out,
				Hostname: "web-0", Parent: first, Cred: cred}, main)
			p.Wait()
			return out.b.String()
		})
		first.Signal(kernel.SIGKILL)
		synctest.Wait()
	})
}

// The kernel sorts the groups that a process is given. GNU's id puts the primary one first, BusyBox's does not.
func TestBusyboxGroups(t *testing.T) {
	inContainerAs(t, "busybox", kernel.Credential{UID: 1000, GID: 3000, Groups: []int{3000, 2000}}, func(run func(string) string) {
		if got := run("id; id -G"); got != "uid=1000 gid=3000 groups=2000,3000\n2000 3000\n" {
			t.Errorf("%q", got)
		}
	})
}

func TestBusyboxSpeaksAsBusybox(t *testing.T) {
	inContainer(t, "busybox", func(run func(string) string) {
		for _, c := range [][2]string{
			{"cat /nofile", "cat: can't open '/nofile': No such file or directory\n"},
			{"ls /nofile", "ls: /nofile: No such file or directory\n"},
			{"rm /nofile", "rm: can't remove '/nofile': No such file or directory\n"},
			{"mkdir /etc", "mkdir: can't create directory '/etc': File exists\n"},
			{"cp /nofile /x", "cp: can't stat '/nofile': No such file or directory\n"},
			{"mv /nofile /x", "mv: can't rename '/nofile': No such file or directory\n"},
			{"grep x /nofile", "grep: /nofile: No such file or directory\n"},
			{"id", "uid=0(root) gid=0(root) groups=0(root)\n"},
			{"ps | head -n 2", "PID   USER     TIME  COMMAND\n    1 root      0:00 sleep 3600\n"},
			{"echo hi > /tmp/f; ls -l /tmp", "total 4\n-rw-r--r--    1 root     root             3 Jan  5 10:00 f\n"},
			{"date", "Mon Jan  5 10:00:00 UTC 2026\n"},
			{"hostname", "web-0\n"},
			{"nosuch", "sh: nosuch: not found\n"},
			{"env nosuch", "env: can't execute 'nosuch': No such file or directory\n"},
			{"sleep x", "sleep: invalid number 'x'\n"},
			{"seq 3 | tail -n 1; which ls; touch /tmp/a; head -c 2 /tmp/f; echo; wc -l /tmp/f; printenv HOSTNAME; uname -n", "3\n/bin/ls\nhi\n1 /tmp/f\nweb-0\nweb-0\n"},
			{"i=0; while [ $i -lt 3 ]; do i=$((i+1)); sleep 1; done; date", "Mon Jan  5 10:00:03 UTC 2026\n"},
			{"head /nofile", "head: /nofile: No such file or directory\n"},
			{"sort /nofile", "sort: /nofile: No such file or directory\n"},
			{"find /nofile", "find: /nofile: No such file or directory\n"},
			{"chmod 600 /nofile", "chmod: /nofile: No such file or directory\n"},
			{"touch /no/such", "touch: /no/such: No such file or directory\n"},
			{"rmdir /no", "rmdir: '/no': No such file or directory\n"},
			{"stat /no", "stat: can't stat '/no': No such file or directory\n"},
			{"ed", "sh: ed: ckadrill does not simulate the program \"busybox-ed\" yet\n"},
			{"tail -f /nofile", "tail: can't open '/nofile': No such file or directory\ntail: no files\n"},
			{"(sleep 2; echo one > /tmp/t; sleep 2; mv /tmp/t /tmp/u; sleep 2; echo two > /tmp/t) & timeout 9 tail -n +1 -F /tmp/t", "tail: can't open '/tmp/t': No such file or directory\ntail: /tmp/t has appeared; following end of new file\none\ntail: /tmp/t has become inaccessible: No such file or directory\ntail: /tmp/t has appeared; following end of new file\ntwo\n"},
		} {
			if got := run(c[0]); got != c[1] {
				t.Errorf("%s\n got %q\nwant %q", c[0], got, c[1])
			}
		}
	})
}
