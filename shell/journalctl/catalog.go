package journalctl

import (
	"regexp"
	"strings"

	"ckadrill/sim/machine/journal"
)

// explanation is an entry of systemd's message catalog. $1 and so on are what the pattern found; @UNIT@ is the unit.
type explanation struct {
	message       *regexp.Regexp
	subject, body string
}

// catalog has the messages of the service manager that systemd.catalog explains, in its words. The numbers of jobs, which
// the catalog's text ends with, are not part of an entry here.
var catalog = []explanation{
	{regexp.MustCompile(`^Starting .*\.\.\.$`), "A start job for unit @UNIT@ has begun execution", "A start job for unit @UNIT@ has begun execution."},
	{regexp.MustCompile(`^(Started|Finished|Reached target|Listening on) .*\.$`), "A start job for unit @UNIT@ has finished successfully", "A start job for unit @UNIT@ has finished successfully."},
	{regexp.MustCompile(`^(Failed to start|Dependency failed for) .*\.$`), "A start job for unit @UNIT@ has failed", "A start job for unit @UNIT@ has finished with a failure."},
	{regexp.MustCompile(`^Stopping .*\.\.\.$`), "A stop job for unit @UNIT@ has begun execution", "A stop job for unit @UNIT@ has begun execution."},
	{regexp.MustCompile(`^Stopped .*\.$`), "A stop job for unit @UNIT@ has finished", "A stop job for unit @UNIT@ has finished."},
	{regexp.MustCompile(`^Reloading .*\.\.\.$`), "A reload job for unit @UNIT@ has begun execution", "A reload job for unit @UNIT@ has begun execution."},
	{regexp.MustCompile(`^Reloaded .*\.$`), "A reload job for unit @UNIT@ has finished", "A reload job for unit @UNIT@ has finished."},
	{regexp.MustCompile(`: Scheduled restart job, restart counter is at \d+\.$`), "Automatic restarting of a unit has been scheduled",
		"Automatic restarting of the unit @UNIT@ has been scheduled, as the result for\nthe configured Restart= setting for the unit."},
	{regexp.MustCompile(`: Deactivated successfully\.$`), "Unit succeeded", "The unit @UNIT@ has successfully entered the 'dead' state."},
	{regexp.MustCompile(`: Failed with result '(.*)'\.$`), "Unit failed", "The unit @UNIT@ has entered the 'failed' state with result '$1'."},
	{regexp.MustCompile(`: Main process exited, code=(\w+), status=(\d+)/`), "Unit process exited",
		"An ExecStart= process belonging to unit @UNIT@ has exited.\n\nThe process' exit code is '$1' and its exit status is $2."},
	{regexp.MustCompile(`: Control process exited, code=(\w+), status=(\d+)/`), "Unit process exited",
		"An ExecStartPre= process belonging to unit @UNIT@ has exited.\n\nThe process' exit code is '$1' and its exit status is $2."},
	{regexp.MustCompile(`: Failed at step \w+ spawning ([^:]*): `), "Process $1 could not be executed", "The process $1 could not be executed and failed."},
}

// explain returns the lines of the catalog about an entry, without their mark.
func explain(e journal.Entry) []string {
	if e.Unit == "" || e.Identifier != "systemd" && !strings.HasPrefix(e.Identifier, "(") {
		return nil
	}
	for _, x := range catalog {
		m := x.message.FindStringSubmatchIndex(e.Message)
		if m == nil {
			continue
		}
		expand := func(s string) string {
			return strings.ReplaceAll(string(x.message.ExpandString(nil, s, e.Message, m)), "@UNIT@", e.Unit)
		}
		l := []string{"Subject: " + expand(x.subject), "Defined-By: systemd", "Support: http://www.ubuntu.com/support", ""}
		return append(l, strings.Split(expand(x.body), "\n")...)
	}
	return nil
}

const helpText = `journalctl [OPTIONS...] [MATCHES...]

Query the journal.

Filtering Options:
  -S --since=DATE            Show entries not older than the specified date
  -U --until=DATE            Show entries not newer than the specified date
  -c --cursor=CURSOR         Show entries starting at the specified cursor
     --after-cursor=CURSOR   Show entries after the specified cursor
  -b --boot[=ID]             Show current boot or the specified boot
  -u --unit=UNIT             Show logs from the specified unit
  -t --identifier=STRING     Show entries with the specified syslog identifier
  -p --priority=RANGE        Show entries within the specified priority range
  -g --grep=PATTERN          Show entries with MESSAGE matching PATTERN
     --case-sensitive[=BOOL] Force case sensitive or insensitive matching
  -k --dmesg                 Show kernel message log from the current boot

Output Control Options:
  -o --output=STRING         Change journal output mode (short, short-precise,
                               short-iso, short-iso-precise, short-full,
                               short-monotonic, short-unix, verbose, export,
                               json, json-pretty, cat, with-unit)
  -n --lines[=[+]INTEGER]    Number of journal entries to show
  -r --reverse               Show the newest entries first
     --show-cursor           Print the cursor after all the entries
     --utc                   Express time in Coordinated Universal Time (UTC)
  -x --catalog               Add message explanations where available
     --no-hostname           Suppress output of hostname field
  -a --all                   Show all fields, including long and unprintable
  -f --follow                Follow the journal
     --no-tail               Show all lines, even in follow mode
  -q --quiet                 Do not show info messages and privilege warning

Pager Control Options:
     --no-pager              Do not pipe output into a pager
  -e --pager-end             Immediately jump to the end in the pager

Commands:
  -h --help                  Show this help text
     --version               Show package version
  -N --fields                List all field names currently used
  -F --field=FIELD           List all values that a specified field takes
     --list-boots            Show terse information about recorded boots
     --disk-usage            Show total disk usage of all journal files

ckadrill simulates the options above. See the journalctl(1) man page for details.
`
