package transcript

import "regexp"

// rule replaces what differs from one cluster to the next by a word that says what it was.
type rule struct {
	re *regexp.Regexp
	to string
}

func rules(l ...string) []rule {
	var r []rule
	for i := 0; i < len(l); i += 2 {
		r = append(r, rule{regexp.MustCompile(l[i]), l[i+1]})
	}
	return r
}

const (
	months   = `(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)`
	days     = `(?:Mon|Tue|Wed|Thu|Fri|Sat|Sun)`
	clock    = `\d\d:\d\d(?::\d\d(?:\.\d+)?)?`
	duration = `(?:\d+(?:\.\d+)?(?:ms|µs|y|d|h|m|s))+`
	// suffix are the letters of generated names: no vowels, and nothing that looks like another letter.
	suffix = `[bcdfghjklmnpqrstvwxz2456789]{5}`
)

// everywhere hold in every line of every command.
var everywhere = rules(
	// dates
	`\b([IWEF])\d{4} \d\d:\d\d:\d\d\.\d{6} +\d+ `, `${1}DATE PID `,
	`\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:\.\d+)?(?: ?(?:Z|UTC|[+-]\d\d:?\d\d))?(?: UTC)?(?: m=\+[\d.]+)?`, `DATE`,
	`^([-dlcbps][-rwxsStT]{9}\+? +\d+ +\S+ +\S+ +\d+ )`+months+` [ \d]\d +(?:\d\d:\d\d|\d{4}) `, `${1}DATE `,
	`\b`+days+`, \d\d `+months+` \d{4} `+clock+` [+-]\d{4}`, `DATE`,
	`\b`+months+` \d\d, \d{4} `+clock+` UTC`, `DATE`,
	`\b(?:`+days+` )?`+months+` [ \d]\d `+clock+`(?: UTC)? \d{4}(?: GMT)?`, `DATE`,
	`\b\d{4}/\d\d/\d\d `+clock, `DATE`,
	// ages
	`\((?:`+duration+`|<invalid>) ago\)`, `(AGE ago)`,
	`\b(?:\d+ (?:second|minute|hour|day)s?|Less than a second|About an? (?:minute|hour)|About a minute) ago\b`, `AGE ago`,
	`\bin [\d.]+m?s \([\d.]+m?s including waiting\)\. Image size: \d+ bytes`, `in TIME (TIME including waiting). Image size: N bytes`,
	`\bafter [\d.]+m?s\b`, `after TIME`,
	`\b(timeElapsed|elapsed|duration|latency)="[\d.]+(?:m|µ|n)?s"`, `$1="TIME"`,
	`\bmilliseconds=\d+`, `milliseconds=N`,
	`^(\s*"?(?:Duration|renewTime|acquireTime)"?: +)`+duration+`$`, `${1}TIME`,
	`("took":|"took": )"[\d.]+[a-zµ]*s?"`, `$1"TIME"`,
	`^(\s+(?:Normal|Warning) +[A-Z]\w+ +)`+duration+`(?: \(x\d+ over `+duration+`\))?( +[a-z])`, `${1}AGE$2`, // an event's row whose table's head is cut off
	`^`+duration+`(?: \(x\d+ over `+duration+`\))?( +(?:Normal|Warning) +[A-Z])`, `AGE$1`,
	// identities
	`\b(?:[0-9a-f]{2}:){5}[0-9a-f]{2}\b`, `MAC`,
	`\bveth[0-9a-f]{8}\b`, `vethID`,
	`\b0x[0-9a-f]{6,}\b`, `POINTER`,
	`("pid": |/proc/)\d+\b`, `${1}PID`,
	`\bChannel #\d+ SubChannel #\d+`, `Channel #N SubChannel #N`, // gRPC counts them; which one speaks when is its jitter
	`(/containers/[a-z0-9-]+/)[0-9a-f]{8}\b`, `${1}ID`,
	`\b(sed)[A-Za-z0-9]{6}\b`, `${1}XXXXXX`,
	`[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b`, `UID`,
	`("?resourceVersion"?: ?"?|Resource Version: +)\d+`, `${1}N`,
	`\beyJ[A-Za-z0-9_-]+\.[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)?`, `TOKEN`,
	`\b[a-z0-9]{6}\.[a-z0-9]{16}\b`, `BOOTSTRAPTOKEN`,
	`\bbootstrap-token-[a-z0-9]{6}\b`, `bootstrap-token-ID`,
	`\bsha256:[0-9a-f]{64}\b`, `sha256:DIGEST`,
	`\b[0-9a-f]{64}\b`, `ID`,
	`\b[0-9a-f]{32}\b`, `HASH`,
	`\b[0-9a-f]{12,13}\b`, `ID`,
	`\.[0-9a-f]{16}\b`, `.ID`,
	`\bLS0tLS1[A-Za-z0-9+/=]+`, `CERTIFICATE`,
	`\b[0-9A-F]{2}(?::[0-9A-F]{2}){15,}\b`, `FINGERPRINT`,
	`\bapiserver-[a-z0-9]{26}`, `apiserver-ID`,
	// names that the server or a controller made
	`\b([a-z0-9][a-z0-9.-]*-)`+suffix+`\b`, `${1}xxxxx`,
	`\b(coredns-)[0-9a-f]{8,10}\b`, `${1}HASH`, // restarted between recordings
	`\b([a-z0-9][a-z0-9.-]*)-29\d{6}\b`, `${1}-MINUTES`, // a CronJob's Job is named after its minute
	`(/tmp/kubectl-edit-)\d+`, `${1}N`,
	// addresses
	`\b10\.244\.\d+\.(?:\d{2,3}|[1-9])\b`, `PODIP`,
	`\b10\.96\.0\.(?:1|10)\b`, `FIXED$0`,
	`\b10\.(?:9[6-9]|10\d|11[01])\.(?:\d+\.\d{2,3}|\d{2,3}\.\d+|\d\.[1-9])\b`, `CLUSTERIP`,
	`FIXED10`, `10`,
	`\b192\.168\.122\.1[23]\b`, `WORKERIP`,
	`:[3-6]\d{4}(->|: (?:connect|read|write|EOF))`, `:PORT$1`,
	`\b(tcp (?:\d+\.){3}\d+):[3-6]\d{4}\b`, `$1:PORT`,
	// the node that the scheduler chose
	`(Successfully assigned \S+ to )cka-w[12]\b`, `${1}NODE`,
	`("?nodeName"?: ?"?|^\s+NodeName: +)cka-w[12]\b`, `${1}NODE`,
	`(kubelet, )cka-w[12]\b`, `${1}NODE`,
	`^(\s*Node: +)cka-w[12]/`, `${1}NODE/`,
	// the host
	`^(\s*"?(?:Kernel Version|OS Image|Machine ID|System UUID|Boot ID|kernelVersion|osImage|machineID|systemUUID|bootID)"?: +).*`, `${1}HOST`,
	// a port that the API server chose
	`("?(?:nodePort|healthCheckNodePort)"?: ?)3\d{4}\b`, `${1}NODEPORT`,
	`^(\s*(?:HealthCheck )?NodePort: +(?:\S+ +)?)3\d{4}(/|$)`, `${1}NODEPORT$2`,
	// progress
	`(Waiting for .* rollout to finish: )\d+ (out of|of|old) (\d* ?)`, `${1}N $2 $3`,
)

