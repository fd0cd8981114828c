package scenarios

import (
	"os"
	"strings"
	"testing"
)

// The examples of the authors' guide are what the program reads.
func TestDocs(t *testing.T) {
	b, err := os.ReadFile("../docs/scenarios.md")
	if err != nil {
		t.Fatal(err)
	}
	blocks := strings.Split(string(b), "```yaml\n")
	if len(blocks) != 3 {
		t.Fatalf("the guide has %d examples", len(blocks)-1)
	}
	scenario, _, _ := strings.Cut(blocks[1], "```")
	s, err := Parse("scenarios.md", []byte(scenario))
	if err != nil {
		t.Fatal(err)
	}
	if s.Points() != 5 || len(s.Traps) != 1 || s.Checks[2].Probe == nil {
		t.Errorf("got %+v", s)
	}
	exam, _, _ := strings.Cut(blocks[2], "```")
	if _, err := ParseExam("scenarios.md", []byte(exam)); err != nil {
		t.Error(err)
	}
}
