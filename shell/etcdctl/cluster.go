package etcdctl

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/spf13/cobra"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"go.etcd.io/etcd/client/pkg/v3/types"
	clientv3 "go.etcd.io/etcd/client/v3"
)

func (t *tool) endpointCommand() *cobra.Command {
	c := &cobra.Command{Use: "endpoint <subcommand>", Short: "Endpoint related commands"}
	var all bool
	var rev int64
	c.PersistentFlags().BoolVar(&all, "cluster", false, "use all endpoints from the cluster member list")
	health := &cobra.Command{Use: "health", Short: "Checks the healthiness of endpoints specified in `--endpoints` flag",
		Run: func(c *cobra.Command, _ []string) { t.health(t.configure(c), all) }}
	status := &cobra.Command{Use: "status", Short: "Prints out the status of endpoints specified in `--endpoints` flag",
		Long: `When --write-out is set to simple, this command prints out comma-separated status lists for each endpoint.
The items in the lists are endpoint, ID, version, db size, is leader, is learner, raft term, raft index, raft applied index, errors.
`, Run: func(c *cobra.Command, _ []string) { t.status(t.configure(c), all) }}
	hash := &cobra.Command{Use: "hashkv", Short: "Prints the KV history hash for each endpoint in --endpoints",
		Run: func(c *cobra.Command, _ []string) { t.hashKV(t.configure(c), all, rev) }}
	hash.PersistentFlags().Int64Var(&rev, "rev", 0, "maximum revision to hash (default: latest revision)")
	c.AddCommand(health, status, hash)
	return c
}

// endpoints are those of --endpoints, or with --cluster what the members advertise.
func (t *tool) endpoints(cfg clientv3.Config, all bool) []string {
	if !all {
		return cfg.Endpoints
	}
	c := t.client(cfg)
	defer c.Close()
	ctx, cancel := t.context()
	defer cancel()
	r, err := c.MemberList(ctx)
	if err != nil {
		t.failf(exitError, "failed to fetch endpoints from etcd cluster member list: %w", err)
	}
	var l []string
	for _, m := range r.Members {
		l = append(l, m.ClientURLs...)
	}
	return l
}

type endpointHealth struct {
	Endpoint string `json:"endpoint"`
	Health   bool   `json:"health"`
	Took     string `json:"took"`
	Error    string `json:"error,omitempty"`
	at       time.Time
}

func (t *tool) health(cfg clientv3.Config, all bool) {
	eps := t.endpoints(cfg, all)
	cfg.Logger = t.logger().Named("client")
	l := make([]endpointHealth, len(eps))
	var wg sync.WaitGroup
	for i, ep := range eps {
		wg.Add(1)
		go func() {
			defer wg.Done()
			l[i] = t.probe(cfg, ep)
			l[i].at = time.Now()
		}()
	}
	wg.Wait()
	// as they came in
	slices.SortStableFunc(l, func(a, b endpointHealth) int { return a.at.Compare(b.at) })
	bad := slices.ContainsFunc(l, func(h endpointHealth) bool { return h.Error != "" })
	switch t.format {
	case "json":
		t.json(l)
	case "table":
		rows := [][]string{}
		for _, h := range l {
			rows = append(rows, []string{h.Endpoint, strconv.FormatBool(h.Health), h.Took, h.Error})
		}
		t.rows([]string{"endpoint", "health", "took", "error"}, rows)
	case "fields":
		for _, h := range l {
			t.Printf("\"Endpoint\" : %q\n\"Health\" : %v\n\"Took\" : %s\n\"Error\" : %s\n\n", h.Endpoint, h.Health, h.Took, h.Error)
		}
	default:
		for _, h := range l {
			if h.Error == "" {
				t.Printf("%s is healthy: successfully committed proposal: took = %v\n", h.Endpoint, h.Took)
			} else {
				t.Errorf("%s is unhealthy: failed to commit proposal: %v\n", h.Endpoint, h.Error)
			}
		}
	}
	if bad {
		t.failf(exitError, "unhealthy cluster")
	}
}

