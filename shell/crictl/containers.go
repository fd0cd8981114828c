package crictl

import (
	"errors"
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"ckadrill/sim/runtime"
)

// filter says which containers or Pods a command is about.
type filter struct {
	id, pod, name, namespace, state, image string
	labels                                 map[string]string
	all, latest                            bool
	last                                   int
}

var listFlags = []cli.Flag{
	&cli.StringFlag{Name: "name", Usage: "Filter by container name regular expression pattern"},
	&cli.StringFlag{Name: "pod", Aliases: []string{"p"}, Usage: "Filter by pod id"},
	&cli.StringFlag{Name: "image", Usage: "Filter by container image"},
	&cli.StringFlag{Name: "state", Aliases: []string{"s"}, Usage: "Filter by container state"},
	&cli.StringSliceFlag{Name: "label", Usage: "Filter by key=value label"},
	&cli.BoolFlag{Name: "all", Aliases: []string{"a"}, Usage: "Show all containers"},
	&cli.BoolFlag{Name: "latest", Aliases: []string{"l"}, Usage: "Show the most recently created container (includes all states)"},
	&cli.IntFlag{Name: "last", Aliases: []string{"n"}, Usage: "Show last n recently created containers (includes all states). Set 0 for unlimited."},
	&cli.StringFlag{Name: "namespace", Usage: "Filter by pod namespace regular expression pattern"},
}

func filterOf(c *cli.Context) (filter, error) {
	labels, err := parseLabels(c.StringSlice("label"))
	return filter{id: c.String("id"), pod: c.String("pod"), name: c.String("name"), namespace: c.String("namespace"), state: c.String("state"), image: c.String("image"), labels: labels,
		all: c.Bool("all"), latest: c.Bool("latest"), last: c.Int("last")}, err
}

// list finds containers, newest first.
func (t *tool) list(r *runtime.RuntimeClient, i *runtime.ImageClient, f filter) ([]*runtimeapi.Container, error) {
	q := &runtimeapi.ContainerFilter{Id: f.id, PodSandboxId: f.pod, LabelSelector: f.labels}
	state := func(s runtimeapi.ContainerState) { q.State = &runtimeapi.ContainerStateValue{State: s} }
	switch strings.ToLower(f.state) {
	case "":
		if !f.all {
			state(runtimeapi.ContainerState_CONTAINER_RUNNING)
		}
	case "created":
		state(runtimeapi.ContainerState_CONTAINER_CREATED)
	case "running":
		state(runtimeapi.ContainerState_CONTAINER_RUNNING)
	case "exited":
		state(runtimeapi.ContainerState_CONTAINER_EXITED)
	case "unknown":
		state(runtimeapi.ContainerState_CONTAINER_UNKNOWN)
	default:
		t.logFatal("--state should be one of created, running, exited or unknown")
	}
	if f.latest || f.last > 0 {
		q.State = nil
	}
	all, err := r.ListContainers(t.ctx, q)
	if err != nil {
		return nil, fmt.Errorf("call list containers RPC: %w", err)
	}
	var l []*runtimeapi.Container
	for _, k := range all {
		if f.image != "" && i != nil {
			ok, err := t.sameImage(i, f.image, k.GetImage().GetImage())
			if err != nil {
				return nil, fmt.Errorf("check image match: %w", err)
			}
			if !ok {
				continue
			}
		}
		if matches(f.name, k.GetMetadata().GetName()) && matches(f.namespace, label(k.Labels, "io.kubernetes.pod.namespace")) {
			l = append(l, k)
		}
	}
	sort.SliceStable(l, func(i, j int) bool { return l[i].CreatedAt > l[j].CreatedAt })
	return firstOf(l, f), nil
}

func firstOf[T any](l []T, f filter) []T {
	n := len(l)
	if f.latest {
		n = 1
	}
	if f.last > 0 {
		n = f.last
	}
	return l[:min(n, len(l))]
}

