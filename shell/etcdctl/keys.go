package etcdctl

import (
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"
	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
)

func (t *tool) getCommand() *cobra.Command {
	var consistency, order, sortBy string
	var limit, rev, minCreate, maxCreate, minMod, maxMod int64
	var prefix, fromKey, keysOnly, countOnly bool
	c := &cobra.Command{Use: "get [options] <key> [range_end]", Short: "Gets the key or a range of keys"}
	f := c.Flags()
	f.StringVar(&consistency, "consistency", "l", "Linearizable(l) or Serializable(s)")
	f.StringVar(&order, "order", "", "Order of results; ASCEND or DESCEND (ASCEND by default)")
	f.StringVar(&sortBy, "sort-by", "", "Sort target; CREATE, KEY, MODIFY, VALUE, or VERSION")
	f.Int64Var(&limit, "limit", 0, "Maximum number of results")
	f.BoolVar(&prefix, "prefix", false, "Get keys with matching prefix")
	f.BoolVar(&fromKey, "from-key", false, "Get keys that are greater than or equal to the given key using byte compare")
	f.Int64Var(&rev, "rev", 0, "Specify the kv revision")
	f.BoolVar(&keysOnly, "keys-only", false, "Get only the keys")
	f.BoolVar(&countOnly, "count-only", false, "Get only the count")
	f.BoolVar(&t.valueOnly, "print-value-only", false, `Only write values when using the "simple" output format`)
	f.Int64Var(&minCreate, "min-create-rev", 0, "Minimum create revision")
	f.Int64Var(&maxCreate, "max-create-rev", 0, "Maximum create revision")
	f.Int64Var(&minMod, "min-mod-rev", 0, "Minimum modification revision")
	f.Int64Var(&maxMod, "max-mod-rev", 0, "Maximum modification revision")
	c.Run = func(c *cobra.Command, args []string) {
		if len(args) == 0 {
			t.failf(exitBadArgs, "get command needs one argument as key and an optional argument as range_end")
		}
		if prefix && fromKey {
			t.failf(exitBadArgs, "`--prefix` and `--from-key` cannot be set at the same time, choose one")
		}
		if keysOnly && countOnly {
			t.failf(exitBadArgs, "`--keys-only` and `--count-only` cannot be set at the same time, choose one")
		}
		var opts []clientv3.OpOption
		if t.serializable(consistency) {
			opts = append(opts, clientv3.WithSerializable())
		}
		key, opts := t.rangeOf(args, prefix, fromKey, opts)
		opts = append(opts, clientv3.WithLimit(limit))
		if rev > 0 {
			opts = append(opts, clientv3.WithRev(rev))
		}
		orders := map[string]clientv3.SortOrder{"": clientv3.SortNone, "ASCEND": clientv3.SortAscend, "DESCEND": clientv3.SortDescend}
		o, ok := orders[strings.ToUpper(order)]
		if !ok {
			t.failf(exitBadFeature, "bad sort order %v", order)
		}
		targets := map[string]clientv3.SortTarget{"": clientv3.SortByKey, "KEY": clientv3.SortByKey, "CREATE": clientv3.SortByCreateRevision,
			"MODIFY": clientv3.SortByModRevision, "VALUE": clientv3.SortByValue, "VERSION": clientv3.SortByVersion}
		target, ok := targets[strings.ToUpper(sortBy)]
		if !ok {
			t.failf(exitBadFeature, "bad sort target %v", sortBy)
		}
		opts = append(opts, clientv3.WithSort(target, o))
		if keysOnly {
			opts = append(opts, clientv3.WithKeysOnly())
		}
		if countOnly {
			opts = append(opts, clientv3.WithCountOnly())
		}
		for _, x := range []struct {
			n   int64
			opt func(int64) clientv3.OpOption
		}{{minCreate, clientv3.WithMinCreateRev}, {maxCreate, clientv3.WithMaxCreateRev}, {minMod, clientv3.WithMinModRev}, {maxMod, clientv3.WithMaxModRev}} {
			if x.n > 0 {
				opts = append(opts, x.opt(x.n))
			}
		}
		client := t.client(t.configure(c))
		ctx, cancel := t.context()
		defer cancel()
		r, err := client.Get(ctx, key, opts...)
		if err != nil {
			t.fail(exitError, err)
		}
		if countOnly && t.format != "fields" {
			t.failf(exitBadArgs, "--count-only is only for `--write-out=fields`")
		}
		if t.valueOnly && t.format != "simple" {
			t.failf(exitBadArgs, "print-value-only is only for `--write-out=simple`")
		}
		t.showGet(r)
	}
	return c
}

