package texts

import (
	"bytes"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"go/build"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/scan"
)

// Class is a kind of text, of any size.
type Class struct {
	Name  string
	Text  func(size int) []byte
	Clean bool    // nothing in it is a secret
	Goal  float64 // MB/s at 100 KiB; 0 for none
}

// Classes are the kinds of text that scanners meet. Those that the Go tree
// contains are taken from there, and are thus real code; the rest is generated,
// and the same in every run.
var Classes = []Class{
	{"Go source", goSource, true, 500},
	{"English", english, true, 500},
	{"minified JavaScript", minified, true, 500},
	{"package-lock.json", packageLock, true, 0},
	{"go.sum", goSum, true, 0},
	{"base64 in 76 columns", base64Lines, true, 0},
	{"one secret after another", secrets, false, 0},
}

// Slowest is the slowest text known: the first of Hostile.
var Slowest = Class{"the slowest text found", func(n int) []byte { return Hostile[0].Text(n) }, false, 0}

// fill concatenates results of piece up to size bytes; piece gets the number of
// its call.
func fill(size int, piece func(i int) []byte) []byte {
	var b bytes.Buffer
	for i := 0; b.Len() < size; i++ {
		b.Write(piece(i))
	}
	return b.Bytes()[:size]
}

func random() *rand.Rand { return rand.New(rand.NewPCG(3, 4)) }

// goFiles calls f with the sources of the standard library until it returns
// false.
func goFiles(f func(text []byte) bool) {
	root := filepath.Join(build.Default.GOROOT, "src")
	filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return nil
		case d.IsDir() && (d.Name() == "testdata" || d.Name() == "vendor" || d.Name() == "cmd"):
			return fs.SkipDir
		case !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		if text, err := os.ReadFile(path); err == nil && !f(text) {
			return fs.SkipAll
		}
		return nil
	})
}

// collect joins what part extracts from the standard library.
func collect(size int, part func(text []byte) []byte) []byte {
	var b bytes.Buffer
	goFiles(func(text []byte) bool {
		b.Write(part(text))
		return b.Len() < size
	})
	if b.Len() == 0 {
		b.WriteString("// The tree of Go is not there.\nfunc f(a int) error { return nil }\n")
	}
	return fill(size, func(int) []byte { return b.Bytes() })
}

func goSource(size int) []byte {
	return collect(size, func(text []byte) []byte { return text })
}

var (
	tag     = regexp.MustCompile(`<[^>]*>`)
	comment = regexp.MustCompile(`(?m)^// ([A-Z].*(?:\n// .+)*)$`)
)

// english returns the specification of the language, without its tags, followed
// by the doc comments of the library, without comment marks.
func english(size int) []byte {
	spec, _ := os.ReadFile(filepath.Join(build.Default.GOROOT, "doc", "go_spec.html"))
	spec = tag.ReplaceAll(spec, nil)
	if len(spec) >= size {
		return spec[:size]
	}
	return append(spec, collect(size-len(spec), func(text []byte) []byte {
		var b bytes.Buffer
		for _, m := range comment.FindAllSubmatch(text, -1) {
			b.Write(bytes.ReplaceAll(m[1], []byte("\n// "), []byte("\n")))
			b.WriteString("\n\n")
		}
		return b.Bytes()
	})...)
}

// minified returns the JavaScript that the trace viewer of the toolchain loads.
func minified(size int) []byte {
	text, err := os.ReadFile(filepath.Join(build.Default.GOROOT, "src", "internal", "trace", "traceviewer", "static", "webcomponents.min.js"))
	if err != nil {
		text = []byte("function a(e,t){return e.b&&t(\"c\")||{key:e.token,a:[1,2]}};")
	}
	return fill(size, func(int) []byte { return text })
}

func letters(rng *rand.Rand, alphabet string, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = alphabet[rng.IntN(len(alphabet))]
	}
	return string(b)
}

func digest(rng *rand.Rand, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(rng.Uint32())
	}
	return base64.StdEncoding.EncodeToString(b)
}

