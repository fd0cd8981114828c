package kubectl

import (
	"path"
	"regexp"
	"strings"

	"sigs.k8s.io/yaml"
)

// kustomization mirrors a directory with a kustomization and all that it refers to.
func (i *invocation) kustomization(dir string) string {
	if dir == "" {
		return dir
	}
	if isRemote(dir) {
		if _, err := i.p.Files.Stat(i.p.Path(dir)); err != nil {
			refuse("remote kustomizations (" + dir + ")")
		}
	}
	i.follow(i.p.Path(dir), map[string]bool{})
	// kustomize makes names full, and repeats the typed one in this place only.
	host := i.m.file(i.p.Path(dir))
	i.m.note("failure on '"+host+"'", "failure on '"+dir+"'")
	return host
}

// kustomizeArgs maps the directory that "kubectl kustomize" is given, the current one by default.
func (i *invocation) kustomizeArgs(args []string) []string {
	if len(args) == 0 {
		return []string{i.kustomization(".")}
	}
	args = append([]string(nil), args...)
	args[0] = i.kustomization(args[0])
	return args
}

// remote is how kustomize would name something to fetch with git or HTTP, which runs programs of the host.
var remote = regexp.MustCompile(`^[a-zA-Z0-9.-]+\.[a-z]{2,}[:/]|://|^git@|^git::|^gh:|\?ref=|\?version=|\.git(//|\?|$)`)

func isRemote(s string) bool { return remote.MatchString(s) }

// follow mirrors what a kustomization refers to, also outside its directory, and refuses what would have to be fetched.
func (i *invocation) follow(dir string, seen map[string]bool) {
	if seen[dir] || len(seen) > 1000 {
		return
	}
	seen[dir] = true
	for _, name := range []string{"kustomization.yaml", "kustomization.yml", "Kustomization"} {
		b, err := i.p.Files.ReadFile(path.Join(dir, name))
		if err != nil {
			continue
		}
		var doc any
		if yaml.Unmarshal(b, &doc) != nil {
			continue
		}
		i.followValue(dir, doc, seen)
	}
}

func (i *invocation) followValue(dir string, v any, seen map[string]bool) {
	switch v := v.(type) {
	case map[string]any:
		for _, x := range v {
			i.followValue(dir, x, seen)
		}
	case []any:
		for _, x := range v {
			i.followValue(dir, x, seen)
		}
	case string:
		if v == "" || strings.ContainsAny(v, "\n{") || len(v) > 4096 {
			return
		}
		if _, f, ok := strings.Cut(v, "="); ok && !strings.Contains(v, "?") {
			v = f
		}
		full := path.Join(dir, v)
		info, err := i.p.Files.Stat(full)
		switch {
		case err == nil && info.IsDir():
			i.follow(full, seen)
			i.m.file(full)
		case err == nil:
			i.m.file(full)
		case strings.Contains(v, "://") && !strings.HasPrefix(v, "git") && strings.HasSuffix(v, ".yaml"):
			// fetched over the machine's own network
		case (strings.Contains(v, "/") || strings.HasPrefix(v, "git@")) && isRemote(v) && !isImage(v):
			refuse("remote kustomizations (" + v + ")")
		}
	}
}

// isImage says that a string with a host name in front is rather an image than a repository.
func isImage(s string) bool {
	return !strings.Contains(s, "github.com") && !strings.Contains(s, "gitlab.com") && !strings.Contains(s, "://") && !strings.Contains(s, "?ref=") && !strings.HasPrefix(s, "git@")
}