// probe asks one endpoint for a key, which needs the agreement of the cluster, and for its alarms.
func (t *tool) probe(cfg clientv3.Config, ep string) endpointHealth {
	h := endpointHealth{Endpoint: ep}
	cfg.Endpoints = []string{ep}
	c, err := clientv3.New(cfg)
	if err != nil {
		h.Error = err.Error()
		return h
	}
	defer c.Close()
	start := time.Now()
	ctx, cancel := t.context()
	defer cancel()
	_, err = c.Get(ctx, "health")
	h.Took = time.Since(start).String()
	if err != nil && !errors.Is(err, rpctypes.ErrPermissionDenied) {
		h.Error = err.Error()
		return h
	}
	r, err := c.AlarmList(ctx)
	switch {
	case err != nil:
		h.Error = "Unable to fetch the alarm list"
	case len(r.Alarms) > 0:
		h.Error = "Active Alarm(s): "
		for _, a := range r.Alarms {
			switch a.Alarm {
			case pb.AlarmType_NOSPACE, pb.AlarmType_CORRUPT:
				h.Error += a.Alarm.String() + " "
			default:
				h.Error += "UNKNOWN "
			}
		}
	default:
		h.Health = true
	}
	return h
}

type endpointStatus struct {
	Endpoint string                   `json:"Endpoint"`
	Status   *clientv3.StatusResponse `json:"Status"`
}

// each calls f with a client of every endpoint, and says whether all succeeded.
func (t *tool) each(cfg clientv3.Config, all bool, f func(ctx context.Context, c *clientv3.Client, ep string) error) error {
	var failed error
	for _, ep := range t.endpoints(cfg, all) {
		cfg.Endpoints = []string{ep}
		c := t.client(cfg)
		ctx, cancel := t.context()
		if err := f(ctx, c, ep); err != nil {
			failed = err
		}
		cancel()
		c.Close()
	}
	return failed
}

func (t *tool) status(cfg clientv3.Config, all bool) {
	var l []endpointStatus
	err := t.each(cfg, all, func(ctx context.Context, c *clientv3.Client, ep string) error {
		r, err := c.Status(ctx, ep)
		if err != nil {
			t.Errorf("Failed to get the status of endpoint %s (%v)\n", ep, err)
			return err
		}
		l = append(l, endpointStatus{ep, r})
		return nil
	})
	switch t.format {
	case "json":
		t.json(l)
	case "fields":
		for _, s := range l {
			t.statusFields(s)
		}
	default:
		rows := [][]string{}
		for _, s := range l {
			r := s.Status
			free := 0
			if r.DbSize > 0 {
				free = int(100 - r.DbSizeInUse*100/r.DbSize)
			}
			rows = append(rows, []string{
				s.Endpoint, fmt.Sprintf("%x", r.Header.MemberId), r.Version, r.StorageVersion, size(uint64(r.DbSize)), size(uint64(r.DbSizeInUse)),
				fmt.Sprintf("%d%%", free), size(uint64(r.DbSizeQuota)), strconv.FormatBool(r.Leader == r.Header.MemberId), strconv.FormatBool(r.IsLearner),
				fmt.Sprint(r.RaftTerm), fmt.Sprint(r.RaftIndex), fmt.Sprint(r.RaftAppliedIndex), strings.Join(r.Errors, ", "),
				r.DowngradeInfo.GetTargetVersion(), strconv.FormatBool(r.DowngradeInfo.GetEnabled()),
			})
		}
		t.rows([]string{"endpoint", "ID", "version", "storage version", "db size", "in use", "percentage not in use", "quota", "is leader", "is learner",
			"raft term", "raft index", "raft applied index", "errors", "downgrade target version", "downgrade enabled"}, rows)
	}
	if err != nil {
		t.Exit(exitError)
	}
}

