package spec_test

import (
	"testing"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
	"github.com/resilientwrite/resilientwrite/spec"
)

// FuzzLinear: validating a document against any of the schemas takes work in
// proportion to its length.
func FuzzLinear(f *testing.F) {
	tools := spec.Tools()
	seeds := []string{`{"old":"a","new":"b"},`, `{"op":"delete","path":"a"},`, `"k#":1,`, `{"path":"a#"},`, `"a",`, `1,`, `a: b\n`, "- ", "a#: #\n"}
	testbed.FuzzLinear(f, 4<<10, 40*time.Microsecond, seeds, func(text []byte) int {
		object, list := []byte(`{`+string(text)+`"z":1}`), `[`+string(text)+`null]`
		for _, doc := range [][]byte{text, object, []byte(list), []byte(`{"edits":` + list + `,"ops":` + list + `,"envelope":` + string(object) + `}`)} {
			spec.ValidateEnvelope(doc)
			spec.ValidateHandoff(doc)
			spec.ValidatePolicy(doc)
			for _, tool := range []string{"rw_tx", "rw_edit", tools[0]} {
				spec.ValidateArguments(tool, doc)
			}
			spec.ValidateReply("rw_tx", doc)
		}
		return 0
	})
}
