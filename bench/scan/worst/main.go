// Command worst searches for the text on which the scanner is slowest, per byte and in CPU
// time.
//
//	cd bench && go run ./scan/worst [-for 10m] [-of score,redact,stream] [-seed 1] [-keep DIR]
//
// It starts with the rules' examples, the keywords that they depend on and every kind of
// encoding, mutates slow texts, and prints each record as a recipe, which -recipe makes into
// a text again:
//
//	go run ./scan/worst -recipe '{"unit":["\\x41"]}' -size 10485760 >text
package main

import (
	"cmp"
	"encoding/json"
	"flag"
	"fmt"
	"log"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/resilientwrite/resilientwrite/bench/scan/internal/texts"
	"github.com/resilientwrite/resilientwrite/internal/scan"
)

func main() {
	log.SetFlags(0)
	limit := flag.Duration("for", 10*time.Minute, "how long to search")
	of := flag.String("of", "score,redact,stream", "what is measured; each has its share of the time")
	seed := flag.Uint64("seed", 1, "of the mutations")
	keep := flag.String("keep", "", "write the recipes of each search to this directory")
	recipe := flag.String("recipe", "", "write the text of this recipe instead of searching")
	size := flag.Int("size", 1<<20, "bytes of that text")
	flag.Parse()
	if *recipe != "" {
		var r texts.Recipe
		if err := json.Unmarshal([]byte(*recipe), &r); err != nil {
			log.Fatal(err)
		}
		os.Stdout.Write(r.Text(*size))
		return
	}
	s, err := scan.New(nil)
	if err != nil {
		log.Fatal(err)
	}
	names := strings.Split(*of, ",")
	for _, name := range names {
		run, ok := works[name]
		if !ok {
			log.Fatalf("-of takes score, redact and stream, not %q", name)
		}
		h := newHunt(s, run, *seed)
		h.search(time.Now().Add(*limit/time.Duration(len(names))), func(f find) { fmt.Printf("%-6s %s\n", name, f) })
		best := h.finish()
		fmt.Printf("\n%s, the slowest of %d texts, each over 1 MiB again:\n", name, h.tried)
		for _, f := range best {
			fmt.Println(" ", f)
		}
		if *keep != "" {
			if err := write(filepath.Join(*keep, name+".jsonl"), best); err != nil {
				log.Fatal(err)
			}
		}
	}
}

func write(name string, best []find) error {
	var out strings.Builder
	for _, f := range best {
		b, _ := json.Marshal(f.recipe)
		fmt.Fprintf(&out, "%s\n", b)
	}
	return os.WriteFile(name, []byte(out.String()), 0o644)
}

// works are the operations that are measured.
var works = map[string]func(s *scan.Scanner, text []byte){
	"score":  func(s *scan.Scanner, text []byte) { s.Score(text, scan.Options{}) },
	"redact": func(s *scan.Scanner, text []byte) { s.Redact(text, scan.Options{}) },
	"stream": func(s *scan.Scanner, text []byte) {
		st := s.NewStream(scan.Options{})
		for len(text) > 0 {
			n := min(len(text), 4<<10)
			st.Write(text[:n])
			text = text[n:]
		}
		st.Report()
	},
}

// find is a recipe and its cost.
type find struct {
	recipe texts.Recipe
	cost   float64 // ns of CPU for each byte
}

func (f find) String() string {
	b, _ := json.Marshal(f.recipe)
	return fmt.Sprintf("%9.3f MB/s  %s", 1000/f.cost, b)
}

// hunt is one search: a population of the slowest texts so far.
type hunt struct {
	price func(text []byte, runs int) float64 // the cost of a text
	rng   *rand.Rand
	words []string
	best  []find // slowest first
	tried int
}

const (
	population = 48
	trySize    = 64 << 10
	againEvery = 256 // number of texts after which the kept ones are measured again
)

