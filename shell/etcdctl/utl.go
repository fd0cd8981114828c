package etcdctl

import (
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"sort"
	"strings"

	"github.com/spf13/cobra"

	"ckadrill/sim/etcd"
)

func errorf(format string, a ...any) error { return fmt.Errorf(format, a...) }

// named gives a file error the name that the user wrote.
func named(err error, name string) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		return &fs.PathError{Op: pe.Op, Path: name, Err: pe.Err}
	}
	return err
}

func newUtl(t *tool) *cobra.Command {
	root := &cobra.Command{Use: "etcdutl", Short: "An administrative command line tool for etcd3.", SuggestFor: []string{"etcdutl"}}
	root.PersistentFlags().StringVarP(&t.format, "write-out", "w", "simple", "set the output format (fields, json, protobuf, simple, table)")
	root.AddCommand(t.notSimulated("defrag", "Defragments the storage of the etcd"), t.utlSnapshotCommand(), t.notSimulated("hashkv <filename>", "Prints the KV history hash of a given file"),
		t.versionCommand("etcdutl"), t.notSimulated("completion [bash|zsh|fish|powershell]", "Generate completion script"),
		t.notSimulated("migrate", "Migrates schema of etcd data dir files to make them compatible with different etcd version"))
	return root
}

func (t *tool) utlSnapshotCommand() *cobra.Command {
	c := &cobra.Command{Use: "snapshot <subcommand>", Short: "Manages etcd node snapshots"}
	c.AddCommand(t.restoreCommand(), &cobra.Command{Use: "status <filename>", Short: "Gets backend snapshot status of a given file",
		Long: `When --write-out is set to simple, this command prints out comma-separated status lists for each endpoint.
The items in the lists are hash, revision, total keys, total size.
`, Run: func(_ *cobra.Command, args []string) { t.snapshotStatus(args) }})
	return c
}

func (t *tool) snapshotStatus(args []string) {
	if len(args) != 1 {
		t.failf(exitBadArgs, "snapshot status requires exactly one argument")
	}
	if _, err := t.Files.Stat(t.Path(args[0])); err != nil {
		t.fail(exitError, named(err, args[0]))
	}
	b, err := t.ReadFile(args[0])
	if err != nil {
		t.fail(exitError, named(err, args[0]))
	}
	d, err := t.stores().ReadDatabase(b, false)
	if err != nil {
		t.fail(exitError, err)
	}
	switch t.format {
	case "json":
		t.json(struct {
			Hash      uint32 `json:"hash"`
			Revision  int64  `json:"revision"`
			TotalKey  int    `json:"totalKey"`
			TotalSize int64  `json:"totalSize"`
			Version   string `json:"version"`
		}{d.Hash, d.Revision, d.TotalKeys, d.TotalSize, d.Version})
	case "fields":
		t.Printf("\"Hash\" : %d\n\"Revision\" : %d\n\"Keys\" : %d\n\"Size\" : %d\n\"Version\" : %s\n", d.Hash, d.Revision, d.TotalKeys, d.TotalSize, d.Version)
	case "simple", "table":
		t.rows([]string{"hash", "revision", "total keys", "total size", "version"},
			[][]string{{fmt.Sprintf("%x", d.Hash), fmt.Sprint(d.Revision), fmt.Sprint(d.TotalKeys), size(uint64(d.TotalSize)), d.Version}})
	default:
		t.failf(exitBadFeature, "unsupported output format")
	}
}

func (t *tool) stores() *etcd.Stores {
	ss := etcd.Of(t.World())
	if ss == nil {
		t.failf(exitError, "no etcd is registered in this world")
	}
	return ss
}

// restore are the flags of "etcdutl snapshot restore".
type restore struct {
	dataDir, walDir, cluster, token, peers, name string
	skipHash, compacted                          bool
	mmap, bump                                   uint64
}

// mmapSize is etcd's default initial memory map: 10 GiB.
const mmapSize = 10 << 30

