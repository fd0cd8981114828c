package images

import "bytes"

// VersionOf reads the release out of an executable's content: the line "version <release>" behind the program's name, ""
// if it has none.
func VersionOf(content []byte) string {
	_, rest, ok := bytes.Cut(content, []byte("\n"))
	if !ok {
		return ""
	}
	line, _, _ := bytes.Cut(rest, []byte("\n"))
	v, ok := bytes.CutPrefix(line, []byte("version "))
	if !ok {
		return ""
	}
	return string(v)
}
