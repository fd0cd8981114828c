package crictl

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"regexp"
	"sort"
	"strings"
	"text/tabwriter"
	"text/template"
	"time"

	"github.com/docker/go-units"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"sigs.k8s.io/yaml"
)

// table writes rows in columns at least 20 wide.
type table struct{ w *tabwriter.Writer }

func newTable(w io.Writer) *table { return &table{tabwriter.NewWriter(w, 20, 1, 3, ' ', 0)} }

func (t *table) row(cells ...string) { fmt.Fprintln(t.w, strings.Join(cells, "\t")) }

func (t *tool) clearScreen() { t.printf("\033[2J\033[H") }

// toJSON is a message in JSON with all its fields. protojson varies the spaces that it writes, so they are made anew.
func toJSON(m proto.Message) ([]byte, error) {
	b, err := protojson.MarshalOptions{EmitDefaultValues: true}.Marshal(m)
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	err = json.Indent(&out, b, "", "  ")
	return out.Bytes(), err
}

func (t *tool) outputJSON(m proto.Message) error {
	b, err := toJSON(m)
	if err == nil {
		t.println(string(b))
	}
	return err
}

func (t *tool) outputYAML(m proto.Message) error {
	b, err := toJSON(m)
	if err == nil {
		b, err = yaml.JSONToYAML(b)
	}
	if err == nil {
		t.println(string(b))
	}
	return err
}

// statusData is one object of an inspect command.
type statusData struct {
	status             map[string]any
	handlers, features json.RawMessage
	info               map[string]string
}

// statusMap is a message as JSON with some fields changed.
func statusMap(m proto.Message, change map[string]any) (map[string]any, error) {
	b, err := toJSON(m)
	if err != nil {
		return nil, err
	}
	out := map[string]any{}
	if err := json.Unmarshal(b, &out); err != nil {
		return nil, err
	}
	for k, v := range change {
		out[k] = v
	}
	return out, nil
}

func (t *tool) outputStatus(l []statusData, format, tmpl string) error {
	if len(l) == 0 {
		return nil
	}
	var result []map[string]any
	for _, s := range l {
		m := map[string]any{}
		if s.status != nil {
			m["status"] = s.status
		}
		if s.handlers != nil {
			m["runtimeHandlers"] = s.handlers
		}
		if s.features != nil {
			m["features"] = s.features
		}
		for k, v := range s.info {
			if strings.HasPrefix(v, "{") {
				var o map[string]any
				if err := json.Unmarshal([]byte(v), &o); err != nil {
					return fmt.Errorf("unmarshal status info JSON: %w", err)
				}
				m[k] = o
			} else {
				m[k] = strings.Trim(v, `"`)
			}
		}
		result = append(result, m)
	}
	var b []byte
	var err error
	if len(result) == 1 {
		b, err = json.Marshal(result[0])
	} else {
		b, err = json.Marshal(result)
	}
	if err != nil {
		return fmt.Errorf("marshal result: %w", err)
	}
	switch format {
	case "yaml":
		y, err := yaml.JSONToYAML(b)
		if err != nil {
			return fmt.Errorf("JSON result to YAML: %w", err)
		}
		t.println(string(y))
	case "json":
		var out bytes.Buffer
		if err := json.Indent(&out, b, "", "  "); err != nil {
			return fmt.Errorf("indent JSON result: %w", err)
		}
		t.println(out.String())
	case "go-template":
		s, err := execute(tmpl, b)
		if err != nil {
			return fmt.Errorf("execute template: %w", err)
		}
		t.println(s)
	default:
		return fmt.Errorf("unsupported format: %q", format)
	}
	return nil
}

// execute fills a Go template from JSON, with the functions that crictl adds.
func execute(tmpl string, raw []byte) (string, error) {
	p, err := template.New("tmplExecuteRawJSON").Funcs(template.FuncMap{
		"json": func(v any) (string, error) {
			b, err := json.Marshal(v)
			return string(b), err
		},
		"title": strings.ToUpper,
		"lower": strings.ToLower,
		"upper": strings.ToUpper,
	}).Parse(tmpl)
	if err != nil {
		return "", fmt.Errorf("failed to generate go-template: %w", err)
	}
	var data any
	if err := json.Unmarshal(raw, &data); err != nil {
		return "", err
	}
	var out strings.Builder
	if err := p.Option("missingkey=error").Execute(&out, data); err != nil {
		return "", fmt.Errorf("failed to template data: %w", err)
	}
	return out.String(), nil
}

func truncated(id, prefix string) string {
	id = strings.TrimPrefix(id, prefix)
	if len(id) > 13 {
		id = id[:13]
	}
	return id
}

func ago(ns int64) string { return units.HumanDuration(time.Since(time.Unix(0, ns))) + " ago" }

// matches says whether a name matches a regular expression; one that is wrong matches nothing.
func matches(pattern, name string) bool {
	if pattern == "" {
		return true
	}
	ok, err := regexp.MatchString(pattern, name)
	return err == nil && ok
}

func sortedKeys(m map[string]string) []string {
	l := make([]string, 0, len(m))
	for k := range m {
		l = append(l, k)
	}
	sort.Strings(l)
	return l
}

// printMap prints labels or annotations as the verbose lists do.
func (t *tool) printMap(title string, m map[string]string) {
	if m == nil {
		return
	}
	t.println(title + ":")
	for _, k := range sortedKeys(m) {
		t.printf("\t%s -> %s\n", k, m[k])
	}
}

func rfc3339(ns int64) string { return time.Unix(0, ns).UTC().Format(time.RFC3339Nano) }
