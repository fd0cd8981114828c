package openssl

import (
	"crypto/x509/pkix"
	"strings"
)

// config is a file in the form of openssl.cnf: sections of key = value, the first without a name.
type config struct {
	order map[string][][2]string
}

// parseConfig never fails: what is no section and no assignment is ignored.
func parseConfig(b []byte) config {
	c := config{order: map[string][][2]string{}}
	section := "default"
	text := strings.ReplaceAll(string(b), "\\\n", "")
	for _, line := range strings.Split(text, "\n") {
		line, _, _ = strings.Cut(line, "#")
		line = strings.TrimSpace(line)
		if strings.HasPrefix(line, "[") && strings.HasSuffix(line, "]") {
			section = strings.TrimSpace(line[1 : len(line)-1])
			if _, ok := c.order[section]; !ok {
				c.order[section] = nil
			}
			continue
		}
		k, v, ok := strings.Cut(line, "=")
		if !ok {
			continue
		}
		v = strings.TrimSpace(v)
		if len(v) >= 2 && v[0] == '"' && v[len(v)-1] == '"' {
			v = v[1 : len(v)-1]
		}
		c.order[section] = append(c.order[section], [2]string{strings.TrimSpace(k), v})
	}
	return c
}

func (c config) section(name string) [][2]string { return c.order[name] }

func (c config) has(name string) bool { _, ok := c.order[name]; return ok }

// get returns the last value of a key in a section.
func (c config) get(section, key string) string {
	v := ""
	for _, kv := range c.order[section] {
		if kv[0] == key {
			v = kv[1]
		}
	}
	return v
}

// extensions makes the extensions of a section.
func (c config) extensions(section string, subject, issuer []byte) (l []pkix.Extension, err error) {
	for _, kv := range c.order[section] {
		if section == "default" && kv[0] == "extensions" {
			continue
		}
		e, err := c.extension(kv[0], kv[1], subject, issuer)
		if err != nil {
			return nil, err
		}
		if e != nil {
			l = append(l, *e)
		}
	}
	return l, nil
}