func (t *tool) sameImage(i *runtime.ImageClient, a, b string) (bool, error) {
	x, err := i.ImageStatus(t.ctx, &runtimeapi.ImageSpec{Image: a}, false)
	if err != nil {
		return false, err
	}
	y, err := i.ImageStatus(t.ctx, &runtimeapi.ImageSpec{Image: b}, false)
	if err != nil {
		return false, err
	}
	return x.Image != nil && y.Image != nil && x.Image.Id == y.Image.Id, nil
}

// logFatal is the end by package log, which crictl uses for wrong states.
func (t *tool) logFatal(msg string) {
	fmt.Fprintf(t.p.Stderr, "%s %s\n", time.Now().Format("2006/01/02 15:04:05"), msg)
	t.p.Exit(1)
}

func label(labels map[string]string, key string) string {
	if v, ok := labels[key]; ok {
		return v
	}
	return "unknown"
}

func stateOf(s runtimeapi.ContainerState) string {
	return map[runtimeapi.ContainerState]string{runtimeapi.ContainerState_CONTAINER_CREATED: "Created", runtimeapi.ContainerState_CONTAINER_RUNNING: "Running",
		runtimeapi.ContainerState_CONTAINER_EXITED: "Exited", runtimeapi.ContainerState_CONTAINER_UNKNOWN: "Unknown"}[s]
}

func (t *tool) psCommand() *cli.Command {
	return &cli.Command{Name: "ps", Usage: "List containers", UseShortOptionHandling: true,
		Flags: append([]cli.Flag{
			&cli.BoolFlag{Name: "verbose", Aliases: []string{"v"}, Usage: "Show verbose information for containers"},
			&cli.StringFlag{Name: "id", Usage: "Filter by container id"},
			&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "Only display container IDs"},
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "table", Usage: "Output format, One of: json|yaml|table"},
			&cli.BoolFlag{Name: "no-trunc", Usage: "Show output without truncating the ID"},
			&cli.BoolFlag{Name: "resolve-image-path", Aliases: []string{"r"}, Usage: "Show image path instead of image id"},
		}, listFlags...),
		Action: func(c *cli.Context) error {
			if c.NArg() != 0 {
				return cli.ShowSubcommandHelp(c)
			}
			r, err := t.runtime()
			if err != nil {
				return err
			}
			i, err := t.images()
			if err != nil {
				return err
			}
			f, err := filterOf(c)
			if err != nil {
				return err
			}
			l, err := t.list(r, i, f)
			if err != nil {
				return fmt.Errorf("listing containers: list containers: %w", err)
			}
			if err := t.printContainers(c, i, l); err != nil {
				return fmt.Errorf("listing containers: %w", err)
			}
			return nil
		}}
}

