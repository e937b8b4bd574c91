// Package browser drives a headless Chromium for tests, over the pipe of its
// DevTools protocol.
package browser

import (
	"bufio"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// Path finds a browser, or skips the test; RW_BROWSER=1 makes that a failure.
func Path(t testing.TB) string {
	t.Helper()
	if testing.Short() {
		t.Skip("a browser takes seconds to start")
	}
	for _, name := range []string{"chromium", "chromium-browser", "google-chrome", "chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path
		}
	}
	testbed.Require(t, os.Getenv("RW_BROWSER") != "1", "no Chromium is installed, and RW_BROWSER=1 requires one")
	t.Skip("no Chromium is installed: the page was not loaded in a browser")
	return ""
}

// View is a width in pixels and a theme.
type View struct {
	Wide int
	Dark bool
}

// Views are those of a page: a wide one and a narrow one, light and dark. Without
// RW_BROWSER=1 each width has one theme.
func Views() []View {
	list := []View{{1280, false}, {390, true}}
	if os.Getenv("RW_BROWSER") == "1" {
		list = append(list, View{1280, true}, View{390, false})
	}
	return list
}

// String is the name of a view.
func (v View) String() string {
	return fmt.Sprintf("%d %s", v.Wide, map[bool]string{false: "light", true: "dark"}[v.Dark])
}

// Ground is the color of the background as a browser computes it.
func (v View) Ground() string {
	return map[bool]string{false: "rgb(255, 255, 255)", true: "rgb(16, 21, 27)"}[v.Dark]
}

// flags are those of every start: without a screen, a network of its own, or a
// profile that is left.
func flags(home string) []string {
	return []string{
		"--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--no-first-run", "--disable-background-networking",
		"--disable-component-update", "--disable-extensions", "--disable-sync", "--disable-quic", "--user-data-dir=" + home,
	}
}

// limit is how long one step may take.
const limit = time.Minute

// Page is a page of a browser of its own.
type Page struct {
	t       testing.TB
	to      *os.File
	session string

	mu      sync.Mutex
	last    int
	waiting map[int]chan reply
	said    []string // console messages and violations of the policy
}

type reply struct {
	ID     int             `json:"id"`
	Method string          `json:"method"`
	Params json.RawMessage `json:"params"`
	Result json.RawMessage `json:"result"`
	Error  *struct{ Message string }
}

// Open starts a browser with one empty page of a size, light or dark.
func Open(t testing.TB, wide, high int, dark bool) *Page {
	t.Helper()
	path := Path(t)
	if runtime.GOOS == "windows" {
		t.Skip("a process of this system takes no further descriptors")
	}
	home, err := os.MkdirTemp("", "browser")
	testbed.NoErr(t, err)
	toBrowser, to, err := os.Pipe()
	testbed.NoErr(t, err)
	from, fromBrowser, err := os.Pipe()
	testbed.NoErr(t, err)
	ctx, stop := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, path, append(flags(home), "--remote-debugging-pipe", "about:blank")...)
	cmd.Env = append(os.Environ(), "HOME="+home)
	cmd.ExtraFiles = []*os.File{toBrowser, fromBrowser} // its descriptors 3 and 4
	testbed.NoErr(t, cmd.Start())
	toBrowser.Close()
	fromBrowser.Close()
	p := &Page{t: t, to: to, waiting: map[int]chan reply{}}
	go p.read(from)
	t.Cleanup(func() {
		to.Close()
		stop()
		cmd.Wait()
		from.Close()
		os.RemoveAll(home)
	})
	var made struct{ TargetID, SessionID string }
	p.call("Target.createTarget", map[string]any{"url": "about:blank"}, &made)
	p.call("Target.attachToTarget", map[string]any{"targetId": made.TargetID, "flatten": true}, &made)
	p.session = made.SessionID
	for _, domain := range []string{"Page", "Runtime", "Log"} {
		p.call(domain+".enable", nil, nil)
	}
	p.call("Emulation.setDeviceMetricsOverride", map[string]any{"width": wide, "height": high, "deviceScaleFactor": 1, "mobile": false}, nil)
	scheme := "light"
	if dark {
		scheme = "dark"
	}
	p.call("Emulation.setEmulatedMedia", map[string]any{"features": []map[string]string{{"name": "prefers-color-scheme", "value": scheme}}}, nil)
	return p
}

