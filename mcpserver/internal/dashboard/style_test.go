package dashboard

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// TestColorsAreThoseOfTheReport, whose contrasts are tested there; and the page
// is whole: its policy names its own script and style.
func TestColorsAreThoseOfTheReport(t *testing.T) {
	data := testbed.Must(os.ReadFile(filepath.Join("..", "..", "..", "report", "page.css")))(t)
	themes := func(css string) [][]string {
		var list [][]string
		for _, block := range regexp.MustCompile(`(?s):root \{(.*?)\}`).FindAllStringSubmatch(css, -1) {
			list = append(list, regexp.MustCompile(`--[a-z0-9-]+: #[0-9a-f]{6};`).FindAllString(block[1], -1))
		}
		return list
	}
	theirs, mine := themes(string(data)), themes(style)
	if len(mine) != 2 {
		t.Fatalf("%d themes", len(mine))
	}
	for i, theme := range mine {
		for _, color := range theme {
			if len(theme) < 10 || !slices.Contains(theirs[i], color) {
				t.Errorf("theme %d: %s", i, color)
			}
		}
	}
	for _, m := range regexp.MustCompile(`var\((--[a-z0-9-]+)\)`).FindAllStringSubmatch(style, -1) {
		if !strings.Contains(strings.Join(mine[0], ""), m[1]+":") {
			t.Errorf("no theme has %s", m[1])
		}
	}
	if text := string(page); strings.Contains(text, "((s") || !strings.Contains(text, "<script>"+script+"</script>") || !strings.Contains(text, "<style>"+style+"</style>") ||
		!strings.Contains(policy, hash(script)) || strings.Contains(script, "innerHTML") || strings.Contains(script, "eval(") {
		t.Error("the page is not whole")
	}
}
