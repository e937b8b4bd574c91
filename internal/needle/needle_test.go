package needle_test

import (
	"bytes"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"strconv"
	"strings"
	"testing"
	"testing/iotest"
	"time"
	"unicode/utf16"

	"github.com/resilientwrite/resilientwrite/internal/needle"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

func made(t testing.TB, secret string) *needle.Needle {
	t.Helper()
	n := testbed.Must(needle.New([]byte(secret)))(t, secret)
	return n
}

// secrets have what escapes, what is not ASCII, and what is not text.
var secrets = []string{
	"plain-secret-0123", `quo"te\back/slash<&>`, "two\nlines\tand\x01control", "naïve-密码-🔑-key", "\xff\xfe\x00binary\x80\x81",
}

// TestEveryFormIsFoundAndWrittenOver: wherever it is and however it is
// wrapped, nothing of a secret can be read afterwards, and nothing moves.
func TestEveryFormIsFoundAndWrittenOver(t *testing.T) {
	for _, secret := range secrets {
		n := made(t, secret)
		forms := map[string]string{
			"raw": secret, "hex": hex.EncodeToString([]byte(secret)), "query": url.QueryEscape(secret), "path": url.PathEscape(secret),
		}
		if json.Valid([]byte(`"`+strings.ToValidUTF8(secret, "")+`"`)) || !strings.Contains(secret, "\xff") {
			once, _ := json.Marshal(secret)
			twice, _ := json.Marshal(string(once))
			forms["json"], forms["json in json"] = string(once), string(twice)
			var plain bytes.Buffer
			enc := json.NewEncoder(&plain)
			enc.SetEscapeHTML(false)
			enc.Encode(secret)
			forms["json without html"] = plain.String()
			forms["json in ascii"] = asciiJSON(secret)
		}
		for shift := range 7 {
			wrapped := strings.Repeat("p", shift) + secret + "tail"
			forms[fmt.Sprint("base64 at ", shift)] = base64.StdEncoding.EncodeToString([]byte(wrapped))
			forms[fmt.Sprint("base64 url at ", shift)] = base64.URLEncoding.EncodeToString([]byte(wrapped))
		}
		for name, form := range forms {
			text := []byte("before " + form + " after " + form)
			out, changed := n.Mask(text)
			if !changed || len(out) != len(text) || n.Within(out) {
				t.Errorf("%q as %s: changed %v, %d bytes of %d, still there %v", secret, name, changed, len(out), len(text), n.Within(out))
			}
			testbed.Expect(t, bytes.HasPrefix(out, []byte("before ")) && bytes.Contains(out, []byte(" after ")),
				"%q as %s: the neighbours changed: %q", secret, name, out)
			found, err := n.In(iotest.OneByteReader(bytes.NewReader(text)))
			testbed.Expect(t, err == nil && found, "%q as %s: not found in a stream: %v", secret, name, err)
		}
		clean := []byte("nothing of it is here, not even " + secret[:len(secret)/2])
		out, changed := n.Mask(clean)
		testbed.Expect(t, !changed && bytes.Equal(out, clean), "%q: a text without it was changed", secret)
	}
}

// asciiJSON is a string as other languages write it by default.
func asciiJSON(s string) string {
	once, _ := json.Marshal(s)
	return inASCII(once)
}

// inASCII is a JSON text with escapes for what is not ASCII.
func inASCII(text []byte) string {
	var b strings.Builder
	for _, unit := range utf16.Encode([]rune(string(text))) {
		if unit < 0x80 {
			b.WriteByte(byte(unit))
		} else {
			fmt.Fprintf(&b, `\u%04x`, unit)
		}
	}
	return b.String()
}

// TestFoundAcrossBlocks: a match may lie across the blocks in which a stream
// is read.
func TestFoundAcrossBlocks(t *testing.T) {
	secret := "block-border-secret"
	n := made(t, secret)
	for _, at := range []int{0, 1, 256<<10 - 20, 256<<10 - 10, 256<<10 - 1, 256 << 10, 300_000, 512<<10 - 5} {
		text := bytes.Repeat([]byte("."), 600_000)
		copy(text[at:], secret)
		found, err := n.In(bytes.NewReader(text))
		testbed.Expect(t, err == nil && found, "at %d: %v %v", at, found, err)
		found, _ = n.In(bytes.NewReader(append(text[:at:at], text[at+1:]...)))
		testbed.Expect(t, !found, "at %d: found what is not there", at)
	}
	testbed.Fails(n.In(iotest.ErrReader(io.ErrClosedPipe)))(t, io.ErrClosedPipe)
}

// TestJSONStaysWhatItWas: only the insides of strings change, escapes are
// written over whole, and the text is as long as before.
func TestJSONStaysWhatItWas(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 5))
	for _, secret := range secrets[:4] {
		n := made(t, secret)
		for range 300 {
			doc := map[string]any{"seq": rng.IntN(1 << 30), "list": []any{true, nil, 1.5}, "key " + fmt.Sprint(rng.IntN(9)): "v"}
			for i := range rng.IntN(4) + 1 {
				doc[fmt.Sprint("f", i)] = strings.Repeat("é\n\\", rng.IntN(3)) + secret[:rng.IntN(len(secret))] + secret + strings.Repeat(`"`, rng.IntN(3))
			}
			text, _ := json.Marshal(doc)
			if rng.IntN(2) == 0 {
				text = []byte(inASCII(text))
			}
			out, changed, err := n.MaskJSON(text, func(f string) bool { return f == "seq" })
			testbed.Require(t, err == nil && changed && len(out) == len(text),
				"%q: %v, changed %v, %d of %d bytes\n%s", secret, err, changed, len(out), len(text), text)
			var back map[string]any
			err = json.Unmarshal(out, &back)
			testbed.Require(t, err == nil, "%q: %v\n%s\n%s", secret, err, text, out)
			for k, v := range back {
				if s, ok := v.(string); ok && (strings.Contains(s, secret) || n.Within([]byte(s))) {
					t.Fatalf("%q: still in %s: %q", secret, k, s)
				}
				_, ok := doc[k]
				testbed.Require(t, ok, "%q: the field %q is new", secret, k)
			}
		}
	}
}

