package report_test

import (
	"bytes"
	"context"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	_ "image/png"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
	"github.com/resilientwrite/resilientwrite/internal/testbed/browser"
	"github.com/resilientwrite/resilientwrite/report"
)

// visit is what a browser made of a page.
type visit struct {
	dom     string
	console []string             // what the page complained of
	colors  map[color.Color]bool // of its picture
	asked   []string             // what was asked of the server
}

var complaint = regexp.MustCompile(`:CONSOLE[:(].*`)

// browse serves a page to a browser that has seen nothing before.
func browse(t *testing.T, page string, flags ...string) visit {
	t.Helper()
	var v visit
	var mu sync.Mutex
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		v.asked = append(v.asked, r.URL.Path)
		if r.URL.Path == "/page" {
			w.Header().Set("Content-Type", "text/html; charset=utf-8")
			fmt.Fprint(w, strings.ReplaceAll(page, "SERVER", "http://"+r.Host))
		}
	}))
	defer server.Close()
	home, err := os.MkdirTemp("", "browser")
	testbed.NoErr(t, err)
	defer os.RemoveAll(home) // a helper of the browser may still write there
	ctx, stop := context.WithTimeout(context.Background(), 2*time.Minute)
	defer stop()
	shot := filepath.Join(home, "shot.png")
	args := append(browser.Flags(home), "--window-size=1000,4000", "--enable-logging=stderr", "--dump-dom", "--screenshot="+shot)
	args = append(args, flags...)
	cmd := exec.CommandContext(ctx, browser.Path(t), append(args, server.URL+"/page")...)
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr, cmd.WaitDelay = &out, &errs, 5*time.Second
	cmd.Env = append(os.Environ(), "HOME="+home)
	err = cmd.Run()
	testbed.Require(t, err == nil || out.Len() != 0, "the browser: %v\n%s", err, errs.Bytes())
	f, err := os.Open(shot)
	testbed.Require(t, err == nil, "no picture: %v\n%s", err, errs.Bytes())
	defer f.Close()
	picture, _, err := image.Decode(f)
	testbed.NoErr(t, err)
	v.colors = colorsOf(picture)
	mu.Lock()
	defer mu.Unlock()
	v.dom, v.console, v.asked = out.String(), complaint.FindAllString(errs.String(), -1), slices.Clone(v.asked)
	return v
}

// colorsOf returns the colors of a picture.
func colorsOf(m image.Image) map[color.Color]bool {
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
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		fmt.Fprint(w, page)
	}))
	defer server.Close()
	for _, view := range browser.Views() {
		t.Run(view.String(), func(t *testing.T) {
			p := browser.Open(t, view.Wide, 1100, view.Dark)
			p.Go(server.URL)
			p.Wait("document.querySelector('#rows')")
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
	quiet := func(t *testing.T, v visit) {
		t.Helper()
		testbed.Expect(t, len(v.console) == 0, "the browser complains: %q", v.console)
		testbed.Equal(t, cmp.Diff([]string{"/page"}, v.asked), "", "the page asked for more")
	}
	painted := func(t *testing.T, v visit, theme int, names ...string) {
		t.Helper()
		for _, name := range names {
			testbed.Expect(t, v.colors[themeColor(t, theme, name)], "nothing has the color %s of theme %d", name, theme)
			testbed.Expect(t, !v.colors[themeColor(t, 1-theme, name)], "the color %s is of the other theme", name)
		}
	}
	t.Run("light", func(t *testing.T) {
		t.Parallel()
		v := browse(t, page)
		quiet(t, v)
		painted(t, v, 0, "ground", "panel", "s1", "s2", "s3", "s6")
		for _, part := range []string{`<svg class="chart"`, "<table", "<rect", "<details", "<ins", "<del", "<h2", "<h3", "<polyline", "<time", "<desc", "<caption"} {
			if want, got := strings.Count(page, part), strings.Count(v.dom, part); want == 0 || want != got {
				t.Errorf("%d of %s in the file, %d in the browser", want, part, got)
			}
		}
	})
	t.Run("dark and hostile", func(t *testing.T) {
		t.Parallel()
		text := strings.Join(append([]string{`</style><img src="SERVER/img"><link rel=stylesheet href="SERVER/css"><iframe src=SERVER/frame></iframe>`}, hostile[:10]...), " ")
		v := browse(t, write(t, full(text, same), same), "--force-dark-mode")
		quiet(t, v)
		painted(t, v, 1, "ground", "panel", "s2", "s5")
		for _, never := range []string{"<img", "<script", "<iframe", `<link rel="stylesheet`, `onload="`, `onerror="`, `onmouseover="`} {
			testbed.Expect(t, !strings.Contains(v.dom, never), "the browser made %s of a text", never)
		}
		testbed.Expect(t, strings.Contains(v.dom, "&lt;img src="), "the text is not shown")
	})
	t.Run("the test would see it", func(t *testing.T) {
		t.Parallel()
		v := browse(t, strings.NewReplacer("--ground: #ffffff", "--ground: #fffffe", "img-src data:", "img-src *", "</header>", `<img src="/pixel"/></header>`).Replace(page))
		testbed.Expect(t, slices.Contains(v.asked, "/pixel"), "a picture was not asked for: %v", v.asked)
		testbed.Expect(t, slices.ContainsFunc(v.console, func(s string) bool { return strings.Contains(s, "style") }),
			"a style that the policy does not know is taken: %q", v.console)
	})
}
