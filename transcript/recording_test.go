package transcript

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestParse(t *testing.T) {
	steps, err := Parse(strings.NewReader("$ cat <<EOF\n> a: 1\n> EOF\na: 1\n$ false\n[exit 1]\n$ printf x\nx\n[no newline]\n$ true\n$ sleep 9\n[timeout]\n"))
	if err != nil {
		t.Fatal(err)
	}
	want := []Step{
		{Line: 1, Command: "cat <<EOF\na: 1\nEOF", Output: "a: 1\n"}, {Line: 5, Command: "false", Exit: 1}, {Line: 7, Command: "printf x", Output: "x"},
		{Line: 10, Command: "true"}, {Line: 11, Command: "sleep 9", Cut: true},
	}
	if !reflect.DeepEqual(steps, want) {
		t.Errorf("%+v", steps)
	}
	if s := steps[2].Text(); s != "x\n[no newline]\n" {
		t.Errorf("%q", s)
	}
}

// A recording that is not one says where.
func TestParseErrors(t *testing.T) {
	for text, want := range map[string]string{
		"":                                    "1: there is no command",
		"hello\n":                             "1: output before the first command",
		"$ a\n[exit 0]\n":                     "2: [exit 0]: a status from 1 to 255",
		"$ a\n[exit 300]\n":                   "2: [exit 300]: a status from 1 to 255",
		"$ a\n[exit 1]\nb\n":                  "3: output after the end of the command of line 1",
		"$ a\n[timeout]\n$ b\n":               "3: a command after [timeout]",
		"$ \n":                                "1: the command is empty",
		"$ a\n\x00\n":                         "1: the recording is not text",
		"$ " + strings.Repeat("x", maxLine+1): "1: the line is longer than",
		strings.Repeat("$ a\n", MaxSteps+1):   "5001: more than 5000 commands",
		strings.Repeat("x", MaxSize+1):        "1: the recording is larger than 8 MiB",
	} {
		if _, err := Parse(strings.NewReader(text)); err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%.20q: %v", text, err)
		}
	}
}

func TestRecordingsAreReadable(t *testing.T) {
	files, err := filepath.Glob("testdata/*/*" + Extension)
	if err != nil || len(files) < 100 {
		t.Fatal(len(files), err)
	}
	for _, f := range files {
		r, err := Read(f)
		if err != nil {
			t.Error(err)
			continue
		}
		if _, err := ReadExceptions(r); err != nil {
			t.Error(err)
		}
		for i := range r.Steps {
			s := &r.Steps[i]
			if diff, _ := Compare(s, s.Text(), nil); diff != "" {
				t.Errorf("%s:%d differs from itself:\n%s", f, s.Line, diff)
			}
		}
	}
}

func FuzzParse(f *testing.F) {
	files, _ := filepath.Glob("testdata/*/*" + Extension)
	for _, name := range files {
		if b, err := os.ReadFile(name); err == nil && len(b) < 4096 {
			f.Add(string(b))
		}
	}
	f.Fuzz(func(t *testing.T, text string) {
		steps, err := Parse(strings.NewReader(text))
		if err != nil {
			return
		}
		for i := range steps {
			s := &steps[i]
			if s.Line < 1 || s.Exit < 0 || s.Exit > 255 || strings.TrimSpace(s.Command) == "" {
				t.Errorf("%+v", s)
			}
			if diff, _ := Compare(s, s.Text(), nil); diff != "" {
				t.Errorf("line %d differs from itself:\n%s", s.Line, diff)
			}
		}
		bindings(steps)
	})
}
