package etcdctl

import (
	"encoding/hex"
	"encoding/json"
	"fmt"
	"math"
	"strings"

	pb "go.etcd.io/etcd/api/v3/etcdserverpb"
	"go.etcd.io/etcd/api/v3/mvccpb"
)

// json prints anything as one line of JSON.
func (t *tool) json(v any) {
	b, err := json.Marshal(v)
	if err != nil {
		t.Errorf("%v\n", err)
		return
	}
	t.Printf("%s\n", b)
}

// unsupported ends the program: the format does not exist for this command.
func (t *tool) unsupported() { t.failf(exitBadFeature, "%s not supported as output format", t.format) }

func (t *tool) kv(kv *mvccpb.KeyValue) {
	k, v := string(kv.Key), string(kv.Value)
	if t.hex {
		k, v = hexed(kv.Key), hexed(kv.Value)
	}
	if !t.valueOnly {
		t.Printf("%s\n", k)
	}
	t.Printf("%s\n", v)
}

func hexed(b []byte) string {
	s := hex.EncodeToString(b)
	var out strings.Builder
	for i := 0; i < len(s); i += 2 {
		out.WriteString(`\x` + s[i:i+2])
	}
	return out.String()
}

// header and fields print for -w fields.
func (t *tool) header(h *pb.ResponseHeader) {
	if t.hex {
		t.Printf("\"ClusterID\" : %x\n\"MemberID\" : %x\n", h.ClusterId, h.MemberId)
	} else {
		t.Printf("\"ClusterID\" : %d\n\"MemberID\" : %d\n", h.ClusterId, h.MemberId)
	}
	if h.Revision > 0 {
		t.Printf("\"Revision\" : %d\n", h.Revision)
	}
	t.Printf("\"RaftTerm\" : %d\n", h.RaftTerm)
}

func (t *tool) kvFields(prefix string, kv *mvccpb.KeyValue) {
	lease := fmt.Sprint(kv.Lease)
	if t.hex {
		lease = fmt.Sprintf("%016x", kv.Lease)
	}
	t.Printf("\"%sKey\" : %q\n\"%sCreateRevision\" : %d\n\"%sModRevision\" : %d\n\"%sVersion\" : %d\n\"%sValue\" : %q\n\"%sLease\" : %s\n",
		prefix, kv.Key, prefix, kv.CreateRevision, prefix, kv.ModRevision, prefix, kv.Version, prefix, kv.Value, prefix, lease)
}

// rows prints a table as -w table or, its cells separated by commas, as -w simple.
func (t *tool) rows(header []string, rows [][]string) {
	if t.format == "simple" {
		for _, r := range rows {
			t.Printf("%s\n", strings.Join(r, ", "))
		}
		return
	}
	t.Printf("%s", table(header, rows))
}

// table draws a table as olekukonko/tablewriter does by default: headings in capitals and centred, cells to the right.
func table(header []string, rows [][]string) string {
	width := make([]int, len(header))
	for i, h := range header {
		width[i] = len(h)
	}
	for _, r := range rows {
		for i, c := range r {
			width[i] = max(width[i], len(c))
		}
	}
	var b strings.Builder
	rule := func() {
		for _, w := range width {
			b.WriteString("+" + strings.Repeat("-", w+2))
		}
		b.WriteString("+\n")
	}
	rule()
	for i, h := range header {
		gap := width[i] - len(h)
		left := gap / 2
		b.WriteString("| " + strings.Repeat(" ", left) + strings.ToUpper(h) + strings.Repeat(" ", gap-left) + " ")
	}
	b.WriteString("|\n")
	rule()
	for _, r := range rows {
		for i, c := range r {
			fmt.Fprintf(&b, "| %*s ", width[i], c)
		}
		b.WriteString("|\n")
	}
	if len(rows) > 0 {
		rule()
	}
	return b.String()
}

// size prints bytes as dustin/go-humanize does, in powers of 1000.
func size(n uint64) string {
	if n < 10 {
		return fmt.Sprintf("%d B", n)
	}
	units := []string{"B", "kB", "MB", "GB", "TB", "PB", "EB"}
	e := math.Floor(math.Log(float64(n)) / math.Log(1000))
	v := math.Floor(float64(n)/math.Pow(1000, e)*10+0.5) / 10
	if v < 10 {
		return fmt.Sprintf("%.1f %s", v, units[int(e)])
	}
	return fmt.Sprintf("%.0f %s", v, units[int(e)])
}
