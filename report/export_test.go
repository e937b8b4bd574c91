package report

import (
	"crypto/sha256"
	"encoding/base64"
	"time"
)

// PolicyFor is the policy of a page with this style, worked out a second time.
func PolicyFor(style string) string {
	sum := sha256.Sum256([]byte(style))
	return "default-src 'none'; img-src data:; base-uri 'none'; form-action 'none'; style-src 'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
}

// Texts are the lines of a diff, as they are shown.
func (d Diff) Texts() []string {
	var list []string
	for _, l := range d.lines {
		if l.Op != "@" {
			list = append(list, l.Op+flat(l.Text))
		}
	}
	return list
}

// AxisOf is where the bars of two times are.
func AxisOf(first, last int64) (start, width int64, n int) {
	a := axisOf(first, last, time.UTC)
	return a.start, a.width, a.n
}

// Spans are the bars of two times in a zone, in words.
func Spans(first, last time.Time, zone *time.Location) (list []string) {
	a := axisOf(first.Unix(), last.Unix(), zone)
	for i := range a.n {
		list = append(list, a.label(i)+": "+a.span(i))
	}
	return list
}

// NoTime is the time of a row without a time.
const NoTime = noTime

// Style is the style sheet of the page.
var Style = style()
