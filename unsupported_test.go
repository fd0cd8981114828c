package ckadrill

import (
	"bytes"
	"cmp"
	"fmt"
	"go/ast"
	"go/token"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"ckadrill/docs/generated"
)

// honest is what an error says of something that a real cluster has and the simulation has not.
var honest = regexp.MustCompile(`(?i)ckadrill does not simulate\s*`)

// unsupported are the refusals in the program's text, by room. What a refusal fills in when it is printed is "…".
func unsupported(t *testing.T) map[string][]string {
	t.Helper()
	verb := regexp.MustCompile(`%[-+# 0-9.]*[a-zA-Z]`)
	refusals := map[string][]string{}
	sources(t, ".", 0, func(file, pkg string, parsed *ast.File) {
		if strings.HasSuffix(file, "_test.go") {
			return
		}
		ast.Inspect(parsed, func(n ast.Node) bool {
			l, ok := n.(*ast.BasicLit)
			if !ok || l.Kind != token.STRING {
				return true
			}
			s, err := strconv.Unquote(l.Value)
			if err != nil {
				t.Fatal(err)
			}
			for _, line := range strings.Split(s, "\n") {
				at := honest.FindStringIndex(line)
				if at == nil {
					continue
				}
				what := strings.TrimSuffix(strings.TrimSpace(verb.ReplaceAllString(line[at[1]:], "…")), " yet")
				if what = cmp.Or(what, "…"); !slices.Contains(refusals[pkg], what) {
					refusals[pkg] = append(refusals[pkg], what)
				}
			}
			return true
		})
	})
	return refusals
}

// What is not simulated stands in one place, which the program's own refusals make.
func TestUnsupportedIsListed(t *testing.T) {
	const file = "docs/unsupported.md"
	refusals := unsupported(t)
	if len(refusals) < 10 {
		t.Fatalf("only %d rooms refuse anything", len(refusals))
	}
	var b bytes.Buffer
	b.WriteString(`# What is not simulated

Where a real cluster or machine has something that ckadrill has not, the program says "ckadrill does not simulate …" in the
place where the real one would answer, and fails. This list is made of these refusals, by the room of the code that gives
them; "…" stands for what was asked for. ` + "`make unsupported`" + ` writes it.

What has no refusal, because nobody asks for it by name: under flannel NetworkPolicies are stored only, as flannel is without
them; /opt/manifests/calico.yaml brings a CNI that enforces them. Of Calico it has no policies of its own kinds, IPAM, BGP, IP in
IP, eBPF or calicoctl, and connections of SCTP do not exist. Kubernetes' own code is that of v1.35, whatever release a package
or an image says that it is: releases differ in what they report, and in the images, packages and version skews that kubeadm
names. Of Ubuntu's archive there are few packages, and of the internet only the hosts that packages and images come from.
`)
	for _, pkg := range slices.Sorted(maps.Keys(refusals)) {
		fmt.Fprintf(&b, "\n## %s\n\n", pkg)
		for _, what := range slices.Sorted(slices.Values(refusals[pkg])) {
			fmt.Fprintf(&b, "- %s\n", what)
		}
	}
	generated.Check(t, file, b.Bytes(), "unsupported")
}