func (t *tool) statusFields(s endpointStatus) {
	r := s.Status
	t.header(r.Header)
	t.Printf("\"Version\" : %q\n\"StorageVersion\" : %q\n\"DBSize\" : %d\n\"DBSizeInUse\" : %d\n\"Leader\" : %d\n\"IsLearner\" : %v\n\"RaftIndex\" : %d\n\"RaftTerm\" : %d\n\"RaftAppliedIndex\" : %d\n\"Errors\" : %q\n\"Endpoint\" : %q\n\n",
		r.Version, r.StorageVersion, r.DbSize, r.DbSizeInUse, r.Leader, r.IsLearner, r.RaftIndex, r.RaftTerm, r.RaftAppliedIndex, r.Errors, s.Endpoint)
}

func (t *tool) hashKV(cfg clientv3.Config, all bool, rev int64) {
	type hash struct {
		Endpoint string                   `json:"Endpoint"`
		HashKV   *clientv3.HashKVResponse `json:"HashKV"`
	}
	var l []hash
	err := t.each(cfg, all, func(ctx context.Context, c *clientv3.Client, ep string) error {
		r, err := c.HashKV(ctx, ep, rev)
		if err != nil {
			t.Errorf("Failed to get the hash of endpoint %s (%v)\n", ep, err)
			return err
		}
		l = append(l, hash{ep, r})
		return nil
	})
	if t.format == "json" {
		t.json(l)
	} else {
		rows := [][]string{}
		for _, h := range l {
			rows = append(rows, []string{h.Endpoint, fmt.Sprint(h.HashKV.Hash), fmt.Sprint(h.HashKV.HashRevision)})
		}
		t.rows([]string{"endpoint", "hash", "hash_revision"}, rows)
	}
	if err != nil {
		t.fail(exitError, err)
	}
}

func (t *tool) defragCommand() *cobra.Command {
	var all bool
	c := &cobra.Command{Use: "defrag", Short: "Defragments the storage of the etcd members with given endpoints"}
	c.PersistentFlags().BoolVar(&all, "cluster", false, "use all endpoints from the cluster member list")
	c.Run = func(c *cobra.Command, _ []string) {
		err := t.each(t.configure(c), all, func(ctx context.Context, c *clientv3.Client, ep string) error {
			start := time.Now()
			_, err := c.Defragment(ctx, ep)
			took := time.Since(start)
			if err != nil {
				t.Errorf("Failed to defragment etcd member[%s]. took %s. (%v)\n", ep, took, err)
				return err
			}
			t.Printf("Finished defragmenting etcd member[%s]. took %s\n", ep, took)
			return nil
		})
		if err != nil {
			t.Exit(exitError)
		}
	}
	return c
}

func (t *tool) alarmCommand() *cobra.Command {
	c := &cobra.Command{Use: "alarm <subcommand>", Short: "Alarm related commands"}
	sub := func(name, short string, call func(context.Context, *clientv3.Client) (*clientv3.AlarmResponse, error)) *cobra.Command {
		return &cobra.Command{Use: name, Short: short, Run: func(c *cobra.Command, args []string) {
			if len(args) != 0 {
				t.failf(exitBadArgs, "alarm %s command accepts no arguments", name)
			}
			client := t.client(t.configure(c))
			ctx, cancel := t.context()
			defer cancel()
			r, err := call(ctx, client)
			if err != nil {
				t.fail(exitError, err)
			}
			switch t.format {
			case "json":
				t.json((*pb.AlarmResponse)(r))
			case "simple":
				for _, a := range r.Alarms {
					t.Printf("%+v\n", a)
				}
			default:
				t.unsupported()
			}
		}}
	}
	c.AddCommand(
		sub("disarm", "Disarms all alarms", func(ctx context.Context, c *clientv3.Client) (*clientv3.AlarmResponse, error) {
			return c.AlarmDisarm(ctx, &clientv3.AlarmMember{})
		}),
		sub("list", "Lists all alarms", func(ctx context.Context, c *clientv3.Client) (*clientv3.AlarmResponse, error) {
			return c.AlarmList(ctx)
		}),
	)
	return c
}

