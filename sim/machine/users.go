package machine

import (
	"slices"
	"strconv"
	"strings"

	"ckadrill/sim/kernel"
)

// User is a line of /etc/passwd, with the groups of /etc/group.
type User struct {
	Name, Gecos, Home, Shell string
	Cred                     kernel.Credential
}

// LookupUser finds a user by name in the machine's files, as getpwnam does.
func (m *Machine) LookupUser(name string) (User, bool) {
	return m.findUser(func(u User) bool { return u.Name == name })
}

// LookupUID finds a user by number.
func (m *Machine) LookupUID(uid int) (User, bool) {
	return m.findUser(func(u User) bool { return u.Cred.UID == uid })
}

func (m *Machine) findUser(is func(User) bool) (User, bool) {
	files := m.Files(kernel.Root)
	b, err := files.ReadFile("/etc/passwd")
	if err != nil {
		return User{}, false
	}
	for _, l := range strings.Split(string(b), "\n") {
		f := strings.Split(l, ":")
		if len(f) != 7 {
			continue
		}
		uid, err1 := strconv.Atoi(f[2])
		gid, err2 := strconv.Atoi(f[3])
		u := User{Name: f[0], Gecos: f[4], Home: f[5], Shell: f[6], Cred: kernel.Credential{UID: uid, GID: gid}}
		if err1 != nil || err2 != nil || !is(u) {
			continue
		}
		u.Cred.Groups = groupsOf(files, u.Name)
		return u, true
	}
	return User{}, false
}

func groupsOf(files kernel.Files, user string) []int {
	b, err := files.ReadFile("/etc/group")
	if err != nil {
		return nil
	}
	var l []int
	for _, line := range strings.Split(string(b), "\n") {
		f := strings.Split(line, ":")
		if len(f) != 4 || !slices.Contains(strings.Split(f[3], ","), user) {
			continue
		}
		if gid, err := strconv.Atoi(f[2]); err == nil {
			l = append(l, gid)
		}
	}
	return l
}

// ReadsJournal says whether a user may read the system's journal: root, and members of the groups adm and systemd-journal.
func (m *Machine) ReadsJournal(c kernel.Credential) bool {
	if c.UID == 0 {
		return true
	}
	b, err := m.Files(kernel.Root).ReadFile("/etc/group")
	if err != nil {
		return false
	}
	for _, line := range strings.Split(string(b), "\n") {
		f := strings.Split(line, ":")
		if len(f) != 4 || f[0] != "adm" && f[0] != "systemd-journal" {
			continue
		}
		if gid, err := strconv.Atoi(f[2]); err == nil && (gid == c.GID || slices.Contains(c.Groups, gid)) {
			return true
		}
	}
	return false
}
