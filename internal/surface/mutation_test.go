package surface_test

import (
	"bytes"
	"encoding/json"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/surface"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// real is the surface of the server: its newest golden, which a test of
// mcpserver compares with the code.
func real(t testing.TB) surface.Document {
	t.Helper()
	names, err := filepath.Glob("../../testdata/surface/*.json")
	if err != nil || len(names) == 0 {
		t.Fatalf("no golden, %v", err)
	}
	newest, name := surface.Version{-1}, ""
	for _, n := range names {
		v, err := surface.ParseVersion(strings.TrimSuffix(filepath.Base(n), ".json"))
		if err != nil {
			t.Fatal(err)
		}
		if v.Compare(newest) > 0 {
			newest, name = v, n
		}
	}
	data, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	doc, err := surface.Decode(data)
	if err != nil {
		t.Fatal(err)
	}
	again, err := doc.Encode()
	if err != nil || !bytes.Equal(again, data) {
		t.Fatalf("the surface is not read and written without a change: %v", err)
	}
	return doc
}

// toolMutations are the changes of a tool besides its schemas.
func toolMutations(t surface.Tool) []mutation {
	var list []mutation
	add := func(what string, class, undo surface.Class, f func(*surface.Tool)) {
		list = append(list, mutation{name: t.Name + ": " + what, target: t.Name + "/" + what, class: class, undo: undo, apply: onTool(t.Name, f)})
	}
	tiers := []string{"internal", "advanced", "standard", "facade"}
	for i, tier := range tiers {
		switch own := slices.Index(tiers, t.Tier); {
		case i < own:
			add("tier "+tier, breaking, compatible, func(t *surface.Tool) { t.Tier = tier })
		case i > own:
			add("tier "+tier, compatible, breaking, func(t *surface.Tool) { t.Tier = tier })
		}
	}
	add("tier nobody knows", breaking, compatible, func(t *surface.Tool) { t.Tier = "secret" })
	flip := func(what string, trusted bool, f func(*surface.Tool)) {
		if trusted { // and now less
			add(what, breaking, compatible, f)
		} else {
			add(what, compatible, breaking, f)
		}
	}
	a := t.Annotations
	flip("read only", a.ReadOnly, func(t *surface.Tool) { t.Annotations.ReadOnly = !t.Annotations.ReadOnly })
	flip("destructive", !a.Destructive, func(t *surface.Tool) { t.Annotations.Destructive = !t.Annotations.Destructive })
	flip("idempotent", a.Idempotent, func(t *surface.Tool) { t.Annotations.Idempotent = !t.Annotations.Idempotent })
	flip("open world", !a.OpenWorld, func(t *surface.Tool) { t.Annotations.OpenWorld = !t.Annotations.OpenWorld })
	add("title", words, words, func(t *surface.Tool) { t.Title += "!" })
	add("description", words, words, func(t *surface.Tool) { t.Description = "Something else." })
	// That a tool is going away is news, and that it stays after all is good
	// news: neither breaks.
	add("deprecated", compatible, compatible, func(t *surface.Tool) {
		t.Deprecated = &surface.Deprecation{Since: "0.2.0", Replacement: "read", RemoveIn: "0.4.0"}
	})
	list = append(list,
		mutation{name: t.Name + ": removed", target: t.Name, class: breaking, undo: compatible, apply: func(d surface.Document) surface.Document {
			d.Tools = slices.DeleteFunc(slices.Clone(d.Tools), func(o surface.Tool) bool { return o.Name == t.Name })
			return d
		}},
		mutation{name: t.Name + ": renamed", target: t.Name, class: breaking, undo: breaking, apply: onTool(t.Name, func(t *surface.Tool) { t.Name += "_2" })},
		mutation{name: t.Name + ": copied", target: t.Name, class: compatible, undo: breaking, apply: func(d surface.Document) surface.Document {
			c := t
			c.Name += "_2"
			d.Tools = append(slices.Clone(d.Tools), c)
			return d
		}},
		mutation{name: t.Name + ": a preset hides it", target: "presets", class: breaking, undo: compatible, apply: func(d surface.Document) surface.Document {
			d.Presets = slices.Clone(d.Presets)
			full := &d.Presets[len(d.Presets)-1]
			full.Tools = slices.DeleteFunc(slices.Clone(full.Tools), func(p surface.PresetTool) bool { return p.Name == t.Name })
			return d
		}},
	)
	return list
}

// kindOf is what a mutation does, wherever it does it.
func kindOf(m mutation) string {
	_, kind, _ := strings.Cut(m.name, ": ")
	return kind
}

// TestEveryMutationOfTheSurfaceIsCalledWhatItIs changes the real surface in
// every way at every tool, one at a time, and demands the class; then undoes
// it, and demands that what was compatible breaks on the way back. A short run
// makes each kind of change at least once, and its share of the others.
func TestEveryMutationOfTheSurfaceIsCalledWhatItIs(t *testing.T) {
	doc := real(t)
	classes := map[surface.Class]int{}
	kinds := map[string]bool{}
	check := func(m mutation) {
		now := m.apply(doc)
		list := surface.Compare(doc, now)
		if got := surface.Worst(list); got != m.class {
			t.Errorf("%s: %v, want %v: %v", m.name, got, m.class, list)
		}
		if m.undo != none {
			if list := surface.Compare(now, doc); surface.Worst(list) != m.undo {
				t.Errorf("%s, undone: %v, want %v: %v", m.name, surface.Worst(list), m.undo, list)
			}
		}
		classes[m.class]++
		kinds[kindOf(m)] = true
	}
	var all []mutation
	for _, tool := range doc.Tools {
		own := append(toolMutations(tool), schemaMutations(tool)...)
		if len(own) < 60 {
			t.Errorf("%s: only %d mutations", tool.Name, len(own))
		}
		all = append(all, own...)
	}
	all = append(all, documentMutations(doc)...)
	first := map[string]string{} // kind → the first mutation of it
	for _, m := range all {
		if kind := kindOf(m); first[kind] == "" {
			first[kind] = m.name
		}
	}
	for _, m := range testbed.Share(t, all, 5, func(m mutation) bool { return first[kindOf(m)] == m.name }) {
		check(m)
	}
	for _, c := range changes {
		if !kinds[c.name] && c.name != "exclusive maximum" {
			t.Errorf("no schema of ours could be changed so: %s", c.name)
		}
	}
	t.Logf("%d kinds of mutations; %v", len(kinds), classes)
	if list := surface.Compare(doc, doc); len(list) > 0 {
		t.Errorf("the surface differs from itself: %v", list)
	}
}

// TestOfTwoMutationsTheWorseWins: what breaks is not hidden by what does not.
func TestOfTwoMutationsTheWorseWins(t *testing.T) {
	doc := real(t)
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	r := rand.New(rand.NewPCG(*seed, 2))
	all := documentMutations(doc)
	for _, tool := range doc.Tools {
		all = append(all, toolMutations(tool)...)
		all = append(all, schemaMutations(tool)...)
	}
	mixed, pairs := 0, 320
	if testbed.Long() {
		pairs = 3200
	}
	for range pairs {
		a, b := all[r.IntN(len(all))], all[r.IntN(len(all))]
		if strings.HasPrefix(a.target+"/", b.target+"/") || strings.HasPrefix(b.target+"/", a.target+"/") ||
			strings.Contains(a.target, "/tier") && strings.Contains(b.target, "/tier") {
			continue
		}
		if a.class != b.class {
			mixed++
		}
		list := surface.Compare(doc, b.apply(a.apply(doc)))
		if got, want := surface.Worst(list), max(a.class, b.class); got != want {
			t.Fatalf("seed %d: %s (%v) and %s (%v): %v: %v", *seed, a.name, a.class, b.name, b.class, got, list)
		}
	}
	if mixed < pairs*3/16 {
		t.Errorf("only %d pairs of two classes", mixed)
	}
}

// TestAnotherSpellingOfTheSurfaceIsNoDifference rewrites every schema of the
// surface: other order of lists, enum for const, anyOf for a list of types.
func TestAnotherSpellingOfTheSurfaceIsNoDifference(t *testing.T) {
	doc := real(t)
	now := doc
	now.Tools = slices.Clone(doc.Tools)
	spelled := 0
	for i := range now.Tools {
		for _, raw := range []*json.RawMessage{&now.Tools[i].Input, &now.Tools[i].Output} {
			text, err := json.Marshal(respelled(tree(*raw), &spelled))
			if err != nil {
				t.Fatal(err)
			}
			*raw = text
		}
	}
	for _, list := range [][]string{now.Kinds, now.Reasons, now.Actions} {
		slices.Reverse(list)
	}
	slices.Reverse(now.Tools)
	if list := surface.Compare(doc, now); len(list) > 0 {
		t.Errorf("%d differences, the first: %v", len(list), list[0])
	}
	if spelled < 500 {
		t.Errorf("only %d places were written in another way", spelled)
	}
}

func respelled(v any, n *int) any {
	switch v := v.(type) {
	case []any:
		out := make([]any, len(v))
		for i, one := range v {
			out[len(v)-1-i] = respelled(one, n)
		}
		return out
	case map[string]any:
		out := map[string]any{}
		for key, one := range v {
			out[key] = respelled(one, n)
		}
		if value, ok := out["const"]; ok {
			*n++
			delete(out, "const")
			out["enum"] = []any{value, value}
		}
		if out["type"] == "object" && out["additionalProperties"] == true {
			*n++
			delete(out, "additionalProperties")
		}
		if types, ok := out["type"].([]any); ok && len(out) == 1 {
			*n++
			delete(out, "type")
			out["anyOf"] = []any{map[string]any{"type": types[0]}, map[string]any{"type": types[1]}}
		}
		if out["type"] == "string" && out["properties"] == nil {
			*n++
			out["type"] = []any{"string"}
		}
		return out
	}
	return v
}
