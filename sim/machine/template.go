package machine

import (
	"embed"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"

	"ckadrill/sim/kernel"
)

// template holds the files of a fresh machine whose content is fixed, by their paths. The first line of a file may give a
// mode and an owner: "#mode 0440".
//
//go:embed all:template
var template embed.FS

// directories of a fresh Ubuntu, with the modes that are not 0755.
var directories = map[string]fs.FileMode{
	"/boot": 0, "/etc": 0, "/etc/apt/sources.list.d": 0, "/etc/cron.d": 0, "/etc/default": 0, "/etc/modprobe.d": 0, "/etc/modules-load.d": 0, "/etc/profile.d": 0, "/etc/ssh": 0,
	"/etc/sudoers.d": 0o750, "/etc/sysctl.d": 0, "/etc/systemd/system/multi-user.target.wants": 0, "/etc/udev": 0, "/home": 0, "/media": 0, "/mnt": 0, "/opt": 0,
	"/root": 0o700, "/root/.ssh": 0o700, "/home/candidate": 0o750, "/home/candidate/.ssh": 0o700, "/srv": 0, "/tmp": fs.ModeSticky | 0o777, "/usr/bin": 0, "/usr/sbin": 0, "/usr/lib/systemd/system": 0,
	"/usr/lib/modules-load.d": 0, "/usr/lib/sysctl.d": 0, "/usr/local/bin": 0, "/usr/local/sbin": 0, "/usr/local/lib": 0, "/usr/share": 0, "/var/cache": 0, "/var/lib": 0, "/var/log/journal": 0, "/var/mail": 0,
	"/var/spool": 0, "/var/tmp": fs.ModeSticky | 0o777, "/proc": 0o555, "/sys": 0o555, "/dev": 0, "/run": 0,
}

// programs are the executables of systemd and OpenSSH; those of other packages are installed by who provides them.
var programs = []string{"/usr/lib/systemd/systemd-modules-load", "/usr/lib/systemd/systemd-sysctl", "/usr/bin/systemctl", "/usr/bin/journalctl", "/usr/bin/ssh", "/usr/bin/scp", "/usr/sbin/sshd"}

// candidate is the user that a drill is solved as.
const candidateUID = 1000

// installer writes files that a fresh machine has. What is there already stays as it is.
type installer struct{ kernel.Files }

func (i installer) missing(name string) bool {
	_, err := i.Lstat(name)
	return err != nil
}

func (i installer) write(name string, content []byte, mode fs.FileMode) error {
	if !i.missing(name) {
		return nil
	}
	if err := i.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	return i.WriteFile(name, content, mode)
}

func (i installer) link(target, name string) error {
	if !i.missing(name) {
		return nil
	}
	if err := i.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	return i.Symlink(target, name)
}

// install gives the machine's disk what a fresh Ubuntu has there, as far as it is not there.
func (m *Machine) install() error {
	f := installer{m.Files(kernel.Root)}
	f.SetUmask(0)
	for _, d := range sortedKeys(directories) {
		if !f.missing(d) {
			continue
		}
		if err := f.MkdirAll(d, 0o755); err != nil {
			return err
		}
		if mode := directories[d]; mode != 0 {
			if err := f.Chmod(d, mode); err != nil {
				return err
			}
		}
	}
	for _, l := range [][2]string{{"usr/bin", "/bin"}, {"usr/sbin", "/sbin"}, {"usr/lib", "/lib"}, {"/run", "/var/run"}, {"/run/lock", "/var/lock"}, {"../proc/self/mounts", "/etc/mtab"}} {
		if err := f.link(l[0], l[1]); err != nil {
			return err
		}
	}
	err := fs.WalkDir(template, "template", func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := template.ReadFile(name)
		if err != nil {
			return err
		}
		return m.installFile(f, strings.TrimPrefix(name, "template"), string(b))
	})
	if err != nil {
		return err
	}
	if err := m.installModules(f); err != nil {
		return err
	}
	for _, p := range programs {
		if err := f.write(p, kernel.Executable(path.Base(p)), 0o755); err != nil {
			return err
		}
	}
	id := strings.ReplaceAll(m.w.UUID("machine-id/"+m.name), "-", "")
	for _, x := range [][2]string{{"/etc/hostname", m.name + "\n"}, {"/etc/machine-id", id + "\n"}, {"/etc/hosts", m.hosts()}, {"/etc/os-release", m.osRelease()}} {
		if err := f.write(x[0], []byte(x[1]), 0o644); err != nil {
			return err
		}
	}
	for _, l := range [][2]string{
		{"/usr/lib/systemd/system/multi-user.target", "/etc/systemd/system/default.target"},
		{"../systemd-modules-load.service", "/usr/lib/systemd/system/sysinit.target.wants/systemd-modules-load.service"},
		{"../systemd-sysctl.service", "/usr/lib/systemd/system/sysinit.target.wants/systemd-sysctl.service"},
		{"systemd-modules-load.service", "/usr/lib/systemd/system/kmod.service"},
		{"systemd-sysctl.service", "/usr/lib/systemd/system/procps.service"},
		{"../modules", "/etc/modules-load.d/modules.conf"},
		{"../sysctl.conf", "/etc/sysctl.d/99-sysctl.conf"},
		{"/usr/lib/systemd/system/ssh.service", "/etc/systemd/system/multi-user.target.wants/ssh.service"},
		{"/usr/lib/systemd/system/ssh.service", "/etc/systemd/system/sshd.service"},
	} {
		if err := f.link(l[0], l[1]); err != nil {
			return err
		}
	}
	return nil
}

