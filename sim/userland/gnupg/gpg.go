// Package gnupg is as much of GnuPG 2.4 as keys of package archives need: a key is turned from text into a keyring, and shown.
package gnupg

import (
	"bytes"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"golang.org/x/crypto/openpgp"
	"golang.org/x/crypto/openpgp/armor"

	"ckadrill/sim/kernel"
	"ckadrill/sim/userland/libc"
)

// Register adds the program.
func Register(ps *kernel.Programs) { ps.Register("gpg", libc.Main("gpg", gpg)) }

const statusFailed = 2

func fail(c *libc.Prog, format string, a ...any) int {
	c.Out.Flush()
	c.Errorf("gpg: "+format+"\n", a...)
	return statusFailed
}

func gpg(c *libc.Prog) int {
	action, output := "", ""
	yes, batch := false, false
	var operands []string
	for i := 0; i < len(c.Args); i++ {
		a := c.Args[i]
		name, value, hasValue := strings.Cut(a, "=")
		switch name {
		case "--dearmor", "--dearmour", "--enarmor", "--enarmour":
			action = strings.Replace(strings.TrimPrefix(name, "--"), "mour", "mor", 1)
		case "--show-keys":
			action = "show-keys"
		case "-o", "--output":
			if !hasValue {
				if i++; i < len(c.Args) {
					value = c.Args[i]
				}
			}
			output = value
		case "--yes":
			yes = true
		case "--batch":
			batch = true
		case "--no-tty", "-q", "--quiet", "--no-default-keyring", "--with-fingerprint", "--armor", "-a":
		case "--version":
			c.Put("gpg (GnuPG) 2.4.4\nlibgcrypt 1.10.3\n")
			return 0
		default:
			if strings.HasPrefix(a, "-o") && len(a) > 2 && a[1] != '-' {
				output = a[2:]
			} else if len(a) > 1 && a[0] == '-' {
				return fail(c, "ckadrill does not simulate gpg %s yet", a)
			} else {
				operands = append(operands, a)
			}
		}
	}
	var content []byte
	var err error
	switch {
	case action == "":
		return fail(c, "ckadrill does not simulate gpg without --dearmor, --enarmor or --show-keys yet")
	case len(operands) == 0 || operands[0] == "-":
		content, err = libc.ReadAll(c.Stdin)
	default:
		content, err = c.InputAll(operands[0])
	}
	if err != nil {
		return fail(c, "can't open '%s': %s", operands[0], libc.Strerror(err))
	}
	if action == "show-keys" {
		return showKeys(c, content)
	}
	var out bytes.Buffer
	if action == "dearmor" {
		b, err := armor.Decode(bytes.NewReader(content))
		if err != nil {
			return fail(c, "no valid OpenPGP data found.")
		}
		if _, err := io.Copy(&out, b.Body); err != nil {
			return fail(c, "dearmoring failed: %s", "CRC error")
		}
	} else {
		w, err := armor.Encode(&out, "PGP ARMORED FILE", map[string]string{"Comment": `Use "gpg --dearmor" for unpacking`})
		if err == nil {
			_, err = w.Write(content)
		}
		if err == nil {
			err = w.Close()
		}
		if err != nil {
			return fail(c, "enarmoring failed: %s", err)
		}
		out.WriteByte('\n')
	}
	if output == "" && len(operands) > 0 && operands[0] != "-" {
		output = operands[0] + map[string]string{"dearmor": ".gpg", "enarmor": ".asc"}[action]
	}
	if output == "" || output == "-" {
		c.Out.Write(out.Bytes())
		return 0
	}
	if output, err = overwrite(c, output, yes, batch); err != nil {
		return fail(c, "%s", err)
	}
	f, err := c.Files.OpenFile(c.Path(output), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o666)
	if err == nil {
		_, err = f.Write(out.Bytes())
		if cerr := f.Close(); err == nil {
			err = cerr
		}
	}
	if err != nil {
		fail(c, "can't create '%s': %s", output, libc.Strerror(err))
		return fail(c, "%sing failed: %s", action, libc.Strerror(err))
	}
	return 0
}

// overwrite asks on the terminal whether a file that is there may be replaced, and returns the name to write to.
func overwrite(c *libc.Prog, name string, yes, batch bool) (string, error) {
	for {
		if _, err := c.Files.Stat(c.Path(name)); err != nil || yes {
			return name, nil
		}
		switch {
		case batch:
			return "", fmt.Errorf("dearmoring failed: File exists")
		case c.TTY == nil:
			return "", fmt.Errorf("cannot open '/dev/tty': No such device or address")
		}
		c.Out.Flush()
		answer, err := c.TTY.ReadLine(fmt.Sprintf("File '%s' exists. Overwrite? (y/N) ", name), nil)
		if err != nil {
			return "", fmt.Errorf("signal Interrupt caught ... exiting")
		}
		if strings.HasPrefix(strings.ToLower(strings.TrimSpace(answer)), "y") {
			return name, nil
		}
		if name, err = c.TTY.ReadLine("Enter new filename: ", nil); err != nil || name == "" {
			return "", fmt.Errorf("dearmoring failed: File exists")
		}
	}
}

// showKeys prints what keys a file holds.
func showKeys(c *libc.Prog, content []byte) int {
	ring, err := openpgp.ReadKeyRing(bytes.NewReader(content))
	if bytes.HasPrefix(bytes.TrimSpace(content), []byte("-----BEGIN")) {
		ring, err = openpgp.ReadArmoredKeyRing(bytes.NewReader(content))
	}
	if err != nil || len(ring) == 0 {
		return fail(c, "no valid OpenPGP data found.")
	}
	for _, e := range ring {
		k := e.PrimaryKey
		bits, _ := k.BitLength()
		until, valid := "", "[ unknown]"
		for _, n := range names(e) {
			if s := e.Identities[n].SelfSignature; s != nil && s.KeyLifetimeSecs != nil {
				end := k.CreationTime.Add(time.Duration(*s.KeyLifetimeSecs) * time.Second)
				until = " [expires: " + end.UTC().Format(time.DateOnly) + "]"
				if end.Before(time.Now()) {
					until, valid = " [expired: "+end.UTC().Format(time.DateOnly)+"]", "[ expired]"
				}
			}
		}
		c.Put("pub   rsa%d %s [SC]%s\n      %X\n", bits, k.CreationTime.UTC().Format(time.DateOnly), until, k.Fingerprint)
		for _, n := range names(e) {
			if strings.HasSuffix(valid, "expired]") {
				c.Put("uid           %s %s\n", valid, n)
			} else {
				c.Put("uid                      %s\n", n)
			}
		}
		for _, s := range e.Subkeys {
			bits, _ := s.PublicKey.BitLength()
			c.Put("sub   rsa%d %s [E]\n", bits, s.PublicKey.CreationTime.UTC().Format(time.DateOnly))
		}
		c.Put("\n")
	}
	return 0
}

func names(e *openpgp.Entity) []string { return slices.Sorted(maps.Keys(e.Identities)) }