func newHunt(s *scan.Scanner, run func(*scan.Scanner, []byte), seed uint64) *hunt {
	price := func(text []byte, runs int) float64 { return cost(func() { run(s, text) }, len(text), runs) }
	return &hunt{price: price, rng: rand.New(rand.NewPCG(seed, 1)), words: vocabulary()}
}

// vocabulary returns the words of which texts are made.
func vocabulary() []string {
	words := []string{
		"{an 1}", "{an 4}", "{an 12}", "{an 24}", "{an 40}", "{hex 2}", "{hex 32}", "{num 4}", "{b64 76}\n", "{b64 38}\n", "{let 16}",
		" ", "\n", "\t", "\r\n", "\"", "'", "`", "=", ":", ": ", "=>", ",", ";", "@", "/", "//", ".", "-", "_", "+", "&", "&amp;", "%", "\\", "\\\\", "\\n", "<", ">", "{", "}", "(", ")", "[", "]", "$", "#", "|", "~",
		"\" + \"", "' . '", "\" \"", "\"\"", "a b ", "a\u200bb", "\u00ad", "\u034f", "\u2060", "a\u0301", "\u00e9", "\u65e5", "\x00", "a\x00", "\xff",
		"%41", "%2541", "%25%34%31", "\\x41", "\\u0041", "\\u{41}", "\\U00000041", "\\101", "=41", "=\n", "&#65;", "&#x41;", "\\\n",
		"-----BEGIN RSA PRIVATE KEY-----", "-----END RSA PRIVATE KEY-----", "-----BEGIN PGP MESSAGE-----", "eyJ", "eyJhbGciOiJIUzI1NiJ9.", "://", "http://", "postgres://a:b@", "user:pass@host",
		"password", "password=", "\"password\": \"", "secret", "token", "api_key", "key", "AccountKey=", "IDENTIFIED BY '", "curl -u ", " -p ", "--password ", "<secret>", "</secret>", "H4sI", "UEsD", "PK\x03\x04", "\x1f\x8b\x08",
		"00000000: 4142 4344 ", "41 42 43 44 ", "0x41, ", "\\x1b[0m", "\x1b[0m", "+1 555 ", "4111 1111 ", "a@b.co", "123-45-", "DE89 3704 ", "\n+", "\n-", "\n> ", "01:02:03 ",
	}
	for _, r := range scan.Rules() {
		words = append(words, r.Example)
		for _, n := range []int{4, 8, 16} {
			if len(r.Example) > n {
				words = append(words, r.Example[:n])
			}
		}
	}
	return words
}

// search mutates texts until the deadline.
func (h *hunt) search(until time.Time, record func(find)) {
	for _, r := range texts.Hostile {
		h.try(r.Recipe, record)
	}
	for _, w := range h.words {
		h.try(texts.Recipe{Unit: []string{w}}, record)
	}
	for time.Now().Before(until) {
		if h.tried%againEvery == 0 {
			h.again()
		}
		h.try(h.mutated(h.best[h.rng.IntN(len(h.best))].recipe), record)
	}
}

// try measures a text, twice if it would be kept, and keeps it among the
// slowest.
func (h *hunt) try(r texts.Recipe, record func(find)) {
	h.tried++
	text := r.Text(trySize)
	cost := h.price(text, 1)
	if len(h.best) == population && cost <= h.best[population-1].cost {
		return
	}
	cost = min(cost, h.price(text, 2))
	at, _ := slices.BinarySearchFunc(h.best, cost, func(f find, c float64) int {
		if f.cost > c {
			return -1
		}
		return 1
	})
	// Near-equal texts would crowd out the others: no two with the same words.
	for _, f := range h.best {
		if slices.Equal(f.recipe.Unit, r.Unit) && slices.Equal(f.recipe.Wrap, r.Wrap) {
			return
		}
	}
	if at == 0 && (len(h.best) == 0 || cost > 1.05*h.best[0].cost) {
		record(find{r, cost})
	}
	h.best = slices.Insert(h.best, at, find{r, cost})
	h.best = h.best[:min(len(h.best), population)]
}

