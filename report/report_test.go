package report_test

import (
	"crypto/sha512"
	"encoding/base64"
	"encoding/xml"
	"errors"
	"flag"
	"fmt"
	"io"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/resilientwrite/resilientwrite/analytics"
	"github.com/resilientwrite/resilientwrite/call"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
	"github.com/resilientwrite/resilientwrite/report"
)

// hostile are texts that try to be more than text.
var hostile = []string{
	`</script><img src=x onerror=alert(1)>`,
	`</style><script>alert(1)</script>`,
	`</title></desc></svg><svg onload=alert(1)>`,
	`"><a href="javascript:alert(1)">x</a>`,
	`' onmouseover='alert(1)' x='`,
	"` onload=alert(1) `",
	`{{.Title}}{{define "text"}}x{{end}}((policy))((style))`,
	`]]>--><!--<![CDATA[`,
	`&lt;b&gt;&#x3c;script&#x3e;&colon;`,
	`javascript:alert(1)//`,
	"a\u202egpj.exe\u2066\u200b\u200f\ufeff",
	"nul\x00 esc\x1b[31m bell\x07 del\x7f c1\u009b",
	"line\nline\r\nline\u2028line\u2029\ttab",
	"bad\xff\xfe\xc3\x28\xed\xa0\x80\xf8",
	"z" + strings.Repeat("\u0301", 50) + "\uffff\U0010ffff\U000e0041\ue000",
	strings.Repeat("very/long/name/", 280),
	strings.Repeat("\u202e.", 3000),
	"10000-01-01T00:00:00Z",
	"0000-00-00T00:00:00Z",
	"-9223372036854775808",
}

// everywhere puts a text into every field of an input, also those that a later
// version adds.
func everywhere(v reflect.Value, text string) {
	switch v.Kind() {
	case reflect.String:
		v.SetString(text)
	case reflect.Int, reflect.Int64:
		v.SetInt(3)
	case reflect.Uint64:
		v.SetUint(3)
	case reflect.Float64:
		v.SetFloat(1.5)
	case reflect.Bool:
		v.SetBool(true)
	case reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), 2, 2))
		for i := range 2 {
			everywhere(v.Index(i), text)
		}
	case reflect.Map:
		one := reflect.New(v.Type().Elem()).Elem()
		everywhere(one, text)
		v.Set(reflect.MakeMap(v.Type()))
		v.SetMapIndex(reflect.ValueOf(text), one)
	case reflect.Pointer:
		if v.Type() == reflect.TypeFor[*report.Activity]() {
			return
		}
		v.Set(reflect.New(v.Type().Elem()))
		everywhere(v.Elem(), text)
	case reflect.Struct:
		if v.Type() == reflect.TypeFor[time.Time]() {
			v.Set(reflect.ValueOf(made))
			return
		}
		if v.Type() == reflect.TypeFor[call.Timestamp]() {
			v.Set(reflect.ValueOf(at(text)))
			return
		}
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				everywhere(v.Field(i), text)
			}
		}
	default:
		panic("no text for " + v.Type().String())
	}
}

// full is an input in which one text is everywhere a text can be.
func full(text string, clean func(string) string) *report.Input {
	in := &report.Input{}
	everywhere(reflect.ValueOf(in).Elem(), text)
	in.Activity = report.NewActivity(time.Time{}, 100, clean)
	for i, kind := range []string{"commit", "conflict", "abort", "commit"} {
		in.Activity.Add(report.Row{
			ID: text, Seq: uint64(1 + i), TS: fmt.Sprintf("2026-03-14T1%d:00:00Z", 2*i), Kind: kind, Op: text, Path: text, Caller: text, Session: text,
			Reason: text, AcceptRisk: text, Bytes: 7, Ref: 99,
		})
	}
	c := report.NewComparer(clean)
	body := strings.ReplaceAll(text, "\x00", "\x01") // or it is no text
	d := c.Compare(c.Text([]byte("old\n"+body+"\n"+body)), c.Text([]byte("new\n"+body+" changed\n")))
	for i := range in.Files {
		in.Files[i].Versions[0].Diff = d
		in.Files[i].Now.Gone = false
		in.Files[i].Now.Diff = d
	}
	in.Check.Skipped = "" // or there are no problems
	return in
}

