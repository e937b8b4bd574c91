package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"
	"unicode/utf16"
	"unicode/utf8"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/visible"
	"github.com/resilientwrite/resilientwrite/mcpserver"
	"github.com/resilientwrite/resilientwrite/toolbox"
)

// printer prints a reply for a person.
type printer struct {
	w     io.Writer
	color bool
}

func (a *app) printer() *printer {
	return &printer{w: a.out, color: a.color == "always" || a.color == "auto" && a.env("NO_COLOR") == "" && !a.dumb()}
}

// reply is the reply of a call, to be shown.
type reply struct {
	fields map[string]any
}

// text returns a field as text on one line.
func (r reply) text(name string) string { return printable(word(r.fields[name])) }

// number returns a field as text, or "" if it is 0.
func (r reply) number(name string) string {
	if text := r.text(name); text != "0" {
		return text
	}
	return ""
}

// long returns a field that may have several lines.
func (r reply) long(name string) string { return visible.Text(word(r.fields[name]), '?') }

// list returns a field that holds objects.
func (r reply) list(name string) []reply {
	items, _ := r.fields[name].([]any)
	var out []reply
	for _, item := range items {
		if m, ok := item.(map[string]any); ok {
			out = append(out, reply{fields: m})
		}
	}
	return out
}

func (r reply) object(name string) reply {
	m, _ := r.fields[name].(map[string]any)
	return reply{fields: m}
}

// word formats a value for people.
func word(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case float64:
		if v == float64(int64(v)) {
			return fmt.Sprint(int64(v))
		}
	}
	return fmt.Sprint(v)
}

const (
	red    = "31"
	green  = "32"
	yellow = "33"
	cyan   = "36"
	faint  = "2"
)

func (p *printer) paint(color, text string) string {
	if !p.color || text == "" {
		return text
	}
	return "\x1b[" + color + "m" + text + "\x1b[0m"
}

func (p *printer) line(format string, args ...any) { fmt.Fprintf(p.w, format+"\n", args...) }

// warnings prints the warnings of a successful call.
func (p *printer) warnings(r reply) {
	for _, w := range r.list("warnings") {
		p.line("%s %s %s", p.paint(yellow, "warning"), w.text("reason"), p.paint(faint, spoken(w.text("hint"))))
	}
}

// table prints rows in columns with headings.
func (p *printer) table(heads []string, rows [][]string) {
	t := tabwriter.NewWriter(p.w, 0, 4, 2, ' ', 0)
	fmt.Fprintln(t, strings.ToUpper(strings.Join(heads, "\t")))
	for _, row := range rows {
		for i := range row {
			row[i] = printable(row[i])
		}
		fmt.Fprintln(t, strings.Join(row, "\t"))
	}
	t.Flush()
}

// rows prints a table with a row for each item of a list, and nothing if it is empty.
func rows[T any](p *printer, heads []string, list []T, row func(T) []string) {
	if len(list) == 0 {
		return
	}
	var rows [][]string
	for _, one := range list {
		rows = append(rows, row(one))
	}
	p.table(heads, rows)
}

// printable returns a text from outside as one line that is safe for a
// terminal: a path, a name, a reason, an error.
func printable(s string) string { return visible.Line(s, '?') }

// plain is a writer of text for people, mainly standard error. It replaces
// characters that a terminal must not get.
type plain struct{ w io.Writer }

func (p plain) Write(text []byte) (int, error) {
	_, err := io.WriteString(p.w, visible.Text(string(text), '?'))
	return len(text), err
}

// escaped returns JSON for a terminal: characters that may not be shown are
// written as escapes, which have the same meaning.
func escaped(doc []byte) []byte {
	var out []byte
	for _, r := range string(doc) {
		switch {
		case visible.Rune(r) || r == '\n' || r == '\t':
			out = utf8.AppendRune(out, r)
		case r > 0xffff:
			high, low := utf16.EncodeRune(r)
			out = fmt.Appendf(out, `\u%04x\u%04x`, high, low)
		default:
			out = fmt.Appendf(out, `\u%04x`, r)
		}
	}
	return out
}

func short(sha string) string { return sha[:min(12, len(sha))] }

// size formats a number of bytes for people.
func size(v any) string {
	n, _ := v.(float64)
	if n < 1024 {
		return fmt.Sprintf("%d B", int64(n))
	}
	units := []string{"KiB", "MiB", "GiB"}
	for n /= 1024; n >= 1024 && len(units) > 1; n /= 1024 {
		units = units[1:]
	}
	return fmt.Sprintf("%.1f %s", n, units[0])
}

// showChange prints a change of one file, or of several.
func showChange(p *printer, r reply) {
	rc := r.object("receipt")
	status, what := cmp.Or(r.text("status"), rc.text("status")), cmp.Or(r.text("mode_applied"), rc.text("op"))
	if rc.text("dry_run") == "true" {
		what = "would " + what
	}
	files, name, of := r.list("results"), rc.text("path"), fileFacts(rc)
	if to := r.text("to"); to != "" {
		name = r.text("path") + " to " + to
	}
	if n := r.number("files"); n != "" && n != "1" {
		of = "  " + n + " files"
	} else if len(files) > 1 {
		name, of = fmt.Sprintf("%d files", len(files)), ""
	}
	line := fmt.Sprintf("%s %s %s%s", p.paint(green, status), what, name, p.paint(faint, of))
	if seq := rc.number("journal_seq"); seq != "" {
		line += p.paint(faint, "  row "+seq)
	}
	p.line("%s", line)
	if len(files) > 1 {
		showResults(p, files)
	}
	p.diff(r.long("diff"))
}