// serializable reads --consistency.
func (t *tool) serializable(consistency string) bool {
	switch consistency {
	case "s":
		return true
	case "l":
	default:
		t.failf(exitBadFeature, "unknown consistency flag %q", consistency)
	}
	return false
}

// rangeOf is the key and the options of a range of keys.
func (t *tool) rangeOf(args []string, prefix, fromKey bool, opts []clientv3.OpOption) (string, []clientv3.OpOption) {
	key := args[0]
	if len(args) > 1 {
		if prefix || fromKey {
			t.failf(exitBadArgs, "too many arguments, only accept one argument when `--prefix` or `--from-key` is set")
		}
		opts = append(opts, clientv3.WithRange(args[1]))
	}
	switch {
	case prefix && key != "":
		opts = append(opts, clientv3.WithPrefix())
	case prefix || fromKey:
		if key == "" {
			key = "\x00"
		}
		opts = append(opts, clientv3.WithFromKey())
	}
	return key, opts
}

func (t *tool) showGet(r *clientv3.GetResponse) {
	switch t.format {
	case "simple":
		for _, kv := range r.Kvs {
			t.kv(kv)
		}
	case "json":
		t.json((*pb.RangeResponse)(r))
	case "fields":
		t.header(r.Header)
		for _, kv := range r.Kvs {
			t.kvFields("", kv)
		}
		t.Printf("\"More\" : %v\n\"Count\" : %d\n", r.More, r.Count)
	default:
		t.unsupported()
	}
}

func (t *tool) putCommand() *cobra.Command {
	var lease string
	var prevKV, ignoreValue, ignoreLease bool
	c := &cobra.Command{Use: "put [options] <key> <value> (<value> can also be given from stdin)", Short: "Puts the given key into the store", Long: `
Puts the given key into the store.

When <value> begins with '-', <value> is interpreted as a flag.
Insert '--' for workaround:

$ put <key> -- <value>
$ put -- <key> <value>

If <value> isn't given as a command line argument and '--ignore-value' is not specified,
this command tries to read the value from standard input.

If <lease> isn't given as a command line argument and '--ignore-lease' is not specified,
this command tries to read the value from standard input.

For example,
$ cat file | put <key>
will store the content of the file to <key>.
`}
	c.Flags().StringVar(&lease, "lease", "0", "lease ID (in hexadecimal) to attach to the key")
	c.Flags().BoolVar(&prevKV, "prev-kv", false, "return the previous key-value pair before modification")
	c.Flags().BoolVar(&ignoreValue, "ignore-value", false, "updates the key using its current value")
	c.Flags().BoolVar(&ignoreLease, "ignore-lease", false, "updates the key using its current lease")
	c.Run = func(c *cobra.Command, args []string) {
		if len(args) == 0 {
			t.failf(exitBadArgs, "put command needs 1 argument and input from stdin or 2 arguments")
		}
		if ignoreValue && len(args) > 1 {
			t.failf(exitBadArgs, "put command needs only 1 argument when 'ignore-value' is set")
		}
		var value string
		switch {
		case ignoreValue:
		case len(args) > 1:
			value = args[1]
		default:
			b, err := io.ReadAll(io.LimitReader(t.Stdin, 16<<20))
			if err != nil || len(b) == 0 {
				t.failf(exitBadArgs, "put command needs 1 argument and input from stdin or 2 arguments")
			}
			value = string(b)
		}
		id, err := strconv.ParseInt(lease, 16, 64)
		if err != nil {
			t.failf(exitBadArgs, "bad lease ID (%w), expecting ID in Hex", err)
		}
		var opts []clientv3.OpOption
		if id != 0 {
			opts = append(opts, clientv3.WithLease(clientv3.LeaseID(id)))
		}
		if prevKV {
			opts = append(opts, clientv3.WithPrevKV())
		}
		if ignoreValue {
			opts = append(opts, clientv3.WithIgnoreValue())
		}
		if ignoreLease {
			opts = append(opts, clientv3.WithIgnoreLease())
		}
		client := t.client(t.configure(c))
		ctx, cancel := t.context()
		defer cancel()
		r, err := client.Put(ctx, args[0], value, opts...)
		if err != nil {
			t.fail(exitError, err)
		}
		switch t.format {
		case "simple":
			t.Printf("OK\n")
			if r.PrevKv != nil {
				t.kv(r.PrevKv)
			}
		case "json":
			t.json((*pb.PutResponse)(r))
		case "fields":
			t.header(r.Header)
			if r.PrevKv != nil {
				t.kvFields("Prev", r.PrevKv)
			}
		default:
			t.unsupported()
		}
	}
	return c
}