// ofNodes hold in the output of "kubectl describe node".
var ofNodes = rules(
	`^(  (?:cpu|memory|ephemeral-storage|hugepages-\S+|pods): +)\S+$`, `${1}N`,
	`\b\d+[A-Za-z]* \(\d+%\)`, `N`,
	`\b0 \(0%\)`, `N`,
)

var age = regexp.MustCompile(`^` + duration + `$`)

// columns are the cells of tables that differ from one cluster to the next, by their head.
var columns = map[string]rule{}

func init() {
	for _, c := range []struct {
		re, to string
		heads  []string
	}{
		{`^` + duration + `(?: \(x\d+ over ` + duration + `\))?$`, `AGE`, []string{"AGE", "LAST SEEN", "FIRST SEEN", "DURATION", "LAST SCHEDULE", "TTL", "RESIDUAL TIME", "CREATED"}},
		{`^cka-w[12]$`, `NODE`, []string{"NODE"}},
		{`:3\d{4}\b`, `:NODEPORT`, []string{"PORT(S)"}},
		{`.+`, `HOST`, []string{"KERNEL-VERSION", "OS-IMAGE"}},
		{`^[\d.]+[kKMGB]+i?B?$`, `SIZE`, []string{"SIZE"}},
	} {
		for _, h := range c.heads {
			columns[h] = rule{regexp.MustCompile(c.re), c.to}
		}
	}
}
