package systemctl

import (
	"fmt"
	"io/fs"
	"path"
	"strings"

	"ckadrill/sim/kernel"
	"ckadrill/sim/machine/systemd"
	"ckadrill/sim/userland/libc"
)

const (
	etc         = "/etc/systemd/system"
	markerStart = "### Anything between here and the comment below will become the contents of the drop-in file"
	markerEnd   = "### Edits below this comment will be discarded"
)

func (t *tool) cat(args []string) int {
	ret, first := 0, true
	for _, n := range t.names(args) {
		s := t.manager.Status(n)
		d, found := systemd.Read(t.Files, s.Name)
		switch {
		case !found:
			t.Errorf("No files found for %s.\n", n)
			ret = 1
			continue
		case d.Masked:
			t.printf("# Unit %s is masked.\n", n)
			continue
		}
		if !first {
			t.printf("\n")
		}
		first = false
		if s.NeedReload {
			t.Errorf("%s", t.color(red, fmt.Sprintf("# Warning: %s changed on disk, the version systemd has loaded is outdated.\n"+
				"# This output shows the current version of the unit's original fragment and drop-in files.\n"+
				"# If fragments or drop-ins were added or removed, they are not properly reflected in this output.\n"+
				"# Run 'systemctl daemon-reload' to reload units.\n", s.Name)))
		}
		for i, f := range append([]string{d.Fragment}, d.DropIns...) {
			if i > 0 {
				t.printf("\n")
			}
			b, err := t.Files.ReadFile(f)
			if err != nil {
				t.Errorf("Failed to cat %s: %s\n", f, libc.Strerror(err))
				ret = 1
				continue
			}
			t.printf("%s\n%s", t.color("0;34", "# "+f), b)
			if len(b) > 0 && b[len(b)-1] != '\n' {
				t.printf("\n")
			}
		}
	}
	return ret
}

// edit lets the user change a drop-in of a unit, or with --full a copy of the unit's file, and reloads.
func (t *tool) edit(args []string) int {
	if !t.onTerminal() {
		t.Errorf("Cannot edit units if not on a tty.\n")
		return 1
	}
	dropIn := t.dropIn
	switch {
	case dropIn == "":
		dropIn = "override.conf"
	case !strings.HasSuffix(dropIn, ".conf"):
		dropIn += ".conf"
	}
	dir := etc
	if t.runtime {
		dir = "/run/systemd/system"
	}
	changed := false
	for _, n := range t.names(args) {
		d, found := systemd.Read(t.Files, n)
		switch {
		case d.Masked:
			t.Errorf("Cannot edit %s: unit is masked.\n", n)
			return 1
		case !found && !t.force:
			t.Errorf("No files found for %s.\nRun 'systemctl edit --force --full %s' to create a new unit.\n", n, n)
			return 1
		}
		if found {
			n = path.Base(d.Fragment)
		}
		target := path.Join(dir, n+".d", dropIn)
		if t.full {
			target = path.Join(dir, n)
		}
		done, err := t.editFile(target, d)
		if err != nil {
			t.Errorf("%v\n", err)
			return 1
		}
		changed = changed || done
	}
	if !changed {
		return 0
	}
	return t.daemonReload(nil)
}

// editFile has one file edited through a temporary file beside it; done is false when nothing came of it.
func (t *tool) editFile(target string, d *systemd.Definition) (done bool, err error) {
	old, readErr := t.Files.ReadFile(target)
	content := old
	if t.full {
		if readErr != nil && d.Fragment != "" {
			if content, err = t.Files.ReadFile(d.Fragment); err != nil {
				return false, fmt.Errorf("Failed to copy file '%s' to temporary file '%s': %s", d.Fragment, target, libc.Strerror(err))
			}
		}
	} else {
		content = t.template(target, d, old)
	}
	parent := path.Dir(target)
	_, parentErr := t.Files.Stat(parent)
	if err := t.Files.MkdirAll(parent, 0o755); err != nil {
		return false, fmt.Errorf("Failed to create parent directories for '%s': %s", target, libc.Strerror(err))
	}
	temp := path.Join(parent, ".#"+path.Base(target)+fmt.Sprintf("%016x", t.World().Random("systemctl").Uint64()))
	defer func() {
		t.Files.Remove(temp)
		if parentErr != nil && !done {
			t.Files.Remove(parent)
		}
	}()
	if err := t.Files.WriteFile(temp, content, 0o644); err != nil {
		return false, fmt.Errorf("Failed to create temporary file for '%s': %s", target, libc.Strerror(err))
	}
	if code, err := t.runEditor(temp); err != nil || code != 0 {
		if err == nil {
			err = fmt.Errorf("Editing \"%s\" canceled: editor failed with exit status %d.", target, code)
		}
		return false, err
	}
	after, err := t.Files.ReadFile(temp)
	if err != nil {
		return false, fmt.Errorf("Failed to read temporary file '%s': %s", temp, libc.Strerror(err))
	}
	text := string(after)
	if !t.full {
		if _, rest, ok := strings.Cut(text, markerStart); ok {
			text = rest
		}
		text, _, _ = strings.Cut(text, markerEnd)
	}
	text = strings.TrimSpace(text)
	if text == "" {
		if !t.full && outside(string(after)) {
			t.Errorf("Found modifications outside of the staging area, which would be discarded.\n")
		}
		t.Errorf("%s: after editing, new contents are empty, not writing file.\n", target)
		return false, nil
	}
	if err := t.Files.WriteFile(temp, []byte(text+"\n"), 0o644); err != nil {
		return false, fmt.Errorf("Failed to strip temporary file '%s': %s", temp, libc.Strerror(err))
	}
	if err := t.Files.Rename(temp, target); err != nil {
		return false, fmt.Errorf("Failed to rename temporary file '%s' to target file '%s': %s", temp, target, libc.Strerror(err))
	}
	t.Errorf("Successfully installed edited file '%s'.\n", target)
	return true, nil
}

