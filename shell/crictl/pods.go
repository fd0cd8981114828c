package crictl

import (
	"fmt"
	"sort"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"ckadrill/sim/runtime"
)

// pods finds sandboxes, newest first.
func (t *tool) pods(r *runtime.RuntimeClient, f filter) ([]*runtimeapi.PodSandbox, error) {
	q := &runtimeapi.PodSandboxFilter{Id: f.id, LabelSelector: f.labels}
	switch strings.ToLower(f.state) {
	case "":
	case "ready":
		q.State = &runtimeapi.PodSandboxStateValue{State: runtimeapi.PodSandboxState_SANDBOX_READY}
	case "notready":
		q.State = &runtimeapi.PodSandboxStateValue{State: runtimeapi.PodSandboxState_SANDBOX_NOTREADY}
	default:
		t.logFatal("--state should be ready or notready")
	}
	all, err := r.ListPodSandbox(t.ctx, q)
	if err != nil {
		return nil, fmt.Errorf("call list sandboxes RPC: %w", err)
	}
	var l []*runtimeapi.PodSandbox
	for _, b := range all {
		if matches(f.name, b.GetMetadata().GetName()) && matches(f.namespace, b.GetMetadata().GetNamespace()) {
			l = append(l, b)
		}
	}
	sort.SliceStable(l, func(i, j int) bool { return l[i].CreatedAt > l[j].CreatedAt })
	return firstOf(l, f), nil
}

func podState(s runtimeapi.PodSandboxState) string {
	if s == runtimeapi.PodSandboxState_SANDBOX_READY {
		return "Ready"
	}
	return "NotReady"
}

func handler(b *runtimeapi.PodSandbox) string {
	if b.RuntimeHandler == "" {
		return "(default)"
	}
	return b.RuntimeHandler
}

var podFlags = []cli.Flag{
	&cli.StringFlag{Name: "name", Usage: "Filter by pod name regular expression pattern"},
	&cli.StringFlag{Name: "namespace", Usage: "Filter by pod namespace regular expression pattern"},
	&cli.StringFlag{Name: "state", Aliases: []string{"s"}, Usage: "Filter by pod state"},
	&cli.StringSliceFlag{Name: "label", Usage: "Filter by key=value label"},
	&cli.BoolFlag{Name: "latest", Aliases: []string{"l"}, Usage: "Show the most recently created pod"},
	&cli.IntFlag{Name: "last", Aliases: []string{"n"}, Usage: "Show last n recently created pods. Set 0 for unlimited"},
}

func (t *tool) podsCommand() *cli.Command {
	return &cli.Command{Name: "pods", Usage: "List pods", UseShortOptionHandling: true,
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "id", Usage: "filter by pod id"},
			&cli.BoolFlag{Name: "verbose", Aliases: []string{"v"}, Usage: "Show verbose info for pods"},
			&cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "List only pod IDs"},
			&cli.StringFlag{Name: "output", Aliases: []string{"o"}, Value: "table", Usage: "Output format, One of: json|yaml|table"},
			&cli.BoolFlag{Name: "no-trunc", Usage: "Show output without truncating the ID"},
		}, podFlags...),
		Action: func(c *cli.Context) error {
			r, err := t.runtime()
			if err != nil {
				return err
			}
			f, err := filterOf(c)
			if err != nil {
				return err
			}
			l, err := t.pods(r, f)
			if err != nil {
				return fmt.Errorf("listing pod sandboxes: list pod sandboxes: %w", err)
			}
			if err := t.printPods(c, l); err != nil {
				return fmt.Errorf("listing pod sandboxes: %w", err)
			}
			return nil
		}}
}

func (t *tool) printPods(c *cli.Context, l []*runtimeapi.PodSandbox) error {
	switch o := c.String("output"); o {
	case "json":
		return t.outputJSON(&runtimeapi.ListPodSandboxResponse{Items: l})
	case "yaml":
		return t.outputYAML(&runtimeapi.ListPodSandboxResponse{Items: l})
	case "table":
	default:
		return fmt.Errorf("unsupported output format %q", o)
	}
	verbose, quiet := c.Bool("verbose"), c.Bool("quiet")
	tab := newTable(t.p.Stdout)
	if !verbose && !quiet {
		tab.row("POD ID", "CREATED", "STATE", "NAME", "NAMESPACE", "ATTEMPT", "RUNTIME")
	}
	for _, b := range l {
		m := b.GetMetadata()
		switch {
		case quiet:
			t.println(b.Id)
		case verbose:
			t.printf("ID: %s\n", b.Id)
			t.printf("Name: %s\nUID: %s\nNamespace: %s\n", m.GetName(), m.GetUid(), m.GetNamespace())
			if m.GetAttempt() != 0 {
				t.printf("Attempt: %v\n", m.GetAttempt())
			}
			t.printf("Status: %s\nCreated: %v\n", podState(b.State), time.Unix(0, b.CreatedAt).UTC())
			t.printMap("Labels", b.Labels)
			t.printMap("Annotations", b.Annotations)
			t.printf("Runtime: %s\n\n", handler(b))
		default:
			id := b.Id
			if !c.Bool("no-trunc") {
				id = truncated(id, "")
			}
			tab.row(id, ago(b.CreatedAt), podState(b.State), m.GetName(), m.GetNamespace(), formatUint(m.GetAttempt()), handler(b))
		}
	}
	return tab.w.Flush()
}

