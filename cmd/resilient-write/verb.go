package main

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"github.com/spf13/cobra"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/jsontext"
	"github.com/resilientwrite/resilientwrite/internal/overview"
	"github.com/resilientwrite/resilientwrite/internal/schema"
	"github.com/resilientwrite/resilientwrite/mcpserver"
	"github.com/resilientwrite/resilientwrite/toolbox"
)

// verb is a subcommand that calls one tool: its flags are the tool's
// arguments, its JSON reply is the tool's reply.
type verb struct {
	tool  string
	use   string // the name, then a placeholder for each argument of args
	short string
	group string
	args  []string // arguments without a flag: name, name? if optional, name@ for JSON from a file
	body  string   // the argument that comes from --from or standard input
	show  func(*printer, reply)
}

// extras adds flags that are not arguments of a tool, and returns what they do
// to the call.
var extras = map[string]func(*cobra.Command) func(*asked) error{"edit": editFlags, "undo": undoFlags, "journal_since": sinceStart}

// argument is one argument in the schema of a tool.
type argument struct {
	Name        string
	Type        any
	AnyOf       []struct{ Type any }
	Enum        []any
	Default     any
	Description string
}

// kind returns the JSON type of the argument, or "" for any.
func (a argument) kind() string {
	switch t := a.Type.(type) {
	case string:
		return t
	case []any: // a type, or null
		for _, one := range t {
			if one != "null" {
				return fmt.Sprint(one)
			}
		}
	}
	var types []string
	for _, one := range a.AnyOf {
		if one.Type != "null" {
			types = append(types, fmt.Sprint(one.Type))
		}
	}
	return strings.Join(types, "|")
}

// arguments lists the arguments of a tool, in the order of its schema.
func arguments(tool mcpserver.ToolInfo) ([]argument, error) {
	var doc struct{ Properties json.RawMessage }
	if err := json.Unmarshal(tool.Input, &doc); err != nil {
		return nil, err
	}
	members, err := jsontext.Members(doc.Properties)
	list := make([]argument, len(members))
	for i, m := range members {
		list[i].Name = m.Name
		err = errors.Join(err, json.Unmarshal(m.Value, &list[i]))
	}
	return list, err
}

func flagName(argument string) string { return strings.ReplaceAll(argument, "_", "-") }

// build makes the subcommand. A subcommand that is not on the command line gets
// no flags: making all of them takes longer than most calls.
func (a *app) build(v verb) *cobra.Command {
	name, _, _ := strings.Cut(v.use, " ")
	if !slices.Contains(a.args, name) {
		return &cobra.Command{Use: v.use, Short: v.short, GroupID: v.group, Run: func(*cobra.Command, []string) {}}
	}
	tool, ok := toolbox.Lookup(v.tool)
	list, err := arguments(tool)
	if err != nil || !ok {
		panic("no tool " + v.tool) // the tables are part of the program
	}
	least, most := 0, len(v.args)
	for _, name := range v.args {
		if !strings.HasSuffix(name, "?") {
			least++
		}
	}
	var from string
	cmd := &cobra.Command{
		Use: v.use, Short: v.short, Long: tool.Description, GroupID: v.group,
		Args: takes(least, most, "", ""),
	}
	for _, one := range list {
		if v.positional(one.Name) {
			continue
		}
		v.flag(cmd, one)
	}
	if v.body != "" {
		cmd.Flags().StringVar(&from, "from", "", "`file` that "+v.body+" comes from; - or omitted: standard input")
	}
	also := func(*asked) error { return nil }
	if extra := extras[v.tool]; extra != nil {
		also = extra(cmd)
	}
	a.completions(cmd, v)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		call, err := v.collect(a, cmd, list, args, from)
		if err == nil {
			err = also(&call)
		}
		if err != nil {
			return err
		}
		if v.tool == "safe_write" && call.stream != nil {
			return a.writeFrom(cmd.Context(), v, call)
		}
		if call.row != 0 {
			return a.undoRow(cmd.Context(), v, call)
		}
		call.numbers = true
		return a.call(cmd.Context(), v.tool, tool.ReadOnly, call, v.show)
	}
	return cmd
}

func counted(least, most int) string {
	switch {
	case most == 0:
		return "no arguments"
	case least == most && most == 1:
		return "one argument"
	case least == most:
		return fmt.Sprintf("%d arguments", most)
	}
	return fmt.Sprintf("%d to %d arguments", least, most)
}

