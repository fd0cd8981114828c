package etcd

import (
	"fmt"
	"runtime"
	"strings"
	"sync/atomic"

	"go.uber.org/zap"
	"go.uber.org/zap/zapcore"

	"ckadrill/sim/kernel"
)

// upstream is a logger for upstream's packages, whose lines are the program's own. A panic or a fatal line ends the process.
func (l *logger) upstream(p *kernel.Process) *zap.Logger {
	return l.upstreamUnless(&atomic.Bool{}, p)
}

// upstreamUnless is [logger.upstream] that can be muted.
func (l *logger) upstreamUnless(mute *atomic.Bool, p *kernel.Process) *zap.Logger {
	end := ending{p}
	return zap.New(core{l, mute}, zap.AddCaller(), zap.WithPanicHook(end), zap.WithFatalHook(end))
}

// core is a zapcore.Core that writes to a logger. A mute one drops everything.
type core struct {
	l    *logger
	mute *atomic.Bool
}

var zapLevels = map[zapcore.Level]string{zapcore.DebugLevel: "debug", zapcore.InfoLevel: "info", zapcore.WarnLevel: "warn",
	zapcore.ErrorLevel: "error", zapcore.DPanicLevel: "dpanic", zapcore.PanicLevel: "panic", zapcore.FatalLevel: "fatal"}

func (c core) Enabled(level zapcore.Level) bool {
	return c.l.enabled(zapLevels[level]) && !c.mute.Load()
}

// With gives the core fields for every line; upstream's packages add none.
func (c core) With([]zapcore.Field) zapcore.Core { return c }

func (c core) Check(e zapcore.Entry, ce *zapcore.CheckedEntry) *zapcore.CheckedEntry {
	if c.Enabled(e.Level) {
		return ce.AddCore(e, c)
	}
	return ce
}

func (c core) Write(e zapcore.Entry, fields []zapcore.Field) error {
	x := line{level: zapLevels[e.Level], name: e.LoggerName, caller: e.Caller.TrimmedPath(), msg: e.Message}
	for _, f := range fields {
		m := zapcore.NewMapObjectEncoder()
		f.AddTo(m)
		if v, ok := m.Fields[f.Key]; ok { // an error that is nil adds nothing
			x.fields = append(x.fields, f.Key, v)
		}
	}
	c.l.write(x)
	return nil
}

func (c core) Sync() error { return nil }

// ending ends a process in upstream's place, which would end the program.
type ending struct{ p *kernel.Process }

func (e ending) OnWrite(ce *zapcore.CheckedEntry, _ []zapcore.Field) {
	code := 1
	if ce.Level == zapcore.PanicLevel {
		code = 2 // Go's for a panic that nobody recovers
		fmt.Fprintf(e.p.Stderr, "panic: %s\n\ngoroutine 1 [running]:\n%s", ce.Message, stackOfUpstream())
	}
	// Not in this goroutine: it holds locks that the end of the process needs.
	e.p.Go(func() { e.p.Exit(code) })
	runtime.Goexit()
}

// stackOfUpstream is the calling goroutine's stack as far as it is etcd's own.
func stackOfUpstream() string {
	var pcs [64]uintptr
	frames := runtime.CallersFrames(pcs[:runtime.Callers(3, pcs[:])])
	var b strings.Builder
	for {
		f, more := frames.Next()
		if i := strings.Index(f.File, "/go.etcd.io/"); i >= 0 {
			fmt.Fprintf(&b, "%s(...)\n\t%s:%d\n", f.Function, f.File[i+1:], f.Line)
		} else if i := strings.Index(f.File, "go.uber.org/zap"); i >= 0 {
			fmt.Fprintf(&b, "%s(...)\n\t%s:%d\n", f.Function, f.File[i:], f.Line)
		}
		if !more {
			return b.String()
		}
	}
}

// raftLogger is a raft.Logger over zap, as etcdserver.NewRaftLoggerZap makes it.
type raftLogger struct{ *zap.SugaredLogger }

func newRaftLogger(l *zap.Logger) raftLogger { return raftLogger{l.Named("raft").Sugar()} }

func (l raftLogger) Warning(v ...any) { l.WithOptions(zap.AddCallerSkip(1)).Warn(v...) }
func (l raftLogger) Warningf(format string, v ...any) {
	l.WithOptions(zap.AddCallerSkip(1)).Warnf(format, v...)
}
