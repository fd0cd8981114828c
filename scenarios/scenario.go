package scenarios

import "time"

// APIVersion is the only version of the format.
const APIVersion = "ckadrill/v1"

// Scenario is one drill.
type Scenario struct {
	// File is where it was read from, Source what stood there: a session keeps it, and needs the file no more.
	File     string
	Source   []byte
	Metadata Metadata
	// Cluster is the name of a cluster preset; "reference" if it is not given.
	Cluster  string
	Setup    []Step
	Task     string // Markdown
	Checks   []Check
	Hints    []string
	Solution Script
	Traps    []Trap
}

// Metadata says what a scenario is about.
type Metadata struct {
	Name       string
	Title      string
	Domain     string
	Difficulty string
	Minutes    int
	Weight     int
}

// Domains are the exam's domains, by the curriculum of v1.35, and their weights in per cent.
var Domains = map[string]int{
	"storage":              10,
	"troubleshooting":      30,
	"workloads-scheduling": 15,
	"cluster-architecture": 25,
	"services-networking":  20,
}

// Difficulties are what a scenario may be called.
var Difficulties = []string{"easy", "medium", "hard"}

// Script is a bash script and where it runs. The zero Machine and User are the candidate's own: user candidate on the
// first control plane; in setup and after steps the user is root.
type Script struct {
	Machine string
	User    string
	Run     string
	Line    int
}

// Step is one step of a setup, or one consequence: exactly one field is set.
type Step struct {
	Script  *Script
	Wait    time.Duration // simulated
	Reboot  string        // a machine
	Restart *Unit
	Line    int
}

// Unit is a systemd unit on a machine.
type Unit struct{ Machine, Name string }

// Check judges one thing. Exactly one of CEL, Command and Probe is set.
type Check struct {
	Name   string
	Points int
	// Says is what the candidate reads when it fails.
	Says string
	// Within is how long it may take to become true, Hold for how long it must then stay true, both in simulated time.
	Within, Hold time.Duration
	CEL          *CEL
	Command      *Command
	Probe        *Probe
	// After are consequences, played in a copy of the world before the check is made there.
	After []Step
	Line  int
}

// CEL is an expression over an object of the cluster, or over a list of them.
type CEL struct {
	// Resource is what kubectl calls it: "pods", "deployments.apps". Name "" makes it a list, in Namespace or in all.
	Resource, Namespace, Name, Selector string
	// Expression sees "object" (a map, null if it is not there) or "objects" (a list), and "now".
	Expression string
	Line       int
}

// Command is a bash command with what it must exit with or print.
type Command struct {
	Script
	Exit int
	// Output is a regular expression that the output must match, Not one that it must not; "" for any.
	Output, Not string
}

// Probe is an attempt to reach something over the cluster's network.
type Probe struct {
	// From is "machine/NAME" or "pod/NAMESPACE/NAME" (NAME may be a label selector: "pod/NAMESPACE/app=web").
	From string
	// To is an http or https URL, or "tcp://HOST:PORT".
	To string
	// Expect is "open", "refused", "timeout", "unresolved" or an HTTP status.
	Expect string
	// Body is a regular expression for the answer.
	Body string
	Line int
}

// Trap is a wrong fix that must not pass: each check in Fails must fail after it.
type Trap struct {
	Name  string
	Why   string
	Fails []string
	Script
}

// Points is the sum of the checks' points.
func (s *Scenario) Points() int {
	n := 0
	for _, c := range s.Checks {
		n += c.Points
	}
	return n
}
