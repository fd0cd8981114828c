// Package charts is a repository of Helm charts, as an HTTP server of the simulated internet offers it: an index and the
// archives that it names. The charts are made for drills: a web site in three versions, an operator with a
// CustomResourceDefinition, and a shop's cart whose versions each have a mistake.
package charts

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"
	"time"
)

//go:embed all:web all:web-1.1.0 all:web-2.0.0 all:beacon-operator all:cart all:cart-0.2.0 all:cart-0.3.0
var sources embed.FS

// Host and Path are where the repository is: https://Host/Path.
const (
	Host = "charts.ckadrill.example"
	Path = "/stable"
)

// chart is one version of a chart. Its files are those of the directories, of which a later one replaces the same files of
// the earlier.
type chart struct {
	name, version, created string
	dirs                   []string
}

var all = []chart{
	{"beacon-operator", "0.3.0", "2026-05-20T11:12:13Z", []string{"beacon-operator"}},
	{"cart", "0.3.0", "2026-08-03T07:30:00Z", []string{"cart", "cart-0.3.0"}},
	{"cart", "0.2.0", "2026-06-01T07:30:00Z", []string{"cart", "cart-0.2.0"}},
	{"cart", "0.1.0", "2026-03-02T07:30:00Z", []string{"cart"}},
	{"web", "2.0.0", "2026-09-14T08:00:00Z", []string{"web", "web-1.1.0", "web-2.0.0"}},
	{"web", "1.1.0", "2026-04-07T08:00:00Z", []string{"web", "web-1.1.0"}},
	{"web", "1.0.0", "2026-01-19T08:00:00Z", []string{"web"}},
}

// files are a chart's, sorted by name.
func (c chart) files() (names []string, content map[string][]byte) {
	content = map[string][]byte{}
	for _, dir := range c.dirs {
		err := fs.WalkDir(sources, dir, func(name string, d fs.DirEntry, err error) error {
			if err != nil || d.IsDir() {
				return err
			}
			b, err := sources.ReadFile(name)
			content[strings.TrimPrefix(name, dir+"/")] = b
			return err
		})
		if err != nil {
			panic("charts: " + err.Error())
		}
	}
	for name := range content {
		names = append(names, name)
	}
	slices.Sort(names)
	return names, content
}

// archive is the chart as "helm package" packs it.
func (c chart) archive() []byte {
	made, err := time.Parse(time.RFC3339, c.created)
	if err != nil {
		panic("charts: " + err.Error())
	}
	var b bytes.Buffer
	z := gzip.NewWriter(&b)
	t := tar.NewWriter(z)
	names, content := c.files()
	for _, name := range names {
		h := &tar.Header{Name: path.Join(c.name, name), Mode: 0o644, Size: int64(len(content[name])), ModTime: made, Typeflag: tar.TypeReg}
		if err := t.WriteHeader(h); err != nil {
			panic("charts: " + err.Error())
		}
		t.Write(content[name])
	}
	t.Close()
	z.Close()
	return b.Bytes()
}

// served is what the repository offers, by path.
var served = sync.OnceValue(func() map[string][]byte {
	files := map[string][]byte{}
	var index strings.Builder
	index.WriteString("apiVersion: v1\nentries:\n")
	last := ""
	for _, c := range all {
		if c.name != last {
			fmt.Fprintf(&index, "  %s:\n", c.name)
			last = c.name
		}
		b := c.archive()
		file := c.name + "-" + c.version + ".tgz"
		files[Path+"/"+file] = b
		_, content := c.files()
		lines := strings.Split(strings.TrimSpace(string(content["Chart.yaml"])), "\n")
		fmt.Fprintf(&index, "  - %s\n", lines[0])
		for _, l := range lines[1:] {
			fmt.Fprintf(&index, "    %s\n", l)
		}
		fmt.Fprintf(&index, "    created: %q\n    digest: %x\n    urls:\n    - https://%s%s/%s\n", c.created, sha256.Sum256(b), Host, Path, file)
	}
	fmt.Fprintf(&index, "generated: %q\n", all[4].created)
	files[Path+"/index.yaml"] = []byte(index.String())
	return files
})

// File is a file of the repository by its path.
func File(name string) ([]byte, bool) {
	b, ok := served()[name]
	return b, ok
}