func (t *tool) printContainers(c *cli.Context, i *runtime.ImageClient, l []*runtimeapi.Container) error {
	switch o := c.String("output"); o {
	case "json":
		return t.outputJSON(&runtimeapi.ListContainersResponse{Containers: l})
	case "yaml":
		return t.outputYAML(&runtimeapi.ListContainersResponse{Containers: l})
	case "table":
	default:
		return fmt.Errorf("unsupported output format %q", o)
	}
	verbose, quiet := c.Bool("verbose"), c.Bool("quiet")
	tab := newTable(t.p.Stdout)
	if !verbose && !quiet {
		tab.row("CONTAINER", "IMAGE", "CREATED", "STATE", "NAME", "ATTEMPT", "POD ID", "POD", "NAMESPACE")
	}
	for _, k := range l {
		namespace := label(k.Labels, "io.kubernetes.pod.namespace")
		switch {
		case quiet:
			t.println(k.Id)
		case verbose:
			t.printf("ID: %s\nPodID: %s\nNamespace: %s\n", k.Id, k.PodSandboxId, namespace)
			if k.Metadata != nil {
				if k.Metadata.Name != "" {
					t.printf("Name: %s\n", k.Metadata.Name)
				}
				t.printf("Attempt: %v\n", k.Metadata.Attempt)
			}
			t.printf("State: %s\n", stateOf(k.State))
			if k.Image != nil {
				t.printf("Image: %s\n", k.Image.Image)
			}
			t.printf("Created: %v\n", ago(k.CreatedAt))
			t.printMap("Labels", k.Labels)
			t.printMap("Annotations", k.Annotations)
			t.println()
		default:
			id, pod, image := k.Id, k.PodSandboxId, k.GetImage().GetImage()
			if !c.Bool("no-trunc") {
				id, pod = truncated(id, ""), truncated(pod, "")
				if strings.HasPrefix(image, "sha256:") {
					image = truncated(image, "sha256:")
				}
			}
			if c.Bool("resolve-image-path") {
				st, err := i.ImageStatus(t.ctx, &runtimeapi.ImageSpec{Image: image}, false)
				if err != nil {
					return fmt.Errorf("failed to fetch repo image %w", err)
				}
				if tags := st.GetImage().GetRepoTags(); len(tags) > 0 {
					image = tags[0]
				}
			}
			tab.row(id, image, ago(k.CreatedAt), stateOf(k.State), k.GetMetadata().GetName(), formatUint(k.GetMetadata().GetAttempt()), pod, label(k.Labels, "io.kubernetes.pod.name"), namespace)
		}
	}
	return tab.w.Flush()
}

var inspectFlags = []cli.Flag{
	&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "Output format, One of: json|yaml|go-template|table"},
	&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "Do not show verbose information"},
	&cli.StringFlag{Name: "template", Usage: "The template string is only used when output is go-template; The Template format is golang template"},
}

func outputFormat(c *cli.Context) string {
	if o := c.String("output"); o != "" {
		return o
	}
	return "json"
}

func (t *tool) inspectCommand() *cli.Command {
	return &cli.Command{Name: "inspect", Usage: "Display the status of one or more containers", ArgsUsage: "CONTAINER-ID [CONTAINER-ID...]",
		Flags: append(append([]cli.Flag{}, inspectFlags...), listFlags...),
		Action: func(c *cli.Context) error {
			r, err := t.runtime()
			if err != nil {
				return err
			}
			i, err := t.images()
			if err != nil {
				return err
			}
			ids := c.Args().Slice()
			if len(ids) == 0 {
				f, err := filterOf(c)
				if err != nil {
					return err
				}
				l, err := t.list(r, i, f)
				if err != nil {
					return fmt.Errorf("listing containers: %w", err)
				}
				for _, k := range l {
					ids = append(ids, k.Id)
				}
			}
			if len(ids) == 0 {
				t.logError("No IDs provided or nothing found per filter")
				return cli.ShowSubcommandHelp(c)
			}
			var out []statusData
			for _, id := range ids {
				res, err := r.ContainerStatus(t.ctx, id, !c.Bool("quiet"))
				if err != nil {
					return fmt.Errorf("get the status of containers: get container status: %w", err)
				}
				if c.String("output") == "table" {
					t.containerTable(res, !c.Bool("quiet"))
					continue
				}
				st := res.Status
				times := map[string]any{"createdAt": rfc3339(st.CreatedAt), "startedAt": "0001-01-01T00:00:00Z", "finishedAt": "0001-01-01T00:00:00Z"}
				if st.State != runtimeapi.ContainerState_CONTAINER_CREATED {
					times["startedAt"] = rfc3339(st.StartedAt)
				}
				if st.State == runtimeapi.ContainerState_CONTAINER_EXITED {
					times["finishedAt"] = rfc3339(st.FinishedAt)
				}
				m, err := statusMap(st, times)
				if err != nil {
					return err
				}
				out = append(out, statusData{status: m, info: res.Info})
			}
			return t.outputStatus(out, outputFormat(c), c.String("template"))
		}}
}

