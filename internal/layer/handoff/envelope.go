package handoff

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/resilientwrite/resilientwrite/handoff"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/frontmatter"
	"github.com/resilientwrite/resilientwrite/internal/schema"
	"github.com/resilientwrite/resilientwrite/internal/visible"
)

// Statuses are the choices of the field status.
var Statuses = []string{"complete", "partial", "blocked", "handed_off"}

// check validates an envelope before it is written. auto says that last_good_state
// is filled in.
func check(e *handoff.Envelope, auto bool) *fault.Fault {
	missing := e.Missing()
	if n := len(missing); n > 0 && auto && missing[n-1] == "last_good_state" {
		missing = missing[:n-1]
	}
	if len(missing) > 0 {
		return fault.New(fault.MissingFields).With("missing_fields", missing).
			Hintf("the envelope needs %s; a list may be empty but must be present", strings.Join(missing, ", "))
	}
	if !slices.Contains(Statuses, string(e.Status)) {
		return fault.BadChoice("envelope.status", Statuses...)
	}
	for i, f := range e.LastGoodState {
		at := fmt.Sprintf("envelope.last_good_state[%d]", i)
		if f.Path == "" {
			return fault.New(fault.InvalidArgument).With("argument", at+".path").Hintf("%s.path is required", at)
		}
		if !engine.ValidSHA256(strings.ToLower(f.SHA256)) {
			return fault.New(fault.BadSHA256).With("argument", at+".sha256")
		}
	}
	return checkSteps(e.DependencyGraph)
}

// maxBytes is the size of a handoff that can be written and read.
const maxBytes = 64 << 20

// document makes the file of a handoff.
func document(envelope json.Marshaler, body []byte) ([]byte, *fault.Fault) {
	if name := invalidText(reflect.ValueOf(envelope), ""); name != "" {
		return nil, fault.New(fault.NotValidUTF8).With("argument", "envelope."+name).Hintf("envelope.%s is not valid UTF-8", name)
	}
	data, err := envelope.MarshalJSON()
	if err != nil {
		return nil, badEnvelope(err)
	}
	var m frontmatter.Map
	if err := m.UnmarshalJSON(data); err != nil {
		return nil, badEnvelope(err)
	}
	doc, err := frontmatter.Join(&m, body)
	if err != nil {
		return nil, badEnvelope(err)
	}
	if len(doc) > maxBytes {
		return nil, fault.New(fault.TooLarge).With("bytes", len(doc)).With("max_bytes", maxBytes).Hintf("a handoff has at most %d bytes; put long text into a file and refer to it", maxBytes)
	}
	return doc, nil
}

// invalidText returns the field of the first text that is not UTF-8, because JSON
// would silently replace its bytes; "" if all are.
func invalidText(v reflect.Value, field string) (bad string) {
	switch v.Kind() {
	case reflect.String:
		if !utf8.ValidString(v.String()) {
			return field
		}
	case reflect.Slice:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			return invalidText(reflect.ValueOf(string(v.Bytes())), field)
		}
		for i := 0; i < v.Len() && bad == ""; i++ {
			bad = invalidText(v.Index(i), field)
		}
	case reflect.Struct:
		for i := 0; i < v.NumField() && bad == ""; i++ {
			name, tag := field, v.Type().Field(i).Tag
			if tag.Get("extra") != "" {
				name = "extra"
			} else if name == "" {
				name, _, _ = strings.Cut(tag.Get("json"), ",")
			}
			bad = invalidText(v.Field(i), name)
		}
	}
	return bad
}

// badEnvelope says why an envelope cannot be written as front matter.
func badEnvelope(err error) *fault.Fault {
	var limit *frontmatter.Error
	if errors.Is(err, frontmatter.TooLarge) && errors.As(err, &limit) {
		return fault.New(fault.TooLarge).With("argument", "envelope").With("limit", limit.Message).Because(err).
			Hintf("the envelope exceeds a limit of front matter: %s; put long text into the body", limit.Message)
	}
	return fault.New(fault.InvalidArgument).With("argument", "envelope").Because(err).
		Hintf("the envelope cannot be written as YAML: keys must be unique, text must be valid Unicode, and nesting is limited to %d levels", frontmatter.MaxDepth)
}

