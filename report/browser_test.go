package report_test

import (
	"bytes"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	_ "image/png"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
	"github.com/resilientwrite/resilientwrite/internal/testbed/browser"
	"github.com/resilientwrite/resilientwrite/report"
)

// visit is a page in a browser that has seen nothing before.
type visit struct {
	*browser.Page
	mu    sync.Mutex
	asked []string // of the server
}

// browse serves a page to a browser.
func browse(t *testing.T, page string, wide, high int, dark bool) *visit {
	t.Helper()
	v := &visit{Page: browser.Open(t, wide, high, dark)}
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		v.mu.Lock()
		defer v.mu.Unlock()
		v.asked = append(v.asked, r.URL.Path)
		if r.URL.Path == "/page" {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			fmt.Fprint(w, strings.ReplaceAll(page, "SERVER", "http://"+r.Host))
		}
	}))
	t.Cleanup(server.Close)
	v.Go(server.URL + "/page")
	v.Wait("location.pathname === '/page' && document.readyState === 'complete'")
	return v
}

// requests returns what was asked of the server.
func (v *visit) requests() []string {
	v.mu.Lock()
	defer v.mu.Unlock()
	return slices.Clone(v.asked)
}

// colors returns the colors of the picture of the page.
func (v *visit) colors(t *testing.T) map[color.Color]bool {
	m, _, err := image.Decode(bytes.NewReader(v.Shot()))
	testbed.NoErr(t, err)
	rgba := image.NewRGBA(m.Bounds())
	draw.Draw(rgba, rgba.Bounds(), m, m.Bounds().Min, draw.Src)
	all := map[color.Color]bool{}
	var last color.RGBA
	for p := rgba.Pix; len(p) >= 4; p = p[4:] {
		if c := (color.RGBA{p[0], p[1], p[2], p[3]}); c != last {
			all[c], last = true, c
		}
	}
	return all
}

// themeColor is a color of the style sheet: 0 is the light theme, 1 the dark.
func themeColor(t *testing.T, theme int, name string) color.Color {
	t.Helper()
	all := regexp.MustCompile(`--`+name+`: #([0-9a-f]{2})([0-9a-f]{2})([0-9a-f]{2});`).FindAllStringSubmatch(report.Style, -1)
	var c [3]uint8
	for i := range c {
		testbed.Must(fmt.Sscanf(all[theme][i+1], "%02x", &c[i]))(t)
	}
	return color.RGBA{c[0], c[1], c[2], 255}
}

// TestReportInABrowser: at two widths, light and dark, the page itself does not
// overflow, and the keyboard alone reaches and opens everything.
func TestReportInABrowser(t *testing.T) {
	browser.Path(t)
	page := write(t, workday(t), redact(t))
	for _, view := range browser.Views() {
		t.Run(view.String(), func(t *testing.T) {
			p := browse(t, page, view.Wide, 1100, view.Dark)
			testbed.Expect(t, p.Eval("document.documentElement.scrollWidth <= innerWidth") == true, "it is %v wide", p.Eval("document.documentElement.scrollWidth"))
			ground := p.Eval("getComputedStyle(document.body).backgroundColor")
			testbed.Expect(t, ground == view.Ground(), "%v", ground)
			if *update && view.Wide == 1280 && !view.Dark {
				testbed.NoErr(t, os.WriteFile(filepath.Join("..", "docs", "report.png"), p.Shot(), 0o666))
			}
			p.Key("Tab")
			testbed.Expect(t, p.Eval("document.activeElement.className") == "skip", "first %v", p.Eval("document.activeElement.outerHTML"))
			p.Key("Enter")
			p.Wait("location.hash === '#main'")
			reached := map[string]bool{}
			for range 80 {
				p.Key("Tab")
				reached[fmt.Sprint(p.Eval("document.activeElement.className || document.activeElement.tagName"))] = true
				if p.Eval("document.activeElement.tagName === 'SUMMARY' && !document.activeElement.parentNode.open") == true {
					break
				}
			}
			p.Key("Enter")
			p.Wait("document.activeElement.tagName === 'SUMMARY' && document.activeElement.parentNode.open")
			testbed.Expect(t, reached["scroll"] && p.Console() == "", "%v %s", reached, p.Console())
		})
	}
}

// TestABrowserShowsThePage: a real browser draws it in both themes, has the
// elements that stand in the file, complains of nothing and asks for nothing
// more.
func TestABrowserShowsThePage(t *testing.T) {
	browser.Path(t)
	page := write(t, workday(t), redact(t))
	quiet := func(t *testing.T, v *visit) {
		t.Helper()
		testbed.Equal(t, v.Console(), "", "the browser complains")
		testbed.Equal(t, cmp.Diff([]string{"/page"}, v.requests()), "", "the page asked for more")
	}
	painted := func(t *testing.T, v *visit, theme int, names ...string) {
		t.Helper()
		colors := v.colors(t)
		for _, name := range names {
			testbed.Expect(t, colors[themeColor(t, theme, name)], "nothing has the color %s of theme %d", name, theme)
			testbed.Expect(t, !colors[themeColor(t, 1-theme, name)], "the color %s is of the other theme", name)
		}
	}
	t.Run("light", func(t *testing.T) {
		t.Parallel()
		v := browse(t, page, 1000, 4000, false)
		quiet(t, v)
		dom := fmt.Sprint(v.Eval("document.documentElement.outerHTML"))
		painted(t, v, 0, "ground", "panel", "s1", "s2", "s3", "s6")
		for _, part := range []string{`<svg class="chart"`, "<table", "<rect", "<details", "<ins", "<del", "<h2", "<h3", "<polyline", "<time", "<desc", "<caption"} {
			if want, got := strings.Count(page, part), strings.Count(dom, part); want == 0 || want != got {
				t.Errorf("%d of %s in the file, %d in the browser", want, part, got)
			}
		}
	})
	t.Run("dark and hostile", func(t *testing.T) {
		t.Parallel()
		text := strings.Join(append([]string{`</style><img src="SERVER/img"><link rel=stylesheet href="SERVER/css"><iframe src=SERVER/frame></iframe>`}, hostile[:10]...), " ")
		v := browse(t, write(t, full(text, same), same), 1000, 4000, true)
		quiet(t, v)
		dom := fmt.Sprint(v.Eval("document.documentElement.outerHTML"))
		painted(t, v, 1, "ground", "panel", "s2", "s5")
		for _, never := range []string{"<img", "<script", "<iframe", `<link rel="stylesheet`, `onload="`, `onerror="`, `onmouseover="`} {
			testbed.Expect(t, !strings.Contains(dom, never), "the browser made %s of a text", never)
		}
		testbed.Expect(t, strings.Contains(dom, "&lt;img src="), "the text is not shown")
	})
	t.Run("the test would see it", func(t *testing.T) {
		t.Parallel()
		v := browse(t, strings.NewReplacer("--ground: #ffffff", "--ground: #fffffe", "img-src data:", "img-src *", "</header>", `<img src="/pixel"/></header>`).Replace(page), 1000, 4000, false)
		testbed.Expect(t, slices.Contains(v.requests(), "/pixel"), "a picture was not asked for: %v", v.requests())
		testbed.Contains(t, v.Console(), "style")
	})
}
