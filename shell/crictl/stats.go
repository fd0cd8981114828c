package crictl

import (
	"errors"
	"fmt"
	"sort"
	"strconv"
	"time"

	"github.com/docker/go-units"
	"github.com/urfave/cli/v2"
	"google.golang.org/grpc/status"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"ckadrill/sim/runtime"
)

// unwrapStatus is the text of an error that came over gRPC, as a server hands it on.
func unwrapStatus(err error) string {
	if s, ok := status.FromError(err); ok {
		return s.Message()
	}
	return err.Error()
}

// sampled calls show once, or every half second until the user interrupts it.
func (t *tool) sampled(watch bool, show func() error) error {
	for {
		if err := show(); err != nil {
			if watch && t.ctx.Err() != nil {
				return nil
			}
			return err
		}
		if !watch {
			return nil
		}
		select {
		case <-t.ctx.Done():
			return nil
		case <-time.After(500 * time.Millisecond):
		}
	}
}

func (t *tool) statsCommand() *cli.Command {
	return &cli.Command{Name: "stats", Usage: "List container(s) resource usage statistics", UseShortOptionHandling: true, ArgsUsage: "[ID]",
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "all", Aliases: []string{"a"}, Usage: "Show all containers (default shows just running)"},
			&cli.StringFlag{Name: "id", Usage: "Filter by container id"},
			&cli.StringFlag{Name: "pod", Aliases: []string{"p"}, Usage: "Filter by pod id"},
			&cli.StringSliceFlag{Name: "label", Usage: "Filter by key=value label"},
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "Output format, One of: json|yaml|table"},
			&cli.IntFlag{Name: "seconds", Aliases: []string{"s"}, Value: 1, Usage: "Sample duration for CPU usage in seconds"},
			&cli.BoolFlag{Name: "watch", Aliases: []string{"w"}, Usage: "Watch pod resources"},
		},
		Action: func(c *cli.Context) error {
			if c.NArg() > 1 {
				return cli.ShowSubcommandHelp(c)
			}
			r, err := t.runtime()
			if err != nil {
				return err
			}
			id := c.String("id")
			if id == "" {
				id = c.Args().First()
			}
			labels, err := parseLabels(c.StringSlice("label"))
			if err != nil {
				return err
			}
			f := &runtimeapi.ContainerStatsFilter{Id: id, PodSandboxId: c.String("pod"), LabelSelector: labels}
			if err := t.sampled(c.Bool("watch"), func() error { return t.showStats(c, r, f) }); err != nil {
				return fmt.Errorf("get container stats: %w", err)
			}
			return nil
		}}
}

func (t *tool) containerStats(r *runtime.RuntimeClient, f *runtimeapi.ContainerStatsFilter) ([]*runtimeapi.ContainerStats, error) {
	l, err := r.ListContainerStats(t.ctx, f)
	sort.Slice(l, func(i, j int) bool { return l[i].Attributes.Id < l[j].Attributes.Id })
	return l, err
}

func (t *tool) showStats(c *cli.Context, r *runtime.RuntimeClient, f *runtimeapi.ContainerStatsFilter) error {
	before, err := t.containerStats(r, f)
	if err != nil {
		return err
	}
	switch c.String("output") {
	case "json":
		return t.outputJSON(&runtimeapi.ListContainerStatsResponse{Stats: before})
	case "yaml":
		return t.outputYAML(&runtimeapi.ListContainerStatsResponse{Stats: before})
	}
	old := map[string]*runtimeapi.ContainerStats{}
	for _, s := range before {
		old[s.Attributes.Id] = s
	}
	if err := t.p.Sleep(time.Duration(c.Int("seconds")) * time.Second); err != nil {
		return err
	}
	now, err := t.containerStats(r, f)
	if err != nil {
		return err
	}
	tab := newTable(t.p.Stdout)
	tab.row("CONTAINER", "NAME", "CPU %", "MEM", "DISK", "INODES", "SWAP")
	for _, s := range now {
		cpu, mem := s.GetCpu().GetUsageCoreNanoSeconds().GetValue(), s.GetMemory().GetWorkingSetBytes().GetValue()
		o, ok := old[s.Attributes.Id]
		if !c.Bool("all") && cpu == 0 && mem == 0 || !ok {
			continue
		}
		percent, err := cpuPercent(cpu, o.GetCpu().GetUsageCoreNanoSeconds().GetValue(), s.GetCpu().GetTimestamp()-o.GetCpu().GetTimestamp())
		if err != nil {
			return err
		}
		tab.row(truncated(s.Attributes.Id, ""), s.Attributes.GetMetadata().GetName(), percent, units.HumanSize(float64(mem)),
			units.HumanSize(float64(s.GetWritableLayer().GetUsedBytes().GetValue())), strconv.FormatUint(s.GetWritableLayer().GetInodesUsed().GetValue(), 10), units.HumanSize(float64(s.GetSwap().GetSwapUsageBytes().GetValue())))
	}
	t.clearScreen()
	return tab.w.Flush()
}

