package images

import (
	"io/fs"
	"strings"
	"time"

	"ckadrill/sim/kernel"
)

const mountTestContent = "mount-tester new file\n"

// mountTest is agnhost mounttest: what its flags ask for, in a fixed order.
func mountTest(p *kernel.Process, f agnhostFlags) int {
	p.Files.SetUmask(0)
	failed := false
	note := func(err error) {
		failed = failed || err != nil
	}
	if name := f["fs_type"]; name != "" {
		kind, err := mountType(p, name)
		note(err)
		if err != nil {
			p.Printf("error from statfs(%q): %v\n", name, err)
		} else {
			p.Printf("mount type of %q: %s\n", name, kind)
		}
	}
	for _, n := range []struct {
		flag string
		mode fs.FileMode
	}{{"new_file_0644", 0o644}, {"new_file_0666", 0o666}, {"new_file_0660", 0o660}, {"new_file_0777", 0o777}} {
		if name := f[n.flag]; name != "" {
			err := p.Files.WriteFile(p.Path(name), []byte(mountTestContent), n.mode)
			if err != nil {
				p.Printf("error writing new file %q: %v\n", name, err)
			} else {
				err = printContent(p, name)
			}
			note(err)
		}
	}
	for _, q := range []struct {
		flag, text string
		value      func(fs.FileInfo)
	}{
		{"file_mode", "Stat", func(i fs.FileInfo) { p.Printf("mode of file %q: %v\n", f["file_mode"], i.Mode()) }},
		{"file_perm", "Stat", func(i fs.FileInfo) { p.Printf("perms of file %q: %v\n", f["file_perm"], i.Mode().Perm()) }},
		{"file_owner", "stat", func(i fs.FileInfo) {
			s := kernel.StatOf(i)
			p.Printf("owner UID of %q: %v\n", f["file_owner"], s.UID)
			p.Printf("owner GID of %q: %v\n", f["file_owner"], s.GID)
		}},
	} {
		if name := f[q.flag]; name != "" {
			i, err := p.Files.Stat(p.Path(name))
			note(err)
			if err != nil {
				p.Printf("error from %s(%q): %v\n", q.text, name, err)
				continue
			}
			q.value(i)
		}
	}
	if name := f["file_content"]; name != "" {
		note(printContent(p, name))
	}
	if name := f["file_content_in_loop"]; name != "" {
		note(printContentInLoop(p, name, time.Duration(f.number("retry_time", 180))*time.Second, f.on("break_on_expected_content", true)))
	}
	if failed {
		return 1
	}
	return 0
}

func printContent(p *kernel.Process, name string) error {
	b, err := p.ReadFile(name)
	if err != nil {
		p.Printf("error reading file content for %q: %v\n", name, err)
		return err
	}
	p.Printf("content of file %q: %s\n", name, b)
	return nil
}

func printContentInLoop(p *kernel.Process, name string, limit time.Duration, untilExpected bool) (err error) {
	for start := time.Now(); time.Since(start) < limit; {
		var b []byte
		if b, err = p.ReadFile(name); err != nil {
			p.Printf("Error reading file %s: %v, retrying\n", name, err)
		} else {
			p.Printf("content of file %q: %s\n", name, b)
			if untilExpected {
				if string(b) == mountTestContent {
					return nil
				}
				p.Printf("Unexpected content. Expected: %s. Retrying\n", mountTestContent)
			}
		}
		if p.Sleep(2*time.Second) != nil {
			break
		}
	}
	return err
}

// mountType is "tmpfs", or the number by which statfs(2) knows the kind of file system that holds a file.
func mountType(p *kernel.Process, name string) (string, error) {
	real, err := p.Files.EvalSymlinks(p.Path(name))
	if err != nil {
		return "", err
	}
	b, err := p.ReadFile("/proc/mounts")
	if err != nil {
		return "", err
	}
	at, kind := "", ""
	for line := range strings.Lines(string(b)) {
		w := strings.Fields(line)
		if len(w) < 3 {
			continue
		}
		if m := w[1]; len(m) >= len(at) && (m == "/" || real == m || strings.HasPrefix(real, m+"/")) {
			at, kind = m, w[2]
		}
	}
	if kind == "tmpfs" {
		return kind, nil
	}
	if n, ok := superMagic[kind]; ok {
		return n, nil
	}
	return superMagic["ext4"], nil
}

// superMagic are numbers of statfs(2), in decimal.
var superMagic = map[string]string{"ext4": "61267", "overlay": "2035054128", "proc": "40864", "sysfs": "1650812274"}
