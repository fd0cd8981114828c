package filesystem

import (
	"path"
	"strings"
)

// Chroot is the part of a mount namespace that chroot(2) leaves a process: dir becomes "/".
func (v *View) Chroot(dir string) (*View, error) {
	mu.RLock()
	dir = v.real(path.Clean("/" + dir))
	mu.RUnlock()
	var root Mount
	var inside []Mount
	for _, m := range v.Mounts() {
		below, isBelow := strings.CutPrefix(m.Target, strings.TrimSuffix(dir, "/")+"/")
		switch rest, holds := strings.CutPrefix(dir, strings.TrimSuffix(m.Target, "/")); {
		case holds && (rest == "" || rest[0] == '/'):
			root, inside = m, nil // it hides what was mounted there before
			root.Root = path.Join("/", m.Root, rest)
		case isBelow:
			m.Target = "/" + below
			inside = append(inside, m)
		}
	}
	root.Target = "/"
	return NewView(append([]Mount{root}, inside...))
}
