package archive

import (
	stdgzip "compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"strings"
	"time"

	"ckadrill/sim/userland/libc"
)

// gzip is gzip, gunzip and zcat.
func gzip(c *libc.Prog) int {
	opts, operands, err := libc.Getopt(c.Args, "123456789cdfhkLlNnqrS:tVv", "stdout|c", "to-stdout|c", "decompress|d", "uncompress|d", "force|f", "keep|k", "list|l", "no-name|n", "name|N", "quiet|q", "recursive|r", "suffix:|S", "test|t", "verbose|v", "fast|1", "best|9", "help|h", "version|V")
	c.Called = "gzip"
	if err != nil {
		c.Warn("%s", err)
		c.Errorf("Try `gzip --help' for more information.\n")
		return 1
	}
	stdout, decompress, force, keep, test, verbose, level := c.Name == "zcat", c.Name != "gzip", false, false, false, false, 6
	for _, o := range opts {
		switch o.Name {
		case "c":
			stdout = true
		case "d":
			decompress = true
		case "f":
			force = true
		case "k":
			keep = true
		case "t":
			test, decompress = true, true
		case "v":
			verbose = true
		case "1", "2", "3", "4", "5", "6", "7", "8", "9":
			level = int(o.Name[0] - '0')
		}
	}
	if len(operands) == 0 {
		operands = []string{"-"}
	}
	for _, n := range operands {
		if n == "-" || stdout || test {
			in, err := c.Input(n)
			if err != nil && n != "-" && decompress && errors.Is(err, fs.ErrNotExist) && !strings.HasSuffix(n, ".gz") {
				n += ".gz"
				in, err = c.Input(n)
			}
			if err != nil {
				c.FailFile(n, err)
				continue
			}
			var out io.Writer = c.Out
			if test {
				out = io.Discard
			}
			label := n
			if n == "-" {
				label = "stdin"
			}
			if err := pump(out, in, decompress, level); err != nil {
				c.Out.Flush()
				c.Errorf("\ngzip: %s: %s\n", label, gzipError(err))
				c.Status = 1
			}
			in.Close()
			continue
		}
		to := n + ".gz"
		if decompress {
			var ok bool
			if to, ok = strings.CutSuffix(n, ".gz"); !ok {
				if t, tgz := strings.CutSuffix(n, ".tgz"); tgz {
					to = t + ".tar"
				} else if _, err := c.Files.Stat(c.Path(n)); err != nil {
					to, n = n, n+".gz"
				} else {
					c.Warn("%s: unknown suffix -- ignored", n)
					c.Status = 2
					continue
				}
			}
		} else if strings.HasSuffix(n, ".gz") && !force {
			c.Warn("%s already has .gz suffix -- unchanged", n)
			c.Status = 2
			continue
		}
		i, err := c.Files.Stat(c.Path(n))
		if err != nil {
			c.FailFile(n, err)
			continue
		}
		if i.IsDir() {
			c.Warn("%s is a directory -- ignored", n)
			c.Status = 2
			continue
		}
		if _, err := c.Files.Lstat(c.Path(to)); err == nil && !force {
			c.Warn("%s already exists;\tnot overwritten", to)
			c.Status = 2
			continue
		}
		if err := rewrite(c, n, to, decompress, level, i); err != nil {
			c.Out.Flush()
			c.Errorf("\ngzip: %s: %s\n", n, gzipError(err))
			c.Status = 1
			continue
		}
		if verbose {
			c.Errorf("%s:\t%s %s\n", n, map[bool]string{true: "-- created", false: "-- replaced with"}[keep], to)
		}
		if !keep {
			c.Files.Remove(c.Path(n))
		}
	}
	return c.Status
}

func gzipError(err error) string {
	switch {
	case errors.Is(err, stdgzip.ErrHeader):
		return "not in gzip format"
	case errors.Is(err, io.ErrUnexpectedEOF):
		return "unexpected end of file"
	case errors.Is(err, stdgzip.ErrChecksum):
		return "invalid compressed data--crc error"
	}
	return libc.Strerror(err)
}

// expansion bounds what a small archive may grow to.
const expansion = 1 << 30

var errExpansion = errors.New("the content is larger than ckadrill unpacks")

func pump(out io.Writer, in io.Reader, decompress bool, level int) error {
	if !decompress {
		w, err := stdgzip.NewWriterLevel(out, level)
		if err != nil {
			return err
		}
		if _, err := io.Copy(w, in); err != nil {
			return err
		}
		return w.Close()
	}
	r, err := stdgzip.NewReader(in)
	if err == io.EOF {
		return io.ErrUnexpectedEOF
	}
	if err == io.ErrUnexpectedEOF {
		return stdgzip.ErrHeader
	}
	if err != nil {
		return err
	}
	n, err := io.Copy(out, io.LimitReader(r, expansion))
	if err == nil && n == expansion {
		return errExpansion
	}
	return err
}

func rewrite(c *libc.Prog, from, to string, decompress bool, level int, i fs.FileInfo) error {
	in, err := c.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := c.Files.OpenFile(c.Path(to), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, i.Mode().Perm())
	if err != nil {
		return err
	}
	err = pump(out, in, decompress, level)
	if cerr := out.Close(); err == nil {
		err = cerr
	}
	if err != nil {
		c.Files.Remove(c.Path(to))
		return err
	}
	st := libc.Stat(i)
	c.Files.Chmod(c.Path(to), i.Mode())
	c.Files.Chown(c.Path(to), st.UID, st.GID)
	c.Files.Chtimes(c.Path(to), time.Now(), i.ModTime())
	return nil
}
