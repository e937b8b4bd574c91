package browser_test

import (
	"strings"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/testbed/browser"
)

// TestPage: what is driven is a browser: it runs scripts, takes keys, and says
// what went wrong.
func TestPage(t *testing.T) {
	p := browser.Open(t, 390, 700, true)
	p.Go("data:text/html,<button onclick='document.title=\"pressed\"'>x</button><script>console.log('said')</script>")
	p.Wait("document.querySelector('button')")
	p.Key("Tab")
	p.Key("Enter")
	p.Wait("document.title === 'pressed'")
	if p.Eval("innerWidth") != 390.0 || p.Eval("matchMedia('(prefers-color-scheme: dark)').matches") != true {
		t.Errorf("%v wide", p.Eval("innerWidth"))
	}
	if !strings.Contains(p.Console(), "said") || len(p.Shot()) < 500 {
		t.Errorf("%s", p.Console())
	}
}
