package aitrace

import (
	"cmp"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

var (
	one     = Author{AI: true, Tool: "claude", Session: "s1", Model: "m-1", Call: "1"}
	oneMore = Author{AI: true, Tool: "claude", Session: "s1", Model: "m-1", Call: "2"}
	two     = Author{AI: true, Tool: "codex", Session: "s2", Call: "3"}
	sample  = []File{
		{"src/b.go", []Line{{1, one}, {2, one}, {3, Author{}}, {4, oneMore}, {6, two}, {9, one}}},
		{"a file.txt", []Line{{5, two}}}, {"human.txt", []Line{{1, Author{}}}}, {"bad\"name", []Line{{1, one}}},
	}
	commit = strings.Repeat("ab", 20)
)

// TestAgentTrace: a record has the members that the schema of Agent Trace asks for,
// no others, in the forms that it demands; each line has one contributor.
func TestAgentTrace(t *testing.T) {
	at := time.Date(2026, 1, 2, 3, 4, 5, 6, time.FixedZone("x", 3600))
	text := testbed.Must(AgentTrace(sample, commit, "0.2.0", at))(t)
	var r struct {
		Version, ID, Timestamp string
		VCS                    struct{ Type, Revision string }
		Tool                   struct{ Name, Version string }
		Files                  []struct {
			Path          string
			Conversations []struct {
				Contributor struct {
					Type    string
					ModelID string `json:"model_id"`
				}
				Ranges []struct {
					StartLine int `json:"start_line"`
					EndLine   int `json:"end_line"`
				}
			}
		}
		Metadata map[string]any
	}
	dec := json.NewDecoder(strings.NewReader(string(text)))
	dec.DisallowUnknownFields()
	testbed.NoErr(t, dec.Decode(&r))
	for text, form := range map[string]string{
		r.Version: `^[0-9]+\.[0-9]+$`, r.Timestamp: `^2026-01-02T02:04:05Z$`, r.VCS.Type: `^git$`, r.VCS.Revision: "^" + commit + "$",
		r.ID: `^[0-9a-f]{8}-[0-9a-f]{4}-8[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$`, r.Tool.Name + r.Tool.Version: `^resilient-write0\.2\.0$`,
	} {
		testbed.Expect(t, regexp.MustCompile(form).MatchString(text), "%q is not %s", text, form)
	}
	var have []string
	for _, f := range r.Files {
		for _, c := range f.Conversations {
			have = append(have, strings.TrimSpace(fmt.Sprint(f.Path, " ", c.Contributor.Type, " ", c.Ranges, " ", c.Contributor.ModelID)))
		}
	}
	want := []string{"src/b.go ai [{1 2} {4 4} {9 9}] m-1", "src/b.go unknown [{3 3}]", "src/b.go ai [{6 6}]", "a file.txt ai [{5 5}]", "human.txt unknown [{1 1}]", "bad\"name ai [{1 1}] m-1"}
	testbed.Expect(t, slices.Equal(have, want), "%q", have)
	testbed.Contains(t, fmt.Sprint(r.Metadata[Extra]), "conversation:2 path:src/b.go session:s2 tool:codex")
	later, _ := AgentTrace(sample, commit, "0.2.0", at.Add(time.Hour))
	other, _ := AgentTrace(sample[1:], commit, "0.2.0", at)
	testbed.Expect(t, strings.Contains(string(later), r.ID) && !strings.Contains(string(other), r.ID), "the identifier does not follow from the content")
	long, err := AgentTrace([]File{{"x", []Line{{1, Author{AI: true, Model: strings.Repeat("ä", 200)}}}}}, "", "1", at)
	testbed.Expect(t, err == nil && !strings.Contains(string(long), `"vcs"`) && strings.Count(string(long), "ä") == 125, "%s %v", long, err)
}

// TestGitAI: a note has the two sections, keys, ranges and records of the standard,
// each key leads to a record, and nothing but what agents wrote is in it.
func TestGitAI(t *testing.T) {
	note, left, err := GitAI(sample, commit)
	testbed.Require(t, err == nil && slices.Equal(left, []string{"bad\"name"}), "%v %v", left, err)
	head, meta, ok := strings.Cut(string(note), "\n---\n")
	var m struct {
		Schema   string         `json:"schema_version"`
		Commit   string         `json:"base_commit_sha"`
		Prompts  map[string]any `json:"prompts"`
		Sessions map[string]struct {
			AgentID struct{ Tool, ID, Model string } `json:"agent_id"`
		} `json:"sessions"`
	}
	err = json.Unmarshal([]byte(meta), &m)
	testbed.Require(t, err == nil && ok && m.Schema == "authorship/3.0.0" && m.Commit == commit && m.Prompts != nil && len(m.Sessions) == 2, "%v %+v", err, m)
	got := map[string][]string{}
	file := ""
	entry := regexp.MustCompile(`^  (s_[0-9a-f]{14})::(t_[0-9a-f]{14}) ([0-9,-]+)$`)
	traces := map[string]bool{}
	for line := range strings.SplitSeq(head, "\n") {
		if !strings.HasPrefix(line, " ") {
			file = line
			continue
		}
		part := entry.FindStringSubmatch(line)
		testbed.Require(t, part != nil, "%q", line)
		of, known := m.Sessions[part[1]]
		if traces[part[2]] = true; !known {
			t.Errorf("%s has no record", part[1])
		}
		last := 0
		for r := range strings.SplitSeq(part[3], ",") {
			from, to, _ := strings.Cut(r, "-")
			a, err1 := strconv.Atoi(from)
			to = cmp.Or(to, from)
			b, err2 := strconv.Atoi(to)
			if err1 != nil || err2 != nil || a <= last || b < a {
				t.Errorf("%q is not ascending", part[3])
			}
			last = b
		}
		got[file] = append(got[file], of.AgentID.Tool+" "+of.AgentID.ID+" "+of.AgentID.Model+" "+part[3])
	}
	want := map[string][]string{"\"a file.txt\"": {"codex s2 unknown 5"}, "src/b.go": {"claude s1 m-1 1-2,9", "claude s1 m-1 4", "codex s2 unknown 6"}}
	testbed.Expect(t, fmt.Sprint(got) == fmt.Sprint(want) && len(traces) == 3, "%v, traces %v", got, traces)
	again, _, _ := GitAI([]File{sample[1], sample[0]}, commit)
	testbed.Expect(t, string(again) == string(note), "the note depends on the order of the files")
	none, _, _ := GitAI(sample[2:3], commit)
	testbed.Expect(t, strings.HasPrefix(string(none), "---\n{"), "%s", none)
}