func (t *tool) inspectpCommand() *cli.Command {
	return &cli.Command{Name: "inspectp", Usage: "Display the status of one or more pods", ArgsUsage: "POD-ID [POD-ID...]", UseShortOptionHandling: true,
		Flags: append(append([]cli.Flag{}, inspectFlags...), podFlags...),
		Action: func(c *cli.Context) error {
			r, err := t.runtime()
			if err != nil {
				return err
			}
			ids := c.Args().Slice()
			if len(ids) == 0 {
				f, err := filterOf(c)
				if err != nil {
					return fmt.Errorf("parse label string slice: %w", err)
				}
				l, err := t.pods(r, f)
				if err != nil {
					return fmt.Errorf("listing pod sandboxes: %w", err)
				}
				for _, b := range l {
					ids = append(ids, b.Id)
				}
			}
			if len(ids) == 0 {
				t.logError("No IDs provided or nothing found per filter")
				return cli.ShowSubcommandHelp(c)
			}
			var out []statusData
			for _, id := range ids {
				res, err := r.PodSandboxStatus(t.ctx, id, !c.Bool("quiet"))
				if err != nil {
					return fmt.Errorf("get the status of pod sandboxes: get pod sandbox status: %w", err)
				}
				if c.String("output") == "table" {
					t.podTable(res, !c.Bool("quiet"))
					continue
				}
				m, err := statusMap(res.Status, map[string]any{"createdAt": rfc3339(res.Status.CreatedAt)})
				if err != nil {
					return err
				}
				out = append(out, statusData{status: m, info: res.Info})
			}
			return t.outputStatus(out, outputFormat(c), c.String("template"))
		}}
}

func (t *tool) podTable(res *runtimeapi.PodSandboxStatusResponse, verbose bool) {
	st, m := res.Status, res.Status.GetMetadata()
	t.printf("ID: %s\nName: %s\nUID: %s\nNamespace: %s\nAttempt: %v\nStatus: %s\nCreated: %v\n", st.Id, m.GetName(), m.GetUid(), m.GetNamespace(), m.GetAttempt(), st.State, time.Unix(0, st.CreatedAt).UTC())
	if st.Network != nil {
		t.printf("IP Addresses: %v\n", st.Network.Ip)
		for _, ip := range st.Network.AdditionalIps {
			t.printf("Additional IP: %v\n", ip.Ip)
		}
	}
	t.printMap("Labels", st.Labels)
	t.printMap("Annotations", st.Annotations)
	if verbose {
		t.printf("Info: %v\n", res.Info)
	}
}

func (t *tool) stoppCommand() *cli.Command {
	return &cli.Command{Name: "stopp", Usage: "Stop one or more running pods", ArgsUsage: "POD-ID [POD-ID...]", Action: func(c *cli.Context) error {
		if c.NArg() == 0 {
			return cli.ShowSubcommandHelp(c)
		}
		r, err := t.runtime()
		if err != nil {
			return err
		}
		for _, id := range c.Args().Slice() {
			if err := t.stopPod(r, id); err != nil {
				return fmt.Errorf("stopping the pod sandbox %q: %w", id, err)
			}
		}
		return nil
	}}
}

func (t *tool) stopPod(r *runtime.RuntimeClient, id string) error {
	if err := r.StopPodSandbox(t.ctx, id); err != nil {
		return err
	}
	t.printf("Stopped sandbox %s\n", id)
	return nil
}

func (t *tool) rmpCommand() *cli.Command {
	return &cli.Command{Name: "rmp", Usage: "Remove one or more pods", ArgsUsage: "POD-ID [POD-ID...]", UseShortOptionHandling: true,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "force", Aliases: []string{"f"}, Usage: "Force removal of the pod sandbox, disregarding if running"},
			&cli.BoolFlag{Name: "all", Aliases: []string{"a"}, Usage: "Remove all pods"},
		},
		Action: func(c *cli.Context) error {
			r, err := t.runtime()
			if err != nil {
				return err
			}
			ids := c.Args().Slice()
			if c.Bool("all") {
				l, err := r.ListPodSandbox(t.ctx, nil)
				if err != nil {
					return err
				}
				ids = nil
				for _, b := range l {
					ids = append(ids, b.Id)
				}
				if len(ids) == 0 {
					t.info("No pods to remove")
					return nil
				}
			}
			if len(ids) == 0 {
				return cli.ShowSubcommandHelp(c)
			}
			return each(ids, func(id string) error {
				res, err := r.PodSandboxStatus(t.ctx, id, false)
				if err != nil {
					return fmt.Errorf("getting sandbox status of pod %q: %w", id, err)
				}
				if res.Status.State == runtimeapi.PodSandboxState_SANDBOX_READY {
					if !c.Bool("force") {
						return fmt.Errorf("pod sandbox %q is running, please stop it first", id)
					}
					if err := t.stopPod(r, id); err != nil {
						return fmt.Errorf("stopping the pod sandbox %q failed: %w", id, err)
					}
				}
				if err := r.RemovePodSandbox(t.ctx, id); err != nil {
					return fmt.Errorf("removing the pod sandbox %q: %w", id, err)
				}
				t.printf("Removed sandbox %s\n", id)
				return nil
			})
		}}
}
