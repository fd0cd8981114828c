package ckadrill

import (
	"bytes"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

var update = flag.Bool("update", false, "write docs/unsupported.md anew")

// honest is what an error says of something that a real cluster has and the simulation has not.
var honest = regexp.MustCompile(`(?i)ckadrill does not simulate\s*`)

// unsupported are the refusals in the program's text, by room. What a refusal fills in when it is printed is "…".
func unsupported(t *testing.T) map[string][]string {
	t.Helper()
	verb := regexp.MustCompile(`%[-+# 0-9.]*[a-zA-Z]`)
	rooms := map[string][]string{}
	err := filepath.WalkDir(".", func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || !strings.HasSuffix(name, ".go") || strings.HasSuffix(name, "_test.go") {
			return err
		}
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, 0)
		if err != nil {
			return err
		}
		room := path.Dir(filepath.ToSlash(name))
		ast.Inspect(f, func(n ast.Node) bool {
			l, ok := n.(*ast.BasicLit)
			if !ok || l.Kind != token.STRING {
				return true
			}
			s, err := strconv.Unquote(l.Value)
			if err != nil {
				return true
			}
			for _, line := range strings.Split(s, "\n") {
				at := honest.FindStringIndex(line)
				if at == nil {
					continue
				}
				what := strings.TrimSuffix(strings.TrimSpace(verb.ReplaceAllString(line[at[1]:], "…")), " yet")
				if what == "" {
					what = "…"
				}
				if !slices.Contains(rooms[room], what) {
					rooms[room] = append(rooms[room], what)
				}
			}
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range rooms {
		slices.Sort(l)
	}
	return rooms
}

// What is not simulated stands in one place, which the program's own refusals make.
func TestUnsupportedIsListed(t *testing.T) {
	const file = "docs/unsupported.md"
	rooms := unsupported(t)
	if len(rooms) < 10 {
		t.Fatalf("only %d rooms refuse anything", len(rooms))
	}
	var names []string
	for n := range rooms {
		names = append(names, n)
	}
	slices.Sort(names)
	var b bytes.Buffer
	b.WriteString(`# What is not simulated

Where a real cluster or machine has something that ckadrill has not, the program says "ckadrill does not simulate …" in the
place where the real one would answer, and fails. This list is made of these refusals, by the room of the code that gives
them; "…" stands for what was asked for. ` + "`make unsupported`" + ` writes it.

What has no refusal, because nobody asks for it by name: eviction of Pods under disk or memory pressure, the metrics API
(` + "`kubectl top`" + ` says that it is not available, as on a cluster without metrics-server), and the enforcement of NetworkPolicies,
which are stored only, as under a CNI plugin without them.
`)
	for _, n := range names {
		fmt.Fprintf(&b, "\n## %s\n\n", n)
		for _, what := range rooms[n] {
			fmt.Fprintf(&b, "- %s\n", what)
		}
	}
	if *update {
		if err := os.WriteFile(file, b.Bytes(), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, b.Bytes()) {
		t.Errorf("%s does not list what the program refuses: run make unsupported", file)
	}
}
