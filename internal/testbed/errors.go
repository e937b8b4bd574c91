package testbed

import (
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
)

// NoErr ends the test if err is not nil. What is in front of the message.
func NoErr(t testing.TB, err error, what ...any) {
	if err != nil {
		t.Helper()
		t.Fatalf("%s%v (%v)", prefix(what), err, errors.Unwrap(err))
	}
}

// IsErr reports a failure if err is not the expected error.
func IsErr(t testing.TB, err, want error, what ...any) {
	if !errors.Is(err, want) {
		t.Helper()
		t.Errorf("%s%v (%v), want %v", prefix(what), err, errors.Unwrap(err), want)
	}
}

// Must is for calls that return a value: the test that is passed to its result ends
// if err is not nil.
//
//	r := testbed.Must(s.Read(ctx, req))(t)
func Must[T any](v T, err error) func(t testing.TB, what ...any) T {
	return func(t testing.TB, what ...any) T {
		t.Helper()
		NoErr(t, err, what...)
		return v
	}
}

// Fails is for calls that return a value and are expected to fail.
//
//	testbed.Fails(s.Read(ctx, req))(t, rw.ErrNotFound)
func Fails[T any](_ T, err error) func(t testing.TB, want error, what ...any) {
	return func(t testing.TB, want error, what ...any) {
		t.Helper()
		IsErr(t, err, want, what...)
	}
}

// Equal reports a failure if got is not want.
func Equal[T comparable](t testing.TB, got, want T, what ...any) {
	if got != want {
		t.Helper()
		t.Error(difference(got, want, what))
	}
}

// MustEqual ends the test if got is not want.
func MustEqual[T comparable](t testing.TB, got, want T, what ...any) {
	if got != want {
		t.Helper()
		t.Fatal(difference(got, want, what))
	}
}

// Contains reports each of the parts that a text does not contain.
func Contains(t testing.TB, text string, parts ...string) {
	t.Helper()
	for _, part := range parts {
		Expect(t, strings.Contains(text, part), "no %q in %s", part, text)
	}
}

// Decoded returns what a JSON text holds; the test ends if it is none.
func Decoded[T any](t testing.TB, text []byte, what ...any) (v T) {
	t.Helper()
	NoErr(t, json.Unmarshal(text, &v), what...)
	return v
}

// Holds reports a failure if a file does not hold a text.
func Holds(t testing.TB, file, want string, what ...any) {
	t.Helper()
	data, err := os.ReadFile(file)
	Expect(t, err == nil, "%s%v", prefix(what), err)
	Equal(t, string(data), want, what...)
}

// Expect reports a failure if ok is false.
func Expect(t testing.TB, ok bool, format string, args ...any) {
	if !ok {
		t.Helper()
		t.Errorf(format, args...)
	}
}

// Require ends the test if ok is false.
func Require(t testing.TB, ok bool, format string, args ...any) {
	if !ok {
		t.Helper()
		t.Fatalf(format, args...)
	}
}

// Count returns for how many elements of a list ok holds.
func Count[T any](list []T, ok func(T) bool) (n int) {
	for _, x := range list {
		if ok(x) {
			n++
		}
	}
	return n
}

func difference(got, want any, what []any) string {
	if text := fmt.Sprint(got, want); strings.Contains(text, "\n") {
		return fmt.Sprintf("%sgot\n%v\nwant\n%v", prefix(what), got, want)
	} else if _, ok := got.(string); ok {
		return fmt.Sprintf("%sgot %.2000q, want %.2000q", prefix(what), got, want)
	}
	return fmt.Sprintf("%sgot %+v, want %+v", prefix(what), got, want)
}

func prefix(what []any) string {
	if len(what) == 0 {
		return ""
	}
	return fmt.Sprint(what...) + ": "
}

// Field returns a part of a JSON document as text, as scripts name it: the key is a path
// such as versions.0.available. len is the length of a list, * a field of each element,
// with spaces between them; what is absent is "". A text that holds JSON has fields too.
func Field(doc any, key string) string {
	name, rest, _ := strings.Cut(key, ".")
	switch x := doc.(type) {
	case nil:
		return ""
	case string:
		var inner any
		if key == "" || json.Unmarshal([]byte(x), &inner) != nil {
			return x
		}
		return Field(inner, key)
	case map[string]any:
		if key != "" {
			return Field(x[name], rest)
		}
	case []any:
		i, err := strconv.Atoi(name)
		switch {
		case name == "len":
			return strconv.Itoa(len(x))
		case name == "*":
			var all []string
			for _, one := range x {
				all = append(all, Field(one, rest))
			}
			return strings.Join(all, " ")
		case err == nil && i < len(x):
			return Field(x[i], rest)
		case key != "":
			return ""
		}
	}
	if key != "" {
		return ""
	}
	text, err := json.Marshal(doc)
	if err != nil {
		return err.Error()
	}
	return string(text)
}

// Unmet returns the first condition that a document does not meet, with what it holds, or
// "". A condition is KEY=VALUE, KEY~TEXT (contains it) or KEY!TEXT (does not).
func Unmet(doc any, conditions []string) string {
	for _, one := range conditions {
		at := strings.IndexAny(one, "=~!")
		if at < 0 {
			return fmt.Sprintf("%q is no condition", one)
		}
		got, want := Field(doc, one[:at]), one[at+1:]
		if one[at] == '=' && got != want || one[at] != '=' && strings.Contains(got, want) != (one[at] == '~') {
			return fmt.Sprintf("%s: got %.2000q", one, got)
		}
	}
	return ""
}

// Plant creates files and their parent directories directly.
func Plant(t testing.TB, dir string, mode fs.FileMode, files map[string]string) {
	t.Helper()
	for name, text := range files {
		place := filepath.Join(dir, filepath.FromSlash(name))
		if err := os.MkdirAll(filepath.Dir(place), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(place, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
	}
}

// Forms returns the forms in which a secret could be stored or shown: unchanged, in
// hexadecimal, in escapes of JSON, in base64 at any place of a text, and two thirds of
// it.
func Forms(secret string) []string {
	escaped := ""
	for _, c := range secret {
		escaped += fmt.Sprintf(`\u%04x`, c)
	}
	list := []string{
		secret, secret[:len(secret)*2/3], secret[len(secret)/3:], hex.EncodeToString([]byte(secret)), escaped,
		base64.StdEncoding.EncodeToString([]byte(secret)), base64.RawURLEncoding.EncodeToString([]byte(secret)),
	}
	for shift := range 3 { // the middle of its base64, whatever is before it
		b := base64.RawStdEncoding.EncodeToString([]byte(strings.Repeat("x", shift) + secret))
		list = append(list, b[4:len(b)-4])
	}
	return list
}
