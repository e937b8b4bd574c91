package mcpserver_test

import (
	"context"
	"flag"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/testbed/browser"
	"github.com/resilientwrite/resilientwrite/mcpserver"
)

var pictures = flag.Bool("pictures", false, "write the pictures in docs anew")

// aDay lets agents work in a store: changes, a refusal, and all that can wait.
func (b *board) aDay() {
	b.t.Helper()
	ctx := rw.WithGate(context.Background(), rw.GateOfAgents)
	b.write("src/checkout.go", "package shop\n\nfunc Checkout(c Cart) error {\n\treturn charge(c.Total())\n}\n")
	b.write("README.md", "# Shop\n")
	b.write("src/checkout.go", "package shop\n\nfunc Checkout(c Cart) error {\n\tif c.Empty() {\n\t\treturn errEmpty\n\t}\n\treturn charge(c.Total())\n}\n")
	if _, err := b.store.Delete(ctx, rw.DeleteRequest{Path: "README.md"}); err != nil {
		b.t.Fatal(err)
	}
	key := strings.Join([]string{"AKIA", "QZ7RTN4WMXJ2KVHD"}, "")
	if _, err := b.store.SafeWrite(ctx, rw.SafeWriteRequest{Path: "deploy/prod.env", Content: []byte("key=" + key + "\n")}); err == nil {
		b.t.Fatal("not refused")
	}
	if _, err := b.store.ChunkAppend(ctx, rw.ChunkAppendRequest{Session: "catalogue", Content: []byte("1")}); err != nil {
		b.t.Fatal(err)
	}
	if _, err := b.store.HandoffWrite(ctx, rw.HandoffWriteRequest{Envelope: rw.HandoffEnvelope{
		TaskID: "payments", Status: rw.HandoffBlocked, Agent: "coder", Summary: "s", OpenQuestions: []string{"Which currency?"}, NextSteps: []string{}, LastGoodState: []rw.HandoffFile{},
	}}); err != nil {
		b.t.Fatal(err)
	}
}

func (b *board) address() string { return "http://" + b.addr + "/#" + b.token }

// press tabs to the element that a selector finds, with the keyboard alone.
func press(p *browser.Page, selector string) {
	for range 80 {
		p.Key("Tab")
		if p.Eval(fmt.Sprintf("document.activeElement.matches(%q)", selector)) == true {
			p.Key("Enter")
			return
		}
	}
	p.Wait(fmt.Sprintf("document.activeElement.matches(%q)", selector))
}

// TestDashboardInABrowser: at two widths, light and dark, everything is there,
// nothing overflows, nothing is complained of; and with the keyboard alone a
// person opens a diff, thinks better of an undo, undoes, and sees it.
func TestDashboardInABrowser(t *testing.T) {
	browser.Path(t)
	for _, view := range []struct {
		wide, high int
		dark       bool
		ground     string
	}{{1280, 1000, false, "rgb(255, 255, 255)"}, {1280, 1000, true, "rgb(16, 21, 27)"}, {390, 1400, false, "rgb(255, 255, 255)"}, {390, 1400, true, "rgb(16, 21, 27)"}} {
		name := fmt.Sprintf("%d %v", view.wide, map[bool]string{false: "light", true: "dark"}[view.dark])
		t.Run(name, func(t *testing.T) {
			b := newBoard(t, mcpserver.HTTPOptions{})
			long := strings.Repeat("long-name-", 20) + ".txt"
			b.write(long, "x\n")
			b.aDay()
			row := b.write("src/checkout.go", "package shop\n")
			p := browser.Open(t, view.wide, view.high, view.dark)
			p.Go(b.address())
			p.Wait("document.querySelector('#changes li')")
			text := fmt.Sprint(p.Eval("document.body.innerText"))
			for _, want := range []string{"Live. ", "src/checkout.go", "gone", "a refused draft of deploy/prod.env", "risk_blocked", "what looks like a secret: api_key", "catalogue, chunks: 1", "Which currency?", long} {
				if !strings.Contains(text, want) {
					t.Errorf("no %q in %s", want, text)
				}
			}
			fits := "document.documentElement.scrollWidth <= innerWidth && [...document.querySelectorAll('li, pre, button, dialog[open]')].every(e => e.getBoundingClientRect().right <= innerWidth)"
			if p.Eval(fits) != true || p.Eval("getComputedStyle(document.body).backgroundColor") != view.ground {
				t.Errorf("it overflows, or %v", p.Eval("getComputedStyle(document.body).backgroundColor"))
			}
			press(p, `#changes li:first-child button[aria-expanded]`)
			p.Wait("[...document.querySelectorAll('#changes pre .cut')].some(e => e.textContent.includes('-func Checkout'))")
			if *pictures && view.dark == (view.wide == 390) {
				b.picture(p, fmt.Sprintf("dashboard-%d-%s.png", view.wide, map[bool]string{false: "light", true: "dark"}[view.dark]))
			}
			b.write("src/other.go", "package shop\n") // what comes in takes neither the focus nor the diff away
			p.Wait("document.querySelector('#changes li').innerText.includes('src/other.go')")
			if p.Eval("document.activeElement.matches('#changes li:nth-child(2) button[aria-expanded=true]') && !!document.querySelector('#changes li:nth-child(2) pre')") != true {
				t.Errorf("the focus is on %v", p.Eval("document.activeElement.outerHTML"))
			}
			undo := fmt.Sprintf(`button[aria-label^="Undo row %d,"]`, row)
			press(p, undo)
			p.Wait("document.querySelector('dialog[open] pre') && !document.getElementById('confirm-yes').disabled && document.activeElement.id === 'confirm-no'")
			if p.Eval(fits) != true {
				t.Error("the dialog overflows")
			}
			p.Key("Escape")
			p.Wait("!document.querySelector('dialog[open]')")
			b.holds("src/checkout.go", "package shop\n")
			if p.Eval(fmt.Sprintf("document.activeElement.matches(%q)", undo)) != true {
				t.Error("the focus does not come back")
			}
			p.Key("Enter")
			p.Wait("document.querySelector('dialog[open] pre') && !document.getElementById('confirm-yes').disabled")
			press(p, "#confirm-yes")
			p.Wait("!document.querySelector('dialog[open]') && document.querySelector('#changes').innerText.includes('undone')")
			if data, _ := os.ReadFile(filepath.Join(b.dir, "src/checkout.go")); !strings.Contains(string(data), "errEmpty") {
				t.Errorf("it is %q", data)
			}
			if said := p.Console(); said != "" {
				t.Errorf("the console: %s", said)
			}
		})
	}
}

