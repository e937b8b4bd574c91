package report_test

import (
	"math"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
	"github.com/resilientwrite/resilientwrite/report"
)

// luminance is the relative luminance of WCAG 2.
func luminance(t *testing.T, hex string) float64 {
	t.Helper()
	n, err := strconv.ParseUint(strings.TrimPrefix(hex, "#"), 16, 32)
	testbed.Require(t, err == nil && len(hex) == 7, "%q is no color", hex)
	sum := 0.0
	for i, weight := range []float64{0.2126, 0.7152, 0.0722} {
		c := float64(n>>(16-8*i)&0xff) / 255
		if c <= 0.04045 {
			c /= 12.92
		} else {
			c = math.Pow((c+0.055)/1.055, 2.4)
		}
		sum += weight * c
	}
	return sum
}

// TestEveryThemeCanBeRead: text has a contrast of 4.5 to its ground, drawings
// one of 3, in the light theme, the dark one, and on paper.
func TestEveryThemeCanBeRead(t *testing.T) {
	blocks := regexp.MustCompile(`(?s):root \{(.*?)\}`).FindAllStringSubmatch(report.Style, -1)
	testbed.MustEqual(t, len(blocks), 3, "themes")
	for i, theme := range []string{"light", "dark", "print"} {
		colors := map[string]string{}
		for _, m := range regexp.MustCompile(`--([a-z0-9-]+): (#[0-9a-f]{6});`).FindAllStringSubmatch(blocks[i][1], -1) {
			colors[m[1]] = m[2]
		}
		pair := func(over, ground string, least float64) {
			a, b := luminance(t, colors[over]), luminance(t, colors[ground])
			if got := (max(a, b) + 0.05) / (min(a, b) + 0.05); got < least {
				t.Errorf("%s: %s on %s has a contrast of %.2f, below %.1f", theme, over, ground, got, least)
			}
		}
		for _, p := range [][2]string{
			{"ink", "ground"}, {"ink", "panel"}, {"quiet", "ground"}, {"quiet", "panel"}, {"link", "ground"}, {"named", "ground"}, {"named", "panel"},
			{"warn", "panel"}, {"bad", "panel"}, {"add-ink", "add"}, {"cut-ink", "cut"},
		} {
			pair(p[0], p[1], 4.5)
		}
		for _, drawn := range []string{"s1", "s2", "s3", "s4", "s5", "s6", "mean"} {
			pair(drawn, "ground", 3)
			pair(drawn, "panel", 3)
		}
	}
	if used, known := regexp.MustCompile(`var\(--([a-z0-9-]+)\)`).FindAllStringSubmatch(report.Style, -1), blocks[0][1]; len(used) < 30 {
		t.Errorf("%d uses of colors", len(used))
	} else {
		for _, m := range used {
			testbed.Expect(t, strings.Contains(known, "--"+m[1]+":"), "no theme has --%s", m[1])
		}
	}
}
