package hub

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
)

// text returns n bytes of text that does not compress to almost nothing.
func text(n int) string {
	var b strings.Builder
	for b.Len() < n {
		fmt.Fprintf(&b, "line %d %x\n", b.Len(), rand.Uint64())
	}
	return b.String()[:n]
}

// costHub returns a hub in a directory, encrypted or not.
func costHub(b *testing.B, encrypted bool) *Hub {
	var keys *Keys
	if encrypted {
		keys = keysOf(b, identity(b))
	}
	return openHub(b, b.TempDir(), keys)
}

// benchShip ships 1,000 commits of 4 KiB in batches, and for comparison writes the
// same number of objects and bytes into the hub.
func benchShip(b *testing.B, batch int, encrypted bool) {
	h := costHub(b, encrypted)
	s := openStore(b, filepath.Join(b.TempDir(), "a"), rw.SyncOff)
	ship := &Shipper{Hub: h, Store: s}
	var spent, bare time.Duration
	var rows, bytes, requests int64
	for b.Loop() {
		for i := range 1000 {
			if _, err := s.SafeWrite(b.Context(), rw.SafeWriteRequest{Path: fmt.Sprintf("d/%d.txt", i), Content: []byte(text(4096)), Mode: rw.ModeOverwrite}); err != nil {
				b.Fatal(err)
			}
			if i%batch != batch-1 {
				continue
			}
			began := time.Now()
			out, err := ship.Ship(b.Context())
			if err != nil {
				b.Fatal(err)
			}
			spent += time.Since(began)
			rows, bytes, requests = rows+out.Rows, bytes+out.Bytes, requests+out.Requests
			// The same bytes, with as many writes as a shipment has: pack, slice, head.
			for _, size := range []int{int(out.Bytes / 2), int(out.Rows * 200), 400} {
				data := []byte(text(size))
				began = time.Now()
				if _, err := h.store.PutIfAbsent(b.Context(), fmt.Sprintf("objects/xx/%x", rand.Uint64()), data); err != nil {
					b.Fatal(err)
				}
				bare += time.Since(began)
			}
		}
	}
	b.ReportMetric(float64(rows)/spent.Seconds(), "rows/s")
	b.ReportMetric(float64(bytes)/spent.Seconds()/1e6, "MB/s")
	b.ReportMetric(float64(bytes)/bare.Seconds()/1e6, "bare-MB/s")
	b.ReportMetric(float64(requests)*1000/float64(rows), "requests/1000")
	b.ReportMetric(0, "ns/op")
}

// benchResume publishes 1,000 files of 4 KiB and resumes them elsewhere.
func benchResume(b *testing.B, encrypted bool) {
	h, dir := costHub(b, encrypted), b.TempDir()
	for i := range 1000 {
		path := filepath.Join(dir, "a", fmt.Sprint(i%50), fmt.Sprint(i))
		os.MkdirAll(filepath.Dir(path), 0o755)
		os.WriteFile(path, []byte(text(4096)), 0o644)
	}
	first := &Shipper{Hub: h, Store: openStore(b, filepath.Join(dir, "a"), rw.SyncFull)}
	if _, err := first.Publish(b.Context(), PublishRequest{Task: "t", Root: filepath.Join(dir, "a")}); err != nil {
		b.Fatal(err)
	}
	n, spent, requests := 0, time.Duration(0), int64(0)
	for b.Loop() {
		n++
		s := &Shipper{Hub: h, Store: openStore(b, filepath.Join(dir, fmt.Sprint("b", n)), rw.SyncFull)}
		before, began := h.requests, time.Now()
		out, err := s.Resume(b.Context(), ResumeRequest{Task: "t", Force: true})
		if err != nil || out.Written != 1000 {
			b.Fatal(err, out.Written)
		}
		spent, requests = spent+time.Since(began), requests+h.requests-before
	}
	b.ReportMetric(spent.Seconds()/float64(n), "s/1000")
	b.ReportMetric(float64(requests)/float64(n), "requests")
	b.ReportMetric(0, "ns/op")
}

