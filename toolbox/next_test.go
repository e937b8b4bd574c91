package toolbox

import (
	"encoding/json"
	"reflect"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
	"github.com/resilientwrite/resilientwrite/spec"
)

// callable judges next steps as a client would that makes the call: the
// arguments must be all that the tool needs.
func callable(t *testing.T, where string, steps []NextAction, inputs map[string]*spec.Compiled) {
	t.Helper()
	testbed.Expect(t, len(steps) <= maxNext, "%s: %d steps", where, len(steps))
	for _, s := range steps {
		args, err := json.Marshal(s.Args)
		testbed.Require(t, err == nil && inputs[s.Tool] != nil && s.When != "", "%s: %+v %v", where, s, err)
		err = inputs[s.Tool].Validate(args)
		testbed.Expect(t, err == nil, "%s: %s %s: %v", where, s.Tool, args, err)
	}
}

func compiledInputs(t *testing.T, set *toolset) map[string]*spec.Compiled {
	inputs := map[string]*spec.Compiled{}
	for _, of := range set.offers {
		c := testbed.Must(spec.Compile(of.info(Full).Input))(t)
		inputs[of.wire] = c
	}
	return inputs
}

// TestEveryNextStepOfARefusalCanBeCalled: every detail, for every tool, with
// and without what an error may know, and nothing that leads a file tool into
// the state directory or to a file that is gone.
func TestEveryNextStepOfARefusalCanBeCalled(t *testing.T) {
	store := testbed.Must(rw.Open(t.Context(), t.TempDir(), &rw.Options{Sync: rw.SyncOff}))(t)
	defer store.Close(t.Context())
	b := New(store, &Options{Tier: Full})
	inputs := compiledInputs(t, b.set)
	offered := 0
	for _, detail := range rw.Details() {
		for _, of := range b.set.offers {
			tool := of.name
			for _, path := range []string{"", "a/b.txt", ".resilient_write/tx/tx_1/begin.json"} {
				for _, about := range []map[string]any{
					nil, {"session": "s", "draft_ref": "draft_1", "actual_prev_sha256": "ab"},
					{"session": 7, "draft_ref": true, "actual_prev_sha256": ""}, {"actual_prev_sha256": nil},
				} {
					if remedy[detail] == nil && (path != "" || about != nil) {
						continue // what has no remedy looks at none of them
					}
					e := rw.NewError(tool, detail, "", about)
					e.Path = path
					var env struct {
						Context struct {
							Next []NextAction `json:"next_actions"`
						}
					}
					r := b.failure(tool, e)
					err := json.Unmarshal(r.doc, &env)
					testbed.Require(t, err == nil && r.failed, "%v", err)
					steps := env.Context.Next
					callable(t, tool+" "+string(detail), steps, inputs)
					offered += len(steps)
					for _, s := range steps {
						testbed.Expect(t, (s.Args["path"] == nil || path == "a/b.txt") && (s.Tool != "rw_read" || about["actual_prev_sha256"] != ""),
							"%s %s of %q: %+v", tool, detail, path, s)
					}
				}
			}
		}
	}
	testbed.Expect(t, offered >= 1000, "only %d steps were judged", offered)
}

// TestEveryNextStepOfASuccessCanBeCalled: replies that say nothing, and
// replies in which everything is filled in.
func TestEveryNextStepOfASuccessCanBeCalled(t *testing.T) {
	set := newToolset(table, Options{Tier: Full})
	inputs := compiledInputs(t, set)
	offered := map[string]bool{}
	for _, of := range set.offers {
		f := next[of.name]
		if f == nil {
			continue
		}
		for flags := range 3 {
			for size := range 4 {
				v := reflect.New(of.out).Elem()
				fill(v, size, flags == 1, 0)
				steps := set.named(f(v.Interface()))
				callable(t, of.name, steps, inputs)
				for range steps {
					offered[of.name] = true
				}
			}
		}
	}
	for name := range next {
		testbed.Expect(t, offered[name], "%s never offers a step", name)
	}
}

// fill gives every field of a reply a value: lists get size members.
func fill(v reflect.Value, size int, flag bool, depth int) {
	switch {
	case depth > 6:
	case v.Kind() == reflect.String:
		v.SetString("hash_mismatch")
	case v.Kind() == reflect.Bool:
		v.SetBool(flag)
	case v.CanInt():
		v.SetInt(int64(size))
	case v.CanUint():
		v.SetUint(uint64(size))
	case v.CanFloat():
		v.SetFloat(1)
	case v.Kind() == reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				fill(v.Field(i), size, flag, depth+1)
			}
		}
	case v.Kind() == reflect.Slice:
		v.Set(reflect.MakeSlice(v.Type(), size, size))
		for i := range size {
			fill(v.Index(i), size, flag, depth+1)
		}
	case v.Kind() == reflect.Pointer:
		v.Set(reflect.New(v.Type().Elem()))
		fill(v.Elem(), size, flag, depth+1)
	}
}