func (v verb) positional(name string) bool {
	return slices.ContainsFunc(v.args, func(arg string) bool { return strings.TrimRight(arg, "?@") == name })
}

// flag offers one argument of the tool as a flag.
func (v verb) flag(cmd *cobra.Command, one argument) {
	f, name := cmd.Flags(), flagName(one.Name)
	if f.Lookup(name) != nil || name == "read-only" {
		return
	}
	text := strings.ReplaceAll(strings.TrimSuffix(one.Description, "."), "`", "'")
	if len(one.Enum) > 0 {
		var words []string
		for _, w := range one.Enum {
			if w != nil {
				words = append(words, fmt.Sprint(w))
			}
		}
		text += " (" + strings.Join(words, ", ") + ")"
		defer complete(cmd, name, words...) // after the flag is defined
	}
	if one.Default != nil && one.Default != "" {
		text += fmt.Sprintf("; default %v", one.Default)
	}
	switch one.kind() {
	case "boolean":
		f.Bool(name, false, text)
	default:
		f.String(name, "", text)
		if one.kind() == "boolean|string" {
			f.Lookup(name).NoOptDefVal = "true"
		}
	}
}

// asked is a call as given on the command line.
type asked struct {
	fields  map[string]json.RawMessage
	raw     json.RawMessage // instead of fields: exactly what was given
	stream  io.Reader       // the body, if it may be long
	numbers bool            // versions are 1, 2, 3
	row     uint64          // of the commit to undo; 0: not named
}

// collect builds the arguments of the call.
func (v verb) collect(a *app, cmd *cobra.Command, list []argument, args []string, from string) (asked, error) {
	call := asked{fields: map[string]json.RawMessage{}}
	kinds := map[string]string{}
	for _, one := range list {
		kinds[one.Name] = one.kind()
	}
	ctx, places := cmd.Context(), strings.Fields(v.use)[1:]
	set := func(name, what, text string) (err error) {
		value, known := versionNumber(v.tool, name, text)
		if !known {
			value, err = jsonOf(what, kinds[name], text)
		}
		call.fields[name] = value
		return err
	}
	if format := cmd.Flags().Lookup("format"); v.tool == "checkpoint" && slices.Contains([]string{"yaml", "markdown"}, format.Value.String()) {
		kinds["data"] = "string"
	}
	for i, text := range args {
		if strings.Contains(v.args[i], "@") {
			var err error
			if text, err = a.jsonText(ctx, strings.Trim(places[i], "[]"), text); err != nil {
				return call, err
			}
		}
		if err := set(strings.TrimRight(v.args[i], "?@"), strings.Trim(places[i], "[]"), text); err != nil {
			return call, err
		}
	}
	for _, one := range list {
		f := cmd.Flags().Lookup(flagName(one.Name))
		if v.positional(one.Name) || f == nil || !f.Changed {
			continue
		}
		if err := set(one.Name, "--"+f.Name, f.Value.String()); err != nil {
			return call, err
		}
	}
	if f := cmd.Flags().Lookup("include-refused"); f != nil && !f.Changed {
		call.fields["include_refused"] = json.RawMessage("true") // people want to see what was refused, and why
	}
	if v.body == "" || call.fields[v.body] != nil || v.tool == "redact" && call.fields["draft_ref"] != nil {
		return call, nil
	}
	if v.tool == "safe_write" && call.fields["encoding"] == nil {
		var err error
		call.stream, err = a.open(ctx, "--from", from) // closed with the process
		return call, err
	}
	data, err := a.readAll(ctx, "--from", from)
	if err != nil {
		return call, err
	}
	return call, call.setBody(v.body, data)
}

// setBody sets the bytes of the call, as base64 if they are not text.
func (c *asked) setBody(name string, data []byte) error {
	text := string(data)
	if !utf8.Valid(data) {
		text = base64.StdEncoding.EncodeToString(data)
		c.fields["encoding"] = json.RawMessage(`"base64"`)
	}
	value, err := json.Marshal(text)
	c.fields[name] = value
	return err
}

// jsonText returns an argument that is JSON, or the content of the file that it names; - is
// standard input.
func (a *app) jsonText(ctx context.Context, what, text string) (string, error) {
	if start := strings.TrimSpace(text); start != "" && strings.ContainsRune("{[", rune(start[0])) {
		return text, nil
	}
	data, err := a.readAll(ctx, what, text)
	return string(data), err
}