// TestStructureIsRefused: a match that is more than the inside of a free text
// is an error, and nothing is changed.
func TestStructureIsRefused(t *testing.T) {
	line := []byte(`{"seq":12345678,"kind":"commit","chain":"0123456789abcdef","caller":"somebody-else"}`)
	fixed := func(f string) bool { return f == "kind" || f == "chain" }
	for _, secret := range []string{`"kind":"commit"`, `456789abcd`, `12345678`, `":"commit","chain`, `mmit","chain":"0123`} {
		n := testbed.Must(needle.New([]byte(secret)))(t)
		_, _, err := n.MaskJSON(line, fixed)
		testbed.Expect(t, errors.Is(err, needle.ErrStructure), "%q: %v", secret, err)
	}
	out, changed, err := made(t, "somebody-else").MaskJSON(line, fixed)
	testbed.Expect(t, err == nil && changed && bytes.HasPrefix(out, line[:bytes.Index(line, []byte("somebody"))]) && json.Valid(out),
		"%v %v %s", err, changed, out)
	// Where everything may change, names and numbers do too.
	doc := []byte(`{"secret-name-1":9876543210,"x":[-9876543210.5e3]}`)
	for _, secret := range []string{"secret-name-1", "9876543210"} {
		out, changed, err := made(t, secret).MaskJSON(doc, nil)
		testbed.Expect(t, err == nil && changed && json.Valid(out) && !bytes.Contains(out, []byte(secret)) && len(out) == len(doc),
			"%s: %v %v %s", secret, err, changed, out)
	}
}

// TestShortSecretsAreRefused: they would match by chance.
func TestShortSecretsAreRefused(t *testing.T) {
	for _, s := range []string{"", "1234567", "        ", strings.Repeat("ab", 40), "ERASED_ERASED_", "SED_ERASED_ER", "\x00\x00\x00\x00\x00\x00\x00\x00\x00"} {
		testbed.Fails(needle.New([]byte(s)))(t, needle.ErrShort, s)
	}
}

// FuzzMaskJSON: whatever the text and the secret, valid JSON stays valid, no
// byte moves, and no error leaves a secret.
func FuzzMaskJSON(f *testing.F) {
	for _, s := range secrets {
		text, _ := json.Marshal(map[string]any{"a": s, s: []string{"x" + s}})
		f.Add(text, []byte(s))
	}
	f.Fuzz(func(t *testing.T, text, secret []byte) {
		n, err := needle.New(secret)
		if err != nil || !json.Valid(text) {
			return
		}
		for _, fixed := range []func(string) bool{nil, func(f string) bool { return f == "a" }} {
			out, changed, err := n.MaskJSON(text, fixed)
			if err != nil {
				continue
			}
			testbed.Require(t, len(out) == len(text) && json.Valid(out) && !n.Within(out) && changed != bytes.Equal(out, text),
				"%q in %q became %q (changed %v)", secret, text, out, changed)
		}
	})
}

// FuzzLinear: making a needle of a text, and finding and overwriting one in a
// text, as text, as JSON and as a stream, takes work in proportion to their
// length.
func FuzzLinear(f *testing.F) {
	seeds := []string{"k3y-Sample", "k3y-Sample9", `"k3y-Sample9",`, `"k#":"\u006b3y-Sample9",`, `\\k3y-Sample9`, "azN5LVNhbXBsZTk=", "k3y-Sample", "\\\\", `"\`, "k3y-Samplk3y-Sample9"}
	n, err := needle.New([]byte("k3y-Sample9"))
	testbed.NoErr(f, err)
	testbed.FuzzLinear(f, 16<<10, 2*time.Microsecond, seeds, func(text []byte) int {
		spans := len(n.Find(text))
		n.Mask(text)
		n.In(bytes.NewReader(text))
		for _, doc := range []string{strconv.Quote(string(text)), "[" + string(text) + "0]", "{" + string(text) + `"z":1}`} {
			n.MaskJSON([]byte(doc), nil)
			n.MaskJSON([]byte(doc), func(field string) bool { return field == "a" })
		}
		if own, err := needle.New(text); err == nil {
			own.Within(text)
		}
		return spans
	})
}

// TestJSONThatWasCutOff: of a text that ends anywhere, what was there of the secret is
// overwritten, too.
func TestJSONThatWasCutOff(t *testing.T) {
	n := made(t, "somebody-else")
	doc := []byte(`{"a":"x\"y","b\\":["somebody-else",1.5e3],"c":"somebody-else"}`)
	for end := range len(doc) + 1 {
		out, _, err := n.MaskJSON(doc[:end], nil)
		testbed.Expect(t, err == nil && len(out) == end && !n.Within(out), "%s: %s %v", doc[:end], out, err)
	}
}