func (t *tool) moveLeaderCommand() *cobra.Command {
	return &cobra.Command{Use: "move-leader <transferee-member-id>", Short: "Transfers leadership to another etcd cluster member.", Run: func(c *cobra.Command, args []string) {
		if len(args) != 1 {
			t.failf(exitBadArgs, "move-leader command needs 1 argument")
		}
		target, err := strconv.ParseUint(args[0], 16, 64)
		if err != nil {
			t.fail(exitBadArgs, err)
		}
		cfg := t.configure(c)
		ctx, cancel := t.context()
		defer cancel()
		endpoints := cfg.Endpoints
		for _, ep := range endpoints {
			cfg.Endpoints = []string{ep}
			client := t.client(cfg)
			s, err := client.Status(ctx, ep)
			if err != nil {
				t.fail(exitError, err)
			}
			if s.Header.MemberId != s.Leader {
				client.Close()
				continue
			}
			if _, err := client.MoveLeader(ctx, target); err != nil {
				t.fail(exitError, err)
			}
			if t.format != "simple" {
				t.unsupported()
			}
			t.Printf("Leadership transferred from %s to %s\n", types.ID(s.Leader), types.ID(target))
			return
		}
		t.failf(exitBadArgs, "no leader endpoint given at %v", endpoints)
	}}
}

func (t *tool) memberCommand() *cobra.Command {
	c := &cobra.Command{Use: "member <subcommand>", Short: "Membership related commands"}
	var peers, consistency string
	var learner bool
	add := &cobra.Command{Use: "add <memberName> [options]", Short: "Adds a member into the cluster", Run: func(c *cobra.Command, args []string) { t.memberAdd(c, args, peers, learner) }}
	add.Flags().StringVar(&peers, "peer-urls", "", "comma separated peer URLs for the new member.")
	add.Flags().BoolVar(&learner, "learner", false, "indicates if the new member is raft learner")
	byID := func(use, short string, call func(ctx context.Context, c *clientv3.Client, id uint64) (cluster uint64, what string, r any, err error)) *cobra.Command {
		return &cobra.Command{Use: use, Short: short, Run: func(c *cobra.Command, args []string) {
			if len(args) != 1 {
				t.failf(exitBadArgs, "member ID is not provided")
			}
			id, err := strconv.ParseUint(args[0], 16, 64)
			if err != nil {
				t.failf(exitBadArgs, "bad member ID arg (%w), expecting ID in Hex", err)
			}
			client := t.client(t.configure(c))
			ctx, cancel := t.context()
			defer cancel()
			cluster, what, r, err := call(ctx, client, id)
			if err != nil {
				t.fail(exitError, err)
			}
			if t.format == "json" {
				t.json(r)
				return
			}
			t.Printf("Member %16x %s cluster %16x\n", id, what, cluster)
		}}
	}
	remove := byID("remove <memberID>", "Removes a member from the cluster", func(ctx context.Context, c *clientv3.Client, id uint64) (uint64, string, any, error) {
		r, err := c.MemberRemove(ctx, id)
		if err != nil {
			return 0, "", nil, err
		}
		return r.Header.ClusterId, "removed from", (*pb.MemberRemoveResponse)(r), nil
	})
	var newPeers string
	update := byID("update <memberID> [options]", "Updates a member in the cluster", func(ctx context.Context, c *clientv3.Client, id uint64) (uint64, string, any, error) {
		if newPeers == "" {
			t.failf(exitBadArgs, "member peer urls not provided")
		}
		r, err := c.MemberUpdate(ctx, id, strings.Split(newPeers, ","))
		if err != nil {
			return 0, "", nil, err
		}
		return r.Header.ClusterId, "updated in", (*pb.MemberUpdateResponse)(r), nil
	})
	update.Flags().StringVar(&newPeers, "peer-urls", "", "comma separated peer URLs for the updated member.")
	promote := byID("promote <memberID>", "Promotes a non-voting member in the cluster", func(ctx context.Context, c *clientv3.Client, id uint64) (uint64, string, any, error) {
		r, err := c.MemberPromote(ctx, id)
		if err != nil {
			return 0, "", nil, err
		}
		return r.Header.ClusterId, "promoted in", (*pb.MemberPromoteResponse)(r), nil
	})
	list := &cobra.Command{Use: "list", Short: "Lists all members in the cluster", Long: `When --write-out is set to simple, this command prints out comma-separated member lists for each endpoint.
The items in the lists are ID, Status, Name, Peer Addrs, Client Addrs, Is Learner.
`, Run: func(c *cobra.Command, _ []string) {
		client := t.client(t.configure(c))
		ctx, cancel := t.context()
		defer cancel()
		var opts []clientv3.OpOption
		if t.serializable(consistency) {
			opts = append(opts, clientv3.WithSerializable())
		}
		r, err := client.MemberList(ctx, opts...)
		if err != nil {
			t.fail(exitError, err)
		}
		t.showMembers(r)
	}}
	list.Flags().StringVar(&consistency, "consistency", "l", "Linearizable(l) or Serializable(s)")
	c.AddCommand(add, remove, update, list, promote)
	return c
}

