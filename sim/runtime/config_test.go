package runtime

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"ckadrill/sim/kernel"
)

const configFile = "/etc/containerd/config.toml"

// restart gives containerd a configuration and returns what it then logs, and whether it runs.
func (n *node) restart(config string) (log string, runs bool) {
	n.t.Helper()
	files := n.m.Files(kernel.Root)
	files.MkdirAll("/etc/containerd", 0o755)
	files.WriteFile(configFile, []byte(config), 0o644)
	time.Sleep(time.Minute) // systemd limits how often a unit may be started
	before := len(n.journal())
	n.m.Systemd().Stop("containerd.service")
	err := n.m.Systemd().Start("containerd.service")
	return n.journal()[before:], err == nil
}

func TestBrokenConfigurations(t *testing.T) {
	inNode(t, func(n *node) {
		for _, c := range []struct{ name, config, want string }{
			{"not TOML", "version = 3\nroot = /var/lib\n", `containerd: failed to unmarshal TOML at row 2 column 8: toml: `},
			{"no equals sign", "version = 3\ndisabled_plugins [\"cri\"]\n", `containerd: failed to unmarshal TOML at row 2 column 18: toml: `},
			{"a short plugin name", "version = 3\ndisabled_plugins = [\"cri\"]\n", `containerd: failed to load TOML from /etc/containerd/config.toml: invalid disabled plugin URI "cri" expect io.containerd.x.vx`},
			{"a later version", "version = 9\n", "containerd: failed to load TOML from /etc/containerd/config.toml: expected containerd config version equal to or less than `4`, got `9`"},
			{"no address", "version = 3\n[grpc]\naddress = ''\n", `containerd: grpc address cannot be empty: invalid argument`},
		} {
			if log, runs := n.restart(c.config); runs || !strings.Contains(log, c.want) {
				t.Errorf("%s: runs %v\n%s", c.name, runs, log)
			}
		}
		if log, runs := n.restart("version = 3\nnosuch = 1\n"); !runs || !strings.Contains(log, `level=warning msg="Ignoring unknown key in TOML"`) {
			t.Errorf("an unknown key: runs %v\n%s", runs, log)
		}
	})
}

func TestDisabledCRI(t *testing.T) {
	inNode(t, func(n *node) {
		for _, config := range []string{"disabled_plugins = [\"cri\"]\n", "version = 2\ndisabled_plugins = [\"io.containerd.grpc.v1.cri\"]\n",
			"version = 3\n[plugins.'io.containerd.cri.v1.runtime'.containerd]\ndefault_runtime_name = 'kata'\n"} {
			if log, runs := n.restart(config); !runs {
				t.Fatal(log)
			}
			_, _, err := Connect(n.client, endpoint)
			if err == nil || err.Error() != `validate service connection: validate CRI v1 runtime API for endpoint "`+endpoint+`": rpc error: code = Unimplemented desc = unknown service runtime.v1.RuntimeService` {
				t.Errorf("%s: %v", config, err)
			}
		}
	})
}

func TestConfigurationIsObeyed(t *testing.T) {
	inNode(t, func(n *node) {
		driver := func() (d runtimeapi.CgroupDriver) {
			n.as(func(ctx context.Context, r *RuntimeClient, _ internalapi.ImageManagerService) {
				c, err := r.RuntimeConfig(ctx)
				if err != nil {
					t.Error(err)
				}
				d = c.GetLinux().GetCgroupDriver()
			})
			return d
		}
		if d := driver(); d != runtimeapi.CgroupDriver_CGROUPFS {
			t.Errorf("without a file: %v", d)
		}
		for _, config := range []string{DefaultConfigFile(true), "version = 2\n[plugins.\"io.containerd.grpc.v1.cri\".containerd.runtimes.runc.options]\nSystemdCgroup = true\n"} {
			if log, runs := n.restart(config); !runs {
				t.Fatal(log)
			}
			if d := driver(); d != runtimeapi.CgroupDriver_SYSTEMD {
				t.Errorf("%s: %v", config, d)
			}
		}
		n.restart(strings.Replace(DefaultConfigFile(true), "registry.k8s.io/pause:3.10.1", "registry.k8s.io/pause:9.9", 1))
		n.as(func(ctx context.Context, r *RuntimeClient, _ internalapi.ImageManagerService) {
			_, err := r.RunPodSandbox(ctx, sandboxConfig("web"), "")
			if err == nil || !strings.HasSuffix(err.Error(), `failed to get sandbox image "registry.k8s.io/pause:9.9": failed to pull image "registry.k8s.io/pause:9.9": failed to pull and unpack image "registry.k8s.io/pause:9.9": failed to resolve image: registry.k8s.io/pause:9.9: not found`) {
				t.Error(err)
			}
			sc := sandboxConfig("cgroup")
			sc.Linux = &runtimeapi.LinuxPodSandboxConfig{CgroupParent: "/kubepods/besteffort"}
			n.restart(DefaultConfigFile(true))
			_, err = r.RunPodSandbox(ctx, sc, "")
			if err == nil || !strings.HasSuffix(err.Error(), `runc create failed: expected cgroupsPath to be of format "slice:prefix:name" for systemd cgroups, got "/kubepods/besteffort" instead`) {
				t.Error(err)
			}
		})
	})
}

