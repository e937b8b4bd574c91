package scan

import (
	"strings"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// Every rule must find its hits and pass over its misses.
func TestRules(t *testing.T) {
	s := testbed.Must(New(nil))(t)
	seen := map[string]string{}
	rules := map[string]int{}
	for _, r := range table() {
		rules[r.id]++
		testbed.Expect(t, len(r.hits) != 0 && len(r.misses) != 0, "rule %s: samples.txt lacks texts that it must find, or that it must not", r.id)
		testbed.Expect(t, r.what != "" && weights[r.family] != 0, "rule %s: no description or unknown family %s", r.id, r.family)
		f, ok := seen[r.id]
		testbed.Expect(t, !ok || f == r.family, "pattern %s is in two families", r.id)
		seen[r.id] = r.family
		for _, h := range r.hits {
			for seed := range uint64(5) {
				found := s.newText([]byte(expand(h, seed))).findings()
				ok := false
				for _, f := range found {
					ok = ok || f.rule.id == r.id && f.confidence.rank() >= r.grade().rank()
				}
				if !ok {
					t.Errorf("rule %s (%s): %s not found with seed %d: %s", r.id, r.what, h, seed, describe(found))
					break
				}
			}
		}
		for _, m := range r.misses {
			for _, f := range s.newText([]byte(expand(m, 1))).findings() {
				testbed.Expect(t, f.rule.id != r.id, "rule %s (%s): found in %s", r.id, r.what, m)
			}
		}
	}
	for id, all := range ruleSamples() {
		testbed.Expect(t, len(all) == rules[id], "samples.txt has %d entries of %s, which has %d rules", len(all), id, rules[id])
	}
	testbed.Expect(t, len(seen) >= 200, "%d patterns", len(seen))
}

func describe(found []raw) string {
	var names []string
	for _, f := range found {
		names = append(names, f.rule.id+" "+string(f.confidence)+" "+f.from)
	}
	return strings.Join(names, ", ")
}
