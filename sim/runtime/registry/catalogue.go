package registry

import (
	"fmt"
	"sort"
	"sync"
)

// Catalogue is everything that the registries hold. It never changes while a world runs.
type Catalogue struct {
	byName   map[string]*Image // "repository:tag"
	byDigest map[string]*Image // "repository@digest"
	byID     map[string]*Image
	hosts    map[string]bool
	repos    map[string]bool
}

// New makes a catalogue of images. A tag given twice is an error of the data.
func New(images ...*Image) *Catalogue {
	c := &Catalogue{byName: map[string]*Image{}, byDigest: map[string]*Image{}, byID: map[string]*Image{}, hosts: map[string]bool{}, repos: map[string]bool{}}
	for _, i := range images {
		for _, t := range i.Tags {
			n := i.Repository + ":" + t
			if c.byName[n] != nil {
				panic("registry: image " + n + " exists twice")
			}
			c.byName[n] = i
		}
		c.byDigest[i.Repository+"@"+i.Digest()] = i
		c.byID[i.ID()] = i
		c.repos[i.Repository] = true
		c.hosts[Host(i.Repository)] = true
	}
	return c
}

// Default is the catalogue of the reference world.
var Default = sync.OnceValue(func() *Catalogue {
	var l []*Image
	l = append(l, systemImages()...)
	l = append(l, baseImages()...)
	l = append(l, serverImages()...)
	l = append(l, sampleImages()...)
	l = append(l, unsimulatedImages()...)
	return New(l...)
})

// Find returns the image of a reference, or nil.
func (c *Catalogue) Find(r Reference) *Image {
	if r.Digest != "" {
		return c.byDigest[r.Repository+"@"+r.Digest]
	}
	return c.byName[r.Repository+":"+r.Tag]
}

// ByID returns the image whose configuration has the digest, or nil.
func (c *Catalogue) ByID(id string) *Image { return c.byID[id] }

// HasHost says whether the registry exists.
func (c *Catalogue) HasHost(host string) bool { return c.hosts[host] || knownHosts[host] }

// HasRepository says whether a registry holds the repository.
func (c *Catalogue) HasRepository(repository string) bool { return c.repos[repository] }

// knownHosts are registries that exist, though nothing of them is in the catalogue.
var knownHosts = map[string]bool{"docker.io": true, "registry.k8s.io": true, "k8s.gcr.io": true, "gcr.io": true, "ghcr.io": true, "quay.io": true,
	"public.ecr.aws": true, "mcr.microsoft.com": true}

// Names lists every "repository:tag", sorted.
func (c *Catalogue) Names() []string {
	l := make([]string, 0, len(c.byName))
	for n := range c.byName {
		l = append(l, n)
	}
	sort.Strings(l)
	return l
}

// Must returns the image of a name, which must exist: for data that names images.
func (c *Catalogue) Must(name string) *Image {
	r, err := Parse(name)
	if err != nil {
		panic(err)
	}
	i := c.Find(r)
	if i == nil {
		panic(fmt.Sprintf("registry: no image %s", r))
	}
	return i
}
