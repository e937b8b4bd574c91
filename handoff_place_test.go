package resilientwrite_test

import (
	"fmt"
	"strings"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
)

// TestHandoffErrorsSayWhereAndWhat: the place of a problem is one of the file, not of
// its front matter, and a limit is reported by its own name and not by that of others.
func TestHandoffErrorsSayWhereAndWhat(t *testing.T) {
	dir := workspace(t)
	s := open(t, dir, &rw.Options{Sync: rw.SyncOff})
	text := documentedTemplate(t)
	for name, c := range map[string]struct {
		line         string // inserted after the opening line
		detail       rw.Detail
		column       int
		says, silent string
	}{
		"not UTF-8": {"summary: é\xff", rw.ErrYAML, 11, "line 2, column 11", ""},
		"nested":    {"summary: " + strings.Repeat("a: ", 100), rw.ErrTooLarge, 200, "nested deeper than 64", "1 MiB"},
		"anchors":   {"x:" + strings.Repeat("\n- &a x", 1200), rw.ErrTooLarge, 0, "more than 1000 tags and anchors", "nested"},
	} {
		_, err := readByHand(t, s, dir, strings.Replace(text, "---\n", "---\n"+c.line+"\n", 1))
		e := rw.AsError("", err)
		if err == nil || e.Detail != c.detail || !strings.Contains(e.Hint, c.says) || c.silent != "" && strings.Contains(e.Hint, c.silent) {
			t.Errorf("%s: %v: %s", name, err, e.Hint)
			continue
		}
		if c.column > 0 && (fmt.Sprint(e.Context["line"]) != "2" || fmt.Sprint(e.Context["column"]) != fmt.Sprint(c.column)) || e.Context["line"] == nil {
			t.Errorf("%s: %v", name, e.Context)
		}
		if strings.Contains(err.Error()+e.Hint, "summary") {
			t.Errorf("%s: the text shows content", name)
		}
		conformsEnvelope(t, e)
	}
	big := anEnvelope("t")
	big.Summary = strings.Repeat("x", 2<<20)
	if _, err := s.HandoffWrite(background, rw.HandoffWriteRequest{Envelope: big}); err == nil || strings.Contains(rw.AsError("", err).Hint, "100000") {
		t.Errorf("%v: %s", err, rw.AsError("", err).Hint)
	}
}