func (t *tool) restoreCommand() *cobra.Command {
	var r restore
	c := &cobra.Command{Use: "restore <filename> --data-dir {output dir} [options]", Short: "Restores an etcd member snapshot to an etcd directory"}
	f := c.Flags()
	f.StringVar(&r.dataDir, "data-dir", "", "Path to the output data directory")
	f.StringVar(&r.walDir, "wal-dir", "", "Path to the WAL directory (use --data-dir if none given)")
	f.StringVar(&r.cluster, "initial-cluster", "default=http://localhost:2380", "Initial cluster configuration for restore bootstrap")
	f.StringVar(&r.token, "initial-cluster-token", "etcd-cluster", "Initial cluster token for the etcd cluster during restore bootstrap")
	f.StringVar(&r.peers, "initial-advertise-peer-urls", "http://localhost:2380", "List of this member's peer URLs to advertise to the rest of the cluster")
	f.StringVar(&r.name, "name", "default", "Human-readable name for this member")
	f.BoolVar(&r.skipHash, "skip-hash-check", false, "Ignore snapshot integrity hash value (required if copied from data directory)")
	f.Uint64Var(&r.mmap, "initial-memory-map-size", mmapSize, "Initial memory map size of the database in bytes. It uses the default value if not defined or defined to 0")
	f.Uint64Var(&r.bump, "bump-revision", 0, "How much to increase the latest revision after restore")
	f.BoolVar(&r.compacted, "mark-compacted", false, "Mark the latest revision after restore as the point of scheduled compaction (required if --bump-revision > 0, disallowed otherwise)")
	c.Run = func(_ *cobra.Command, args []string) {
		if len(args) != 1 {
			t.failf(exitBadArgs, "snapshot restore requires exactly one argument")
		}
		if (r.bump == 0) == r.compacted {
			t.failf(exitBadArgs, "--mark-compacted required if --revision-bump > 0")
		}
		if err := t.restore(args[0], r); err != nil {
			t.fail(exitError, err)
		}
	}
	return c
}

// restore is etcdutl's snapshot.Restore: it checks, reads the snapshot and writes a data directory of a new cluster.
func (t *tool) restore(snapshot string, r restore) error {
	members, err := parseCluster(r.cluster)
	if err != nil {
		return err
	}
	if err := verifyBootstrap(r.name, strings.Split(r.peers, ","), members); err != nil {
		return err
	}
	dir := r.dataDir
	if dir == "" {
		dir = r.name + ".etcd"
	}
	if entries, err := t.Files.ReadDir(t.Path(dir)); err == nil && len(entries) > 0 || err != nil && !errors.Is(err, fs.ErrNotExist) {
		return errorf("data-dir %q not empty or could not be read", dir)
	}
	wal := r.walDir
	if wal == "" {
		wal = path.Join(dir, "member", "wal")
	} else if _, err := t.Files.Stat(t.Path(wal)); err == nil {
		return errorf("wal-dir %q exists", wal)
	}
	snapDir := path.Join(dir, "member", "snap")
	fields := fmt.Sprintf(`{"path": %q, "wal-dir": %q, "data-dir": %q, "snap-dir": %q, "initial-memory-map-size": %d}`, snapshot, wal, dir, snapDir, r.mmap)
	t.console("", "snapshot/v3_snapshot.go:305", "restoring snapshot", fields)

	b, err := t.ReadFile(snapshot)
	if err != nil {
		return named(err, snapshot)
	}
	ss := t.stores()
	d, err := ss.ReadDatabase(b, !r.skipHash)
	if err != nil {
		return err
	}
	opened := func() {
		db := path.Join(snapDir, "db")
		t.console("bbolt", "backend/backend.go:203", fmt.Sprintf("Opening db file (%s) with mode -rw------- and with options: {Timeout: 0s, NoGrowSync: false, NoFreelistSync: true, "+
			"PreLoadFreelist: false, FreelistType: , ReadOnly: false, MmapFlags: 8000, InitialMmapSize: %d, PageSize: 0, NoSync: false, OpenFile: 0x0, Mlock: false, Logger: 0xc000118008}", db, r.mmap), "")
		t.console("bbolt", "bbolt@v1.4.3/db.go:322", fmt.Sprintf("Opening bbolt db (%s) successfully", db), "")
	}
	opened()
	t.console("", "schema/membership.go:138", "Trimming membership information from the backend...", "")
	store, err := ss.Restore(d, etcd.RestoreOptions{Name: r.name, Members: members, Token: r.token, BumpRevision: r.bump, MarkCompacted: r.compacted, DataDir: dir, WALDir: r.walDir})
	if err != nil {
		return err
	}
	if r.compacted {
		opened()
		latest := d.Revision
		t.console("", "snapshot/v3_snapshot.go:396", "bumping latest revision", fmt.Sprintf(`{"latest-revision": %d, "bump-amount": %d, "new-latest-revision": %d}`, latest, r.bump, latest+int64(r.bump)))
		t.console("", "snapshot/v3_snapshot.go:413", "marking revision compacted", fmt.Sprintf(`{"revision": %d}`, latest+int64(r.bump)))
	}
	opened()
	for _, m := range store.Members() {
		t.console("", "membership/cluster.go:424", "added member", fmt.Sprintf(`{"cluster-id": "%x", "local-member-id": "0", "added-peer-id": "%x", "added-peer-peer-urls": [%s], "added-peer-is-learner": false}`,
			etcd.ClusterID(store.Members()), m.ID, quoted(m.PeerURLs)))
	}
	walDir := ""
	if r.walDir != "" {
		walDir = t.Path(r.walDir)
	}
	if err := etcd.WriteDataDir(t.Process, t.Path(dir), walDir, store); err != nil {
		return err
	}
	opened()
	t.console("", "snapshot/v3_snapshot.go:333", "restored snapshot", fields)
	return nil
}

