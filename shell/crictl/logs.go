package crictl

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"

	"ckadrill/sim/kernel"
	"ckadrill/sim/runtime"
)

func (t *tool) logsCommand() *cli.Command {
	return &cli.Command{Name: "logs", Usage: "Fetch the logs of a container", ArgsUsage: "CONTAINER-ID", UseShortOptionHandling: true,
		Flags: []cli.Flag{
			&cli.BoolFlag{Name: "follow", Aliases: []string{"f"}, Usage: "Follow log output"},
			&cli.BoolFlag{Name: "previous", Aliases: []string{"p"}, Usage: "Print the logs for the previous instance of the container in a pod if it exists"},
			&cli.BoolFlag{Name: "reopen", Aliases: []string{"r"}, Usage: "Reopen the container logs for the provided container"},
			&cli.Int64Flag{Name: "tail", Value: -1, Usage: "Number of lines to show from the end of the logs. Defaults to all"},
			&cli.Int64Flag{Name: "limit-bytes", Value: -1, Usage: "Maximum bytes of logs to return. Defaults to no limit"},
			&cli.StringFlag{Name: "since", Usage: "Show logs since timestamp (e.g. 2013-01-02T13:23:37) or relative (e.g. 42m for 42 minutes)"},
			&cli.BoolFlag{Name: "timestamps", Aliases: []string{"t"}, Usage: "Show timestamps"},
			&cli.StringFlag{Name: "stream", Aliases: []string{"s"}, Usage: "Show specified stream (stdout or stderr). Defaults to both."},
		},
		Action: t.logs}
}

func (t *tool) logs(c *cli.Context) error {
	id := c.Args().First()
	if id == "" {
		return errors.New("ID cannot be empty")
	}
	if c.NArg() > 1 {
		return cli.ShowSubcommandHelp(c)
	}
	r, err := t.runtime()
	if err != nil {
		return err
	}
	if c.Bool("reopen") {
		if err := r.ReopenContainerLog(t.ctx, id); err != nil {
			return fmt.Errorf("reopen container logs: %w", err)
		}
		t.info("Container logs reopened")
	}
	since, err := parseSince(c.String("since"), time.Now())
	if err != nil {
		return err
	}
	stream := c.String("stream")
	if stream != "" && stream != "stdout" && stream != "stderr" {
		return fmt.Errorf(`invalid stream %q, must be "stdout" or "stderr"`, stream)
	}
	if c.IsSet("tail") && stream != "" {
		return errors.New("--tail and --stream are mutually exclusive")
	}
	st, err := r.ContainerStatus(t.ctx, id, false)
	if err != nil {
		return err
	}
	name := st.Status.LogPath
	if name == "" {
		return errors.New("the container has not set log path")
	}
	if c.Bool("previous") {
		attempt := st.Status.GetMetadata().GetAttempt()
		if attempt == 0 {
			return fmt.Errorf("previous terminated container %s not found", st.Status.GetMetadata().GetName())
		}
		name = name[:strings.LastIndex(name, "/")+1] + strconv.FormatUint(uint64(attempt-1), 10) + name[strings.LastIndex(name, "."):]
	}
	l := &logReader{t: t, r: r, id: st.Status.Id, name: name, since: since, tail: c.Int64("tail"), left: c.Int64("limit-bytes"), timestamps: c.Bool("timestamps"), follow: c.Bool("follow"),
		out: map[string]io.Writer{"stdout": t.p.Stdout, "stderr": t.p.Stderr}}
	if stream != "" {
		l.out = map[string]io.Writer{stream: l.out[stream]}
	}
	return l.read()
}

// parseSince reads a duration, a date, or seconds since 1970.
func parseSince(s string, now time.Time) (time.Time, error) {
	if s == "" {
		return time.Time{}, nil
	}
	if d, err := time.ParseDuration(s); err == nil {
		return now.Add(-d), nil
	}
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999", "2006-01-02T15:04", "2006-01-02T15", "2006-01-02"} {
		if v, err := time.ParseInLocation(layout, s, time.UTC); err == nil {
			return v, nil
		}
	}
	if sec, frac, _ := strings.Cut(s, "."); sec != "" {
		if n, err := strconv.ParseInt(sec, 10, 64); err == nil {
			ns, _ := strconv.ParseInt((frac + "000000000")[:9], 10, 64)
			return time.Unix(n, ns), nil
		}
	}
	return time.Time{}, fmt.Errorf("failed to parse value as time or duration: %q", s)
}