// jsonOf returns an argument of a JSON type as JSON. what is its position on the command
// line.
func jsonOf(what, kind, text string) (json.RawMessage, error) {
	switch {
	case !utf8.ValidString(text):
		return nil, &misuse{what + " is not valid UTF-8", "only content may be other bytes; pass it with --from or on standard input"}
	case kind == "string", kind == "boolean|string" && text != "true" && text != "false":
		return json.Marshal(text)
	case json.Valid([]byte(text)):
		return json.RawMessage(text), nil
	case kind == "boolean" || kind == "integer" || kind == "number":
		return nil, &misuse{fmt.Sprintf("%s must be of type %s", what, kind), "see --help"}
	}
	return nil, &misuse{what + " is not JSON", "give JSON, or a file that holds it; - is standard input"}
}

// call calls the tool as an agent would, and shows the reply.
func (a *app) call(ctx context.Context, tool string, looks bool, call asked, show func(*printer, reply)) error {
	return a.withStore(ctx, looks, func(ctx context.Context, store *rw.Store) error {
		if call.numbers {
			if err := rowsOf(ctx, store, tool, call.fields); err != nil {
				return err
			}
			if err := wholeHash(ctx, store, tool, call.fields); err != nil {
				return err
			}
		}
		args := call.raw
		if args == nil {
			var err error
			if args, err = json.Marshal(call.fields); err != nil {
				return err
			}
		}
		box := toolbox.New(store, &toolbox.Options{Caller: operator, Tier: toolbox.Full, CallsPerSecond: -1})
		answer := box.Call(ctx, "rw_"+tool, args, nil)
		return a.answer(json.RawMessage(answer.Text), answer.OK, show)
	})
}

// writeFrom writes a file from a stream, of any length.
func (a *app) writeFrom(ctx context.Context, v verb, call asked) error {
	call.fields["content"] = json.RawMessage(`""`) // the content comes from the stream
	var r rw.SafeWriteRequest
	return carry(ctx, a, v, call, &r, func(ctx context.Context, s *rw.Store) (rw.SafeWriteResult, error) {
		out, err := s.SafeWriteFrom(rw.WithGate(ctx, rw.GateOfAgents), r, call.stream)
		nameTools(out.Warnings)
		return out, err
	})
}

// nameTools puts the names of tools into warnings, as the toolbox does.
func nameTools(list []rw.Warning) {
	for i := range list {
		list[i].Hint = toolbox.NameTools(list[i].Hint)
	}
}

// carry decodes a call as the tools do, makes it with a method that is no tool,
// and shows the result.
func carry[Out any](ctx context.Context, a *app, v verb, call asked, into any, method func(context.Context, *rw.Store) (Out, error)) error {
	args, err := json.Marshal(call.fields)
	if err != nil {
		return err
	}
	_, err = schema.Decode(ctx, args, into)
	if p := (*schema.Problem)(nil); errors.As(err, &p) {
		return &misuse{p.Error(), "see --help"}
	}
	if err != nil {
		return err
	}
	return a.withStore(ctx, false, func(ctx context.Context, s *rw.Store) error {
		out, err := method(ctx, s)
		if err != nil {
			return err
		}
		doc, err := success(out)
		if err != nil {
			return err
		}
		return a.answer(doc, true, v.show)
	})
}

// success returns a result as the reply of a tool.
func success(v any) (json.RawMessage, error) {
	data, err := schema.Reply(v, "")
	if err != nil {
		return nil, err
	}
	return append([]byte(`{"ok":true,`), data[1:]...), nil
}

// answer prints the reply: unchanged for a program, in words for a person.
func (a *app) answer(doc json.RawMessage, ok bool, show func(*printer, reply)) error {
	a.done.reply = doc
	if a.wipeBar != nil {
		a.wipeBar()
	}
	if a.forPrograms() || !ok {
		if a.forPrograms() {
			a.document(doc)
		}
		if !ok {
			return refused(doc)
		}
		return nil
	}
	p := a.printer()
	if show == nil {
		show = showAll
	}
	var r reply
	if err := json.Unmarshal(doc, &r.fields); err != nil {
		return err
	}
	show(p, r)
	p.warnings(r)
	return nil
}

// refusal is the envelope of a call that failed.
type refusal struct{ env rw.Envelope }

func (r *refusal) Error() string {
	what := fmt.Sprintf("%v: %v", r.env.Error, r.text("reason"))
	if path := r.text("path"); path != "" {
		what = path + ": " + what
	}
	if effect := r.text("effect"); effect != "" && effect != string(rw.EffectNone) {
		what += ", effect " + effect
	}
	return what
}