func quoted(l []string) string {
	q := make([]string, len(l))
	for i, s := range l {
		q[i] = fmt.Sprintf("%q", s)
	}
	return strings.Join(q, ", ")
}

// parseCluster reads --initial-cluster, "name=url,name=url"; a name may have several URLs.
func parseCluster(s string) ([]etcd.Member, error) {
	urls := map[string][]string{}
	var names []string
	for _, part := range strings.Split(s, ",") {
		name, url, ok := strings.Cut(strings.TrimSpace(part), "=")
		if !ok || name == "" {
			return nil, errorf("error parsing initial cluster: %s", s)
		}
		if !strings.HasPrefix(url, "http://") && !strings.HasPrefix(url, "https://") {
			return nil, errorf("URL scheme must be http, https, unix, or unixs: %s", url)
		}
		if urls[name] == nil {
			names = append(names, name)
		}
		urls[name] = append(urls[name], url)
	}
	var l []etcd.Member
	for _, n := range names {
		sort.Strings(urls[n])
		l = append(l, etcd.Member{Name: n, PeerURLs: urls[n]})
	}
	return l, nil
}

// verifyBootstrap checks that the cluster has this member with these peer URLs.
func verifyBootstrap(name string, peers []string, members []etcd.Member) error {
	for _, m := range members {
		if m.Name != name {
			continue
		}
		sort.Strings(peers)
		if strings.Join(peers, ",") == strings.Join(m.PeerURLs, ",") {
			return nil
		}
		var missing []string
		for _, u := range m.PeerURLs {
			if !slices.Contains(peers, u) {
				missing = append(missing, name+"="+u)
			}
		}
		if len(missing) > 0 {
			return errorf("--initial-cluster has %s but missing from --initial-advertise-peer-urls=%s (resolved urls: %q != %q)", strings.Join(missing, ","), strings.Join(peers, ","), peers[0], m.PeerURLs[0])
		}
		for _, u := range peers {
			if !slices.Contains(m.PeerURLs, u) {
				missing = append(missing, u)
			}
		}
		return errorf("--initial-advertise-peer-urls has %s but missing from --initial-cluster=%s=%s", strings.Join(missing, ","), name, strings.Join(peers, ","+name+"="))
	}
	return errorf("couldn't find local name %q in the initial cluster configuration", name)
}
