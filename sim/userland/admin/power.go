package admin

import (
	"strconv"
	"strings"
	"time"

	"ckadrill/sim/machine"
	"ckadrill/sim/userland/libc"
)

// power is reboot, poweroff, halt and shutdown.
func power(c *libc.Prog) int {
	opts, operands, ok := c.Options("acfhHkPrqw", "reboot|r", "poweroff|P", "halt|H", "force|f", "no-wall", "help")
	if !ok {
		return c.Status
	}
	what := c.Name
	cancel := false
	if what == "shutdown" {
		what = "poweroff"
	}
	for _, o := range opts {
		switch o.Name {
		case "r":
			what = "reboot"
		case "P", "h", "H":
			what = "poweroff"
		case "c":
			cancel = true
		}
	}
	if cancel {
		return 0
	}
	if c.Cred.UID != 0 {
		verb := "reboot"
		if what != "reboot" {
			verb = "power off"
		}
		c.Errorf("Call to %s failed: Interactive authentication required.\n", map[string]string{"reboot": "Reboot", "power off": "PowerOff"}[verb])
		return 1
	}
	m := machine.BootedFor(c.Process)
	if m == nil {
		return c.Fail("System has not been booted with systemd as init system (PID 1). Can't operate.")
	}
	if c.Name == "shutdown" {
		at := time.Minute
		if len(operands) > 0 {
			switch t := operands[0]; {
			case t == "now":
				at = 0
			default:
				n, err := strconv.Atoi(strings.TrimPrefix(t, "+"))
				if err != nil || n < 0 {
					return c.Fail("Failed to parse time specification: %s", t)
				}
				at = time.Duration(n) * time.Minute
			}
		}
		if at > 0 {
			return c.Fail("ckadrill simulates shutdown now only")
		}
	}
	if what == "reboot" {
		m.Reboot()
	} else {
		m.PowerOff()
	}
	m.TakeAlong(c.Process)
	return 0
}
