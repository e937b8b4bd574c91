package clients

import (
	"encoding/json"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/schema"
)

// Hooks are configured in JSON files: {"hooks": {event: [hook, …]}}, where a hook is a
// command or, in most hosts, a group of them with a matcher. Only those that run
// this program are changed, also in a group with others.

// shellWord is one word of a command of a shell.
const shellWord = `(?:[^\s;&|"'\\]|'[^']*'|"[^"]*"|\\.)+`

// runsHook is a command that does nothing else: one that runs a program of the user
// too is the user's.
var runsHook = regexp.MustCompile(`^(?:(?:command -v )?(` + shellWord + `) >/dev/null \|\| exit 0; )?` +
	`(` + shellWord + `) hook --host \S+(?: [A-Za-z]+)?(?: \|\| exit 0)?$`)

// ownHook reports whether a hook runs this program, and nothing else. Under another name
// the program is known by the guard, which names it too.
func ownHook(n *node) bool {
	for _, key := range []string{"command", "bash"} {
		if m := n.find(key); m != nil {
			command, _ := m.value.(string)
			run := runsHook.FindStringSubmatch(command)
			return run != nil && (run[1] == run[2] || program(strings.Trim(run[2], `'"`)) == Program)
		}
	}
	return false
}

// ownHooks are the lists of hooks of an event that hold one of this program:
// the way to each, and its place in the last list. A group that holds no other
// is one hook.
func ownHooks(trail []*node) (at []*node, i int) {
	list := trail[len(trail)-1]
	for i := range list.members {
		one := &list.members[i].node
		if ownHook(one) {
			return trail, i
		}
		group := one.find("hooks")
		if group == nil {
			continue
		}
		own := 0
		for j := range group.members {
			if ownHook(&group.members[j].node) {
				own++
			}
		}
		switch {
		case own > 0 && own == len(group.members):
			return trail, i
		case own > 0:
			return ownHooks(append(trail, one, &group.node))
		}
	}
	return nil, 0
}

// SetHooks merges the hooks of a configuration into a text. Other hooks keep
// their bytes and their order.
func SetHooks(text, config string) (string, error) {
	want, err := readJSON(config)
	if err != nil || want == nil {
		return "", errShape
	}
	if now, err := readJSON(text); err == nil && hooksOf(now) != nil && reflect.DeepEqual(hooksOf(now), hooksOf(want)) {
		return text, nil
	}
	out, err := UnsetHooks(text)
	if err != nil {
		return "", err
	}
	var edits []Edit
	for _, m := range want.members {
		if m.key != "hooks" {
			edits = append(edits, Edit{Key: m.key, Value: m.value})
			continue
		}
		for _, event := range m.members {
			for _, one := range event.members {
				edits = append(edits, Edit{At: []string{"hooks", event.key}, Value: one.ordered()})
			}
		}
	}
	return Set(JSON, out, edits)
}

// hooksOf are the hooks of this program in a text, by event.
func hooksOf(root *node) map[string][]any {
	if root == nil {
		return nil
	}
	all := root.find("hooks")
	if all == nil {
		return nil
	}
	out := map[string][]any{}
	for _, event := range all.members {
		for _, one := range event.members {
			if at, _ := ownHooks([]*node{{open: '[', members: []keyed{one}}}); at != nil {
				out[event.key] = append(out[event.key], one.decoded())
			}
		}
	}
	return out
}

// UnsetHooks removes the hooks of this program from a text.
func UnsetHooks(text string) (string, error) { return withLF(text, unsetHooks) }

func unsetHooks(text string) (string, error) {
	for {
		root, err := readJSON(text)
		if err != nil || root == nil {
			return text, err
		}
		trail, i := []*node(nil), 0
		if all := root.find("hooks"); all != nil {
			for j := range all.members {
				if trail, i = ownHooks([]*node{root, &all.node, &all.members[j].node}); trail != nil {
					break
				}
			}
		}
		if trail == nil {
			return text, nil
		}
		out := drop(text, trail, i)
		next, err := readJSON(out)
		if err != nil || next == nil {
			return "", ErrByHand
		}
		if left := next.decoded(); (len(next.members) == 0 || reflect.DeepEqual(left, map[string]any{"version": json.Number("1")})) && !strings.Contains(out, "/") {
			return "", nil // nothing of the user's is left, not even a comment
		}
		text = out
	}
}

// ordered is the value with the members of objects in their order.
func (n *node) ordered() any {
	switch n.open {
	case '{':
		out := Fields{}
		for _, m := range n.members {
			out = append(out, schema.Member{Key: m.key, Value: m.ordered()})
		}
		return out
	case '[':
		out := []any{}
		for i := range n.members {
			out = append(out, n.members[i].ordered())
		}
		return out
	}
	return n.value
}

// drop removes a member of the last container of a trail. Containers that it
// leaves empty go with it.
func drop(text string, trail []*node, i int) string {
	n := trail[len(trail)-1]
	for len(n.members) == 1 && len(trail) > 1 {
		outer := trail[len(trail)-2]
		at := slices.IndexFunc(outer.members, func(m keyed) bool { return m.node.start == n.start })
		if strings.Contains(strip(text, outer.members[at]), "/") {
			break
		}
		n, i, trail = outer, at, trail[:len(trail)-1]
	}
	return cut(text, n, i)
}
