package testbed

import (
	"errors"
	"fmt"
	"strings"
	"testing"
)

// NoErr ends the test if err is not nil. What is in front of the message.
func NoErr(t testing.TB, err error, what ...any) {
	t.Helper()
	if err != nil {
		t.Fatalf("%s%v (%v)", prefix(what), err, errors.Unwrap(err))
	}
}

// IsErr reports a failure if err is not the expected error.
func IsErr(t testing.TB, err, want error, what ...any) {
	t.Helper()
	if !errors.Is(err, want) {
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
	t.Helper()
	if got != want {
		t.Error(difference(got, want, what))
	}
}

// MustEqual ends the test if got is not want.
func MustEqual[T comparable](t testing.TB, got, want T, what ...any) {
	t.Helper()
	if got != want {
		t.Fatal(difference(got, want, what))
	}
}

// Expect reports a failure if ok is false.
func Expect(t testing.TB, ok bool, format string, args ...any) {
	t.Helper()
	if !ok {
		t.Errorf(format, args...)
	}
}

// Require ends the test if ok is false.
func Require(t testing.TB, ok bool, format string, args ...any) {
	t.Helper()
	if !ok {
		t.Fatalf(format, args...)
	}
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
