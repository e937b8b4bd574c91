package scan

import (
	"bytes"
	"fmt"
	gobuild "go/build"
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// texts are what scanners meet, from ordinary to hostile; size in bytes.
func texts(size int) map[string][]byte {
	rng := rand.New(rand.NewPCG(1, 2))
	fill := func(piece func() string) []byte {
		var b bytes.Buffer
		for b.Len() < size {
			b.WriteString(piece())
		}
		return b.Bytes()[:size]
	}
	words := strings.Fields("the store writes every file so that a crash leaves the old bytes or the new ones and keeps what was there before because nobody wants to lose a draft that took an hour to make")
	noise := func(letters string) func() string {
		return func() string {
			b := make([]byte, 4096)
			for i := range b {
				b[i] = letters[rng.IntN(len(letters))]
			}
			return string(b)
		}
	}
	all := map[string][]byte{
		"go": fill(goSource()),
		"english": fill(func() string {
			return words[rng.IntN(len(words))] + []string{" ", " ", " ", ", ", ".\n"}[rng.IntN(5)]
		}),
		"minified": fill(func() string {
			return fmt.Sprintf("function %c%d(e,t){return e.%c&&t(\"%x\")||{key:e.token,a:[%d,%d]}};", 'a'+rng.IntN(26), rng.IntN(99), 'a'+rng.IntN(26), rng.IntN(1<<20), rng.IntN(9), rng.IntN(9))
		}),
		"lockfile": fill(func() string {
			return fmt.Sprintf("    \"node_modules/p%d\": {\n      \"version\": \"%d.%d.1\",\n      \"integrity\": \"sha512-%s==\"\n    },\n", rng.IntN(999), rng.IntN(9), rng.IntN(20), noise("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")()[:86])
		}),
		"base64": fill(noise("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/")),
		"hex":    fill(noise("0123456789abcdef")),
		"binary": fill(func() string { return string([]byte{byte(rng.IntN(256))}) }),
		"cjk":    fill(func() string { return string(rune(0x4e00 + rng.IntN(5000))) }),
	}
	for i, piece := range slowest {
		all[fmt.Sprint("slowest ", i)] = fill(func() string { return expand(piece, rng.Uint64()) })
	}
	for _, piece := range hostile {
		all[piece] = fill(func() string { return strings.Repeat(piece, 1+4096/len(piece)) })
	}
	return all
}

// goSource repeats files of the standard library.
func goSource() func() string {
	files, _ := filepath.Glob(filepath.Join(gobuild.Default.GOROOT, "src", "net", "http", "*.go"))
	i := 0
	return func() string {
		if len(files) == 0 {
			return "func f(a int) error { return nil }\n"
		}
		b, _ := os.ReadFile(files[i%len(files)])
		i++
		return string(b) + "\n"
	}
}

// No text may cost more than its length: at half a megabyte, what is not linear
// takes minutes rather than seconds.
func TestEveryTextIsLinear(t *testing.T) {
	s := testbed.Must(New(nil))(t)
	all := texts(512 << 10)
	for _, name := range testbed.Share(t, slices.Sorted(maps.Keys(all)), 4, nil) {
		end := testbed.Within(t, 5*time.Second, fmt.Sprintf("%q", name))
		s.Score(all[name], Options{})
		end()
	}
}
