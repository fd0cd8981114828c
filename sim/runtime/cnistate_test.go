package runtime

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	internalapi "k8s.io/cri-api/pkg/apis"

	"ckadrill/sim/kernel"
)

// A containerd that has lost sight of its configuration directory, or has not looked at a file yet, is no wiser after a thaw.
func TestThawLooksAtNoNewConfiguration(t *testing.T) {
	const dir = "/etc/cni/net.d"
	for _, c := range []struct {
		name   string
		change func(files kernel.Files)
		ready  bool
	}{
		{"directory replaced", func(files kernel.Files) {
			files.RemoveAll(dir)
			time.Sleep(time.Second)
			files.MkdirAll(dir, 0o755)
			files.WriteFile(dir+"/10-bridge.conflist", []byte(bridgeConf), 0o644)
		}, false},
		{"file moved in", func(files kernel.Files) {
			files.Rename(dir+"/10-bridge.conflist", "/root/conf")
			time.Sleep(time.Second)
			files.Rename("/root/conf", dir+"/10-bridge.conflist")
		}, false},
		{"file written", func(files kernel.Files) {
			files.Remove(dir + "/10-bridge.conflist")
			time.Sleep(time.Second)
			files.WriteFile(dir+"/10-bridge.conflist", []byte(bridgeConf), 0o644)
		}, true},
	} {
		t.Run(c.name, func(t *testing.T) {
			check := func(n *node, when string) {
				t.Helper()
				n.as(func(ctx context.Context, r *RuntimeClient, _ internalapi.ImageManagerService) {
					st, err := r.Status(ctx, false)
					if err != nil || st.Status.Conditions[1].Status != c.ready {
						t.Errorf("%s: %v %v", when, st, err)
					}
				})
			}
			all := kernel.Parts{}
			inNode(t, func(n *node) {
				files := n.m.Files(kernel.Root)
				files.MkdirAll("/root", 0o700)
				c.change(files)
				time.Sleep(time.Second)
				check(n, "before")
				synctest.Wait()
				n.w.Freeze(kernel.NewRecorder(nil)).Apply(all)
			})
			date, err := kernel.DateOf(all)
			if err != nil {
				t.Fatal(err)
			}
			synctest.Test(t, func(t *testing.T) {
				time.Sleep(time.Until(date))
				n := newNode(t, kernel.NewWorld(0))
				if err := n.w.Thaw(all); err != nil {
					t.Fatal(err)
				}
				if err := n.c.Resume(); err != nil {
					t.Fatal(err)
				}
				if err := n.m.Resume(); err != nil {
					t.Fatal(err)
				}
				defer n.kill()
				synctest.Wait()
				n.enter()
				check(n, "after")
				if c.ready {
					n.m.Files(kernel.Root).Remove(dir + "/10-bridge.conflist")
					time.Sleep(time.Second)
					c.ready = false
					check(n, "it looks on")
				}
			})
		})
	}
}
