package libc

import (
	"strconv"
	"strings"

	"ckadrill/sim/kernel"
)

// User is a line of /etc/passwd.
type User struct {
	Name, Password       string
	UID, GID             int
	Comment, Home, Shell string
}

// Group is a line of /etc/group.
type Group struct {
	Name    string
	GID     int
	Members []string
}

// Users reads /etc/passwd of a tree; lines that are not well-formed are skipped, as glibc does.
func Users(files kernel.Files) []User {
	var l []User
	for _, line := range database(files, "/etc/passwd") {
		f := strings.Split(line, ":")
		if len(f) < 7 {
			continue
		}
		uid, err1 := strconv.Atoi(f[2])
		gid, err2 := strconv.Atoi(f[3])
		if err1 == nil && err2 == nil {
			l = append(l, User{f[0], f[1], uid, gid, f[4], f[5], f[6]})
		}
	}
	return l
}

// Groups reads /etc/group of a tree.
func Groups(files kernel.Files) []Group {
	var l []Group
	for _, line := range database(files, "/etc/group") {
		f := strings.Split(line, ":")
		if len(f) < 4 {
			continue
		}
		gid, err := strconv.Atoi(f[2])
		if err != nil {
			continue
		}
		g := Group{Name: f[0], GID: gid}
		if f[3] != "" {
			g.Members = strings.Split(f[3], ",")
		}
		l = append(l, g)
	}
	return l
}

func database(files kernel.Files, name string) []string {
	if files == nil {
		return nil
	}
	b, err := files.ReadFile(name)
	if err != nil {
		return nil
	}
	return strings.Split(strings.TrimRight(string(b), "\n"), "\n")
}

// UserByName is getpwnam(3).
func UserByName(files kernel.Files, name string) (User, bool) {
	for _, u := range Users(files) {
		if u.Name == name {
			return u, true
		}
	}
	return User{}, false
}

// UserByID is getpwuid(3).
func UserByID(files kernel.Files, uid int) (User, bool) {
	for _, u := range Users(files) {
		if u.UID == uid {
			return u, true
		}
	}
	return User{}, false
}

// GroupByName is getgrnam(3).
func GroupByName(files kernel.Files, name string) (Group, bool) {
	for _, g := range Groups(files) {
		if g.Name == name {
			return g, true
		}
	}
	return Group{}, false
}

// UserName is the name of a uid, or the number where it has none.
func UserName(files kernel.Files, uid int) string {
	if u, ok := UserByID(files, uid); ok {
		return u.Name
	}
	return strconv.Itoa(uid)
}

// GroupName is the name of a gid, or the number where it has none.
func GroupName(files kernel.Files, gid int) string {
	for _, g := range Groups(files) {
		if g.GID == gid {
			return g.Name
		}
	}
	return strconv.Itoa(gid)
}

// Names answers many [UserName] and [GroupName] calls from one reading of the database.
type Names struct {
	users, groups map[int]string
}

// NewNames reads the user database of a tree.
func NewNames(files kernel.Files) *Names {
	n := &Names{map[int]string{}, map[int]string{}}
	for _, u := range Users(files) {
		if _, ok := n.users[u.UID]; !ok {
			n.users[u.UID] = u.Name
		}
	}
	for _, g := range Groups(files) {
		if _, ok := n.groups[g.GID]; !ok {
			n.groups[g.GID] = g.Name
		}
	}
	return n
}

// User is the name of a uid, or its number.
func (n *Names) User(uid int) string {
	if s, ok := n.users[uid]; ok {
		return s
	}
	return strconv.Itoa(uid)
}

// Group is the name of a gid, or its number.
func (n *Names) Group(gid int) string {
	if s, ok := n.groups[gid]; ok {
		return s
	}
	return strconv.Itoa(gid)
}

// CredentialOf is who a user's processes are: uid, primary group and the groups that name the user.
func CredentialOf(files kernel.Files, u User) kernel.Credential {
	c := kernel.Credential{UID: u.UID, GID: u.GID, Groups: []int{u.GID}}
	for _, g := range Groups(files) {
		for _, m := range g.Members {
			if m == u.Name && g.GID != u.GID {
				c.Groups = append(c.Groups, g.GID)
			}
		}
	}
	return c
}
