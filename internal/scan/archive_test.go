package scan

import (
	"archive/zip"
	"bytes"
	"compress/gzip"
	"strings"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

func gzipped(s string) string {
	var b bytes.Buffer
	w := gzip.NewWriter(&b)
	w.Write([]byte(s))
	w.Close()
	return b.String()
}

func zipped(s string) string {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, name := range []string{"readme.txt", ".env"} {
		w, _ := z.Create(name)
		w.Write([]byte("some text of " + name + "\n"))
		if name == ".env" {
			w.Write([]byte(s))
		}
	}
	z.Close()
	return b.String()
}

// A token in a member of an archive is found, as bytes and in base64, and
// redacted with the member; an archive in an archive is left alone.
func TestArchivesAreUnpacked(t *testing.T) {
	s := scanner(t)
	plain := "KEY=" + expand("ghp_{an 30}{crc}", 5) + "\n" + strings.Repeat("words of the member\n", 8)
	for name, text := range map[string]string{
		"gzip": gzipped(plain), "zip": zipped(plain), "gzip in base64": b64(gzipped(plain)), "zip in base64": b64(zipped(plain)),
		"gzip in lines of base64": lines(b64(gzipped(plain)), 76),
	} {
		text = "data: " + text + "\nend\n"
		r := s.Score([]byte(text), Options{})
		testbed.Expect(t, r.Verdict == VerdictHigh, "%s: %s", name, r.Verdict)
		out, _ := s.Redact([]byte(text), Options{})
		r = s.Score(out, Options{})
		testbed.Expect(t, r.Verdict != VerdictHigh, "%s: %s after redaction", name, r.Verdict)
	}
	twice := gzipped(gzipped(plain) + strings.Repeat("x", 40))
	testbed.Expect(t, s.Score([]byte(twice), Options{}).Verdict != VerdictHigh, "an archive in an archive was unpacked")
}

// What is unpacked is bounded, by the length of the text and altogether.
func TestBombsAreBounded(t *testing.T) {
	bomb := gzipped(strings.Repeat("a", 64<<20))
	for _, text := range []string{bomb, b64(bomb), strings.Repeat(gzipped(strings.Repeat("b", 1<<20)), 200), strings.Repeat("\x1f\x8b\x08", 1<<16), strings.Repeat("PK\x03\x04", 1<<16)} {
		s := testbed.Must(New(&Policy{}))(t)
		work := worked(s, func() { s.Score([]byte(text), Options{}) })
		most := workPerByte * len(text)
		testbed.Expect(t, work <= most, "%d bytes: work %d, want at most %d", len(text), work, most)
	}
}

// What only looks like the start of a member is tried a few times, and hides no
// member after it.
func TestFalseMembers(t *testing.T) {
	s := scanner(t)
	token := expand("ghp_{an 30}{crc}", 3)
	for name, magic := range map[string]string{
		"gzip": "\x1f\x8b\b", "gzip with flags": "\x1f\x8b\b\xff\xff", "gzip with a field": "\x1f\x8b\b\x04\x00\x00\x00\x00\x00\x00\xff\xff", "zip": "PK\x03\x04\x14\x00\x00\x00\x08\x00", "base64": "H4sI" + strings.Repeat("AAEC", 9) + " ",
	} {
		false10 := strings.Repeat(magic+"words and more of them, until it is long enough\n", 10)
		testbed.Equal(t, s.Score([]byte(false10+gzipped("k="+token)), Options{}).Verdict, VerdictHigh, "a member after ten that are not archives ", name)
		text := []byte(strings.Repeat(false10, 200))
		x := s.newText(text)
		x.findings()
		left := x.runs.archive
		testbed.Expect(t, left <= falseCost+memberCost, "%s: %d of what may be unpacked is left", name, left)
		x.free()
	}
}