// picture keeps what is seen, for docs.
func (b *board) picture(p *browser.Page, name string) {
	p.Eval("scrollTo(0, 0)")
	dir := filepath.Join("..", "docs", "pictures")
	if err := os.MkdirAll(dir, 0o777); err != nil {
		b.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name), p.Shot(), 0o666); err != nil {
		b.t.Fatal(err)
	}
}

// TestDashboardAttackedInABrowser: markup in names and contents stays text, the
// address without the token shows nothing, and a page of another origin can
// neither read, nor undo, nor frame it, even with the token.
func TestDashboardAttackedInABrowser(t *testing.T) {
	browser.Path(t)
	b := newBoard(t, mcpserver.HTTPOptions{})
	evil := `<img src=x onerror="document.title='owned'"><script>document.title='owned'<` + `/script>`
	name := strings.ReplaceAll(evil, "/", "\u2044")
	b.write(name, evil+"\n")
	row := b.write(name, evil+evil+"\n")
	p := browser.Open(t, 1280, 900, false)
	p.Go(b.address())
	p.Wait("document.querySelector('#changes li')")
	press(p, "#changes button[aria-expanded]")
	p.Wait("document.querySelector('#changes pre .add')")
	if p.Eval("document.title") != "resilient-write" || p.Eval("document.querySelectorAll('img, li script, iframe').length") != 0.0 || p.Console() != "" {
		t.Errorf("%v %s", p.Eval("document.title"), p.Console())
	}
	if got := p.Eval("document.querySelector('#changes pre .add').textContent"); got != "+"+evil+evil {
		t.Errorf("it shows %q", got)
	}
	if got := p.Eval(`(() => { try { document.body.innerHTML = "<b>x</b>"; return "taken" } catch (e) { return e.name } })()`); got != "TypeError" {
		t.Errorf("markup is %v", got)
	}
	for _, fragment := range []string{"", "#wrong-token-wrong-token"} {
		p.Go("about:blank")
		p.Go("http://" + b.addr + "/" + fragment)
		p.Wait("document.body?.innerText.includes('missing or wrong')")
		if text := fmt.Sprint(p.Eval("document.body.innerText")); strings.Contains(text, "onerror") {
			t.Errorf("%s", text)
		}
	}
	other := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		fmt.Fprintf(w, `<iframe id=f src="http://%s/"></iframe>`, b.addr)
	}))
	defer other.Close()
	p.Go(other.URL)
	p.Wait("document.getElementById('f')")
	for _, attack := range []string{
		`fetch("http://%[1]s/events", {headers: {Authorization: "Bearer %[2]s"}}).then(r => "read", e => e.name)`,
		`fetch("http://%[1]s/undo", {method: "POST", headers: {Authorization: "Bearer %[2]s", "Content-Type": "application/json"}, body: '{"row":%[3]d}'}).then(r => "done", e => e.name)`,
		`fetch("http://%[1]s/").then(r => "read", e => e.name)`,
	} {
		if got := p.Eval(fmt.Sprintf(attack, b.addr, b.token, row)); got != "TypeError" {
			t.Errorf("%s: %v", attack, got)
		}
	}
	p.Wait(`(() => { try { return document.getElementById("f").contentWindow.document === null } catch (e) { return true } })()`)
	b.holds(name, evil+evil+"\n")
}
