package ckadrill

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// rooms lists the rooms of the house from top to bottom: an import may only point down.
var rooms = []string{
	"cmd/conformance", "cmd/ckadrill", "grader", "faults", "scenarios", "transcript", "shell", "sim/front", "sim", "sim/kubeadm", "sim/controlplane", "sim/kubelet", "sim/runtime",
	"sim/addons", "sim/packages", "sim/userland", "sim/etcd", "sim/network", "sim/machine", "sim/session", "sim/worker", "sim/wire", "sim/kernel",
	"docs/generated",
}

// mayImportKubernetes are the rooms that may import k8s.io/kubernetes: what lies below them builds and tests in seconds.
var mayImportKubernetes = []string{"shell", "sim/kubeadm", "sim/controlplane", "sim/kubelet", "sim/addons"}

const module = "ckadrill/"

func roomOf(pkg string) int {
	best := -1
	for i, r := range rooms {
		if (pkg == r || strings.HasPrefix(pkg, r+"/")) && (best < 0 || len(r) > len(rooms[best])) {
			best = i
		}
	}
	return best
}

// arrows calls f for each import of each package of the module.
func arrows(t *testing.T, root string, f func(file, pkg, imported string)) {
	t.Helper()
	sources(t, root, parser.ImportsOnly, func(rel, pkg string, file *ast.File) {
		for _, i := range file.Imports {
			p, err := strconv.Unquote(i.Path.Value)
			if err != nil {
				t.Fatal(err)
			}
			f(rel, pkg, p)
		}
	})
}

// sources calls f for each parsed file below root, and its package.
func sources(t *testing.T, root string, mode parser.Mode, f func(file, pkg string, parsed *ast.File)) {
	t.Helper()
	err := filepath.WalkDir(root, func(name string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() || !strings.HasSuffix(name, ".go") {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		parsed, err := parser.ParseFile(token.NewFileSet(), name, nil, mode)
		if err != nil {
			return err
		}
		f(rel, filepath.ToSlash(filepath.Dir(rel)), parsed)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// upward returns why an import is not allowed, "" if it is.
func upward(file, pkg, imported string) string {
	from := roomOf(pkg)
	if from < 0 {
		if pkg == "." {
			return ""
		}
		return "the package " + pkg + " belongs to no room"
	}
	if p, ok := strings.CutPrefix(imported, module); ok {
		to := roomOf(p)
		switch {
		case to < 0:
			return "it imports " + p + ", which belongs to no room"
		case to < from:
			return rooms[from] + " must not know " + p + ": the arrow points up"
		}
	}
	if strings.HasPrefix(imported, "k8s.io/kubernetes/") {
		for _, r := range mayImportKubernetes {
			if rooms[from] == r {
				return ""
			}
		}
		if !strings.HasSuffix(file, "_test.go") {
			return rooms[from] + " must not import " + imported + ": it has to build and test in seconds"
		}
	}
	return ""
}

func TestArrowsPointDown(t *testing.T) {
	seen := 0
	arrows(t, ".", func(file, pkg, imported string) {
		seen++
		if why := upward(file, pkg, imported); why != "" {
			t.Errorf("%s: %s", file, why)
		}
	})
	if seen < 100 {
		t.Errorf("only %d imports were seen: the test looks in the wrong place", seen)
	}
}

// The rule itself must be able to fail.
func TestUpwardIsNoticed(t *testing.T) {
	for _, c := range []struct{ file, pkg, imported string }{
		{"sim/kernel/x.go", "sim/kernel", module + "sim/machine"},
		{"sim/machine/x.go", "sim/machine/systemd", module + "sim/kubelet"},
		{"sim/x.go", "sim", module + "shell/kubectl"},
		{"sim/network/x.go", "sim/network", "k8s.io/kubernetes/pkg/proxy"},
		{"sim/odd/x.go", "odd", "fmt"},
	} {
		if upward(c.file, c.pkg, c.imported) == "" {
			t.Errorf("%s importing %s is allowed", c.pkg, c.imported)
		}
	}
	if why := upward("shell/kubectl/x.go", "shell/kubectl", "k8s.io/kubernetes/pkg/apis/core"); why != "" {
		t.Error(why)
	}
}