func (t *tool) containerTable(res *runtimeapi.ContainerStatusResponse, verbose bool) {
	st := res.Status
	t.printf("ID: %s\n", st.Id)
	if st.GetMetadata().GetName() != "" {
		t.printf("Name: %s\n", st.Metadata.Name)
	}
	if st.GetMetadata().GetAttempt() != 0 {
		t.printf("Attempt: %v\n", st.Metadata.Attempt)
	}
	t.printf("State: %s\nCreated: %v\n", st.State, ago(st.CreatedAt))
	if st.State != runtimeapi.ContainerState_CONTAINER_CREATED {
		t.printf("Started: %v\n", ago(st.StartedAt))
	}
	if st.State == runtimeapi.ContainerState_CONTAINER_EXITED {
		if st.FinishedAt > 0 {
			t.printf("Finished: %v\n", ago(st.FinishedAt))
		}
		t.printf("Exit Code: %v\n", st.ExitCode)
	}
	t.printMap("Labels", st.Labels)
	t.printMap("Annotations", st.Annotations)
	if verbose {
		t.printf("Info: %v\n", res.Info)
	}
}

func (t *tool) stopCommand() *cli.Command {
	return &cli.Command{Name: "stop", Usage: "Stop one or more running containers", ArgsUsage: "CONTAINER-ID [CONTAINER-ID...]", UseShortOptionHandling: true,
		Flags: []cli.Flag{
			&cli.Int64Flag{Name: "timeout", Aliases: []string{"t"}, Usage: "Seconds to wait to kill the container after a graceful stop is requested"},
			&cli.BoolFlag{Name: "all", Aliases: []string{"a"}, Usage: "Stop all running containers"},
		},
		Action: func(c *cli.Context) error {
			r, err := t.runtime()
			if err != nil {
				return err
			}
			ids := c.Args().Slice()
			switch {
			case c.Bool("all") && len(ids) > 0:
				return cli.Exit("cannot specify CONTAINER-ID(s) when using --all", 1)
			case c.Bool("all"):
				l, err := t.list(r, nil, filter{state: "running"})
				if err != nil {
					return fmt.Errorf("listing containers: %w", err)
				}
				if len(l) == 0 {
					t.println("No running containers found.")
					return nil
				}
				for _, k := range l {
					ids = append(ids, k.Id)
				}
			case len(ids) == 0:
				return cli.Exit("you must specify at least one CONTAINER-ID or use --all", 1)
			}
			for _, id := range ids {
				if err := r.StopContainer(t.ctx, id, c.Int64("timeout")); err != nil {
					return fmt.Errorf("stopping the container %q: %w", id, err)
				}
				t.println(id)
			}
			return nil
		}}
}

func (t *tool) rmCommand() *cli.Command {
	return &cli.Command{Name: "rm", Usage: "Remove one or more containers", ArgsUsage: "CONTAINER-ID [CONTAINER-ID...]", UseShortOptionHandling: true,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "force", Aliases: []string{"f"}, Usage: "Force removal of the container, disregarding if running"},
			&cli.BoolFlag{Name: "keep-logs", Aliases: []string{"k"}, Usage: "Preserve the container log file and its rotations"},
			&cli.BoolFlag{Name: "all", Aliases: []string{"a"}, Usage: "Remove all containers"},
		},
		Action: func(c *cli.Context) error {
			r, err := t.runtime()
			if err != nil {
				return err
			}
			ids := c.Args().Slice()
			if c.Bool("all") {
				l, err := r.ListContainers(t.ctx, nil)
				if err != nil {
					return err
				}
				ids = nil
				for _, k := range l {
					ids = append(ids, k.Id)
				}
				if len(ids) == 0 {
					t.info("No containers to remove")
					return nil
				}
			}
			if len(ids) == 0 {
				return cli.ShowSubcommandHelp(c)
			}
			return each(ids, func(id string) error {
				res, err := r.ContainerStatus(t.ctx, id, false)
				if err != nil {
					return fmt.Errorf("getting container status %q: %w", id, err)
				}
				if res.Status.State == runtimeapi.ContainerState_CONTAINER_RUNNING {
					if !c.Bool("force") {
						return fmt.Errorf("container %q is running, please stop it first", id)
					}
					if err := r.StopContainer(t.ctx, id, 0); err != nil {
						return fmt.Errorf("stopping the container %q: %w", id, err)
					}
					t.println(id)
				}
				if err := r.RemoveContainer(t.ctx, id); err != nil {
					return fmt.Errorf("removing container %q: %w", id, err)
				}
				t.println(id)
				if !c.Bool("keep-logs") {
					t.removeLogs(id, res.Status.LogPath)
				}
				return nil
			})
		}}
}

