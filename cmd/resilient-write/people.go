package main

import (
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/mcpserver"
	"github.com/resilientwrite/resilientwrite/toolbox"
)

// now is the clock of output for people. Tests replace it.
var now = time.Now

// when formats the text of a time for people. Any other text is unchanged.
func when(ts string) string {
	t, err := time.Parse(time.RFC3339Nano, ts)
	if err != nil {
		return ts
	}
	return whenAt(t)
}

// whenAt formats a time for people: how long ago, or after a day the date, in the
// local time zone.
func whenAt(t time.Time) string {
	switch ago := now().Sub(t); {
	case ago < -time.Minute, ago >= 24*time.Hour:
		return t.Local().Format("2006-01-02 15:04")
	case ago < time.Second:
		return "just now"
	case ago < time.Minute:
		return fmt.Sprintf("%d s ago", ago/time.Second)
	case ago < time.Hour:
		return fmt.Sprintf("%d min ago", ago/time.Minute)
	default:
		return fmt.Sprintf("%d h ago", ago/time.Hour)
	}
}

// sinceWords formats how long something has lasted.
func sinceWords(ts string) string {
	t, err := time.Parse(time.RFC3339Nano, ts)
	if err != nil {
		return ts
	}
	return fmt.Sprintf("for %d s", max(0, now().Sub(t))/time.Second)
}

var (
	wireTool = regexp.MustCompile(`\brw_([a-z_]+)\b`)
	wireMode = regexp.MustCompile(`\bmode (create|overwrite|append)\b`)
	wireName = regexp.MustCompile(`\b[a-z]+(_[a-z0-9]+)+\b`)
	passFlag = regexp.MustCompile(`\b(pass|without|omit|with) (force|strict|validate|encoding)\b`)
)

// spoken translates a text for agents to the command line: subcommands for
// tools, flags for arguments.
func spoken(hint string) string {
	hint = wireTool.ReplaceAllStringFunc(toolbox.NameTools(hint), func(name string) string {
		if words := subcommandOf(strings.TrimPrefix(name, "rw_")); words != "" {
			return "resilient-write " + words
		}
		return name
	})
	hint = wireMode.ReplaceAllString(hint, "--mode $1")
	hint = wireName.ReplaceAllStringFunc(hint, func(name string) string {
		if isArgument(name) {
			return "--" + flagName(name)
		}
		return name
	})
	return passFlag.ReplaceAllString(hint, "$1 --$2")
}

// folded breaks the lines of a text that are longer than width, at blanks.
func folded(text string, width int) string {
	var lines []string
	for _, line := range strings.Split(text, "\n") {
		for len(line) > width {
			at := strings.LastIndexByte(line[:width+1], ' ')
			if at <= 0 {
				break
			}
			lines = append(lines, line[:at])
			line = line[at+1:]
		}
		lines = append(lines, line)
	}
	return strings.Join(lines, "\n")
}

// isArgument reports whether a tool has an argument of this name.
func isArgument(name string) bool {
	return slices.ContainsFunc(toolbox.Table(), func(t mcpserver.ToolInfo) bool {
		list, _ := arguments(t)
		return slices.ContainsFunc(list, func(a argument) bool { return a.Name == name })
	})
}

// groups are the tables of subcommands, with the preceding words.
var groups = []struct {
	before string
	verbs  []verb
}{{"", files}, {"tx ", txs}, {"chunk ", chunks}, {"handoff ", handoffs}, {"checkpoint ", checkpoints}, {"scratch ", scratches}, {"draft ", drafts}, {"journal ", journals}}

// subcommandOf returns the subcommand that calls a tool.
func subcommandOf(tool string) string {
	for _, g := range groups {
		for _, v := range g.verbs {
			if name, _, _ := strings.Cut(v.use, " "); v.tool == tool {
				return g.before + name
			}
		}
	}
	if tool == "check" {
		return tool
	}
	return ""
}

// versionFields are the arguments that name a version, by tool.
var versionFields = map[string][]string{"read": {"version"}, "diff": {"from", "to"}, "restore": {"version"}}

// seqPrefix is the prefix of the other name of a version: the row that made it.
const seqPrefix = "seq:"

// revisions returns the rows that made the newest versions of a path, by
// number.
func revisions(ctx context.Context, s *rw.Store, path string) (map[uint64]uint64, error) {
	h, err := s.History(ctx, rw.HistoryRequest{Path: path, N: 1000})
	rows := map[uint64]uint64{}
	for _, v := range h.Versions {
		if v.Path == h.Path {
			rows[v.Rev] = v.Version
		}
	}
	return rows, err
}

// rowsOf replaces the numbers of versions, 1, 2, 3, with the rows that made
// them, which is how the tools name them.
func rowsOf(ctx context.Context, s *rw.Store, tool string, fields map[string]json.RawMessage) error {
	var byRev map[uint64]uint64
	for _, name := range versionFields[tool] {
		text := strings.Trim(string(fields[name]), `"`)
		if seq, ok := strings.CutPrefix(text, seqPrefix); ok {
			fields[name] = json.RawMessage(seq)
			continue
		}
		rev, err := strconv.ParseUint(text, 10, 64)
		if err != nil || rev == 0 {
			continue // absent, or the current file, or refused by the tool
		}
		if byRev == nil {
			var path string
			json.Unmarshal(fields["path"], &path)
			if byRev, err = revisions(ctx, s, path); err != nil {
				return err
			}
		}
		seq, ok := byRev[rev]
		if !ok {
			return &misuse{fmt.Sprintf("there is no version %d", rev), "resilient-write history lists the versions; seq:N names one by its row"}
		}
		fields[name] = json.RawMessage(strconv.FormatUint(seq, 10))
	}
	return nil
}

// versionNumber accepts seq:N in addition to a number, for the arguments that
// name a version.
func versionNumber(tool, name, text string) (json.RawMessage, bool) {
	seq, ok := strings.CutPrefix(text, seqPrefix)
	if _, err := strconv.ParseUint(seq, 10, 64); !ok || err != nil || !slices.Contains(versionFields[tool], name) {
		return nil, false
	}
	return json.RawMessage(strconv.Quote(text)), true
}