func (t *tool) showMembers(r *clientv3.MemberListResponse) {
	switch t.format {
	case "json":
		if t.hex {
			t.membersInHex(r)
			return
		}
		t.json((*pb.MemberListResponse)(r))
	case "fields":
		t.header(r.Header)
		for _, m := range r.Members {
			t.Printf("\"ID\" : %d\n\"Name\" : %q\n", m.ID, m.Name)
			for _, u := range m.PeerURLs {
				t.Printf("\"PeerURL\" : %q\n", u)
			}
			for _, u := range m.ClientURLs {
				t.Printf("\"ClientURL\" : %q\n", u)
			}
			t.Printf("\"IsLearner\" : %v\n\n", m.IsLearner)
		}
	default:
		rows := [][]string{}
		for _, m := range r.Members {
			state := "started"
			if m.Name == "" {
				state = "unstarted"
			}
			rows = append(rows, []string{fmt.Sprintf("%x", m.ID), state, m.Name, strings.Join(m.PeerURLs, ","), strings.Join(m.ClientURLs, ","), strconv.FormatBool(m.IsLearner)})
		}
		t.rows([]string{"ID", "Status", "Name", "Peer Addrs", "Client Addrs", "Is Learner"}, rows)
	}
}

// membersInHex is the list as JSON whose ids are hexadecimal.
func (t *tool) membersInHex(r *clientv3.MemberListResponse) {
	type header struct {
		Cluster string `json:"cluster_id"`
		Member  string `json:"member_id"`
		Term    uint64 `json:"raft_term"`
	}
	type member struct {
		ID         string
		Name       string   `json:"name"`
		PeerURLs   []string `json:"peerURLs"`
		ClientURLs []string `json:"clientURLs"`
	}
	out := struct {
		Header  header   `json:"header"`
		Members []member `json:"members,omitempty"`
	}{Header: header{types.ID(r.Header.ClusterId).String(), types.ID(r.Header.MemberId).String(), r.Header.RaftTerm}}
	for _, m := range r.Members {
		out.Members = append(out.Members, member{types.ID(m.ID).String(), m.Name, m.PeerURLs, m.ClientURLs})
	}
	t.json(out)
}

func (t *tool) memberAdd(c *cobra.Command, args []string, peers string, learner bool) {
	switch {
	case len(args) < 1:
		t.failf(exitBadArgs, "member name not provided")
	case len(args) > 1:
		t.failf(exitBadArgs, "too many arguments")
	case peers == "":
		t.failf(exitBadArgs, "member peer urls not provided")
	}
	urls := strings.Split(peers, ",")
	client := t.client(t.configure(c))
	ctx, cancel := t.context()
	defer cancel()
	call, role := client.MemberAdd, " "
	if learner {
		call, role = client.MemberAddAsLearner, " as learner "
	}
	r, err := call(ctx, urls)
	if err != nil {
		t.fail(exitError, err)
	}
	if t.format != "simple" {
		t.json((*pb.MemberAddResponse)(r))
		return
	}
	t.Printf("Member %16x added%sto cluster %16x\n", r.Member.ID, role, r.Header.ClusterId)
	var initial []string
	for _, m := range r.Members {
		for _, u := range m.PeerURLs {
			name := m.Name
			if m.ID == r.Member.ID {
				name = args[0]
			}
			initial = append(initial, name+"="+u)
		}
	}
	t.Printf("\nETCD_NAME=%q\nETCD_INITIAL_CLUSTER=%q\nETCD_INITIAL_ADVERTISE_PEER_URLS=%q\nETCD_INITIAL_CLUSTER_STATE=\"existing\"\n", args[0], strings.Join(initial, ","), peers)
}