func (r *refusal) text(key string) string {
	s, _ := r.env.Context[key].(string)
	return s
}

// refused returns the error of an envelope.
func refused(doc json.RawMessage) error {
	r := &refusal{}
	if err := json.Unmarshal(doc, &r.env); err != nil {
		return errors.New("the reply cannot be read")
	}
	return r
}

// editFlags adds the flags for the single edit that people make by hand.
func editFlags(cmd *cobra.Command) func(*asked) error {
	var old, becomes string
	var all bool
	f := cmd.Flags()
	f.StringVar(&old, "old", "", "`text` to replace, instead of EDITS.json; it must occur once")
	f.StringVar(&becomes, "new", "", "replacement `text`; empty removes the old text")
	f.BoolVar(&all, "all", false, "replace every occurrence of --old")
	return func(call *asked) error {
		switch {
		case call.fields["edits"] != nil && (f.Changed("old") || f.Changed("new") || all):
			return &misuse{"the edits were given twice", "give EDITS.json, or --old and --new"}
		case call.fields["edits"] != nil:
			return nil
		case old == "":
			return &misuse{"no edit was given", "give EDITS.json, or --old and --new"}
		}
		one := rw.EditOp{Old: old, New: becomes}
		if all {
			one.Count = -1
		}
		_, err := jsonOf("--old or --new", "string", old+"\n"+becomes)
		if err == nil {
			call.fields["edits"], err = schema.Encode([]rw.EditOp{one})
		}
		return err
	}
}

// undoFlags adds the flag that names one commit to undo, of any caller.
func undoFlags(cmd *cobra.Command) func(*asked) error {
	var row string
	cmd.Flags().StringVar(&row, "row", "", "the `row` of one commit to undo, of any caller, as shown by log and status")
	cmd.Long += "\n\nWithout --row it takes commits of your own; name others with --caller or --session."
	return func(call *asked) error {
		if !cmd.Flags().Changed("row") {
			return nil
		}
		text, _, _ := strings.Cut(strings.TrimPrefix(row, "wj_"), ".")
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil || n == 0 {
			return &misuse{"--row names no row", "give its number, as resilient-write log shows it"}
		}
		if call.fields["n"] != nil || call.fields["caller"] != nil || call.fields["session"] != nil || call.fields["group"] != nil {
			return &misuse{"--row and another choice of commits", "give --row alone"}
		}
		call.row = n
		return nil
	}
}

// undoRow undoes one commit.
func (a *app) undoRow(ctx context.Context, v verb, call asked) error {
	var r rw.UndoRequest
	return carry(ctx, a, v, call, &r, func(ctx context.Context, s *rw.Store) (rw.UndoResult, error) {
		r.Row, r.Session = call.row, a.session
		return s.Undo(ctx, r)
	})
}

// candidates are values that a shell may complete, each with a description, by
// the argument that takes them. before holds the preceding arguments.
var candidates = map[string]func(ctx context.Context, s *rw.Store, before []string) ([]string, error){
	"draft_ref": func(ctx context.Context, s *rw.Store, _ []string) (list []string, err error) {
		r, err := s.DraftList(ctx, rw.DraftListRequest{})
		for _, d := range r.Drafts {
			list = append(list, d.DraftRef+"\t"+d.Path)
		}
		return list, err
	},
	"session": func(ctx context.Context, s *rw.Store, _ []string) (list []string, err error) {
		r, err := s.ChunkList(ctx, rw.ChunkListRequest{})
		for _, c := range r.Sessions {
			list = append(list, fmt.Sprintf("%s\t%d chunks", c.Session, c.ChunkCount))
		}
		return list, err
	},
	"tx_id": func(ctx context.Context, s *rw.Store, _ []string) ([]string, error) {
		d, err := s.Describe(ctx, rw.DescribeRequest{})
		return d.Transactions, err
	},
	"name": func(ctx context.Context, s *rw.Store, _ []string) (list []string, err error) {
		r, err := s.CheckpointList(ctx, rw.CheckpointListRequest{})
		for _, c := range r.Checkpoints {
			list = append(list, c.Name)
		}
		return list, err
	},
	"path": func(ctx context.Context, s *rw.Store, _ []string) (list []string, err error) {
		r, err := s.JournalTail(ctx, rw.JournalTailRequest{N: lsRows})
		for _, f := range changedFiles(r.Entries, ".") {
			list = append(list, fmt.Sprintf("%s\t%d versions", f.Path, f.Versions))
		}
		return list, err
	},
	"version": func(ctx context.Context, s *rw.Store, before []string) (list []string, err error) {
		if len(before) == 0 {
			return nil, nil
		}
		r, err := s.History(ctx, rw.HistoryRequest{Path: before[0]})
		for _, v := range r.Versions {
			list = append(list, fmt.Sprintf("%d\t%s %s", v.Rev, v.Op, when(v.TS.String())))
		}
		return list, err
	},
	"row": func(ctx context.Context, s *rw.Store, _ []string) (list []string, err error) {
		o, err := overview.Read(ctx, s, overview.NewCleaner(s), overview.Request{Rows: recentRows, Changes: recentRows})
		if err != nil {
			return nil, err
		}
		for _, c := range o.Changes {
			list = append(list, fmt.Sprintf("%d\t%s %s, %s", c.Row, c.Op, c.Summary(), when(c.TS)))
		}
		return list, nil
	},
}