var elements = strings.Fields(`html head meta title link style body a header h1 h2 h3 p nav ul li main dl div dt dd small section
	figure figcaption svg desc line text g rect polyline path table caption thead tbody tr th td bdi span time article details summary
	strong code pre b ins del`)

var attributes = strings.Fields(`lang charset http-equiv content name rel href class id aria-label aria-labelledby aria-hidden role
	tabindex scope datetime open viewBox preserveAspectRatio width height x y x1 x2 y1 y2 dy d points text-anchor`)

// outline reads the page strictly, as XML, and returns its elements in order.
// Those that name characters are left out: how many there are depends on the
// text.
func outline(t testing.TB, doc string) []string {
	t.Helper()
	dec := xml.NewDecoder(strings.NewReader(doc))
	var list []string
	named := 0
	for {
		token, err := dec.Token()
		if errors.Is(err, io.EOF) {
			return list
		}
		testbed.NoErr(t, err, "the page is not well-formed")
		switch e := token.(type) {
		case xml.StartElement:
			testbed.Expect(t, slices.Contains(elements, e.Name.Local), "an element %s", e.Name.Local)
			for _, a := range e.Attr {
				switch {
				case !slices.Contains(attributes, a.Name.Local):
					t.Errorf("an attribute %s of %s", a.Name.Local, e.Name.Local)
				case a.Name.Local == "href" && a.Value[0] != '#' && a.Value != "data:,":
					t.Errorf("a link to %q", a.Value)
				}
			}
			if named > 0 || e.Name.Local == "span" && len(e.Attr) == 1 && e.Attr[0].Value == "c" {
				named++
				continue
			}
			list = append(list, e.Name.Local)
		case xml.EndElement:
			named = max(0, named-1)
		case xml.Comment, xml.ProcInst:
			t.Errorf("a %T in the page", token)
		}
	}
}

// TestNoTextActsOnThePage: whatever a path, a caller, a reason or the content
// of a file holds, the page has the elements that it has for plain words, and
// no character in it turns the direction of writing or is unseen.
func TestNoTextActsOnThePage(t *testing.T) {
	plain := outline(t, write(t, full("harmless", same), same))
	for _, want := range []string{"svg", "polyline", "ins", "del", "details", "time"} {
		testbed.Require(t, slices.Contains(plain, want), "the harmless page has no %s", want)
	}
	for _, text := range hostile {
		t.Run(fmt.Sprintf("%.20q", text), func(t *testing.T) {
			page := write(t, full(text, same), same)
			got, want := outline(t, page), plain
			if strings.Contains(text, "\n") { // more lines of the diff, and nothing else
				drop := func(list []string) []string {
					return slices.DeleteFunc(slices.Clone(list), func(s string) bool { return s == "ins" || s == "del" || s == "bdi" || s == "span" })
				}
				got, want = drop(got), drop(want)
			}
			testbed.Equal(t, cmp.Diff(want, got), "", "the text changed the page")
			testbed.Expect(t, utf8.ValidString(page), "the page is not UTF-8")
			for i, r := range page {
				testbed.Require(t, unicode.IsPrint(r) || r == '\n' || r == '\t', "%U at %d: %q", r, i, page[max(0, i-40):i])
			}
		})
	}
}