// again measures the kept texts once more: the machine may have been slower
// before.
func (h *hunt) again() {
	for i := range h.best {
		h.best[i].cost = min(h.best[i].cost, h.price(h.best[i].recipe.Text(trySize), 1))
	}
	slices.SortStableFunc(h.best, func(a, b find) int { return cmp.Compare(b.cost, a.cost) })
}

// cost returns the lowest ns of CPU time per byte, over several runs.
func cost(run func(), bytes, runs int) float64 {
	least := 0.0
	for i := range runs {
		start := texts.CPU()
		run()
		if c := float64(texts.CPU()-start) / float64(bytes); i == 0 || c < least {
			least = c
		}
	}
	return least
}

// finish removes from the slowest texts the parts that do not make them slow,
// and measures them again at another size.
func (h *hunt) finish() []find {
	h.again()
	best := slices.Clone(h.best[:min(len(h.best), 6)])
	for i := range best {
		best[i].recipe = h.shorter(best[i])
		best[i].cost = h.price(best[i].recipe.Text(1<<20), 5)
	}
	slices.SortFunc(best, func(a, b find) int { return cmp.Compare(b.cost, a.cost) })
	return best
}

// shorter removes each word and wrapping without which the text is nearly as
// slow.
func (h *hunt) shorter(f find) texts.Recipe {
	for _, list := range []*[]string{&f.recipe.Unit, &f.recipe.Wrap} {
		for i := 0; i < len(*list); {
			whole := *list
			*list = slices.Delete(slices.Clone(whole), i, i+1)
			if len(f.recipe.Unit) > 0 && h.price(f.recipe.Text(trySize), 3) > 0.95*f.cost {
				continue
			}
			*list = whole
			i++
		}
	}
	return f.recipe
}

func (h *hunt) word() string { return h.words[h.rng.IntN(len(h.words))] }

// mutated returns a neighbor of a recipe.
func (h *hunt) mutated(r texts.Recipe) texts.Recipe {
	r.Unit, r.Wrap = slices.Clone(r.Unit), slices.Clone(r.Wrap)
	for range 1 + h.rng.IntN(3) {
		at := h.rng.IntN(len(r.Unit))
		switch h.rng.IntN(10) {
		case 0, 1:
			r.Unit = slices.Insert(r.Unit, at, h.word())
		case 2:
			r.Unit = append(r.Unit, h.word())
		case 3:
			r.Unit[at] = h.word()
		case 4:
			if len(r.Unit) > 1 {
				r.Unit = slices.Delete(r.Unit, at, at+1)
			}
		case 5:
			r.Unit = slices.Insert(r.Unit, at, r.Unit[h.rng.IntN(len(r.Unit))])
		case 6: // words of another slow one
			other := h.best[h.rng.IntN(len(h.best))].recipe.Unit
			r.Unit = append(r.Unit, other[h.rng.IntN(len(other)):]...)
		case 7:
			r.Unit[at] = h.cut(r.Unit[at])
		case 8:
			if len(r.Wrap) < 3 {
				r.Wrap = append(r.Wrap, texts.Wraps[h.rng.IntN(len(texts.Wraps))])
			} else {
				r.Wrap = r.Wrap[1:]
			}
		case 9:
			if len(r.Wrap) > 0 {
				r.Wrap = slices.Delete(r.Wrap, 0, 1)
			} else {
				i := h.rng.IntN(len(r.Unit))
				r.Unit[at], r.Unit[i] = r.Unit[i], r.Unit[at]
			}
		}
	}
	if len(r.Unit) > 24 {
		r.Unit = r.Unit[:24]
	}
	return r
}

// cut shortens a word, or removes a character from it.
func (h *hunt) cut(w string) string {
	if len(w) < 2 || strings.ContainsAny(w, "{}") {
		return w
	}
	i := 1 + h.rng.IntN(len(w)-1)
	switch h.rng.IntN(3) {
	case 0:
		return w[:i]
	case 1:
		return w[i:]
	}
	return w[:i] + w[i-1:]
}