// outside says whether a drop-in's template has lines that are no comments.
func outside(text string) bool {
	for _, l := range strings.Split(text, "\n") {
		if l = strings.TrimSpace(l); l != "" && l[0] != '#' {
			return true
		}
	}
	return false
}

// template is what systemctl edit shows: the drop-in between markers, and below it the unit's other files as comments.
func (t *tool) template(target string, d *systemd.Definition, old []byte) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "### Editing %s\n%s\n\n%s", target, markerStart, old)
	if len(old) == 0 || old[len(old)-1] != '\n' {
		b.WriteByte('\n')
	}
	fmt.Fprintf(&b, "\n%s\n", markerEnd)
	if d.Fragment == "" {
		return []byte(b.String())
	}
	for _, f := range append([]string{d.Fragment}, d.DropIns...) {
		if f == target {
			continue
		}
		text, err := t.Files.ReadFile(f)
		if err != nil {
			continue
		}
		fmt.Fprintf(&b, "\n\n### %s", f)
		if s := strings.TrimSpace(string(text)); s != "" {
			b.WriteString("\n# " + strings.ReplaceAll(s, "\n", "\n# "))
		}
	}
	b.WriteByte('\n')
	return []byte(b.String())
}

// runEditor runs the user's editor on a file: the program that the environment names when the machine has it, else the one
// that sits at the terminal.
func (t *tool) runEditor(file string) (code int, err error) {
	for _, k := range []string{"SYSTEMD_EDITOR", "EDITOR", "VISUAL"} {
		words := strings.Fields(t.Getenv(k))
		if len(words) == 0 {
			continue
		}
		if _, err := kernel.LookPath(t.Files, t.Dir(), t.Getenv("PATH"), words[0]); err == nil {
			return t.Run(append(words, file)), nil
		}
		break
	}
	b, err := t.Files.ReadFile(file)
	if err != nil {
		return 1, err
	}
	edited, err := t.TTY.Edit(file, b)
	if err != nil {
		return 1, fmt.Errorf("Failed to execute editor: %v", err)
	}
	return 0, t.Files.WriteFile(file, edited, 0o644)
}

// revert removes a unit's own changes below /etc, and its masks.
func (t *tool) revert(args []string) int {
	if t.denied() {
		t.Errorf("Failed to revert unit: %s\n", authenticate)
		return 1
	}
	removed := func(f string) { t.Errorf("Removed \"%s\".\n", f) }
	for _, n := range t.names(args) {
		vendor := false
		for _, dir := range []string{"/usr/local/lib/systemd/system", "/usr/lib/systemd/system"} {
			if _, err := t.Files.Stat(path.Join(dir, n)); err == nil {
				vendor = true
			}
		}
		drops := path.Join(etc, n+".d")
		if l, err := t.Files.ReadDir(drops); err == nil {
			for _, e := range l {
				if f := path.Join(drops, e.Name()); t.Files.Remove(f) == nil {
					removed(f)
				}
			}
			if t.Files.Remove(drops) == nil {
				removed(drops)
			}
		}
		f := path.Join(etc, n)
		if i, err := t.Files.Lstat(f); err == nil && (vendor || i.Mode()&fs.ModeSymlink != 0) && t.Files.Remove(f) == nil {
			removed(f)
		}
	}
	return t.reload()
}