// TestHostileTextIsStillShown: what must not act can still be read.
func TestHostileTextIsStillShown(t *testing.T) {
	for text, want := range map[string]string{
		`</script><img src=x onerror=alert(1)>`: `<bdi>&lt;/script&gt;&lt;img src=x onerror=alert(1)&gt;</bdi>`,
		"a\u202egpj.exe":                        `<bdi>a<span class="c">⟨U&#43;202E⟩</span>gpj.exe</bdi>`,
		"a\xffb":                                `<bdi>a<span class="c">⟨0xFF⟩</span>b</bdi>`,
		"a\x00\x1bb":                            `<bdi>a<span class="c">⟨U&#43;0000⟩⟨U&#43;001B⟩</span>b</bdi>`,
		"a⟨U+202E⟩b":                            `<bdi>a⟨U&#43;202E⟩b</bdi>`, // not named, and looks so
		"日本\u3000שלום é":                        "<bdi>日本\u3000שלום é</bdi>",
		"e\u0301\u0301\u0301f\u0301":            "<bdi>e\u0301\u0301<span class=\"c\">⟨U&#43;0301⟩</span>f\u0301</bdi>",
		"a\u3164b\u2800c\ufe0f":                 `<bdi>a<span class="c">⟨U&#43;3164⟩</span>b<span class="c">⟨U&#43;2800⟩</span>c<span class="c">⟨U&#43;FE0F⟩</span></bdi>`,
	} {
		testbed.Expect(t, strings.Contains(write(t, full(text, same), same), want), "%q is not in the page as %s", text, want)
	}
}

// TestNoSecretIsInTheReport: a secret does not reach the page from any field,
// wherever a long text is cut, nor through a diff that shows only its middle.
func TestNoSecretIsInTheReport(t *testing.T) {
	clean := redact(t)
	check := func(what string, in *report.Input, secrets ...string) {
		t.Helper()
		page := write(t, in, clean)
		for _, s := range secrets {
			testbed.Expect(t, !strings.Contains(page, s), "%s: %.12s… is in the page", what, s)
		}
	}
	check("a field", full("key "+vendorKey+" end", clean), vendorKey[4:12], vendorKey[8:])
	testbed.Expect(t, strings.Contains(write(t, full("key "+vendorKey+" end", clean), clean), "key {AWS-ACCESS-KEY-ID-REDACTED} end"),
		"what was redacted is not reported")
	for _, before := range []int{60, 70, 75, 140, 240, 250, 490, 500, 505, 700} {
		long := strings.Repeat("x/", before/2) + vendorKey + strings.Repeat("/y", 400)
		check(fmt.Sprintf("%d bytes before", before), full(long, clean), vendorKey[4:12], vendorKey[12:])
	}
	longKey := "github_pat_" + strings.Repeat(vendorKey[4:], 6)[:82]
	for after := 20; after < 120; after += 10 {
		long := strings.Repeat("x/", 300) + longKey + strings.Repeat("/", after)
		check(fmt.Sprintf("%d bytes after", after), full(long, clean), longKey[60:70], longKey[len(longKey)-10:])
	}
	var body []string
	for i := range 40 {
		sum := sha512.Sum512([]byte{byte(i)})
		body = append(body, base64.StdEncoding.EncodeToString(sum[:48]))
	}
	pem := func(lines []string) string {
		return "first\n-----BEGIN RSA PRIV" + "ATE KEY-----\n" + strings.Join(lines, "\n") + "\n-----END RSA PRIV" + "ATE KEY-----\nlast\n"
	}
	changed := slices.Clone(body)
	sum := sha512.Sum512([]byte("another"))
	changed[20] = base64.StdEncoding.EncodeToString(sum[:48])
	c := report.NewComparer(clean)
	d := c.Compare(c.Text([]byte(pem(body))), c.Text([]byte(pem(changed))))
	in := workday(t)
	in.Files[0].Versions[0].Diff = d
	check("the middle of a key", in, body[20], changed[20], body[18], changed[20][:20])
	testbed.Expect(t, strings.Contains(d.Why, "redacted"), "a change within a secret is shown as %+v", d)
}