func (p *Page) read(from *os.File) {
	r := bufio.NewReader(from)
	for {
		data, err := r.ReadBytes(0)
		if err != nil {
			return
		}
		var m reply
		if json.Unmarshal(data[:len(data)-1], &m) != nil {
			continue
		}
		p.mu.Lock()
		switch m.Method {
		case "Runtime.consoleAPICalled", "Runtime.exceptionThrown", "Log.entryAdded":
			p.said = append(p.said, string(m.Params))
		}
		c := p.waiting[m.ID]
		delete(p.waiting, m.ID)
		p.mu.Unlock()
		if c != nil {
			c <- m
		}
	}
}

// call calls the protocol.
func (p *Page) call(method string, params, result any) {
	p.t.Helper()
	if params == nil {
		params = map[string]any{}
	}
	p.mu.Lock()
	p.last++
	id, c := p.last, make(chan reply, 1)
	p.waiting[id] = c
	p.mu.Unlock()
	m := map[string]any{"id": id, "method": method, "params": params}
	if p.session != "" {
		m["sessionId"] = p.session
	}
	data, err := json.Marshal(m)
	if err == nil {
		_, err = p.to.Write(append(data, 0))
	}
	if err != nil {
		p.t.Fatalf("%s: %v", method, err)
	}
	select {
	case got := <-c:
		if got.Error != nil {
			p.t.Fatalf("%s: %s", method, got.Error.Message)
		}
		if result != nil {
			if err := json.Unmarshal(got.Result, result); err != nil {
				p.t.Fatalf("%s: %v", method, err)
			}
		}
	case <-time.After(limit):
		p.t.Fatalf("%s is not answered", method)
	}
}

// Go loads an address.
func (p *Page) Go(address string) {
	p.t.Helper()
	p.call("Page.navigate", map[string]any{"url": address}, nil)
}

// Eval evaluates an expression, and waits for its promise.
func (p *Page) Eval(expression string) any {
	p.t.Helper()
	var out struct {
		Result           struct{ Value any }
		ExceptionDetails *struct{ Text string }
	}
	p.call("Runtime.evaluate", map[string]any{"expression": expression, "awaitPromise": true, "returnByValue": true}, &out)
	if out.ExceptionDetails != nil {
		p.t.Fatalf("%s: %s", expression, out.ExceptionDetails.Text)
	}
	return out.Result.Value
}

// Wait waits until an expression is true.
func (p *Page) Wait(expression string) {
	p.t.Helper()
	late := time.Now().Add(limit)
	for p.Eval("!!("+expression+")") != true {
		if time.Now().After(late) {
			p.t.Fatalf("%s does not become true; the page says %v; the console %q", expression, p.Eval("document.body.innerText"), p.Console())
		}
		p.Eval("new Promise(next => setTimeout(next, 50))")
	}
}

// Key presses a key: Tab, Shift+Tab, Enter, Escape, Space.
func (p *Page) Key(name string) {
	p.t.Helper()
	codes := map[string]struct {
		code int
		text string
	}{"Tab": {9, ""}, "Enter": {13, "\r"}, "Escape": {27, ""}, "Space": {32, " "}}
	plain, shift := strings.CutPrefix(name, "Shift+")
	k, ok := codes[plain]
	if !ok {
		p.t.Fatal("no key ", name)
	}
	key := map[string]any{"key": plain, "code": plain, "windowsVirtualKeyCode": k.code, "text": k.text}
	if plain == "Space" {
		key["key"] = " "
	}
	if shift {
		key["modifiers"] = 8
	}
	for _, kind := range []string{"keyDown", "keyUp"} {
		key["type"] = kind
		p.call("Input.dispatchKeyEvent", key, nil)
	}
}

// Shot returns a screenshot of the visible page as PNG.
func (p *Page) Shot() []byte {
	p.t.Helper()
	var out struct{ Data string }
	p.call("Page.captureScreenshot", map[string]any{"format": "png"}, &out)
	data, err := base64.StdEncoding.DecodeString(out.Data)
	if err != nil {
		p.t.Fatal(err)
	}
	return data
}

// Console returns the complaints of the page.
func (p *Page) Console() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return fmt.Sprint(strings.Join(p.said, "\n"))
}
