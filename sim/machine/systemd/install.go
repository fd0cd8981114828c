package systemd

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"ckadrill/sim/kernel"
)

const etc = "/etc/systemd/system"

// fileState is what systemctl is-enabled prints.
func (m *Manager) fileState(name string) string {
	d, found := read(m.cfg.Files, name)
	switch {
	case !found:
		return ""
	case d.Masked:
		return "masked"
	case path.Base(d.Fragment) != name:
		return "alias"
	case !inSearchPath(d.Fragment):
		return "linked"
	case len(enabledLinks(m.cfg.Files, name)) > 0:
		return "enabled"
	}
	for _, a := range d.words("Install", "Alias") {
		if t, err := m.cfg.Files.Readlink(path.Join(etc, a)); err == nil && path.Base(t) == name {
			return "enabled"
		}
	}
	if len(d.words("Install", "WantedBy"))+len(d.words("Install", "RequiredBy"))+len(d.words("Install", "Alias")) == 0 {
		return "static"
	}
	return "disabled"
}

// FileState is what systemctl is-enabled prints; "" where there is no unit file.
func (m *Manager) FileState(name string) string {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.fileState(name)
}

// noInstallInfo is what systemctl says about a unit without an [Install] section.
var noInstallInfo = []string{
	"The unit files have no installation config (WantedBy=, RequiredBy=, Also=,",
	"Alias= settings in the [Install] section, and DefaultInstance= for template",
	"units). This means they are not meant to be enabled or disabled using systemctl.",
	" ",
	"Possible reasons for having this kind of units are:",
	"• A unit may be statically enabled by being symlinked from another unit's",
	"  .wants/ or .requires/ directory.",
	"• A unit's purpose may be to act as a helper for some other unit which has",
	"  a requirement dependency on it.",
	"• A unit may be started when needed via activation (socket, path, timer,",
	"  D-Bus, udev, scripted systemctl call, ...).",
	"• In case of template units, the unit is meant to be enabled with some",
	"  instance name specified.",
}

// Enable makes the links of a unit's [Install] section and returns the lines that systemctl prints.
func (m *Manager) Enable(name string) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d, found := read(m.cfg.Files, name)
	switch {
	case !found:
		return nil, &Error{fmt.Sprintf("Failed to enable unit: Unit file %s does not exist.", name), 1}
	case d.Masked:
		return nil, &Error{fmt.Sprintf("Failed to enable unit: Unit file %s is masked.", d.Fragment), 1}
	}
	links := map[string]bool{}
	var order []string
	add := func(l string) {
		if !links[l] {
			links[l] = true
			order = append(order, l)
		}
	}
	for _, a := range d.words("Install", "Alias") {
		add(path.Join(etc, a))
	}
	for _, t := range d.words("Install", "WantedBy") {
		add(path.Join(etc, t+".wants", name))
	}
	for _, t := range d.words("Install", "RequiredBy") {
		add(path.Join(etc, t+".requires", name))
	}
	if len(order) == 0 {
		return noInstallInfo, nil
	}
	var said []string
	for _, l := range order {
		if _, err := m.cfg.Files.Lstat(l); err == nil {
			continue
		}
		if err := errors.Join(m.cfg.Files.MkdirAll(path.Dir(l), 0o755), m.cfg.Files.Symlink(d.Fragment, l)); err != nil {
			return said, &Error{"Failed to enable unit: " + strerror(reason(err)), 1}
		}
		said = append(said, fmt.Sprintf("Created symlink %s → %s.", l, d.Fragment))
	}
	return said, nil
}

// Disable removes the links that lead to a unit, and returns the lines that systemctl prints.
func (m *Manager) Disable(name string) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d, found := read(m.cfg.Files, name)
	if !found {
		return nil, &Error{fmt.Sprintf("Failed to disable unit: Unit file %s does not exist.", name), 1}
	}
	links := enabledLinks(m.cfg.Files, name)
	for _, a := range d.words("Install", "Alias") {
		if _, err := m.cfg.Files.Readlink(path.Join(etc, a)); err == nil {
			links = append(links, path.Join(etc, a))
		}
	}
	if len(links)+len(d.words("Install", "WantedBy"))+len(d.words("Install", "RequiredBy"))+len(d.words("Install", "Alias")) == 0 {
		return noInstallInfo, nil
	}
	var said []string
	for _, l := range links {
		if err := m.cfg.Files.Remove(l); err != nil {
			return said, &Error{"Failed to disable unit: " + strerror(reason(err)), 1}
		}
		said = append(said, fmt.Sprintf("Removed \"%s\".", l))
	}
	return said, nil
}

// Mask makes a unit impossible to start.
func (m *Manager) Mask(name string) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	link := path.Join(etc, name)
	if t, err := m.cfg.Files.Readlink(link); err == nil && t == "/dev/null" {
		return nil, nil
	}
	if i, err := m.cfg.Files.Lstat(link); err == nil && i.Mode()&fs.ModeSymlink == 0 {
		return nil, &Error{fmt.Sprintf("Failed to mask unit: File '%s' already exists.", link), 1}
	}
	if err := m.cfg.Files.Symlink("/dev/null", link); err != nil {
		return nil, &Error{"Failed to mask unit: " + strerror(reason(err)), 1}
	}
	return []string{fmt.Sprintf("Created symlink %s → /dev/null.", link)}, nil
}

// Unmask takes the mask off.
func (m *Manager) Unmask(name string) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	link := path.Join(etc, name)
	if t, err := m.cfg.Files.Readlink(link); err != nil || t != "/dev/null" {
		return nil, nil
	}
	if err := m.cfg.Files.Remove(link); err != nil {
		return nil, &Error{"Failed to unmask unit: " + strerror(reason(err)), 1}
	}
	return []string{fmt.Sprintf("Removed \"%s\".", link)}, nil
}

func inSearchPath(file string) bool {
	for _, dir := range searchPath {
		if strings.HasPrefix(file, dir+"/") {
			return true
		}
	}
	return false
}

// SetDefault makes a target what the machine boots into, and returns the lines that systemctl prints.
func (m *Manager) SetDefault(target string) ([]string, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	d, found := read(m.cfg.Files, target)
	if !found {
		return nil, &Error{fmt.Sprintf("Failed to set default target: Unit file %s does not exist.", target), 1}
	}
	link := path.Join(etc, "default.target")
	var said []string
	if m.cfg.Files.Remove(link) == nil {
		said = append(said, fmt.Sprintf("Removed \"%s\".", link))
	}
	if err := m.cfg.Files.Symlink(d.Fragment, link); err != nil {
		return said, &Error{"Failed to set default target: " + strerror(reason(err)), 1}
	}
	return append(said, fmt.Sprintf("Created symlink %s → %s.", link, d.Fragment)), nil
}

// Read reads a unit's files as they are now. Found is false where there is neither a file nor a mask.
func Read(files kernel.Files, name string) (d *Definition, found bool) { return read(files, name) }

// Dependencies lists what a unit pulls in, by its file and by links, in order of names.
func (m *Manager) Dependencies(name string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	var l []string
	if d, found := read(m.cfg.Files, name); found {
		for _, k := range []string{"Wants", "Requires", "Requisite", "BindsTo"} {
			l = append(l, d.words("Unit", k)...)
		}
	}
	l = append(l, m.links(name)...)
	slices.Sort(l)
	return slices.Compact(l)
}