// TestThePageAsksForNothing: no script, no address, and a policy that matches
// the style that is in the page.
func TestThePageAsksForNothing(t *testing.T) {
	page := write(t, workday(t), redact(t))
	for _, never := range []string{"<script", "http://", "https://", "url(", "@import", "src=", "javascript", "style="} {
		testbed.Expect(t, !strings.Contains(page, never), "the page holds %s", never)
	}
	_, rest, _ := strings.Cut(page, "<style>")
	style, _, _ := strings.Cut(rest, "</style>")
	testbed.Expect(t, style != "" && strings.Contains(page, `content="`+report.PolicyFor(style)+`"`), "the policy does not name the style of the page")
}

// TestEmptyStates: a store without rows and one that only refused have a page
// that says so.
func TestEmptyStates(t *testing.T) {
	page := write(t, &report.Input{Made: made}, same)
	outline(t, page)
	testbed.Contains(t, page, "No rows.", "Nothing was written in this time.", "No file was written.", "There was no session.", "No call was refused.", "There is no file to show versions of.", "The journal has no rows.", "found nothing wrong")
	testbed.Expect(t, !strings.Contains(page, `class="chart"`) && !strings.Contains(page, "NaN") && !strings.Contains(page, "Inf"),
		"the empty page draws a chart, or what is no number")
	refusals := analytics.Refusals{Total: 2, ByReason: map[string]int{"risk_blocked": 2}, ByOp: map[string]int{"create": 2}, ByCaller: map[string]int{"coder": 2}}
	in := &report.Input{Made: made, Usage: analytics.Result{Refusals: refusals}, Refused: report.Refused{
		Recent: []report.Row{{Seq: 1, TS: "2026-03-14T10:00:00Z", Kind: "refused", Op: "create", Path: "a.env", Caller: "coder", Reason: "risk_blocked"}, {Seq: 2, TS: "no time", Kind: "refused"}},
	}}
	page = write(t, in, same)
	outline(t, page)
	testbed.Contains(t, page, "1 refused call<", "risk_blocked", "No file was written.", `class="chart"`)
	testbed.Expect(t, !strings.Contains(page, "NaN") && !strings.Contains(page, "Inf"), "the page of refusals draws what is no number")
	in.Refused.Recent, in.Refused.From = nil, 5001
	if page = write(t, in, same); !strings.Contains(page, "begin at row 5,001; the counts are of all rows.") {
		t.Error("refusals that were not looked at in time are not reported")
	}
}

// TestWhatPeopleAskComesFirst: the answers stand before every figure, and a page
// without them has no empty ones.
func TestWhatPeopleAskComesFirst(t *testing.T) {
	page := write(t, workday(t), redact(t))
	at := 0
	for _, want := range []string{
		"The policy file policy.yaml is invalid", "What did the agents change?", "web/app.css and 3 more", "resilient-write undo --row ", ">undone<", "What was refused, and why?", "looks like a secret: api_key",
		"What waits for you?", "which currency?", "resilient-write handoff read", "How is it undone?", `class="tiles"`,
	} {
		next := strings.Index(page[at:], want)
		testbed.Require(t, next >= 0, "%q is not where it should be", want)
		at += next
	}
	page = write(t, &report.Input{Made: made, Overview: &report.Overview{}}, same)
	testbed.Contains(t, page, "No file was changed.", "No call was refused.", "Nothing.")
	if page = write(t, &report.Input{Made: made}, same); strings.Contains(page, "At a glance") {
		t.Error("answers to nothing")
	}
}

