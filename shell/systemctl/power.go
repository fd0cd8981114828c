package systemctl

import "fmt"

// power makes the verbs that switch the machine off.
func power(kind string) func(*tool, []string) int {
	return func(t *tool, _ []string) int { return t.switchOff(kind) }
}

func (t *tool) switchOff(kind string) int {
	if t.denied() {
		call := map[string]string{"reboot": "Reboot", "poweroff": "PowerOff", "halt": "Halt"}[kind]
		t.Errorf("Call to %s failed: %s\n", call, authenticate)
		return 1
	}
	switch {
	case t.force && kind == "reboot":
		t.machine.Reset()
	case t.force:
		t.machine.Crash()
	case kind == "reboot":
		t.manager.Reboot()
	default:
		t.manager.PowerOff()
	}
	t.machine.TakeAlong(t.Process)
	return 0
}

var helpText = fmt.Sprintf(`systemctl [OPTIONS...] COMMAND ...

Query or send control commands to the system manager.

Unit Commands:
%s
Unit File Commands:
%s
Manager State Commands:
  daemon-reload                       Reload systemd manager configuration

System Commands:
  is-system-running                   Check whether system is fully running
  halt                                Shut down and halt the system
  poweroff                            Shut down and power-off the system
  reboot                              Shut down and reboot the system

ckadrill simulates the commands above. See the systemctl(1) man page for details.
`, `  list-units [PATTERN...]             List units currently in memory
  is-active PATTERN...                Check whether units are active
  is-failed PATTERN...                Check whether units are failed
  status [PATTERN...|PID...]          Show runtime status of one or more units
  show [PATTERN...|JOB...]            Show properties of one or more
                                      units/jobs or the manager
  cat PATTERN...                      Show files and drop-ins of specified units
  list-dependencies [UNIT...]         Recursively show units which are required
                                      or wanted by the units or by which those
                                      units are required or wanted
  start UNIT...                       Start (activate) one or more units
  stop UNIT...                        Stop (deactivate) one or more units
  reload UNIT...                      Reload one or more units
  restart UNIT...                     Start or restart one or more units
  try-restart UNIT...                 Restart one or more units if active
  reload-or-restart UNIT...           Reload one or more units if possible,
                                      otherwise start or restart
  kill UNIT...                        Send signal to processes of a unit
  reset-failed [PATTERN...]           Reset failed state for all, one, or more
                                      units
`, `  list-unit-files [PATTERN...]        List installed unit files
  enable [UNIT...|PATH...]            Enable one or more unit files
  disable UNIT...                     Disable one or more unit files
  reenable UNIT...                    Reenable one or more unit files
  is-enabled UNIT...                  Check whether unit files are enabled
  mask UNIT...                        Mask one or more units
  unmask UNIT...                      Unmask one or more units
  revert UNIT...                      Revert one or more unit files to vendor
                                      version
  edit UNIT...                        Edit one or more unit files
  get-default                         Get the name of the default target
  set-default TARGET                  Set the default target
`)
