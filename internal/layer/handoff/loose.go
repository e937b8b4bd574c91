package handoff

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/frontmatter"
)

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
	case *frontmatter.Map:
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
