package coreutils

import (
	"io/fs"
	"path"
	"strings"

	"ckadrill/sim/userland/bash"
	"ckadrill/sim/userland/libc"
)

// executable says whether the process may execute a file.
func executable(c *libc.Prog, file string) bool {
	i, err := c.Files.Stat(file)
	return err == nil && i.Mode().IsRegular() && bash.Access(c.Cred, i, 1)
}

func basename(c *libc.Prog) int {
	opts, operands, ok := c.Options("+as:z", "multiple|a", "suffix:|s", "zero|z")
	if !ok {
		return c.Status
	}
	multiple, suffix, end := false, "", "\n"
	for _, o := range opts {
		switch o.Name {
		case "a":
			multiple = true
		case "s":
			multiple, suffix = true, o.Value
		case "z":
			end = "\x00"
		}
	}
	switch {
	case len(operands) == 0:
		return c.MissingOperand()
	case multiple:
	case len(operands) > 2:
		return c.ExtraOperand(operands[2])
	case len(operands) == 2:
		suffix, operands = operands[1], operands[:1]
	}
	for _, n := range operands {
		b := ""
		if n != "" {
			b = path.Base(n)
		}
		if s := strings.TrimSuffix(b, suffix); s != "" {
			b = s
		}
		c.Put("%s%s", b, end)
	}
	return 0
}

func dirname(c *libc.Prog) int {
	opts, operands, ok := c.Options("z", "zero|z")
	if !ok {
		return c.Status
	}
	end := "\n"
	if len(opts) > 0 {
		end = "\x00"
	}
	if len(operands) == 0 {
		return c.MissingOperand()
	}
	for _, n := range operands {
		t := strings.TrimRight(n, "/")
		i := strings.LastIndexByte(t, '/')
		d := "."
		switch {
		case t == "" && n != "":
			d = "/"
		case i >= 0:
			if d = strings.TrimRight(t[:i], "/"); d == "" {
				d = "/"
			}
		}
		c.Put("%s%s", d, end)
	}
	return 0
}

// canonical follows every symbolic link of a name. need says what must exist: 'e' all of it, 'f' all but the last
// element, 'm' nothing.
func canonical(c *libc.Prog, name string, need byte) (string, error) {
	full := c.Path(name)
	r, err := c.Files.EvalSymlinks(full)
	if err == nil || need == 'e' {
		return r, err
	}
	if i, lerr := c.Files.Lstat(full); lerr == nil && i.Mode()&fs.ModeSymlink != 0 {
		target, _ := c.Files.Readlink(full)
		if !path.IsAbs(target) {
			target = path.Join(path.Dir(full), target)
		}
		if target != full {
			return canonical(c, target, need)
		}
		return full, err
	}
	dir, derr := c.Files.EvalSymlinks(path.Dir(full))
	if derr != nil {
		if need != 'm' {
			return "", derr
		}
		if dir, derr = canonical(c, path.Dir(full), 'm'); derr != nil {
			return full, nil
		}
	}
	return path.Join(dir, path.Base(full)), nil
}

func readlink(c *libc.Prog) int {
	opts, operands, ok := c.Options("femnqsvz", "canonicalize|f", "canonicalize-existing|e", "canonicalize-missing|m", "no-newline|n", "quiet|q", "silent|s", "verbose|v", "zero|z")
	if !ok {
		return c.Status
	}
	need, end, verbose := byte(0), "\n", false
	for _, o := range opts {
		switch o.Name {
		case "f", "e", "m":
			need = o.Name[0]
		case "n":
			end = ""
		case "z":
			end = "\x00"
		case "v":
			verbose = true
		}
	}
	if len(operands) == 0 {
		return c.MissingOperand()
	}
	for _, n := range operands {
		var s string
		var err error
		if need != 0 {
			s, err = canonical(c, n, need)
		} else {
			s, err = c.Files.Readlink(c.Path(n))
		}
		if err != nil {
			c.Status = 1
			if verbose {
				c.FailFile(n, err)
			}
			continue
		}
		c.Put("%s%s", s, end)
	}
	return c.Status
}

func realpath(c *libc.Prog) int {
	opts, operands, ok := c.Options("eEmLPqsz", "canonicalize-existing|e", "canonicalize-missing|m", "logical|L", "physical|P", "quiet|q", "strip|s", "no-symlinks|s", "zero|z", "relative-to:", "relative-base:")
	if !ok {
		return c.Status
	}
	need, end, quiet, plain, relative := byte('f'), "\n", false, false, ""
	for _, o := range opts {
		switch o.Name {
		case "e", "m":
			need = o.Name[0]
		case "z":
			end = "\x00"
		case "q":
			quiet = true
		case "s":
			plain = true
		case "relative-to":
			relative = o.Value
		}
	}
	if len(operands) == 0 {
		return c.MissingOperand()
	}
	for _, n := range operands {
		s, err := c.Path(n), error(nil)
		if !plain {
			s, err = canonical(c, n, need)
		}
		if err != nil {
			c.Status = 1
			if !quiet {
				c.FailFile(n, err)
			}
			continue
		}
		if relative != "" {
			base, err := canonical(c, relative, need)
			if err != nil {
				return c.FailFile(relative, err)
			}
			if s = relativeTo(s, base); s == "" {
				s = "."
			}
		}
		c.Put("%s%s", s, end)
	}
	return c.Status
}

func pwd(c *libc.Prog) int {
	opts, _, ok := c.Options("LP", "logical|L", "physical|P")
	if !ok {
		return c.Status
	}
	dir := c.Dir()
	if len(opts) == 0 || opts[len(opts)-1].Name == "P" {
		if d, err := c.Files.EvalSymlinks(dir); err == nil {
			dir = d
		}
	}
	c.Put("%s\n", dir)
	return 0
}