// removeLogs removes a container's log and what has been rotated out of it.
func (t *tool) removeLogs(id, name string) {
	if name == "" {
		return
	}
	dir, base := name[:strings.LastIndex(name, "/")], name[strings.LastIndex(name, "/")+1:]
	entries, _ := t.p.Files.ReadDir(dir)
	for _, e := range entries {
		if e.Name() != base && strings.HasPrefix(e.Name(), base+".") {
			if err := t.p.Files.Remove(dir + "/" + e.Name()); err != nil {
				t.logError("removing log file %s for container %q failed: %v", dir+"/"+e.Name(), id, err)
			}
		}
	}
	if err := t.p.Files.Remove(name); err != nil {
		t.logError("removing log file %s for container %q failed: %v", name, id, err)
	}
}

func (t *tool) updateCommand() *cli.Command {
	return &cli.Command{Name: "update", Usage: "Update one or more running containers", ArgsUsage: "CONTAINER-ID [CONTAINER-ID...]",
		Flags: []cli.Flag{
			&cli.Int64Flag{Name: "cpu-count", Usage: "(Windows only) Number of CPUs available to the container"},
			&cli.Int64Flag{Name: "cpu-maximum", Usage: "(Windows only) Portion of CPU cycles specified as a percentage * 100"},
			&cli.Int64Flag{Name: "cpu-period", Usage: "CPU CFS period to be used for hardcapping (in usecs). 0 to use system default"},
			&cli.Int64Flag{Name: "cpu-quota", Usage: "CPU CFS hardcap limit (in usecs). Allowed cpu time in a given period"},
			&cli.Int64Flag{Name: "cpu-share", Usage: "CPU shares (relative weight vs. other containers)"},
			&cli.Int64Flag{Name: "memory", Usage: "Memory limit (in bytes)"},
			&cli.StringFlag{Name: "cpuset-cpus", Usage: "CPU(s) to use"},
			&cli.StringFlag{Name: "cpuset-mems", Usage: "Memory node(s) to use"},
			&cli.StringFlag{Name: "oom-score-adj", Usage: "OOM Killer score to use"},
		},
		Action: func(c *cli.Context) error {
			if c.NArg() == 0 {
				return errors.New("ID cannot be empty")
			}
			r, err := t.runtime()
			if err != nil {
				return err
			}
			for _, id := range c.Args().Slice() {
				err := r.UpdateContainerResources(t.ctx, id, &runtimeapi.ContainerResources{Linux: &runtimeapi.LinuxContainerResources{CpuPeriod: c.Int64("cpu-period"), CpuQuota: c.Int64("cpu-quota"),
					CpuShares: c.Int64("cpu-share"), MemoryLimitInBytes: c.Int64("memory"), CpusetCpus: c.String("cpuset-cpus"), CpusetMems: c.String("cpuset-mems")}})
				if err != nil {
					return fmt.Errorf("updating container resources for %q: %w", id, err)
				}
				t.println(id)
			}
			return nil
		}}
}