func (t *tool) delCommand() *cobra.Command {
	var prefix, prevKV, fromKey, quick bool
	c := &cobra.Command{Use: "del [options] <key> [range_end]", Short: "Removes the specified key or range of keys [key, range_end)"}
	c.Flags().BoolVar(&prefix, "prefix", false, "delete keys with matching prefix")
	c.Flags().BoolVar(&prevKV, "prev-kv", false, "return deleted key-value pairs")
	c.Flags().BoolVar(&fromKey, "from-key", false, "delete keys that are greater than or equal to the given key using byte compare")
	c.Flags().BoolVar(&quick, "range", false, "delete range of keys")
	c.Run = func(c *cobra.Command, args []string) {
		if len(args) == 0 || len(args) > 2 {
			t.failf(exitBadArgs, "del command needs one argument as key and an optional argument as range_end")
		}
		if prefix && fromKey {
			t.failf(exitBadArgs, "`--prefix` and `--from-key` cannot be set at the same time, choose one")
		}
		key, opts := t.rangeOf(args, prefix, fromKey, nil)
		if len(args) > 1 && !quick {
			t.Errorf("Warning: Keys between %q and %q will be deleted. Please interrupt the command within next 2 seconds to cancel. You can provide `--range` flag to avoid the delay.\n", args[0], args[1])
			if t.Sleep(2*time.Second) != nil {
				return
			}
		}
		if prevKV {
			opts = append(opts, clientv3.WithPrevKV())
		}
		client := t.client(t.configure(c))
		ctx, cancel := t.context()
		defer cancel()
		r, err := client.Delete(ctx, key, opts...)
		if err != nil {
			t.fail(exitError, err)
		}
		switch t.format {
		case "simple":
			t.Printf("%d\n", r.Deleted)
			for _, kv := range r.PrevKvs {
				t.kv(kv)
			}
		case "json":
			t.json((*pb.DeleteRangeResponse)(r))
		case "fields":
			t.header(r.Header)
			t.Printf("\"Deleted\" : %d\n", r.Deleted)
			for _, kv := range r.PrevKvs {
				t.kvFields("Prev", kv)
			}
		default:
			t.unsupported()
		}
	}
	return c
}

func (t *tool) compactionCommand() *cobra.Command {
	var physical bool
	c := &cobra.Command{Use: "compaction [options] <revision>", Short: "Compacts the event history in etcd"}
	c.Flags().BoolVar(&physical, "physical", false, "'true' to wait for compaction to physically remove all old revisions")
	c.Run = func(c *cobra.Command, args []string) {
		if len(args) != 1 {
			t.failf(exitBadArgs, "compaction command needs 1 argument")
		}
		rev, err := strconv.ParseInt(args[0], 10, 64)
		if err != nil {
			t.fail(exitError, err)
		}
		var opts []clientv3.CompactOption
		if physical {
			opts = append(opts, clientv3.WithCompactPhysical())
		}
		client := t.client(t.configure(c))
		ctx, cancel := t.context()
		defer cancel()
		if _, err := client.Compact(ctx, rev, opts...); err != nil {
			t.fail(exitError, err)
		}
		t.Printf("compacted revision %d\n", rev)
	}
	return c
}

