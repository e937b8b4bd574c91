package scan_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
)

// classes are the kinds of text that the arms are measured on. Those that a
// tree of Go holds are taken from there, so that they are nobody's invention;
// the others are made, and the same in every run.
var classes = []struct {
	name string
	text func() []byte // some text of the class; it is repeated
}{
	{"source", source}, {"english", english}, {"minified", minified}, {"lockfile", lockfile},
	{"base64", func() []byte { return noise("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", 1<<16) }},
	{"prefixes", func() []byte { return []byte("sk-ant-api03-ghp_AKIAxoxb-eyJ glpat-AIza npm_hf_\n") }},
	{"keywords", func() []byte { return []byte("password=token secret_key: datadog aws_secret api_key=\n") }},
	{"headers", func() []byte { return []byte("-----BEGIN RSA PRIVATE KEY-----\nMIIE") }},
	{"at signs", func() []byte { return []byte("postgres://a:b@c@\n") }},
}

// sized is size bytes of a class.
func sized(text func() []byte, size int) []byte {
	piece := text()
	b := bytes.Repeat(piece, size/len(piece)+1)
	return b[:size]
}

// source is the net/http of the toolchain.
func source() []byte {
	files, _ := filepath.Glob(filepath.Join(runtime.GOROOT(), "src", "net", "http", "*.go"))
	return joined(files, "func f(a int) error { return nil }\n")
}

// english is the text of the language's specification, without its tags.
func english() []byte {
	b := joined([]string{filepath.Join(runtime.GOROOT(), "doc", "go_spec.html")}, "The store writes every file so that a crash leaves the old bytes or the new ones.\n")
	return regexp.MustCompile(`<[^>]*>`).ReplaceAll(b, nil)
}

// minified is what the trace viewer of the toolchain loads.
func minified() []byte {
	return joined([]string{filepath.Join(runtime.GOROOT(), "src", "internal", "trace", "traceviewer", "static", "webcomponents.min.js")},
		"function a(e,t){return e.b&&t(\"c\")||{key:e.token,a:[1,2]}};")
}

// lockfile is a lock of npm and the sums of this module.
func lockfile() []byte {
	rng := rand.New(rand.NewPCG(3, 4))
	var b bytes.Buffer
	for range 400 {
		fmt.Fprintf(&b, "    \"node_modules/p%d\": {\n      \"version\": \"%d.%d.1\",\n      \"integrity\": \"sha512-%s==\"\n    },\n",
			rng.IntN(999), rng.IntN(9), rng.IntN(20), noise("ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/", 86))
	}
	b.Write(joined([]string{filepath.Join("..", "go.sum")}, ""))
	return b.Bytes()
}

// joined is the content of files, or other where none of them is there.
func joined(files []string, other string) []byte {
	var all []byte
	for _, f := range files {
		b, _ := os.ReadFile(f)
		all = append(all, b...)
	}
	if len(all) == 0 {
		return []byte(strings.Repeat(other, 100))
	}
	return all
}

func noise(letters string, n int) []byte {
	rng := rand.New(rand.NewPCG(1, 2))
	b := make([]byte, n)
	for i := range b {
		b[i] = letters[rng.IntN(len(letters))]
	}
	return b
}