// Template is a file of a fresh machine that is the same on all, and its mode.
func Template(name string) ([]byte, fs.FileMode, bool) {
	b, err := template.ReadFile("template" + name)
	if err != nil {
		return nil, 0, false
	}
	mode, text := templateMode(string(b))
	return []byte(text), mode, true
}

// templateMode takes the line about its mode off a file of the template.
func templateMode(text string) (fs.FileMode, string) {
	rest, ok := strings.CutPrefix(text, "#mode ")
	if !ok {
		return 0o644, text
	}
	line, body, _ := strings.Cut(rest, "\n")
	mode := fs.FileMode(0)
	for _, c := range line {
		mode = mode<<3 | fs.FileMode(c-'0')
	}
	return mode, body
}

func (m *Machine) installFile(f installer, name, text string) error {
	mode, text := templateMode(text)
	return f.write(name, []byte(strings.ReplaceAll(text, "@HOSTNAME@", m.name)), mode)
}

func (m *Machine) hosts() string {
	s := "127.0.0.1 localhost\n127.0.1.1 " + m.name + "\n\n# The following lines are desirable for IPv6 capable hosts\n::1     ip6-localhost ip6-loopback\nfe00::0 ip6-localnet\nff00::0 ip6-mcastprefix\nff02::1 ip6-allnodes\nff02::2 ip6-allrouters\n"
	if len(m.options.Hosts) > 0 {
		s += "\n" + strings.Join(m.options.Hosts, "\n") + "\n"
	}
	return s
}

func (m *Machine) osRelease() string {
	return `PRETTY_NAME="` + m.options.OSImage + `"
NAME="Ubuntu"
VERSION_ID="24.04"
VERSION="24.04.3 LTS (Noble Numbat)"
VERSION_CODENAME=noble
ID=ubuntu
ID_LIKE=debian
HOME_URL="https://www.ubuntu.com/"
SUPPORT_URL="https://help.ubuntu.com/"
BUG_REPORT_URL="https://bugs.launchpad.net/ubuntu/"
PRIVACY_POLICY_URL="https://www.ubuntu.com/legal/terms-and-policies/privacy-policy"
UBUNTU_CODENAME=noble
LOGO=ubuntu-logo
`
}

// installRun makes what a booted system has below /run.
func (m *Machine) installRun() error {
	f := m.Files(kernel.Root)
	f.SetUmask(0)
	for _, d := range []string{"/run/lock", "/run/systemd/system", "/run/systemd/resolve", "/run/user/1000", "/run/sshd", "/run/log"} {
		if err := f.MkdirAll(d, 0o755); err != nil {
			return err
		}
	}
	if err := f.Chmod("/run/lock", fs.ModeSticky|0o777); err != nil {
		return err
	}
	// What systemd-resolved writes for programs that ask the servers themselves.
	return f.WriteFile("/run/systemd/resolve/resolv.conf", []byte("nameserver 192.168.122.1\nsearch .\n"), 0o644)
}

// clearRun empties the tmpfs of a machine that went off.
func (m *Machine) clearRun() {
	f := m.Files(kernel.Root)
	l, err := f.ReadDir("/run")
	if err != nil {
		return
	}
	for _, e := range l {
		f.RemoveAll("/run/" + e.Name())
	}
	m.installRun()
}

func chownTree(f kernel.Files, name string, uid, gid int) error {
	if err := f.Lchown(name, uid, gid); err != nil {
		return err
	}
	i, err := f.Lstat(name)
	if err != nil || !i.IsDir() {
		return err
	}
	l, err := f.ReadDir(name)
	if err != nil {
		return err
	}
	for _, e := range l {
		if err := chownTree(f, path.Join(name, e.Name()), uid, gid); err != nil {
			return err
		}
	}
	return nil
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