// watchCommand does not use the client library's watcher: that waits on channels that were made outside of the world.
func (t *tool) watchCommand() *cobra.Command {
	var rev int64
	var prefix, prevKV, progress, interactive bool
	c := &cobra.Command{Use: "watch [options] [key or prefix] [range_end] [--] [exec-command arg1 arg2 ...]", Short: "Watches events stream on keys or prefixes"}
	c.Flags().BoolVarP(&interactive, "interactive", "i", false, "Interactive mode")
	c.Flags().BoolVar(&prefix, "prefix", false, "Watch on a prefix if prefix is set")
	c.Flags().Int64Var(&rev, "rev", 0, "Revision to start watching")
	c.Flags().BoolVar(&prevKV, "prev-kv", false, "get the previous key-value pair before the event happens")
	c.Flags().BoolVar(&progress, "progress-notify", false, "get periodic watch progress notification from server")
	c.Run = func(c *cobra.Command, args []string) {
		if interactive || c.ArgsLenAtDash() >= 0 {
			t.failf(exitError, "ckadrill does not simulate `etcdctl watch` in interactive mode or with a command yet")
		}
		key, end := t.Getenv("ETCDCTL_WATCH_KEY"), t.Getenv("ETCDCTL_WATCH_RANGE_END")
		if key == "" && end != "" {
			t.failf(exitBadArgs, "ETCDCTL_WATCH_KEY is empty but got ETCDCTL_WATCH_RANGE_END=%q", end)
		}
		if len(args) > 0 {
			key = args[0]
		}
		if len(args) > 1 {
			end = args[1]
		}
		if key == "" {
			t.failf(exitBadArgs, "bad number of arguments")
		}
		req := &pb.WatchCreateRequest{Key: []byte(key), RangeEnd: []byte(end), StartRevision: rev, PrevKv: prevKV, ProgressNotify: progress}
		if prefix {
			if end != "" {
				t.failf(exitBadArgs, "`range_end` and `--prefix` are mutually exclusive")
			}
			req.RangeEnd = []byte(clientv3.GetPrefixRangeEnd(key))
		}
		t.watch(t.client(t.configure(c)), req)
	}
	return c
}

func (t *tool) watch(client *clientv3.Client, req *pb.WatchCreateRequest) {
	stream, err := pb.NewWatchClient(client.ActiveConnection()).Watch(clientv3.WithRequireLeader(t.Context()))
	if err == nil {
		err = stream.Send(&pb.WatchRequest{RequestUnion: &pb.WatchRequest_CreateRequest{CreateRequest: req}})
	}
	for err == nil {
		var r *pb.WatchResponse
		if r, err = stream.Recv(); err != nil {
			break
		}
		if r.CompactRevision != 0 {
			t.Errorf("watch was canceled (etcdserver: mvcc: required revision has been compacted)\n")
			break
		}
		if r.Canceled {
			t.Errorf("watch was canceled (%s)\n", r.CancelReason)
			break
		}
		if r.Created {
			continue
		}
		t.showWatch(r)
	}
	if t.Context().Err() != nil {
		return
	}
	t.failf(exitInterrupted, "watch is canceled by the server")
}

func (t *tool) showWatch(r *pb.WatchResponse) {
	switch t.format {
	case "simple":
		for _, e := range r.Events {
			t.Printf("%s\n", e.Type)
			if e.PrevKv != nil {
				t.kv(e.PrevKv)
			}
			t.kv(e.Kv)
		}
	case "json":
		t.json(clientv3.WatchResponse{Header: *r.Header, CompactRevision: r.CompactRevision, Events: eventsOf(r)})
	case "fields":
		t.header(r.Header)
		for _, e := range r.Events {
			t.Printf("\"Type\" : %s\n", e.Type)
			if e.PrevKv != nil {
				t.kvFields("Prev", e.PrevKv)
			}
			t.kvFields("", e.Kv)
		}
	default:
		t.unsupported()
	}
}

func eventsOf(r *pb.WatchResponse) (l []*clientv3.Event) {
	for _, e := range r.Events {
		l = append(l, (*clientv3.Event)(e))
	}
	return l
}
