package kubelet

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math"
	"path"
	"time"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	v1 "k8s.io/api/core/v1"
	internalapi "k8s.io/cri-api/pkg/apis"
	runtimeapi "k8s.io/cri-api/pkg/apis/runtime/v1"
	kubecontainer "k8s.io/kubernetes/pkg/kubelet/container"

	"ckadrill/sim/kernel"
)

// The reading of container logs follows k8s.io/cri-client/pkg/logs, which opens the host's files and watches them by
// inotify: tail, since, timestamps, limit, streams and following mean the same here.

const (
	logBlock        = 1024 // the step of the backward search for the last lines
	logTimeFormat   = "2006-01-02T15:04:05.000000000Z07:00"
	logStateRecheck = 5 * time.Second // stateCheckPeriod: whether a followed container still runs
)

// logEntry is one parsed line of the CRI's log format: time, stream, tags, text.
type logEntry struct {
	at     time.Time
	stream string
	text   []byte
}

// parseLogLine parses "2016-10-06T00:17:09.669794202Z stdout F text\n". A partial line ("P") loses its newline.
func parseLogLine(line []byte) (logEntry, error) {
	stamp, rest, ok := bytes.Cut(line, []byte(" "))
	if !ok {
		return logEntry{}, errors.New("timestamp is not found")
	}
	at, err := time.Parse(time.RFC3339Nano, string(stamp))
	if err != nil {
		return logEntry{}, fmt.Errorf("unexpected timestamp format %q: %v", time.RFC3339Nano, err)
	}
	stream, rest, ok := bytes.Cut(rest, []byte(" "))
	if !ok {
		return logEntry{}, errors.New("stream type is not found")
	}
	if s := string(stream); s != "stdout" && s != "stderr" {
		return logEntry{}, fmt.Errorf("unexpected stream type %q", s)
	}
	tags, text, ok := bytes.Cut(rest, []byte(" "))
	if !ok {
		return logEntry{}, errors.New("log tag is not found")
	}
	tag, _, _ := bytes.Cut(tags, []byte(":"))
	if string(tag) == "P" {
		text = bytes.TrimSuffix(text, []byte("\n"))
	}
	return logEntry{at, string(stream), text}, nil
}

var errLimit = errors.New("maximum write")

// logSink writes entries as the options ask.
type logSink struct {
	stdout, stderr io.Writer // nil: the stream was not asked for
	since          time.Time
	timestamps     bool
	remain         int64
}

func (w *logSink) write(e logEntry, newLine bool) error {
	if e.at.Before(w.since) {
		return nil
	}
	line := e.text
	if w.timestamps && newLine {
		line = append([]byte(e.at.Format(logTimeFormat)+" "), line...)
	}
	if int64(len(line)) > w.remain {
		line = line[:w.remain]
	}
	to := w.stdout
	if e.stream == "stderr" {
		to = w.stderr
	}
	if to == nil {
		return nil
	}
	n, err := to.Write(line)
	w.remain -= int64(n)
	if err != nil {
		return err
	}
	if w.remain <= 0 {
		return errLimit
	}
	return nil
}