func (t *tool) leaseCommand() *cobra.Command {
	c := &cobra.Command{Use: "lease <subcommand>", Short: "Lease related commands"}
	run := func(use, short string, n int, call func(ctx context.Context, c *clientv3.Client, args []string) (any, error)) *cobra.Command {
		return &cobra.Command{Use: use, Short: short, Run: func(c *cobra.Command, args []string) {
			if len(args) != n {
				t.failf(exitBadArgs, "lease %s command needs %d argument", c.Name(), n)
			}
			client := t.client(t.configure(c))
			ctx, cancel := t.context()
			defer cancel()
			r, err := call(ctx, client, args)
			if err != nil {
				t.fail(exitError, err)
			}
			if t.format == "json" {
				t.json(r)
			}
		}}
	}
	simple := func(format string, a ...any) {
		if t.format != "json" {
			t.Printf(format, a...)
		}
	}
	id := func(s string) clientv3.LeaseID {
		n, err := strconv.ParseInt(s, 16, 64)
		if err != nil {
			t.failf(exitBadArgs, "bad lease ID arg (%w), expecting ID in Hex", err)
		}
		return clientv3.LeaseID(n)
	}
	var keys bool
	ttl := run("timetolive <leaseID> [options]", "Get lease information", 1, func(ctx context.Context, c *clientv3.Client, args []string) (any, error) {
		var opts []clientv3.LeaseOption
		if keys {
			opts = append(opts, clientv3.WithAttachedKeys())
		}
		r, err := c.TimeToLive(ctx, id(args[0]), opts...)
		if err != nil {
			return nil, err
		}
		if r.GrantedTTL == 0 && r.TTL == -1 {
			simple("lease %016x already expired\n", r.ID)
			return r, nil
		}
		attached := ""
		if keys {
			names := make([]string, len(r.Keys))
			for i, k := range r.Keys {
				names[i] = string(k)
			}
			attached = fmt.Sprintf(", attached keys(%v)", names)
		}
		simple("lease %016x granted with TTL(%ds), remaining(%ds)%s\n", r.ID, r.GrantedTTL, r.TTL, attached)
		return r, nil
	})
	ttl.Flags().BoolVar(&keys, "keys", false, "Get keys attached to this lease")
	c.AddCommand(
		run("grant <ttl>", "Creates leases", 1, func(ctx context.Context, c *clientv3.Client, args []string) (any, error) {
			n, err := strconv.ParseInt(args[0], 10, 64)
			if err != nil {
				t.failf(exitBadArgs, "bad TTL (%w)", err)
			}
			r, err := c.Grant(ctx, n)
			if err == nil {
				simple("lease %016x granted with TTL(%ds)\n", r.ID, r.TTL)
			}
			return r, err
		}),
		run("revoke <leaseID>", "Revokes leases", 1, func(ctx context.Context, c *clientv3.Client, args []string) (any, error) {
			r, err := c.Revoke(ctx, id(args[0]))
			if err == nil {
				simple("lease %016x revoked\n", id(args[0]))
			}
			return r, err
		}),
		ttl,
		run("list", "List all active leases", 0, func(ctx context.Context, c *clientv3.Client, _ []string) (any, error) {
			r, err := c.Leases(ctx)
			if err == nil {
				simple("found %d leases\n", len(r.Leases))
				for _, l := range r.Leases {
					simple("%016x\n", l.ID)
				}
			}
			return r, err
		}),
		run("keep-alive [options] <leaseID>", "Keeps leases alive (renew)", 1, func(ctx context.Context, c *clientv3.Client, args []string) (any, error) {
			r, err := c.KeepAliveOnce(ctx, id(args[0]))
			if err == nil {
				simple("lease %016x keepalived with TTL(%d)\n", r.ID, r.TTL)
			}
			return r, err
		}),
	)
	return c
}
