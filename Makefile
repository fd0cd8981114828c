# Every build, test and run needs this flag: the kernel lets mutex waits count as idle (sim/kernel/idle.go), which
# reaches into the Go runtime.
LDFLAGS := -checklinkname=0 -s -w
GO := go
BIN ?= bin/ckadrill

.PHONY: run build test race bench soak fuzz preset

run: build ## start the first drill
	./$(BIN) drill $(DRILL)

build: ## build the binary; BIN=PATH says where
	$(GO) build -trimpath -ldflags='$(LDFLAGS)' -o $(BIN) ./cmd/ckadrill