// parse reads the front matter of a document into envelope, which points to a
// struct, and returns its body.
func parse(doc []byte, envelope any) (body []byte, e *fault.Fault) {
	yaml, body, err := frontmatter.Split(doc)
	if err != nil {
		return nil, frontMatterError(err)
	}
	m, err := frontmatter.Decode(yaml)
	if err != nil {
		return nil, frontMatterError(err)
	}
	loosen(m)
	data, err := m.MarshalJSON()
	if err == nil {
		_, err = schema.Decode(context.Background(), data, envelope)
	}
	var p *schema.Problem
	if errors.As(err, &p) {
		why := p.Error()
		if p.Code == schema.TooMany && p.Argument == "" {
			why = fmt.Sprintf("it has more than %d fields; move what is left over into the body", schema.MaxMembers)
		}
		return nil, fault.New(fault.BadEnvelope).With("field", p.Argument).With("problem", p.Code).
			Hintf("the front matter is invalid: %s; correct it in the file", why)
	}
	if err != nil {
		return nil, fault.New(fault.BadEnvelope).Because(err)
	}
	return body, nil
}

// frontMatterError reports what is wrong with a document, and where in it.
func frontMatterError(err error) *fault.Fault {
	var at *frontmatter.Error
	located := errors.As(err, &at)
	switch {
	case errors.Is(err, frontmatter.MissingDelimiter):
		return fault.New(fault.MissingDelimiter)
	case errors.Is(err, frontmatter.Unterminated):
		return fault.New(fault.UnterminatedFrontMatter)
	case errors.Is(err, frontmatter.NotMapping):
		return fault.New(fault.FrontMatterNotMapping)
	case located && at.Kind == frontmatter.TooLarge:
		e := fault.New(fault.TooLarge).With("limit", at.Message).Because(err)
		if at.Line > 0 {
			return e.With("line", at.Line).With("column", at.Column).
				Hintf("the front matter exceeds a limit at line %d, column %d of the file: %s; correct it there, or move text into the body", at.Line, at.Column, at.Message)
		}
		return e.Hintf("the front matter exceeds a limit: %s; move text into the body", at.Message)
	case located:
		e := fault.New(fault.YAMLError).Because(err)
		if at.Line > 0 {
			return e.With("line", at.Line).With("column", at.Column).
				Hintf("the front matter is not valid YAML at line %d, column %d of the file: %s; correct it there", at.Line, at.Column, strings.TrimPrefix(at.Message, "not valid YAML: "))
		}
		return e
	}
	return fault.New(fault.Internal).Because(err)
}

// loosen converts values that people write by hand to the types of the fields, if the
// meaning is unambiguous: a number or true where a text is expected, one text where a
// list is expected, or a list item "step: more" that YAML took for a mapping. Unknown
// fields stay unchanged.
func loosen(m *frontmatter.Map) {
	loosenTexts(m, "task_id", "status", "agent", "summary", "started_at", "updated_at")
	loosenLists(m, "next_steps", "context_hints", "open_questions", "blockers", "verified", "requirements")
	loosenRecords(m, "last_good_state", "path", "sha256")
	loosenRecords(m, "artifacts", "path", "kind", "sha256")
	loosenRecords(m, "dependency_graph", "id", "description", "status")
	if v, ok := m.Get("status"); ok {
		if status, ok := v.(string); ok {
			status = strings.NewReplacer(" ", "_", "-", "_").Replace(strings.ToLower(strings.TrimSpace(status)))
			if m.Set("status", status); status == "" {
				m.Delete("status") // an empty one is a missing one
			}
		}
	}
	steps, _ := m.Get("dependency_graph")
	list, _ := steps.([]any)
	for _, item := range list {
		if step, ok := item.(*frontmatter.Map); ok {
			loosenLists(step, "depends_on")
		}
	}
}

func loosenTexts(m *frontmatter.Map, names ...string) {
	for _, name := range names {
		if v, ok := m.Get(name); ok && v != nil {
			m.Set(name, text(v))
		}
	}
}

// loosenLists makes lists of texts. A list that is named but empty is one.
func loosenLists(m *frontmatter.Map, names ...string) {
	for _, name := range names {
		v, ok := m.Get(name)
		if !ok {
			continue
		}
		texts := []any{}
		switch v := v.(type) {
		case nil:
		case []any:
			for _, item := range v {
				if item != nil {
					texts = append(texts, text(item))
				}
			}
		default:
			texts = append(texts, text(v))
		}
		m.Set(name, texts)
	}
}