// packageLock returns a lock file of npm, with the members that npm writes.
func packageLock(size int) []byte {
	rng := random()
	words := strings.Fields("array async babel buffer cache call chalk code color core css debug dom error esbuild fast fs glob has html http is json lib linux map node object parse path plugin regex runtime string style token type url util webpack x64")
	version := func() string { return fmt.Sprintf("%d.%d.%d", rng.IntN(20), rng.IntN(30), rng.IntN(12)) }
	name := func() string {
		n := words[rng.IntN(len(words))] + "-" + words[rng.IntN(len(words))]
		if rng.IntN(4) == 0 {
			n = "@" + words[rng.IntN(len(words))] + "/" + n
		}
		return n
	}
	return fill(size, func(int) []byte {
		n, v := name(), version()
		p := map[string]any{"version": v, "resolved": "https://registry.example.com/" + n + "/-/" + filepath.Base(n) + "-" + v + ".tgz", "integrity": "sha512-" + digest(rng, 64), "license": "MIT"}
		if rng.IntN(2) == 0 {
			p["dev"] = true
		}
		if rng.IntN(3) == 0 {
			p["engines"] = map[string]string{"node": fmt.Sprintf(">=%d", 6+2*rng.IntN(8))}
		}
		deps := map[string]string{}
		for range rng.IntN(5) {
			deps[name()] = "^" + version()
		}
		if len(deps) > 0 {
			p["dependencies"] = deps
		}
		b, _ := json.MarshalIndent(p, "    ", "  ")
		return fmt.Appendf(nil, "    %q: %s,\n", "node_modules/"+n, b)
	})
}

// goSum returns the lines of a go.sum.
func goSum(size int) []byte {
	rng := random()
	owners := strings.Fields("acme bmatcuk cespare davecgh fatih google hashicorp klauspost mattn pelletier pkg rogpeppe spf13 stretchr uber yuin")
	names := strings.Fields("afero backoff cast cobra color errors flock go-cmp logr mapstructure pretty protobuf semver sync testify tools uuid xxhash yaml zap")
	return fill(size, func(int) []byte {
		m := fmt.Sprintf("github.com/%s/%s v%d.%d.%d", owners[rng.IntN(len(owners))], names[rng.IntN(len(names))], rng.IntN(3), rng.IntN(40), rng.IntN(9))
		if rng.IntN(6) == 0 {
			m = fmt.Sprintf("golang.org/x/%s v0.0.0-2022%010d-%s", names[rng.IntN(len(names))], rng.IntN(1e9), letters(rng, alphabets["hex"], 12))
		}
		return fmt.Appendf(nil, "%s h1:%s\n%s/go.mod h1:%s\n", m, digest(rng, 32), m, digest(rng, 32))
	})
}

// base64Lines returns random bytes in base64, in lines as in mail and PEM
// files.
func base64Lines(size int) []byte {
	rng := random()
	return fill(size, func(int) []byte { return []byte(digest(rng, 57) + "\n") })
}

// secrets returns one credential after another, each in a line as in
// configuration.
func secrets(size int) []byte {
	rng := random()
	an, hex, upper, word := alphabets["an"], alphabets["hex"], "ABCDEFGHIJKLMNOPQRSTUVWXYZ234567", alphabets["an"]+"-_"
	kinds := []func() string{
		func() string { return "GITHUB_TOKEN=" + token(rng) },
		func() string { return "aws_access_key_id = AKIA" + letters(rng, upper, 16) },
		func() string { return "aws_secret_access_key = " + letters(rng, an+"/+", 40) },
		func() string { return "ANTHROPIC_API_KEY=sk-ant-api03-" + letters(rng, word, 93) + "AA" },
		func() string {
			return "slack: xoxb-" + letters(rng, "123456789", 12) + "-" + letters(rng, "123456789", 13) + "-" + letters(rng, an, 24)
		},
		func() string { return "password: " + letters(rng, an, 18) },
		func() string {
			return "DATABASE_URL=postgres://app:" + letters(rng, an, 20) + "@db1.corp.net:5432/main"
		},
		func() string { return "stripe_key = \"sk_live_" + letters(rng, an, 24) + "\"" },
		func() string { return "\"apiKey\": \"AIza" + letters(rng, word, 35) + "\"," },
		func() string { return "token=" + letters(rng, hex, 40) },
		func() string { return "GITLAB=glpat-" + letters(rng, an, 20) },
		func() string { return "Authorization: Bearer " + letters(rng, an, 64) },
	}
	return fill(size, func(int) []byte { return []byte(kinds[rng.IntN(len(kinds))]() + "\n") })
}

// Token returns a GitHub personal access token with a correct checksum.
func Token() string { return token(random()) }

func token(rng *rand.Rand) string {
	const base62 = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
	body := letters(rng, base62, 30)
	return "ghp_" + body + scan.Checksum(body)
}