// benchWrite writes in turn to a store without a hub and to one that another
// process ships from time to time.
func benchWrite(b *testing.B) {
	h, dir := costHub(b, false), b.TempDir()
	var stores [2]*rw.Store
	for i := range stores {
		stores[i] = openStore(b, filepath.Join(dir, fmt.Sprint(i)), rw.SyncFull)
	}
	ship := &Shipper{Hub: h, Store: stores[1]}
	var spent [2]time.Duration
	n := 0
	for b.Loop() {
		for i := range 500 {
			for j := range stores {
				j = (i + j) % len(stores)
				data := []byte(text(4096))
				began := time.Now()
				if _, err := stores[j].SafeWrite(b.Context(), rw.SafeWriteRequest{Path: fmt.Sprintf("d/%d.txt", i), Content: data, Mode: rw.ModeOverwrite}); err != nil {
					b.Fatal(err)
				}
				spent[j] += time.Since(began)
			}
			n++
		}
		if _, err := ship.Ship(b.Context()); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(n)/spent[0].Seconds(), "writes/s")
	b.ReportMetric(float64(n)/spent[1].Seconds(), "shipped-writes/s")
	b.ReportMetric(0, "ns/op")
}

// costs are the rows of the table in docs/hub.md.
var costs = []struct {
	name string
	run  func(*testing.B)
	show func(m map[string]float64) string
}{
	{"1,000 commits of 4 KiB in one shipment", func(b *testing.B) { benchShip(b, 1000, false) }, shownShip},
	{"the same in batches of 500", func(b *testing.B) { benchShip(b, followRows, false) }, shownShip},
	{"the same in one shipment, encrypted", func(b *testing.B) { benchShip(b, 1000, true) }, shownShip},
	{"resuming 1,000 files of 4 KiB", func(b *testing.B) { benchResume(b, false) }, shownResume},
	{"the same, encrypted", func(b *testing.B) { benchResume(b, true) }, shownResume},
	{"durable writes of 4 KiB, without a hub and with one", benchWrite, func(m map[string]float64) string {
		return fmt.Sprintf("%.0f/s and %.0f/s", m["writes/s"], m["shipped-writes/s"])
	}},
}

func shownShip(m map[string]float64) string {
	return fmt.Sprintf("%.0f rows/s, %.1f MB/s of contents (bare writes: %.0f MB/s), %.0f requests per 1,000 commits", m["rows/s"], m["MB/s"], m["bare-MB/s"], m["requests/1000"])
}

func shownResume(m map[string]float64) string {
	return fmt.Sprintf("%.2f s, %.0f requests", m["s/1000"], m["requests"])
}

func BenchmarkCost(b *testing.B) {
	for _, c := range costs {
		b.Run(c.name, c.run)
	}
}

var costTable = flag.Bool("cost", false, "measure, and write the table of costs into docs/hub.md")

// TestCostTable checks that docs/hub.md has the table of what is measured. With
// -cost it measures and writes the figures of this machine.
func TestCostTable(t *testing.T) {
	const page, begin, end = "../docs/hub.md", "<!-- cost: begin -->\n", "<!-- cost: end -->\n"
	data, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	head, rest, ok := strings.Cut(string(data), begin)
	table, tail, ended := strings.Cut(rest, end)
	if !ok || !ended {
		t.Fatal("the page has no table of costs")
	}
	if *costTable {
		load, _ := os.ReadFile("/proc/loadavg")
		table = "| load " + strings.Fields(string(load) + " unknown")[0] + " | |\n|---|---|\n"
		for _, c := range costs {
			table += fmt.Sprintf("| %s | %s |\n", c.name, c.show(testing.Benchmark(c.run).Extra))
		}
		if err := os.WriteFile(page, []byte(head+begin+table+end+tail), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range costs {
		if !strings.Contains(table, "| "+c.name+" |") {
			t.Errorf("the table lacks %q: run the test with -cost", c.name)
		}
	}
	if n := strings.Count(table, "\n"); n != len(costs)+2 {
		t.Errorf("the table has %d lines", n)
	}
}