// loosenRecords makes lists of mappings. A text in such a list is the first of
// the fields.
func loosenRecords(m *frontmatter.Map, name, first string, texts ...string) {
	v, ok := m.Get(name)
	if !ok {
		return
	}
	var items []any
	switch v := v.(type) {
	case nil:
	case []any:
		items = v
	case string, *frontmatter.Map:
		items = []any{v}
	default:
		return // the decoder refuses it
	}
	list := []any{}
	for _, item := range items {
		switch item := item.(type) {
		case nil:
			continue
		case string:
			one := &frontmatter.Map{}
			one.Set(first, item)
			list = append(list, one)
		case *frontmatter.Map:
			loosenTexts(item, append(texts, first)...)
			list = append(list, item)
		default:
			list = append(list, item)
		}
	}
	m.Set(name, list)
}

// text is a value as the text that its writer saw.
func text(v any) string {
	switch v := v.(type) {
	case nil:
		return ""
	case string:
		return v
	case bool:
		return fmt.Sprint(v)
	case json.Number:
		return string(v)
	case *frontmatter.Map:
		if keys := v.Keys(); len(keys) == 1 {
			inner, _ := v.Get(keys[0])
			switch inner.(type) {
			case []any, *frontmatter.Map:
			default:
				return strings.TrimRight(keys[0]+": "+text(inner), " ")
			}
		}
	}
	data, err := json.Marshal(v)
	if err != nil {
		return ""
	}
	return string(data)
}

// isDone reports whether nothing is left to do for a step.
func isDone(st handoff.Step) bool {
	switch strings.ToLower(strings.TrimSpace(st.Status)) {
	case "done", "complete":
		return true
	}
	return false
}

// checkSteps refuses a graph that cannot be worked through: two steps with one
// name, a step that depends on none there is, steps that wait for each other.
func checkSteps(steps []handoff.Step) *fault.Fault {
	index := make(map[string]int, len(steps))
	for i, st := range steps {
		if st.ID == "" {
			return fault.New(fault.InvalidArgument).With("argument", "envelope.dependency_graph").Hintf("every step of dependency_graph needs an id")
		}
		if _, known := index[st.ID]; known {
			return fault.New(fault.DuplicateStep).With("id", shortName(st.ID)).Hintf("two steps have the id %s; give each its own", shortName(st.ID))
		}
		index[st.ID] = i
	}
	for _, st := range steps {
		for _, on := range st.DependsOn {
			if _, known := index[on]; !known {
				return fault.New(fault.UnknownStep).With("id", shortName(st.ID)).With("depends_on", shortName(on)).
					Hintf("step %s depends on %s, which is not in dependency_graph", shortName(st.ID), shortName(on))
			}
		}
	}
	if cycle := findCycle(steps, index); len(cycle) > 0 {
		return fault.New(fault.DependencyCycle).With("cycle", cycle).Hintf("these steps depend on each other in a cycle: %s", strings.Join(cycle, " → "))
	}
	return nil
}

// maxCycle is how many names of a cycle are reported.
const maxCycle = 20

// findCycle returns the names on a cycle of the graph, or nil if there is none.
func findCycle(steps []handoff.Step, index map[string]int) []string {
	const (
		untouched = iota
		open
		closed
	)
	state := make([]int, len(steps))
	var way []int
	var visit func(at int) []string
	visit = func(at int) []string {
		if state[at] == open {
			var names []string
			for _, step := range way[slices.Index(way, at):] {
				names = append(names, shortName(steps[step].ID))
			}
			if len(names) > maxCycle {
				names = append(names[:maxCycle-1:maxCycle-1], "…")
			}
			return append(names, shortName(steps[at].ID))
		}
		state[at], way = open, append(way, at)
		for _, name := range steps[at].DependsOn {
			if to, known := index[name]; known && state[to] != closed {
				if cycle := visit(to); cycle != nil {
					return cycle
				}
			}
		}
		state[at], way = closed, way[:len(way)-1]
		return nil
	}
	for start := range steps {
		if state[start] == untouched {
			if cycle := visit(start); cycle != nil {
				return cycle
			}
		}
	}
	return nil
}

// shortName is a name that a caller made up, as an error may show it.
func shortName(s string) string {
	s = strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return ' '
		}
		return r
	}, strings.ToValidUTF8(s, "?"))
	return visible.Cut(s, 60)
}

// ready returns the steps that can be worked on now: a step that is not done and whose
// dependencies are all done. A step whose dependency is not in the graph waits.
func ready(steps []handoff.Step) []string {
	done := map[string]bool{}
	for i := range steps {
		if isDone(steps[i]) {
			done[steps[i].ID] = true
		}
	}
	list := []string{}
	for i := range steps {
		free := !isDone(steps[i])
		for _, on := range steps[i].DependsOn {
			free = free && done[on]
		}
		if free {
			list = append(list, steps[i].ID)
		}
	}
	return list
}
