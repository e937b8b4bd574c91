package mcpserver_test

import (
	"crypto/sha256"
	"encoding/base64"
	"io"
	"net/http"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/resilientwrite/resilientwrite/mcpserver"
)

// TestColorsAreThoseOfTheReport, whose contrasts are tested there; and the page of the
// dashboard is whole: its policy names its own script and style.
func TestColorsAreThoseOfTheReport(t *testing.T) {
	t.Parallel()
	res := must(http.Get("http://" + newBoard(t, mcpserver.HTTPOptions{}).addr))(t)
	defer res.Body.Close()
	page := string(must(io.ReadAll(res.Body))(t))
	part := func(tag string) string {
		_, text, _ := strings.Cut(page, "<"+tag+">")
		text, _, _ = strings.Cut(text, "</"+tag+">")
		sum := sha256.Sum256([]byte(text))
		expect(t, strings.Contains(res.Header.Get("Content-Security-Policy"), tag+"-src 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"'"),
			"the policy does not name the %s of the page", tag)
		return text
	}
	themes := func(css string) [][]string {
		var list [][]string
		for _, block := range regexp.MustCompile(`(?s):root \{(.*?)\}`).FindAllStringSubmatch(css, -1) {
			list = append(list, regexp.MustCompile(`--[a-z0-9-]+: #[0-9a-f]{6};`).FindAllString(block[1], -1))
		}
		return list
	}
	style := part("style")
	theirs, mine := themes(string(must(os.ReadFile("../report/page.css"))(t))), themes(style)
	mustEqual(t, len(mine), 2, "themes")
	for i, theme := range mine {
		for _, color := range theme {
			expect(t, len(theme) >= 10 && slices.Contains(theirs[i], color), "theme %d: %s", i, color)
		}
	}
	for _, m := range regexp.MustCompile(`var\((--[a-z0-9-]+)\)`).FindAllStringSubmatch(style, -1) {
		expect(t, strings.Contains(strings.Join(mine[0], ""), m[1]+":"), "no theme has %s", m[1])
	}
	script := part("script")
	expect(t, !strings.Contains(page, "((s") && !strings.Contains(script, "innerHTML") && !strings.Contains(script, "eval("), "the page is not whole")
}