// completes returns the completion of an argument: from the store if the store
// knows its values, otherwise the shell's default.
func (a *app) completes(name string) cobra.CompletionFunc {
	find := candidates[name]
	return func(cmd *cobra.Command, before []string, start string) (list []string, _ cobra.ShellCompDirective) {
		has, err := a.hasStore()
		if find == nil || !has || err != nil {
			return nil, cobra.ShellCompDirectiveDefault
		}
		a.withStore(cmd.Context(), true, func(ctx context.Context, s *rw.Store) (err error) { // completion reports no errors
			list, err = find(ctx, s, before)
			return err
		})
		list = slices.DeleteFunc(list, func(one string) bool { return !strings.HasPrefix(one, start) })
		for i := range list {
			value, about, _ := strings.Cut(list[i], "\t")
			if printable(value) != value { // not to be typed by a shell
				value, about = "", ""
			}
			list[i] = strings.TrimSuffix(value+"\t"+printable(about), "\t")
		}
		list = slices.DeleteFunc(list, func(one string) bool { return one == "" })
		directive := cobra.ShellCompDirectiveNoFileComp | cobra.ShellCompDirectiveKeepOrder
		if name == "path" {
			directive = cobra.ShellCompDirectiveDefault
		}
		return list, directive
	}
}

// completions completes the arguments of a verb, and its flags that name
// versions.
func (a *app) completions(cmd *cobra.Command, v verb) {
	cmd.ValidArgsFunction = func(cmd *cobra.Command, before []string, start string) ([]string, cobra.ShellCompDirective) {
		if len(before) >= len(v.args) {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		return a.completes(strings.TrimRight(v.args[len(before)], "?@"))(cmd, before, start)
	}
	for _, name := range versionFields[v.tool] {
		if cmd.Flags().Lookup(name) != nil {
			cmd.RegisterFlagCompletionFunc(name, a.completes("version"))
		}
	}
	if cmd.Flags().Lookup("row") != nil {
		cmd.RegisterFlagCompletionFunc("row", a.completes("row"))
	}
}

// wholeHash replaces the label of raw material, or the first digits of its hash, with the
// hash, for scratch get.
func wholeHash(ctx context.Context, s *rw.Store, tool string, fields map[string]json.RawMessage) error {
	var text string
	if tool != "scratch_get" || json.Unmarshal(fields["sha256"], &text) != nil || len(text) >= 64 {
		return nil
	}
	found := map[string]bool{}
	for offset, more := 0, text != ""; more; {
		l, err := s.ScratchList(ctx, rw.ScratchListRequest{Limit: 1000, Offset: offset})
		if err != nil {
			return err
		}
		for _, e := range l.Entries { // newest first
			sha := e.SHA256.String()
			if e.Label == text {
				fields["sha256"] = json.RawMessage(strconv.Quote(sha))
				return nil
			}
			if strings.HasPrefix(sha, strings.ToLower(text)) {
				found[sha] = true
			}
		}
		offset, more = offset+len(l.Entries), len(l.Entries) > 0
	}
	switch len(found) {
	case 0:
		return rw.NewError(tool, rw.ErrNotFound, "nothing in the scratchpad has this label, or a hash that begins with it; Store.ScratchList lists what there is", nil)
	case 1:
		for sha := range found {
			fields["sha256"] = json.RawMessage(strconv.Quote(sha))
		}
		return nil
	}
	return &misuse{"several hashes begin with these digits", "give more of them; resilient-write scratch list shows what there is"}
}
