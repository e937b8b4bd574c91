package report

import (
	"bytes"
	"crypto/sha256"
	_ "embed"
	"encoding/base64"
	"html/template"
	"io"
	"regexp"
	"strings"
	"sync"
)

//go:embed page.css
var styleSource string

//go:embed page.html
var pageSource string

// style is the style sheet as it appears in the page. Its comments are for those
// who read the source; html/template would take them out, and then the page
// would not match the hash in its policy.
var style = sync.OnceValue(func() string {
	return strings.TrimSpace(regexp.MustCompile(`(?s)/\*.*?\*/\n?`).ReplaceAllString(styleSource, ""))
})

// policy is what the browser lets the page do: nothing but use its own style.
// The icon is an empty one, so that no browser asks a server for it.
func policy() string {
	sum := sha256.Sum256([]byte(style()))
	return "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; style-src 'sha256-" +
		base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// layout is the page with its style in it. Both are ours and constant, so they
// are put together before the template is read; all that is not constant goes
// through the template.
var layout = sync.OnceValue(func() *template.Template {
	source := strings.NewReplacer("((policy))", policy(), "((style))", style()).Replace(pageSource)
	return template.Must(template.New("page").Parse(source))
})

// Write writes the page and returns what it does not show, in sentences. clean
// takes the secrets out of a text and keeps its line ends; it must be safe for
// any bytes. The input is not changed, and the same input gives the same bytes.
func Write(w io.Writer, in *Input, clean func(string) string) (leftOut []string, err error) {
	p := view(in, clean)
	var b bytes.Buffer
	if err := layout().Execute(&b, p); err != nil {
		return nil, err
	}
	_, err = w.Write(b.Bytes())
	return p.leftOut(), err
}
