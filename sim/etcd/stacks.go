package etcd

// The stacks that zap adds to lines of level error and above. They name the places of etcd 3.6.6 that write them.
const (
	stackMain      = "go.etcd.io/etcd/server/v3/etcdmain.startEtcdOrProxyV2\n\tgo.etcd.io/etcd/server/v3@v3.6.6/etcdmain/etcd.go:183\ngo.etcd.io/etcd/server/v3/etcdmain.Main\n\tgo.etcd.io/etcd/server/v3@v3.6.6/etcdmain/main.go:40\nmain.main\n\tgo.etcd.io/etcd/server/v3@v3.6.6/main.go:31\nruntime.main\n\truntime/proc.go:290"
	stackBootstrap = "go.etcd.io/etcd/server/v3/etcdserver.NewServer\n\tgo.etcd.io/etcd/server/v3@v3.6.6/etcdserver/server.go:309\ngo.etcd.io/etcd/server/v3/embed.StartEtcd\n\tgo.etcd.io/etcd/server/v3@v3.6.6/embed/etcd.go:262\ngo.etcd.io/etcd/server/v3/etcdmain.startEtcd\n\tgo.etcd.io/etcd/server/v3@v3.6.6/etcdmain/etcd.go:207\ngo.etcd.io/etcd/server/v3/etcdmain.startEtcdOrProxyV2\n\tgo.etcd.io/etcd/server/v3@v3.6.6/etcdmain/etcd.go:129\ngo.etcd.io/etcd/server/v3/etcdmain.Main\n\tgo.etcd.io/etcd/server/v3@v3.6.6/etcdmain/main.go:40\nmain.main\n\tgo.etcd.io/etcd/server/v3@v3.6.6/main.go:31\nruntime.main\n\truntime/proc.go:290"
	stackGateway   = "go.etcd.io/etcd/server/v3/embed.(*serveCtx).serve\n\tgo.etcd.io/etcd/server/v3@v3.6.6/embed/serve.go:156\ngo.etcd.io/etcd/server/v3/embed.(*Etcd).serveClients.func1\n\tgo.etcd.io/etcd/server/v3@v3.6.6/embed/etcd.go:807\ngo.etcd.io/etcd/server/v3/embed.(*Etcd).startHandler.func1\n\tgo.etcd.io/etcd/server/v3@v3.6.6/embed/etcd.go:906"
	stackServing   = "go.etcd.io/etcd/server/v3/embed.(*Etcd).errHandler\n\tgo.etcd.io/etcd/server/v3@v3.6.6/embed/etcd.go:912\ngo.etcd.io/etcd/server/v3/embed.(*Etcd).startHandler.func1\n\tgo.etcd.io/etcd/server/v3@v3.6.6/embed/etcd.go:906"
	stackBackend   = "go.etcd.io/etcd/server/v3/storage/backend.newBackend\n\tgo.etcd.io/etcd/server/v3@v3.6.6/storage/backend/backend.go:203\ngo.etcd.io/etcd/server/v3/storage/backend.New\n\tgo.etcd.io/etcd/server/v3@v3.6.6/storage/backend/backend.go:167\ngo.etcd.io/etcd/server/v3/storage.newBackend\n\tgo.etcd.io/etcd/server/v3@v3.6.6/storage/backend.go:55\ngo.etcd.io/etcd/server/v3/storage.OpenBackend.func1\n\tgo.etcd.io/etcd/server/v3@v3.6.6/storage/backend.go:76"
	stackPeers     = "go.etcd.io/etcd/server/v3/embed.configurePeerListeners\n\tgo.etcd.io/etcd/server/v3@v3.6.6/embed/etcd.go:586\ngo.etcd.io/etcd/server/v3/embed.StartEtcd\n\tgo.etcd.io/etcd/server/v3@v3.6.6/embed/etcd.go:142"
)

// panicTrace is the stack of the goroutine that finds the database unusable.
const panicTrace = `go.uber.org/zap/zapcore.CheckWriteAction.OnWrite(0x2?, 0x127e514?, {0x0?, 0x0?, 0x2125011ebaa0?})
	go.uber.org/zap@v1.27.0/zapcore/entry.go:196 +0x54
go.uber.org/zap/zapcore.(*CheckedEntry).Write(0x21250151ad00, {0x212501488f80, 0x2, 0x2})
	go.uber.org/zap@v1.27.0/zapcore/entry.go:262 +0x26e
go.uber.org/zap.(*Logger).Panic(0x2125011b3728?, {0x127e514?, 0x180?}, {0x212501488f80, 0x2, 0x2})
	go.uber.org/zap@v1.27.0/logger.go:285 +0x4b
go.etcd.io/etcd/server/v3/storage/backend.newBackend({{0x2125011b3728, 0x16}, 0x5f5e100, 0x2710, {0x1269d95, 0x7}, 0x280000000, 0x212501488680, 0x0, 0x0, ...})
	go.etcd.io/etcd/server/v3@v3.6.6/storage/backend/backend.go:205 +0x3b8
go.etcd.io/etcd/server/v3/storage/backend.New(...)
	go.etcd.io/etcd/server/v3@v3.6.6/storage/backend/backend.go:167
go.etcd.io/etcd/server/v3/storage.newBackend({{0x7ffd1704de54, 0x7}, {0x0, 0x0}, {0x0, 0x0}, {{{0x1d99fa0, 0x0, 0x0}, 0x12a05f200, ...}, ...}, ...}, ...)
	go.etcd.io/etcd/server/v3@v3.6.6/storage/backend.go:55 +0x39b
go.etcd.io/etcd/server/v3/storage.OpenBackend.func1()
	go.etcd.io/etcd/server/v3@v3.6.6/storage/backend.go:76 +0x86
created by go.etcd.io/etcd/server/v3/storage.OpenBackend in goroutine 1
	go.etcd.io/etcd/server/v3@v3.6.6/storage/backend.go:75 +0x1a5
`
