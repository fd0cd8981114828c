package admin

import "testing"

// FuzzSudoers reads policies as somebody may write them, and asks them.
func FuzzSudoers(f *testing.F) {
	for _, s := range []string{"root ALL=(ALL:ALL) ALL", "%sudo ALL=(root) NOPASSWD: /bin/ls, !/bin/rm -rf *", "User_Alias A = x, y", "Defaults env_keep += \"A B\"", "Defaults:x !authenticate", "a, b ALL = ALL", "x ALL=(", "Cmnd_Alias A=A"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, line string) {
		if len(line) > 300 {
			return
		}
		s := &sudoers{aliases: map[string][]string{}}
		if len(line) > 0 && (line[0] == '@' || line[0] == '#') {
			return // includes need files
		}
		s.line("/etc/sudoers", line)
		s.find(request{user: who{name: "x", uid: 5, groups: []string{"sudo"}}, host: "h", target: who{name: "root"}, file: "/bin/ls", args: []string{"-l"}})
	})
}