func cpuPercent(now, before uint64, duration int64) (string, error) {
	if now == 0 {
		return "0.00", nil
	}
	if duration == 0 {
		return "", errors.New("cpu stat is not updated during sample")
	}
	return fmt.Sprintf("%.2f", float64(now-before)/float64(duration)*100), nil
}

func (t *tool) statspCommand() *cli.Command {
	return &cli.Command{Name: "statsp", Usage: "List pod statistics. Stats represent a structured API that will fulfill the Kubelet's /stats/summary endpoint.", UseShortOptionHandling: true, ArgsUsage: "[ID]",
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "id", Usage: "Filter by pod id"},
			&cli.StringSliceFlag{Name: "label", Usage: "Filter by key=value label"},
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Usage: "Output format, One of: json|yaml|table"},
			&cli.IntFlag{Name: "seconds", Aliases: []string{"s"}, Value: 1, Usage: "Sample duration for CPU usage in seconds"},
			&cli.BoolFlag{Name: "watch", Aliases: []string{"w"}, Usage: "Watch pod resources"},
		},
		Action: func(c *cli.Context) error {
			if c.NArg() > 1 {
				return cli.ShowSubcommandHelp(c)
			}
			r, err := t.runtime()
			if err != nil {
				return fmt.Errorf("get runtime service: %w", err)
			}
			id := c.String("id")
			if id == "" {
				id = c.Args().First()
			}
			labels, err := parseLabels(c.StringSlice("label"))
			if err != nil {
				return fmt.Errorf("parse pod labels: %w", err)
			}
			f := &runtimeapi.PodSandboxStatsFilter{Id: id, LabelSelector: labels}
			if err := t.sampled(c.Bool("watch"), func() error { return t.showPodStats(c, r, f) }); err != nil {
				return fmt.Errorf("get pod stats: %w", err)
			}
			return nil
		}}
}

func (t *tool) podStats(r *runtime.RuntimeClient, f *runtimeapi.PodSandboxStatsFilter) ([]*runtimeapi.PodSandboxStats, error) {
	l, err := r.ListPodSandboxStats(t.ctx, f)
	if err != nil {
		return nil, fmt.Errorf("list pod sandbox stats: %w", err)
	}
	sort.Slice(l, func(i, j int) bool { return l[i].Attributes.Id < l[j].Attributes.Id })
	return l, nil
}

func (t *tool) showPodStats(c *cli.Context, r *runtime.RuntimeClient, f *runtimeapi.PodSandboxStatsFilter) error {
	before, err := t.podStats(r, f)
	if err != nil {
		return err
	}
	switch c.String("output") {
	case "json":
		return t.outputJSON(&runtimeapi.ListPodSandboxStatsResponse{Stats: before})
	case "yaml":
		return t.outputYAML(&runtimeapi.ListPodSandboxStatsResponse{Stats: before})
	}
	old := map[string]*runtimeapi.CpuUsage{}
	for _, s := range before {
		old[s.Attributes.Id] = s.GetLinux().GetCpu()
	}
	if err := t.p.Sleep(time.Duration(c.Int("seconds")) * time.Second); err != nil {
		return err
	}
	now, err := t.podStats(r, f)
	if err != nil {
		return err
	}
	tab := newTable(t.p.Stdout)
	tab.row("POD", "POD ID", "CPU %", "MEM")
	for _, s := range now {
		cpu, mem := s.GetLinux().GetCpu(), s.GetLinux().GetMemory().GetWorkingSetBytes().GetValue()
		o, ok := old[s.Attributes.Id]
		if cpu.GetUsageCoreNanoSeconds().GetValue() == 0 && mem == 0 || !ok {
			continue
		}
		percent, err := cpuPercent(cpu.GetUsageCoreNanoSeconds().GetValue(), o.GetUsageCoreNanoSeconds().GetValue(), cpu.GetTimestamp()-o.GetTimestamp())
		if err != nil {
			return err
		}
		tab.row(s.Attributes.GetMetadata().GetName(), truncated(s.Attributes.Id, ""), percent, units.HumanSize(float64(mem)))
	}
	t.clearScreen()
	return tab.w.Flush()
}
