package etcdctl

import (
	"context"
	"crypto/sha256"
	"io"
	"os"
	"time"

	"github.com/spf13/cobra"
	clientv3 "go.etcd.io/etcd/client/v3"
)

const snapshotExample = `  # Save snapshot to a given file
  etcdctl snapshot save /backup/etcd-snapshot.db

  # Get snapshot from given address and save it to file
  etcdctl snapshot save --endpoints=127.0.0.1:3000 /backup/etcd-snapshot.db

  # Get snapshot from given address with certificates
  etcdctl --endpoints=https://127.0.0.1:2379 --cacert=/etc/etcd/ca.crt --cert=/etc/etcd/etcd.crt --key=/etc/etcd/etcd.key snapshot save /backup/etcd-snapshot.db

  # Get snapshot wih certain user and password
  etcdctl --user=root --password=password123 snapshot save /backup/etcd-snapshot.db

  # Get snapshot from given address with timeout
  etcdctl --endpoints=https://127.0.0.1:2379 --dial-timeout=20s snapshot save /backup/etcd-snapshot.db

  # Save snapshot with desirable time format
  etcdctl snapshot save /mnt/backup/etcd/backup_$(date +%Y%m%d_%H%M%S).db`

func (t *tool) snapshotSaveCommand() *cobra.Command {
	c := &cobra.Command{Use: "snapshot <subcommand>", Short: "Manages etcd node snapshots", Example: snapshotExample}
	c.AddCommand(&cobra.Command{Use: "save <filename>", Short: "Stores an etcd node backend snapshot to a given file", Example: snapshotExample, Run: func(c *cobra.Command, args []string) {
		if len(args) != 1 {
			t.failf(exitBadArgs, "snapshot save expects one argument <filename>")
		}
		cfg := t.configure(c)
		ctx, cancel := context.WithCancel(t.Context())
		if c.Flags().Changed("command-timeout") {
			ctx, cancel = t.context()
		}
		defer cancel()
		version, code, err := t.save(ctx, cfg, args[0])
		if err != nil {
			t.fail(code, err)
		}
		t.Printf("Snapshot saved at %s\n", args[0])
		if version != "" {
			t.Printf("Server version %s\n", version)
		}
	}})
	return c
}

// save is client/v3/snapshot's SaveWithVersion over the machine's files, with its log lines.
func (t *tool) save(ctx context.Context, cfg clientv3.Config, name string) (version string, code int, err error) {
	const file = "snapshot/v3_snapshot.go"
	if len(cfg.Endpoints) != 1 {
		return "", exitInterrupted, errorf("snapshot must be requested to one selected node, not multiple %v", cfg.Endpoints)
	}
	cfg.Logger = t.logger().Named("client")
	client := t.client(cfg)
	part := name + ".part"
	defer t.Files.RemoveAll(t.Path(part))
	f, err := t.Files.OpenFile(t.Path(part), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return "", exitInterrupted, errorf("could not open %s (%w)", part, named(err, part))
	}
	defer f.Close()
	t.log("info", "", file+":83", "created temporary db file", "path", part)
	start := time.Now()
	r, err := client.SnapshotWithVersion(ctx)
	if err != nil {
		return "", exitInterrupted, err
	}
	defer r.Snapshot.Close()
	t.log("info", "", file+":96", "fetching snapshot", "endpoint", cfg.Endpoints[0])
	n, err := io.Copy(f, r.Snapshot)
	if err != nil {
		return r.Version, exitInterrupted, errorf("could not write snapshot: %w", err)
	}
	if n%512 != sha256.Size {
		return r.Version, exitInterrupted, errorf("sha256 checksum not found [bytes: %d]", n)
	}
	t.log("info", "", file+":111", "fetched snapshot", "endpoint", cfg.Endpoints[0], "size", size(uint64(n)), "took", time.Since(start).String(), "etcd-version", r.Version)
	if err := t.Files.Rename(t.Path(part), t.Path(name)); err != nil {
		return r.Version, exitInterrupted, errorf("could not rename %s to %s (%w)", part, name, err)
	}
	t.log("info", "", file+":121", "saved", "path", name)
	return r.Version, 0, nil
}
