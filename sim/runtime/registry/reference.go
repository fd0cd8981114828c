package registry

import (
	"fmt"

	"github.com/distribution/reference"
)

// Reference is a fully spelled image name.
type Reference struct {
	Repository string // "docker.io/library/nginx"
	Tag        string
	Digest     string // "sha256:...", "" if none was given
}

// Parse spells an image name out as Docker does ("nginx" is docker.io/library/nginx:latest). A digest makes the tag
// meaningless, so it is dropped, as containerd's distribution/reference does.
func Parse(name string) (Reference, error) {
	named, err := reference.ParseDockerRef(name)
	if err != nil {
		return Reference{}, fmt.Errorf("failed to parse image reference %q: %w", name, err)
	}
	r := Reference{Repository: named.Name()}
	if t, ok := named.(reference.Tagged); ok {
		r.Tag = t.Tag()
	}
	if d, ok := named.(reference.Digested); ok {
		r.Digest = d.Digest().String()
	}
	return r, nil
}

// String is the full name, "docker.io/library/nginx:1.27" or "docker.io/library/nginx@sha256:...".
func (r Reference) String() string {
	if r.Digest != "" {
		return r.Repository + "@" + r.Digest
	}
	return r.Repository + ":" + r.Tag
}