// logReader prints a log of the CRI's form as k8s.io/cri-client/pkg/logs does, which can open the host's files only.
type logReader struct {
	t          *tool
	r          *runtime.RuntimeClient
	id, name   string
	since      time.Time
	tail, left int64 // -1: no limit
	timestamps bool
	follow     bool
	out        map[string]io.Writer

	offset  int64
	partial map[string]bool // a stream's last entry was no whole line
}

func (l *logReader) read() error {
	files := l.t.p.Files
	f, err := files.OpenFile(l.name, os.O_RDONLY, 0)
	if err != nil {
		return fmt.Errorf("failed to open log file %q: %w", l.name, err)
	}
	defer func() { f.Close() }()
	l.partial = map[string]bool{}
	content, err := io.ReadAll(f)
	if err != nil {
		return err
	}
	rest := tailOf(content, l.tail)
	l.offset = int64(len(content))
	rest, done := l.print(rest)
	if done || !l.follow {
		return nil
	}
	watch, err := files.Watch(l.name)
	if err != nil {
		return fmt.Errorf("failed to watch log file %q: %w", l.name, err)
	}
	defer func() { watch.Close() }()
	for {
		running, err := l.running()
		if err != nil {
			return err
		}
		more, err := io.ReadAll(f)
		if err != nil {
			return err
		}
		if rest, done = l.print(append(rest, more...)); done {
			return nil
		}
		if !running {
			return nil
		}
		timer := time.NewTimer(time.Second)
		select {
		case e, ok := <-watch.Events():
			timer.Stop()
			// The kubelet rotates a log by renaming it: go on with the new file.
			if ok && e.Op&(kernel.FileRename|kernel.FileRemove) != 0 {
				for f2 := kernel.File(nil); f2 == nil; {
					if f2, err = files.OpenFile(l.name, os.O_RDONLY, 0); err != nil {
						if l.t.p.Sleep(100*time.Millisecond) != nil || l.t.ctx.Err() != nil {
							return nil
						}
						f2 = nil
						continue
					}
					f.Close()
					f = f2
				}
				watch.Close()
				if watch, err = files.Watch(l.name); err != nil {
					return err
				}
			}
		case <-timer.C:
		case <-l.t.ctx.Done():
			timer.Stop()
			return nil
		}
	}
}

func (l *logReader) running() (bool, error) {
	st, err := l.r.ContainerStatus(l.t.ctx, l.id, false)
	if err != nil {
		if l.t.ctx.Err() != nil {
			return false, nil
		}
		return false, err
	}
	return st.Status.State == runtimeapi.ContainerState_CONTAINER_RUNNING, nil
}

// tailOf is the last n entries of a log.
func tailOf(b []byte, n int64) []byte {
	if n < 0 {
		return b
	}
	at := len(b)
	for ; n > 0 && at > 0; n-- {
		at = bytes.LastIndexByte(b[:at-1], '\n') + 1
	}
	return b[at:]
}

// print writes what is complete and returns the rest; done says that the limit is reached.
func (l *logReader) print(b []byte) (rest []byte, done bool) {
	for {
		i := bytes.IndexByte(b, '\n')
		if i < 0 {
			return b, false
		}
		line := b[:i]
		b = b[i+1:]
		f := bytes.SplitN(line, []byte{' '}, 4)
		if len(f) < 4 {
			continue
		}
		at, err := time.Parse(time.RFC3339Nano, string(f[0]))
		if err != nil || at.Before(l.since) {
			continue
		}
		stream := string(f[1])
		w := l.out[stream]
		text := f[3]
		if string(f[2]) != "P" {
			text = append(bytes.Clone(text), '\n')
		}
		if l.timestamps && !l.partial[stream] {
			text = append([]byte(string(f[0])+" "), text...)
		}
		l.partial[stream] = string(f[2]) == "P"
		if w == nil {
			continue
		}
		if l.left >= 0 && int64(len(text)) >= l.left {
			w.Write(text[:l.left])
			return nil, true
		}
		if l.left >= 0 {
			l.left -= int64(len(text))
		}
		w.Write(text)
	}
}