// showResults prints what was done to each file.
func showResults(p *printer, files []reply) {
	for _, one := range files {
		p.line("  %-6s %s%s", one.text("op"), one.text("path"), p.paint(faint, fileFacts(one)))
	}
}

// fileFacts returns the size and the hash of a file, or "" of one that is gone.
func fileFacts(r reply) string {
	sha := r.text("sha256")
	if sha == "" {
		return ""
	}
	return "  " + size(r.fields["bytes"]) + "  " + short(sha)
}

// diff prints a unified diff, in color.
func (p *printer) diff(text string) {
	for _, line := range strings.Split(strings.TrimSuffix(text, "\n"), "\n") {
		color := ""
		switch {
		case text == "":
			return
		case strings.HasPrefix(line, "+"):
			color = green
		case strings.HasPrefix(line, "-"):
			color = red
		case strings.HasPrefix(line, "@@"):
			color = cyan
		}
		line = printable(strings.ReplaceAll(line, "\t", "    "))
		if color != "" {
			line = p.paint(color, line)
		}
		p.line("%s", line)
	}
}

func showTx(p *printer, r reply) {
	p.line("%s %d operations  %s", p.paint(green, r.text("status")), len(r.list("results")), p.paint(faint, r.text("tx_id")))
	showResults(p, r.list("results"))
	p.diff(r.long("diff"))
}

func showContent(p *printer, r reply) { io.WriteString(p.w, r.long("content")) }

func showHistory(p *printer, r reply) {
	var rows [][]string
	for _, v := range r.list("versions") {
		kept := "yes"
		if v.text("available") != "true" {
			kept = "no"
		}
		version := cmp.Or(v.text("rev"), seqPrefix+v.text("version"))
		rows = append(rows, []string{version, when(v.text("ts")), v.text("op"), v.text("path"), v.bytes(v.text("bytes")), v.text("caller"), short(v.text("sha256")), kept})
		if command := v.text("command"); command != "" {
			rows[len(rows)-1] = append(rows[len(rows)-1], command)
		}
	}
	p.table([]string{"version", "time", "op", "path", "bytes", "caller", "sha256", "kept"}, rows)
}

func showDiff(p *printer, r reply) {
	switch {
	case r.text("identical") == "true":
		p.line("no difference")
	case r.text("omitted") != "":
		p.line("the versions differ; no diff: %s", r.text("omitted"))
	}
	p.diff(r.long("diff"))
}

func pairs(r reply) string {
	var words []string
	for name, v := range r.fields {
		words = append(words, printable(name+" "+word(v)))
	}
	slices.Sort(words)
	return strings.Join(words, ", ")
}

// showAll prints every field, as indented text. Warnings follow.
func showAll(p *printer, r reply) {
	fields := maps.Clone(r.fields)
	for _, name := range []string{"ok", "receipt", "next_actions", "warnings"} {
		delete(fields, name)
	}
	p.tree(fields, "")
}

func (p *printer) tree(v any, indent string) {
	switch v := v.(type) {
	case map[string]any:
		for _, name := range slices.Sorted(maps.Keys(v)) {
			if list := (reply{v}).list(name); len(list) > 0 && columns[name] != "" {
				p.listed(strings.Fields(columns[name]), list)
				continue
			}
			p.branch(p.paint(cyan, printable(name))+":", v[name], indent)
		}
	case []any:
		for _, one := range v {
			p.branch("-", one, indent)
		}
	}
}

// columns are the fields of lists that are shown as tables.
var columns = map[string]string{
	"checkpoints": "name format bytes ttl updated_at expires_at session expired corrupt",
	"drafts":      "path patterns bytes created_at draft_ref",
	"entries":     "label bytes ts sha256",
	"hot_paths":   "path write_count total_bytes last_write",
	"sessions":    "session chunk_count missing_count next_index bytes sealed",
	"timeline":    "seq ts mode path bytes caller",
}

// listed prints a table without the columns that have no value in any row.
func (p *printer) listed(names []string, list []reply) {
	names = slices.DeleteFunc(names, func(name string) bool {
		return !slices.ContainsFunc(list, func(r reply) bool { return r.number(name) != "" && r.text(name) != "false" })
	})
	rows(p, names, list, func(r reply) (row []string) {
		for _, name := range names {
			row = append(row, when(r.text(name)))
		}
		return row
	})
}

// branch prints a name, and its value next to it or below it.
func (p *printer) branch(head string, v any, indent string) {
	switch v := v.(type) {
	case map[string]any, []any:
		if reflect.ValueOf(v).Len() > 0 {
			p.line("%s%s", indent, head)
			p.tree(v, indent+"  ")
		}
	default:
		text := word(v)
		if _, err := time.Parse(time.RFC3339Nano, text); err == nil {
			text = when(text)
		}
		if strings.Contains(text, "\n") {
			p.line("%s%s |", indent, head)
			for _, line := range strings.Split(text, "\n") {
				p.line("%s  %s", indent, printable(line))
			}
			return
		}
		p.line("%s%s %s", indent, head, printable(text))
	}
}

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
	for _, line := range strings.Split(paragraphs.ReplaceAllString(text, "$1 $2"), "\n") {
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

// paragraphs matches the ends of lines that are continued: the next one is neither empty
// nor indented.
var paragraphs = regexp.MustCompile(`([^\n])\n([^\s])`)

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
