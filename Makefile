# Every build, test and run needs -checklinkname=0: the kernel lets mutex waits count as idle (sim/kernel/idle.go), which
# reaches into the Go runtime.
GO      ?= go
LDFLAGS := -checklinkname=0 -s -w
export GOFLAGS := -ldflags=-checklinkname=0
BIN     ?= bin/ckadrill
DRILL   ?= kubelet-stopped

# The rooms below the control plane: they build and test in seconds, also under the race detector.
LOWER := ./sim/kernel ./sim/machine/... ./sim/network/... ./sim/etcd/... ./sim/userland/... ./sim/session ./sim/front ./sim/wire ./sim/worker ./scenarios ./grader ./shell/terminal

.PHONY: help run build test race fuzz recordings conformance bench soak presets unsupported faults clean

help: ## list the targets
	@awk -F':.*## ' '/^[a-z]+:.*## /{printf "  make %-11s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

run: build ## start a drill; DRILL=name chooses another
	./$(BIN) drill $(DRILL)

build: ## build the binary; BIN=path says where
	$(GO) build -ldflags='$(LDFLAGS)' -o $(BIN) ./cmd/ckadrill

test: ## run all tests
	$(GO) vet ./...
	$(GO) test -ldflags='$(LDFLAGS)' -timeout 30m ./...

race: ## run the tests of the lower rooms under the race detector
	$(GO) test -race $(LOWER)

soak: ## play every recording, every script and recording with a thaw after each command, scripts 50 times over, and every fault; takes hours
	CKADRILL_SOAK=1 $(GO) test -timeout 12h -run 'TestRecordings|TestThawsChangeNothing|TestSameSeedSameTranscript|TestFaults|TestAnyFaultsAreUndone|TestRandomDrills' -v ./cmd/ckadrill

recordings: ## play all recordings of a real cluster that the simulation is equal to
	CKADRILL_SOAK=1 $(GO) test -timeout 30m -run TestRecordings -v ./cmd/ckadrill

conformance: build ## run Kubernetes' conformance specs against ckadrill serve and write docs/conformance.md; takes an hour
	$(GO) run ./cmd/conformance -ckadrill $(BIN)

bench: ## measure speed and memory
	$(GO) test -run '^$$' -bench . -benchtime 1x ./cmd/ckadrill ./sim/controlplane ./sim/etcd ./sim/network

fuzz: ## fuzz the parsers for a minute each
	$(GO) test ./scenarios -run '^$$' -fuzz FuzzParse -fuzztime 60s

presets: ## build the embedded clusters anew, by kubeadm's phases
	$(GO) build -ldflags='$(LDFLAGS)' -o $(BIN) ./cmd/ckadrill
	./$(BIN) preset sim/ready

unsupported: ## write docs/unsupported.md anew, from the program's own refusals
	$(GO) test . -run TestUnsupportedIsListed -update

faults: ## write docs/faults.md anew, from the table of faults
	$(GO) test ./faults -run TestFaultsAreListed -update

clean: ## remove what was built
	rm -rf bin
