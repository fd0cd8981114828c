package libc

import (
	"io"
	"strings"
)

// maxAnswer is how many bytes of a line are read.
const maxAnswer = 4096

// ReadAnswer reads a line byte by byte, so that nothing behind it is taken away from the next reader.
func ReadAnswer(r io.Reader) (string, error) {
	var b strings.Builder
	var one [1]byte
	for b.Len() < maxAnswer {
		n, err := r.Read(one[:])
		if n > 0 {
			if one[0] == '\n' {
				return b.String(), nil
			}
			b.WriteByte(one[0])
		}
		if err != nil {
			if b.Len() > 0 {
				err = nil
			}
			return b.String(), err
		}
	}
	return b.String(), nil
}
