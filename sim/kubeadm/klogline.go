package kubeadm

import (
	"fmt"
	"time"
)

// log prints a line as klog does, from a place in upstream's source: where our code has to say what upstream's would.
func (c *command) log(severity byte, file string, line int, format string, a ...any) {
	fmt.Fprintf(c.p.Log, "%c%s %7d %s:%d] %s\n", severity, time.Now().Format("0102 15:04:05.000000"), c.p.OwnPID(), file, line, fmt.Sprintf(format, a...))
}

// warn prints a warning as klog does.
func (c *command) warn(file string, line int, format string, a ...any) {
	c.log('W', file, line, format, a...)
}
