package presets

import (
	"strings"
	"testing"
)

func TestPresetsAreValid(t *testing.T) {
	for _, n := range Names() {
		c, err := Get(n)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.Validate(); err != nil {
			t.Errorf("%s: %v", n, err)
		}
		for _, m := range c.Machines {
			if m.CPUs == 0 || m.Memory == 0 || m.Disk == 0 {
				t.Errorf("%s: %s has no size", n, m.Name)
			}
			if m.Role == "control-plane" && !strings.Contains(strings.Join(m.Images, " "), "kube-apiserver:"+c.Version) {
				t.Errorf("%s: %s lacks the API server's image", n, m.Name)
			}
		}
	}
	if _, err := Get("nosuch"); err == nil || err.Error() != `there is no cluster "nosuch"; there are [ha recorded reference]` {
		t.Error(err)
	}
}
