package main

import (
	"regexp"
	"strings"
	"testing"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
)

func TestWhen(t *testing.T) {
	at := time.Date(2026, 3, 5, 12, 0, 0, 0, time.UTC)
	now = func() time.Time { return at }
	t.Cleanup(func() { now = time.Now })
	for ago, want := range map[time.Duration]string{
		0: "just now", 59 * time.Second: "59 s ago", 2*time.Minute + time.Second: "2 min ago", 23 * time.Hour: "23 h ago",
		48 * time.Hour: at.Add(-48 * time.Hour).Local().Format("2006-01-02 15:04"), -time.Hour: at.Add(time.Hour).Local().Format("2006-01-02 15:04"),
	} {
		if got := when(at.Add(-ago).Format(time.RFC3339Nano)); got != want {
			t.Errorf("%v: %q, want %q", ago, got, want)
		}
	}
	if got := when("no time"); got != "no time" {
		t.Error(got)
	}
}

// TestSpokenHintsNameNoTool: no hint of a refusal names a tool or an argument
// as on the wire.
func TestSpokenHintsNameNoTool(t *testing.T) {
	flags := 0
	for _, d := range rw.Details() {
		_, _, _, _, hint := d.Describe()
		said := spoken(hint)
		for _, word := range regexp.MustCompile(`[a-z]+(?:_[a-z0-9]+)+`).FindAllString(said, -1) {
			if strings.HasPrefix(word, "rw_") || isArgument(word) {
				t.Errorf("%s: %s", d, said)
			}
		}
		if said != hint {
			flags++
		}
	}
	if flags < 15 {
		t.Errorf("%d hints are spoken", flags)
	}
	for hint, want := range map[string]string{
		"read the file; to replace it use mode overwrite with expected_prev_sha256": "read the file; to replace it use --mode overwrite with --expected-prev-sha256",
		"call rw_redact with draft_ref, then rw_draft_list":                         "call resilient-write redact with --draft-ref, then resilient-write draft list",
		"to replace it anyway, pass force":                                          "to replace it anyway, pass --force",
		"rw_nothing and other_words stay":                                           "rw_nothing and other_words stay",
	} {
		if got := spoken(hint); got != want {
			t.Errorf("%q", got)
		}
	}
}

// TestProgressBar: how much, of what, and how fast once that is known.
func TestProgressBar(t *testing.T) {
	for _, one := range []struct {
		p     rw.Progress
		since time.Duration
		want  string
	}{
		{rw.Progress{Stage: "read", Done: 3 << 20}, 0, "3.0 MiB"},
		{rw.Progress{Stage: "read", Done: 3 << 20, Total: 12 << 20}, 2 * time.Second, " 25%  3.0 MiB of 12.0 MiB  1.5 MiB/s"},
		{rw.Progress{Stage: "files", Done: 500, Total: 1000}, 500 * time.Millisecond, "[############            ]  50%  500 files of 1000 files"},
		{rw.Progress{Stage: "journal", Done: 500}, 10 * time.Second, "500 rows  50 rows/s"},
		{rw.Progress{Stage: "erase", Done: 7}, 0, "7 places"},
	} {
		if got := drawBar(one.p, one.since); !strings.HasSuffix(got, one.want) {
			t.Errorf("%+v: %q, want %q", one.p, got, one.want)
		}
	}
}

// TestCompletion offers values, tools, clients, and what is in the store.
func TestCompletion(t *testing.T) {
	s := newShell(t)
	if out := s.run("__complete", "draft", "get", "").out; strings.Contains(out, "draft_") || len(everyFile(t, s.dir)) != 1 {
		t.Errorf("of no store: %q", out)
	}
	s.with("one").ok("write", "a.txt")
	s.with("two").ok("write", "a.txt", "--mode", "overwrite")
	s.with("x").ok("write", "e\x1b[2J.txt")
	s.ok("delete", "a.txt")
	s.with(reportKey).run("write", "conf.env")
	s.with("1").ok("chunk", "append", "pieces")
	s.with("{}").ok("checkpoint", "save", "step", "-")
	tx := s.ok("tx", "begin").doc["tx_id"].(string)
	for line, want := range map[string]string{
		"draft get ":               "\tconf.env",
		"chunk status p":           "pieces\t1 chunks",
		"chunk compose pieces ":    ":0",
		"checkpoint read ":         "step",
		"tx commit ":               tx,
		"show ":                    "a.txt\t3 versions",
		"show a.txt ":              "1\tcreate ",
		"restore a.txt --version ": "2\toverwrite ",
		"diff a.txt --from ":       "1\tcreate ",
		"undo --row ":              "2\toverwrite a.txt, ",
		"serve --ti":               "--tier",
		"serve --tier ":            "standard",
		"serve --read-only --tr":   "--transport",
		"serve --transport ":       "http",
		"write a --mode ":          "overwrite",
		"status --color ":          "never",
		"init --scope ":            "project",
		"init ":                    "claude-code",
		"doctor ":                  "codex",
		"call ":                    "rw_safe_write",
		"write --gate ":            "advise",
		"journal tail --f":         "--filter-path",
	} {
		args := append([]string{"__complete"}, strings.Split(line, " ")...)
		if out := s.run(args...).out; !strings.Contains(out, want) || strings.Contains(out, "\x1b") {
			t.Errorf("%q: %q", line, out)
		}
	}
}

// TestOneFlagDialect: no help shows a long flag with one hyphen, although serve
// still accepts it.
func TestOneFlagDialect(t *testing.T) {
	s := newShell(t)
	single := regexp.MustCompile(`(?:^|[\s(;])-[a-z]{2,}[a-z-]*`)
	lines := []string{"help", "serve -h"}
	for _, c := range (&app{env: func(string) string { return "" }}).commands() {
		lines = append(lines, c.Name()+" --help")
	}
	for _, line := range lines {
		r := s.ok(strings.Fields(line)...)
		if found := single.FindAllString(r.out+r.errs, -1); found != nil || len(r.out+r.errs) < 200 {
			t.Errorf("%s: %q", line, found)
		}
	}
	if r := s.with("").run("-sync", "off", "-tier", "core"); r.code != 0 {
		t.Errorf("%d %s", r.code, r.errs)
	}
}
