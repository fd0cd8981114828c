package libc

import (
	"maps"
	"path"
	"slices"
	"strings"

	"ckadrill/sim/kernel"
)

// ConfigFiles lists the *.conf files of a directory of settings that packages and the administrator share ("sysctl.d"), in the
// order of their names. Of files with one name that in /etc counts, then those of /run, /usr/local/lib and /usr/lib; a link
// to /dev/null masks one. See the section "Configuration directories and precedence" of sysctl.d(5).
func ConfigFiles(files kernel.Files, dir string) []string {
	byName := map[string]string{}
	for _, top := range []string{"/etc", "/run", "/usr/local/lib", "/usr/lib"} {
		l, err := files.ReadDir(path.Join(top, dir))
		if err != nil {
			continue
		}
		for _, e := range l {
			if _, ok := byName[e.Name()]; !ok && strings.HasSuffix(e.Name(), ".conf") {
				byName[e.Name()] = path.Join(top, dir, e.Name())
			}
		}
	}
	var out []string
	for _, n := range slices.Sorted(maps.Keys(byName)) {
		if target, err := files.Readlink(byName[n]); err != nil || target != "/dev/null" {
			out = append(out, byName[n])
		}
	}
	return out
}