// readLogs writes a container's log to stdout and stderr.
func readLogs(ctx context.Context, p *kernel.Process, name, id string, o *v1.PodLogOptions, cri internalapi.RuntimeService, stdout, stderr io.Writer) error {
	sink := &logSink{stdout: stdout, stderr: stderr, timestamps: o.Timestamps, remain: math.MaxInt64}
	tail, follow := int64(-1), o.Follow
	if o.TailLines != nil {
		tail = *o.TailLines
	}
	if o.LimitBytes != nil {
		sink.remain = *o.LimitBytes
	}
	if o.SinceSeconds != nil {
		sink.since = time.Now().Add(-time.Duration(*o.SinceSeconds) * time.Second)
	}
	if o.SinceTime != nil && o.SinceTime.After(sink.since) {
		sink.since = o.SinceTime.Time
	}

	real, err := p.Files.EvalSymlinks(name)
	if err != nil {
		return fmt.Errorf("failed to try resolving symlinks in path %q: %v", name, err)
	}
	f, err := p.Files.OpenFile(real, 0, 0)
	if err != nil {
		return fmt.Errorf("failed to open log file %q: %v", real, err)
	}
	defer func() { f.Close() }()
	start, err := tailStart(f, tail)
	if err == nil {
		_, err = f.Seek(start, io.SeekStart)
	}
	if err != nil {
		return fmt.Errorf("failed to tail %d lines of log file %q: %v", tail, real, err)
	}

	var watch kernel.Watch
	limited, left := tail >= 0 && !follow, tail
	running, newLine, stop := true, true, false
	r := bufio.NewReader(f)
	for {
		if stop || limited && left == 0 {
			return nil
		}
		line, err := r.ReadBytes('\n')
		if err != nil && err != io.EOF {
			return fmt.Errorf("failed to read log file %q: %v", real, err)
		}
		if err == io.EOF && follow {
			if !running {
				return nil
			}
			if _, err := f.Seek(-int64(len(line)), io.SeekCurrent); err != nil {
				return fmt.Errorf("failed to reset seek in log file %q: %v", real, err)
			}
			if watch == nil {
				if watch, err = p.Files.Watch(path.Dir(real)); err != nil {
					return fmt.Errorf("failed to watch directory %q: %w", path.Dir(real), err)
				}
				defer watch.Close()
				continue
			}
			var recreated bool
			if running, recreated, err = waitForLog(ctx, watch, real, id, cri); err != nil {
				return err
			}
			if recreated {
				n, err := p.Files.OpenFile(real, 0, 0)
				if errors.Is(err, fs.ErrNotExist) {
					continue
				}
				if err != nil {
					return fmt.Errorf("failed to open log file %q: %v", real, err)
				}
				f.Close()
				f = n
				r = bufio.NewReader(f)
			}
			continue
		}
		if err == io.EOF {
			stop = true
			if len(line) == 0 {
				continue
			}
		}
		e, err := parseLogLine(line)
		if err != nil {
			logAt(p, "logs.go", 402).Error(err, "Failed when parsing line in log file", "path", real, "line", line)
			continue
		}
		if err := sink.write(e, newLine); err == errLimit {
			return nil
		} else if err != nil {
			return err
		}
		if limited {
			left--
		}
		newLine = len(e.text) == 0 || e.text[len(e.text)-1] == '\n'
	}
}

// tailStart finds where the last n lines begin; n < 0 means the whole file.
func tailStart(f kernel.File, n int64) (int64, error) {
	if n < 0 {
		return 0, nil
	}
	size, err := f.Seek(0, io.SeekEnd)
	if err != nil || n == 0 {
		return size, err
	}
	seen := int64(0)
	buf := make([]byte, logBlock)
	for end := size; end > 0; {
		begin := max(0, end-logBlock)
		b := buf[:end-begin]
		if _, err := f.ReadAt(b, begin); err != nil && err != io.EOF {
			return 0, err
		}
		for i := len(b) - 1; i >= 0; i-- {
			if b[i] != '\n' {
				continue
			}
			if seen++; seen > n {
				return begin + int64(i) + 1, nil
			}
		}
		end = begin
	}
	return 0, nil
}

// waitForLog waits until the log grows or is created anew, or its container ends.
func waitForLog(ctx context.Context, w kernel.Watch, name, id string, cri internalapi.RuntimeService) (running, recreated bool, err error) {
	if ok, err := containerRuns(ctx, cri, id); !ok {
		return false, false, err
	}
	check := time.NewTicker(logStateRecheck)
	defer check.Stop()
	for {
		select {
		case <-ctx.Done():
			return false, false, fmt.Errorf("context cancelled")
		case e, ok := <-w.Events():
			if !ok {
				return false, false, nil
			}
			if e.Name != name {
				continue
			}
			switch {
			case e.Op&kernel.FileWrite != 0:
				return true, false, nil
			case e.Op&kernel.FileCreate != 0:
				return true, true, nil
			}
		case <-check.C:
			if ok, err := containerRuns(ctx, cri, id); !ok {
				return false, false, err
			}
		}
	}
}

// containerRuns asks the runtime; a runtime that is down is no reason to stop following.
func containerRuns(ctx context.Context, cri internalapi.RuntimeService, id string) (bool, error) {
	resp, err := cri.ContainerStatus(ctx, id, false)
	if err != nil {
		return status.Code(err) == codes.Unavailable, ignoreUnavailable(err)
	}
	return resp.GetStatus().GetState() == runtimeapi.ContainerState_CONTAINER_RUNNING, nil
}

func ignoreUnavailable(err error) error {
	if status.Code(err) == codes.Unavailable {
		return nil
	}
	return err
}

// lastLogs is the end of a container's log as a termination message (FallbackToLogsOnError).
func lastLogs(ctx context.Context, p *kernel.Process, name string) string {
	lines := int64(kubecontainer.MaxContainerTerminationMessageLogLines)
	var b bytes.Buffer
	if err := readLogs(ctx, p, name, "", &v1.PodLogOptions{TailLines: &lines}, nil, &b, &b); err != nil {
		return fmt.Sprintf("Error on reading termination message from logs: %v", err)
	}
	if n := b.Len() - kubecontainer.MaxContainerTerminationMessageLogLength; n > 0 {
		b.Next(n)
	}
	return b.String()
}
