package mcpserver

import (
	"encoding/base64"
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
)

func TestATicketIsGoodOnceForAnHourForWhatItNames(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	o := &office{now: func() time.Time { return now }}
	about := []subject{subjectOf(rw.HookCall{Verb: "a"}, "q"), subjectOf(rw.HookCall{Verb: "b"}, "q")}
	state := o.issue(about)
	got, ok := o.parse(state)
	if !ok || !reflect.DeepEqual(got.asked, about) {
		t.Fatalf("%v %v", got, ok)
	}
	if strings.Contains(state, "allow") || o.issue(about) == state {
		t.Error("two tickets are the same")
	}
	raw, _ := base64.RawURLEncoding.DecodeString(state[len(ticketForm):])
	for i := range raw { // every bit that is not ours
		for bit := range 8 {
			raw[i] ^= 1 << bit
			if _, ok := o.parse(ticketForm + base64.RawURLEncoding.EncodeToString(raw)); ok {
				t.Fatalf("byte %d bit %d may be changed", i, bit)
			}
			raw[i] ^= 1 << bit
		}
	}
	for n := range raw { // and every length
		if _, ok := o.parse(ticketForm + base64.RawURLEncoding.EncodeToString(raw[:n])); ok {
			t.Fatalf("%d of %d bytes are enough", n, len(raw))
		}
	}
	if _, ok := (&office{now: o.now}).parse(state); ok {
		t.Error("another process takes it")
	}
	now = now.Add(ticketAge - time.Second)
	if _, ok := o.parse(state); !ok {
		t.Error("it is too old too early")
	}
	if !o.redeem(got) || o.redeem(got) {
		t.Error("it is not good once")
	}
	now = now.Add(2 * time.Second)
	if _, ok := o.parse(state); ok {
		t.Error("it never gets too old")
	}
}

// TestSpentTicketsAreNeverForgotten: more than are remembered make the key
// change, so that none of them is good again; those that are too old make
// room before that.
func TestSpentTicketsAreNeverForgotten(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	o := &office{now: func() time.Time { return now }}
	use := func(state string) bool {
		tk, ok := o.parse(state)
		return ok && o.redeem(tk)
	}
	var used []string
	fill := func() {
		for range ticketSpent {
			state := o.issue(nil)
			if !use(state) {
				t.Fatal("a fresh ticket is refused")
			}
			used = append(used, state)
		}
	}
	fill()
	key := fmt.Sprint(o.key)
	now = now.Add(ticketAge + time.Second)
	fill()
	if fmt.Sprint(o.key) != key || len(o.spent) > ticketSpent {
		t.Errorf("%d spent tickets are kept", len(o.spent))
	}
	waiting := o.issue(nil)
	held, ok := o.parse(used[len(used)-1])
	if !ok || !use(o.issue(nil)) || fmt.Sprint(o.key) == key {
		t.Fatal("the key did not change")
	}
	if use(waiting) || o.redeem(held) {
		t.Error("a ticket of the old key is good")
	}
	for _, state := range used {
		if use(state) {
			t.Fatal("a spent ticket is good again")
		}
	}
}

// TestASubjectIsEverythingThatWasAsked: each field that a user answers for
// makes it another question. A field that is new must be looked at here.
func TestASubjectIsEverythingThatWasAsked(t *testing.T) {
	t.Parallel()
	base := func() rw.HookCall {
		return rw.HookCall{Verb: "v", Caller: "c", Session: "s", Request: "r", Changes: []rw.Change{{Op: "create", Path: "p", RealPath: "p"}}}
	}
	same := map[string]bool{ // the same in the call that comes with the answer, or another in each
		"InvocationID": true, "DryRun": true, "Complete": true, "SHA256": true, "PrevSHA256": true, "Bytes": true,
	}
	try := func(name string, op rw.HookCall) {
		if changed := subjectOf(op, "q") != subjectOf(base(), "q"); changed == same[name] {
			t.Errorf("%s makes another question: %v", name, changed)
		}
	}
	set := func(f reflect.Value) bool {
		switch f.Kind() {
		case reflect.String:
			f.SetString(f.String() + "x")
		case reflect.Bool:
			f.SetBool(true)
		case reflect.Int64:
			f.SetInt(7)
		default:
			return false
		}
		return true
	}
	for i := range reflect.TypeFor[rw.HookCall]().NumField() {
		op := base()
		if f := reflect.ValueOf(&op).Elem().Field(i); set(f) {
			try(reflect.TypeFor[rw.HookCall]().Field(i).Name, op)
		}
	}
	for i := range reflect.TypeFor[rw.Change]().NumField() {
		op := base()
		set(reflect.ValueOf(&op.Changes[0]).Elem().Field(i))
		try(reflect.TypeFor[rw.Change]().Field(i).Name, op)
	}
	op := base()
	op.Changes = append(op.Changes, rw.Change{Op: "delete", Path: "q"})
	try("Changes", op)
	if subjectOf(base(), "q") == subjectOf(base(), "p") {
		t.Error("the words do not count")
	}
}
