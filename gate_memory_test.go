package resilientwrite_test

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"strings"
	"testing"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
)

// mostLive returns the maximum number of bytes of the heap in use during work, in
// excess of the number before it. Garbage that is not yet collected is not included.
func mostLive(work func()) int64 {
	defer debug.SetGCPercent(debug.SetGCPercent(25))
	runtime.GC()
	live := []metrics.Sample{{Name: "/gc/heap/live:bytes"}}
	metrics.Read(live)
	before, most := int64(live[0].Value.Uint64()), int64(0)
	done, told := make(chan bool), make(chan bool)
	go func() {
		defer close(told)
		tick := time.NewTicker(time.Millisecond)
		defer tick.Stop()
		for {
			metrics.Read(live)
			most = max(most, int64(live[0].Value.Uint64())-before)
			select {
			case <-done:
				return
			case <-tick.C:
			}
		}
	}()
	work()
	close(done)
	<-told
	return most
}

// crowd is a text in which every line or word is a finding.
type crowd struct {
	name string
	text func(from int) io.Reader
	most int64  // bytes that judging it may take, however long it is
	only string // the only case in short tests
}

func crowds() []crowd {
	return []crowd{
		{"addresses", func(int) io.Reader { return &repeat{line: []byte("a@b.co ")} }, 48 << 20, "create score redact"},
		{"passwords", func(int) io.Reader { return &repeat{line: []byte("pass" + "word=a1B2c3D4e5\n")} }, 24 << 20, "append"},
		{"customers", func(from int) io.Reader { return &customers{n: from} }, 20 << 20, "create replace redact"},
	}
}

// customers is a list in which every line has another address.
type customers struct {
	n    int
	line []byte
}

func (c *customers) Read(p []byte) (int, error) {
	if len(c.line) == 0 {
		c.n++
		c.line = fmt.Appendf(nil, "%d,jo%d@acme%d.org\n", c.n, c.n, c.n%97)
	}
	n := copy(p, c.line)
	c.line = c.line[n:]
	return n, nil
}

// crowdBytes is the length of the texts. If every finding were kept, the memory would
// be several times the limits.
func crowdBytes() int64 {
	if *long {
		return 64 << 20
	}
	return 4 << 20
}

func (c *crowd) tries(step string) bool { return *long || strings.Contains(c.only, step) }

// TestJudgingNeedsConstantMemory (promise 15): the gate, whether a file is new,
// replaced or appended to, and rw_risk_score use memory that does not grow with their
// findings.
func TestJudgingNeedsConstantMemory(t *testing.T) {
	size := crowdBytes()
	for _, c := range crowds() {
		dir := ramspace(t)
		s := openGated(t, dir, nil)
		write := func(mode rw.WriteMode, from int, n int64) func() {
			return func() {
				r, err := s.SafeWriteFrom(background, rw.SafeWriteRequest{Path: "list.txt", Mode: mode, Call: rw.Call{AcceptRisk: "test data"}}, io.LimitReader(c.text(from), n))
				if err != nil || len(r.Warnings) == 0 {
					t.Errorf("%s: %v, warnings %v", c.name, err, r.Warnings)
				}
			}
		}
		content := ""
		score := func() {
			r, err := s.RiskScore(background, rw.RiskScoreRequest{Content: []byte(content)})
			if err != nil || r.Omitted < 1000 || len(r.DetectedPatterns) > 1010 {
				t.Errorf("%s: %v, %d omitted", c.name, err, r.Omitted)
			}
		}
		if !c.tries("create") {
			write(rw.ModeCreate, 0, 1000)()
		}
		for _, step := range []struct {
			name string
			work func()
			more int64
		}{
			{"create", write(rw.ModeCreate, 0, size), 0}, {"replace", write(rw.ModeOverwrite, 100_000, size-19), 0}, // half of it new
			{"append", write(rw.ModeAppend, 0, size), 0},
			{"score", score, size}, // the bytes of the text, besides the text
		} {
			if !c.tries(step.name) {
				continue
			}
			if step.name == "score" {
				var b strings.Builder
				io.Copy(&b, io.LimitReader(c.text(0), size))
				content = b.String()
			}
			used, most := mostLive(step.work), c.most
			if raceDetector { // it lets a grown slice and the one before live together for longer
				most += most / 3
			}
			if used > most+step.more {
				t.Errorf("%s: %s took %d MiB for a text of %d MiB", c.name, step.name, used>>20, size>>20)
			}
			t.Logf("%s, %s: %.1f MiB", c.name, step.name, float64(used)/(1<<20))
		}
		s.Close(background)
	}
}