// TestAFileThatIsGoneHasNoSize in any table: one that a row removed, one that
// something else removed, and a call that was refused.
func TestAFileThatIsGoneHasNoSize(t *testing.T) {
	in := &report.Input{Made: made, Activity: report.NewActivity(time.Time{}, 10, same), Files: []report.File{{Path: "taken", Now: &report.Now{Gone: true}}}}
	for i, r := range []report.Row{
		{Kind: "commit", Op: "create", Path: "deleted", Bytes: 7}, {Kind: "commit", Op: "delete", Path: "deleted", Gone: true},
		{Kind: "commit", Op: "create", Path: "taken", Bytes: 7}, {Kind: "commit", Op: "create", Path: "empty"}, {Kind: "refused", Op: "create", Path: "never"},
	} {
		r.Seq, r.TS = uint64(i+1), fmt.Sprintf("2026-03-14T10:0%d:00Z", i)
		in.Activity.Add(r)
		in.Newest = append(in.Newest, r)
	}
	page := write(t, in, same)
	table := func(id string) string {
		_, rest, _ := strings.Cut(page, `<table id="`+id+`">`)
		text, _, _ := strings.Cut(rest, "</table>")
		return text
	}
	hot := table("hot-paths")
	testbed.Expect(t, strings.Count(hot, ">gone<") == 2 && strings.Count(hot, ">0 B<") == 1, "%s", hot)
	testbed.Contains(t, page, "The file is not on disk: another program removed it.")
	rows := table("newest")
	testbed.Expect(t, strings.Count(rows, ">gone<") == 1 && strings.Count(rows, ">0 B<") == 1, "%s", rows)
}

// TestNoRateOfAMoment: what happened within a minute has no rate; what took
// longer has one.
func TestNoRateOfAMoment(t *testing.T) {
	for last, rate := range map[string]bool{"2026-03-14T10:00:01Z": false, "2026-03-14T10:00:59Z": false, "2026-03-14T10:01:00Z": true} {
		in := &report.Input{Made: made, Activity: report.NewActivity(time.Time{}, 10, same), Usage: analytics.Result{
			TotalWrites: 2, WriteVelocity: analytics.Velocity{WritesPerMinute: 120, PeakMinute: analytics.Minute{Minute: "2026-03-14T10:00Z", Writes: 2}}, Period: period("2026-03-14T10:00:00Z", last),
		}}
		in.Activity.Add(commit(1, "2026-03-14T10:00:00Z", "f"))
		in.Activity.Add(commit(2, last, "f"))
		page := write(t, in, same)
		testbed.Expect(t, strings.Contains(page, "<dd>120<") == rate && strings.Contains(page, "all within a minute") != rate && strings.Contains(page, `id="rate"`) == rate,
			"until %s: %v", last, rate)
	}
}

// TestWriteLeavesTheInputAsItWas: one input can be written twice, also from a
// nil Activity.
func TestWriteLeavesTheInputAsItWas(t *testing.T) {
	in := &report.Input{Made: made, Newest: []report.Row{{Seq: 1}, {Seq: 2}}}
	write(t, in, same)
	testbed.Expect(t, in.Activity == nil && in.Newest[0].Seq == 1, "the input was changed")
	want := errors.New("the disk is full")
	testbed.Fails(report.Write(failing{want}, in, same))(t, want, "the error of the writer is lost")
}

type failing struct{ err error }

func (f failing) Write([]byte) (int, error) { return 0, f.err }

var update = flag.Bool("update", false, "write the golden pages again")

// TestThePageIsTheSameEveryTime: the page of a fixed input is known byte for
// byte, so that a change of it shows in review.
func TestThePageIsTheSameEveryTime(t *testing.T) {
	got := write(t, workday(t), redact(t))
	testbed.Equal(t, write(t, workday(t), redact(t)), got, "the same input gave two pages")
	name := filepath.Join("testdata", "workday.html")
	if *update {
		testbed.NoErr(t, os.MkdirAll("testdata", 0o777))
		testbed.NoErr(t, os.WriteFile(name, []byte(got), 0o666))
	}
	want := testbed.Must(os.ReadFile(name))(t)
	testbed.Equal(t, cmp.Diff(string(want), got), "", "the page changed; see it, then go test -update")
}

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

func TestMain(m *testing.M) { testbed.Main(m) }