func TestPulls(t *testing.T) {
	inNode(t, func(n *node) {
		files := n.m.Files(kernel.Root)
		n.as(func(ctx context.Context, _ *RuntimeClient, i internalapi.ImageManagerService) {
			pull := func(name string) string {
				ref, err := i.PullImage(ctx, &runtimeapi.ImageSpec{Image: name}, nil, nil)
				if err != nil {
					return err.Error()
				}
				return ref
			}
			for name, want := range map[string]string{
				"nginx:nosuch":      `rpc error: code = NotFound desc = failed to pull and unpack image "docker.io/library/nginx:nosuch": failed to resolve image: docker.io/library/nginx:nosuch: not found`,
				"nosuchrepo/app:1":  `failed to pull and unpack image "docker.io/nosuchrepo/app:1": failed to resolve image: pull access denied, repository does not exist or may require authorization: server message: insufficient_scope: authorization failed`,
				"reg.example.org/a": `failed to pull and unpack image "reg.example.org/a:latest": failed to resolve image: failed to do request: Head "https://reg.example.org/v2/a/manifests/latest": dial tcp: lookup reg.example.org on 192.168.122.1:53: no such host`,
				"10.244.9.9:5000/a": `rpc error: code = DeadlineExceeded desc = failed to pull and unpack image "10.244.9.9:5000/a:latest": failed to resolve image: failed to do request: Head "https://10.244.9.9:5000/v2/a/manifests/latest": dial tcp 10.244.9.9:5000: i/o timeout`,
				"NGINX":             `failed to parse image reference "NGINX": invalid reference format: repository name (library/NGINX) must be lowercase`,
			} {
				if got := pull(name); !strings.HasPrefix(got, want) {
					t.Errorf("%s:\n%s", name, got)
				}
			}
			resolv, _ := files.ReadFile("/etc/resolv.conf")
			files.WriteFile("/etc/resolv.conf", []byte("nameserver 192.168.122.99\n"), 0o644)
			if got := pull("nginx:1.27"); !strings.Contains(got, "dial tcp: lookup registry-1.docker.io on 192.168.122.99:53: ") {
				t.Errorf("without a name server: %s", got)
			}
			files.WriteFile("/etc/resolv.conf", resolv, 0o644)
			id := pull("nginx:1.27")
			if !strings.HasPrefix(id, "sha256:") || !n.c.HasImage("docker.io/library/nginx:1.27") {
				t.Error(id)
			}
			st, _ := i.ImageStatus(ctx, &runtimeapi.ImageSpec{Image: "nginx:1.27"}, true)
			if diff := cmp.Diff([]string{"docker.io/library/nginx:1.27"}, st.Image.RepoTags); diff != "" || st.Image.Id != id {
				t.Error(diff)
			}
			if got := pull(st.Image.RepoDigests[0]); got != id {
				t.Errorf("by digest: %s", got)
			}
			if err := i.RemoveImage(ctx, &runtimeapi.ImageSpec{Image: id}); err != nil || n.c.HasImage("nginx:1.27") {
				t.Error(err)
			}
		})
	})
}

func FuzzConfig(f *testing.F) {
	f.Add(DefaultConfigFile(true))
	f.Add("disabled_plugins = ['cri']\n[plugins.cri.cni]\nbin_dirs = [1]\n")
	f.Fuzz(func(t *testing.T, text string) {
		c, _, err := loadConfig(oneFile{text}, configFile)
		if err == nil && c == nil {
			t.Error("neither a configuration nor an error")
		}
	})
}

// oneFile is a tree that holds one file under every name.
type oneFile struct{ text string }

func (o oneFile) ReadFile(string) ([]byte, error) { return []byte(o.text), nil }