// TestRedactingNeedsMemoryForTheTextOnly: a text full of findings is redacted with
// memory of a small multiple of the result, and the reply lists a limited number of
// places.
func TestRedactingNeedsMemoryForTheTextOnly(t *testing.T) {
	size := crowdBytes()
	s := openGated(t, ramspace(t), nil)
	for _, c := range crowds() {
		if !c.tries("redact") {
			continue
		}
		var b strings.Builder
		io.Copy(&b, io.LimitReader(c.text(0), size))
		content := b.String()
		var r rw.RedactResult
		var err error
		used := mostLive(func() { r, err = s.Redact(background, rw.RedactRequest{Content: []byte(content)}) })
		if err != nil || len(r.Spans) != 1000 || r.Omitted < 1000 || r.Verdict != rw.VerdictSafe {
			t.Fatalf("%s: %v, %d spans, %d omitted, %s", c.name, err, len(r.Spans), r.Omitted, r.Verdict)
		}
		if got := strings.Count(string(r.Content), "-REDACTED}"); got != len(r.Spans)+r.Omitted {
			t.Errorf("%s: %d places are redacted, %d told of", c.name, got, len(r.Spans)+r.Omitted)
		}
		if most := c.most + 3*int64(len(content)+len(r.Content)); used > most {
			t.Errorf("%s: %d MiB, want at most %d, for %d MiB that become %d", c.name, used>>20, most>>20, size>>20, len(r.Content)>>20)
		}
		t.Logf("%s: %.1f MiB for %d that become %d", c.name, float64(used)/(1<<20), size>>20, len(r.Content)>>20)
	}
}

// TestWhatIsNewIsCountedExactly: of thousands of findings old and new, a
// refusal counts those that the write brings in, and lists twenty.
func TestWhatIsNewIsCountedExactly(t *testing.T) {
	t.Parallel()
	dir := ramspace(t)
	s := openGated(t, dir, nil)
	var old, both strings.Builder
	for i := range uint64(2400) {
		key := awsID(i) + "\n"
		if i%2 == 0 {
			old.WriteString(key)
		}
		both.WriteString(key)
	}
	noErr(t, os.WriteFile(filepath.Join(dir, "keys.txt"), []byte(old.String()), 0o644))
	for _, r := range []rw.SafeWriteRequest{put("keys.txt", both.String(), rw.ModeOverwrite), put("new.txt", old.String(), rw.ModeCreate)} {
		e := gated(t, s, dir, r)
		list := detectedOf(t, e)
		if len(list) != 20 || e.Context["detected_omitted"] != 1200-20 || strings.Join(e.Patterns, " ") != "api_key" {
			t.Errorf("%s: %d listed, %v omitted, %v", r.Path, len(list), e.Context["detected_omitted"], e.Patterns)
		}
		if r.Path == "keys.txt" && (*list[0].Line != 2 || *list[19].Line != 40) {
			t.Errorf("lines %d to %d, want the first that are new", *list[0].Line, *list[19].Line)
		}
	}
	wants(t, passes(t, s, put("keys.txt", old.String()[len(awsID(0))+1:], rw.ModeOverwrite)), rw.WarnRiskPreexisting)
}

// BenchmarkGateOfACrowdedFile creates, and replaces, a file of 16 MiB that is
// full of findings.
func BenchmarkGateOfACrowdedFile(b *testing.B) {
	const size = 16 << 20
	for _, c := range crowds() {
		for _, mode := range []rw.WriteMode{rw.ModeCreate, rw.ModeOverwrite} {
			b.Run(c.name+"/"+string(mode), func(b *testing.B) {
				s := must(rw.Open(background, b.TempDir(), &rw.Options{Sync: rw.SyncOff}))(b)
				defer s.Close(background)
				b.SetBytes(size)
				b.ReportAllocs()
				n := 0
				judge := func() {
					path := "list.txt"
					if n++; mode == rw.ModeCreate {
						path = fmt.Sprintf("list%d.txt", n)
					}
					text := io.LimitReader(c.text(1000*n), size-int64(n)) // another one each time
					must(s.SafeWriteFrom(background, rw.SafeWriteRequest{Path: path, Mode: mode}, text))(b)
				}
				judge()
				for b.Loop() {
					judge()
				}
			})
		}
	}
}
