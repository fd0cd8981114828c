package admin

import (
	"strings"
	"time"

	"ckadrill/sim/machine"
	"ckadrill/sim/userland/libc"
)

// hostnamectl shows and sets the machine's name.
func hostnamectl(c *libc.Prog) int {
	_, operands, ok := c.Options("H:M:j", "static", "transient", "pretty", "no-ask-password")
	if !ok {
		return c.Status
	}
	m := machine.BootedFor(c.Process)
	if m == nil {
		c.Errorf("System has not been booted with systemd as init system (PID 1). Can't operate.\nFailed to connect to bus: Host is down\n")
		return 1
	}
	static := ""
	if b, err := c.Files.ReadFile("/etc/hostname"); err == nil {
		static = strings.TrimSpace(string(b))
	}
	verb := "status"
	if len(operands) > 0 {
		verb = operands[0]
	}
	switch {
	case verb == "status":
		c.Put(" Static hostname: %s\n       Icon name: computer-vm\n         Chassis: vm 🖴\n      Machine ID: %s\n         Boot ID: %s\n  Virtualization: kvm\nOperating System: %s\n          Kernel: Linux %s\n    Architecture: x86-64\n Hardware Vendor: QEMU\n",
			static, m.MachineID(), strings.ReplaceAll(m.BootID(), "-", ""), m.Options().OSImage, m.Options().KernelVersion)
		if c.HostName() != static {
			c.Put("Transient hostname: %s\n", c.HostName())
		}
	case (verb == "hostname" || verb == "set-hostname") && len(operands) == 1:
		c.Put("%s\n", static)
	case (verb == "hostname" || verb == "set-hostname") && len(operands) == 2:
		if c.Cred.UID != 0 {
			c.Errorf("Could not set static hostname: Interactive authentication required.\n")
			return 1
		}
		if err := c.Files.WriteFile("/etc/hostname", []byte(operands[1]+"\n"), 0o644); err != nil {
			c.Errorf("Could not set static hostname: %s\n", libc.Strerror(err))
			return 1
		}
		c.Host().SetName(operands[1])
	default:
		c.Errorf("Unknown command verb '%s'.\n", verb)
		return 1
	}
	return 0
}

// timedatectl shows the clock.
func timedatectl(c *libc.Prog) int {
	_, operands, ok := c.Options("H:M:ap:", "no-pager", "property:|p")
	if !ok {
		return c.Status
	}
	if len(operands) > 0 && operands[0] != "status" && operands[0] != "show" {
		return c.Fail("ckadrill does not simulate timedatectl %s yet", operands[0])
	}
	now := time.Now().UTC()
	if len(operands) > 0 && operands[0] == "show" {
		c.Put("Timezone=Etc/UTC\nLocalRTC=no\nCanNTP=yes\nNTP=yes\nNTPSynchronized=yes\nTimeUSec=%s\nRTCTimeUSec=%s\n", now.Format("Mon 2006-01-02 15:04:05 MST"), now.Format("Mon 2006-01-02 15:04:05 MST"))
		return 0
	}
	c.Put("               Local time: %s\n           Universal time: %s\n                 RTC time: %s\n                Time zone: Etc/UTC (UTC, +0000)\nSystem clock synchronized: yes\n              NTP service: active\n          RTC in local TZ: no\n",
		now.Format("Mon 2006-01-02 15:04:05 MST"), now.Format("Mon 2006-01-02 15:04:05 MST"), now.Format("Mon 2006-01-02 15:04:05"))
	return 0
}

// crontab keeps a user's table; nothing runs it, which is said when one is installed.
func crontab(c *libc.Prog) int {
	opts, operands, ok := c.Options("u:lerin")
	if !ok {
		return c.Status
	}
	user := libc.UserName(c.Files, c.Cred.UID)
	verb := ""
	for _, o := range opts {
		switch o.Name {
		case "u":
			user = o.Value
		case "l", "e", "r":
			verb = o.Name
		}
	}
	switch {
	case verb == "l":
		c.Out.Flush()
		c.Errorf("no crontab for %s\n", user)
		return 1
	case verb == "r":
		c.Errorf("no crontab for %s\n", user)
		return 1
	}
	_ = operands
	return c.Fail("ckadrill does not simulate cron yet")
}

// logger writes a line into the journal.
func logger(c *libc.Prog) int {
	opts, operands, ok := c.Options("+it:p:sf:n:P:T", "tag:|t", "priority:|p", "stderr|s", "id::", "file:|f")
	if !ok {
		return c.Status
	}
	tag, text, pid := libc.UserName(c.Files, c.Cred.UID), strings.Join(operands, " "), 0
	for _, o := range opts {
		switch o.Name {
		case "t":
			tag = o.Value
		case "i":
			pid = c.ID()
		case "s":
			defer c.Errorf("<13>%s: %s\n", tag, text)
		}
	}
	m := machine.BootedFor(c.Process)
	if m == nil {
		return c.Fail("socket /dev/log: No such file or directory")
	}
	if len(operands) == 0 {
		b, err := libc.ReadAll(c.Stdin)
		if err != nil {
			return c.Fail("%s", libc.Strerror(err))
		}
		text = strings.TrimRight(string(b), "\n")
	}
	for _, l := range strings.Split(text, "\n") {
		writeJournal(m, tag, pid, l)
	}
	return 0
}
