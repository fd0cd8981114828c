package main

import (
	"bytes"
	"cmp"
	"encoding/xml"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

// result is what came of a spec.
type result struct {
	sig, name string
	passed    bool
	reason    string // why it failed
}

type junit struct {
	Cases []struct {
		Name    string   `xml:"name,attr"`
		Status  string   `xml:"status,attr"`
		Failure *problem `xml:"failure"`
		Error   *problem `xml:"error"`
	} `xml:"testsuite>testcase"`
}

type problem struct {
	Text string `xml:",chardata"`
}

// readReports reads the reports of all groups. Of a spec that ran in several the latest holds.
func readReports(dir string) (map[string]result, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*", "junit*.xml"))
	if err != nil {
		return nil, err
	}
	if len(files) == 0 {
		return nil, fmt.Errorf("there are no reports in %s", dir)
	}
	times := map[string]int64{}
	for _, f := range files {
		i, err := os.Stat(f)
		if err != nil {
			return nil, err
		}
		times[f] = i.ModTime().UnixNano()
	}
	slices.SortFunc(files, func(a, b string) int { return cmp.Compare(times[a], times[b]) })
	results := map[string]result{}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			return nil, err
		}
		var j junit
		if err := xml.Unmarshal(b, &j); err != nil {
			return nil, fmt.Errorf("%s: %w", f, err)
		}
		for _, c := range j.Cases {
			name, ok := strings.CutPrefix(c.Name, "[It] ")
			if !ok || !strings.Contains(name, "[Conformance]") || c.Status == "skipped" || c.Status == "interrupted" {
				continue
			}
			r := result{passed: c.Status == "passed"}
			r.sig, r.name = shorten(name)
			switch {
			case c.Failure != nil:
				r.reason = firstLine(c.Failure.Text)
			case c.Error != nil:
				r.reason = firstLine(c.Error.Text)
			}
			results[name] = r
		}
	}
	return results, nil
}

var (
	sigName = regexp.MustCompile(`^\[(sig-[a-z-]+)\] `)
	labels  = regexp.MustCompile(` \[[^\]]*\]`)
)

// shorten splits a spec's name into its group's and its own without labels.
func shorten(name string) (sig, rest string) {
	m := sigName.FindStringSubmatch(name)
	if m == nil {
		return "", name
	}
	return m[1], labels.ReplaceAllString(strings.TrimPrefix(name, m[0]), "")
}

// reasonLength is how much of a reason is shown.
const reasonLength = 200

func firstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	line = strings.TrimPrefix(line, "[FAILED] ")
	line = strings.ReplaceAll(line, "|", `\|`)
	if r := []rune(line); len(r) > reasonLength {
		line = string(r[:reasonLength]) + " ..."
	}
	return line
}

// all is how many conformance specs the release has.
const all = 441

// document is the text of docs/conformance.md.
func document(results map[string]result) []byte {
	type count struct{ passed, failed int }
	sigs := map[string]*count{}
	var failed []result
	total := count{}
	for _, r := range results {
		c := sigs[r.sig]
		if c == nil {
			c = &count{}
			sigs[r.sig] = c
		}
		if r.passed {
			c.passed++
			total.passed++
		} else {
			c.failed++
			total.failed++
			failed = append(failed, r)
		}
	}
	var b bytes.Buffer
	fmt.Fprintf(&b, "# Kubernetes' conformance specs against `ckadrill serve`\n\nWritten by `make conformance`; do not edit. Of %d specs %d passed, %d failed and %d were not run.\nGroups may have run at different times and with different builds; the latest run of a spec counts.\n\n", all, total.passed, total.failed, all-total.passed-total.failed)
	b.WriteString("| group | passed | failed |\n| --- | ---: | ---: |\n")
	var names []string
	for s := range sigs {
		names = append(names, s)
	}
	slices.Sort(names)
	for _, s := range names {
		fmt.Fprintf(&b, "| %s | %d | %d |\n", s, sigs[s].passed, sigs[s].failed)
	}
	slices.SortFunc(failed, func(a, b result) int { return cmp.Or(cmp.Compare(a.sig, b.sig), cmp.Compare(a.name, b.name)) })
	if len(failed) > 0 {
		b.WriteString("\n## Failed\n\n| group | spec | reason |\n| --- | --- | --- |\n")
		for _, r := range failed {
			fmt.Fprintf(&b, "| %s | %s | %s |\n", r.sig, strings.ReplaceAll(r.name, "|", `\|`), r.reason)
		}
	}
	return b.Bytes()
}
