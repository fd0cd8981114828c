package calico

import (
	"encoding/json"
	"time"

	"k8s.io/client-go/kubernetes"

	"ckadrill/sim/kernel"
	"ckadrill/sim/network/apiclient"
)

// statusFile is where calico-kube-controllers writes its health for check-status.
const statusFile = "/status/status.json"

type status struct{ Ready, Live bool }

// controllers is calico-kube-controllers. With addresses of the nodes' Pod CIDRs there is nothing of a deleted node to
// collect; what is left is to keep an eye on the datastore.
func controllers(p *kernel.Process) int {
	l := logger{p: p, quiet: p.Resumed}
	l.print("INFO", "main.go", 103, "Loaded configuration from environment")
	if t := getenv(p, "DATASTORE_TYPE", "kubernetes"); t != "kubernetes" {
		p.Errorf("ckadrill does not simulate Calico's datastore %q yet\n", t)
		return 1
	}
	config, err := apiclient.InCluster(p)
	if err != nil {
		l.print("FATAL", "main.go", 118, "Failed to start: %v", err)
		return 1
	}
	config.Timeout = 10 * time.Second
	client, err := kubernetes.NewForConfig(config)
	if err != nil {
		l.print("FATAL", "main.go", 118, "Failed to start: %v", err)
		return 1
	}
	last := ""
	for {
		_, err := client.Discovery().RESTClient().Get().AbsPath(group + "clusterinformations/default").Do(p.Context()).Raw()
		s := status{Ready: err == nil, Live: true}
		now := "ok"
		if err != nil {
			now = err.Error()
			l.print("ERROR", "main.go", 261, "Failed to verify datastore: %v", err)
		} else if last == "" {
			l.print("INFO", "main.go", 276, "Datastore is ready")
		}
		if now != last {
			b, err := json.Marshal(s)
			if err == nil {
				err = p.Files.WriteFile(statusFile, b, 0o644)
			}
			if err != nil {
				l.print("WARNING", "status.go", 66, "Failed to write readiness to file: %v", err)
			}
			last = now
		}
		wait := 20 * time.Second
		if err != nil {
			wait = 2 * time.Second
		}
		if p.Sleep(wait) != nil {
			return 0
		}
	}
}

// checkStatus is the program of calico-kube-controllers' probes.
func checkStatus(p *kernel.Process) int {
	s := status{}
	b, err := p.ReadFile(statusFile)
	if err == nil {
		err = json.Unmarshal(b, &s)
	}
	if err != nil {
		p.Printf("Failed to read status file %s: %v\n", statusFile, err)
		return 1
	}
	for _, a := range p.Argv[1:] {
		if a == "-r" && !s.Ready || a == "-l" && !s.Live {
			p.Printf("Error verifying datastore\n")
			return 1
		}
	}
	return 0
}
