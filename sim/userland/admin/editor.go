package admin

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"path"
	"strings"

	"ckadrill/sim/kernel"
	"ckadrill/sim/userland/libc"
)

// editor lets the user edit a file in an editor of their own, which runs outside of the simulation on a copy. The file is
// written over in place, so that its mode and owner stay.
func editor(c *libc.Prog) int {
	var files []string
	for _, a := range c.Args {
		if a == "--" || strings.HasPrefix(a, "+") || strings.HasPrefix(a, "-") && len(a) > 1 {
			continue
		}
		files = append(files, a)
	}
	if c.TTY == nil || !c.IsTerminal(c.Stdout) {
		switch c.Name {
		case "nano":
			c.Errorf("Standard input is not a terminal\n")
		default:
			c.Errorf("%s: ckadrill can open an editor on a terminal only\n", c.Name)
		}
		return 1
	}
	if len(files) == 0 {
		_, err := c.TTY.Edit("[No Name]", nil)
		if err != nil && !errors.Is(err, kernel.ErrInterrupted) {
			return c.Fail("%s", err)
		}
		return 0
	}
	for _, f := range files {
		editOne(c, f)
	}
	return c.Status
}

func editOne(c *libc.Prog, name string) {
	full := c.Path(name)
	i, err := c.Files.Stat(full)
	if err == nil && i.IsDir() {
		c.Out.Flush()
		c.Errorf("\"%s\" is a directory\n", name)
		c.Status = 1
		return
	}
	old, err := c.Files.ReadFile(full)
	missing := errors.Is(err, fs.ErrNotExist)
	if err != nil && !missing {
		c.Errorf("\"%s\" [%s]\n", name, libc.Strerror(err))
		c.Status = 1
		return
	}
	content, err := c.TTY.Edit(path.Base(name), old)
	if err != nil {
		if !errors.Is(err, kernel.ErrInterrupted) {
			c.Fail("%s", err)
		}
		return
	}
	if bytes.Equal(content, old) {
		return // quit without a change: a file that is not there is not made
	}
	f, err := c.Files.OpenFile(full, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	if err == nil {
		_, err = f.Write(content)
		if cerr := f.Close(); err == nil {
			err = cerr
		}
	}
	if err != nil {
		c.Out.Flush()
		if errors.Is(err, fs.ErrPermission) && i != nil {
			c.Errorf("\"%s\" E45: 'readonly' option is set (add ! to override)\n", name)
		} else {
			c.Errorf("\"%s\" E212: Can't open file for writing: %s\n", name, libc.Strerror(err))
		}
		c.Status = 1
	}
}
