package scan

import (
	_ "embed"
	"strconv"
	"strings"
	"sync"
)

//go:embed samples.txt
var samplesText string

// samples are templates of texts that a rule must find, and that it must not.
type samples struct{ hits, misses []string }

// ruleSamples holds the samples by the id of their rule. Rules that share an id have
// theirs in the order of the table.
var ruleSamples = sync.OnceValue(func() map[string][]samples {
	all := map[string][]samples{}
	var last *samples
	for line := range strings.Lines(samplesText) {
		mark, text, ok := strings.Cut(strings.TrimSuffix(line, "\n"), " ")
		if !ok {
			all[mark] = append(all[mark], samples{})
			last = &all[mark][len(all[mark])-1]
			continue
		}
		if plain, err := strconv.Unquote(text); err == nil {
			text = plain
		}
		switch mark {
		case "+":
			last.hits = append(last.hits, text)
		case "-":
			last.misses = append(last.misses, text)
		}
	}
	return all
})
