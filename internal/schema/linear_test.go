package schema_test

import (
	"context"
	"encoding/json"
	"testing"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/schema"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// FuzzLinear: reading arguments, also those that are kept as they are, and
// writing them again takes work in proportion to their length.
func FuzzLinear(f *testing.F) {
	type op struct {
		Name  string  `json:"name" required:"true"`
		Extra []extra `json:"-" extra:"true"`
	}
	type call struct {
		Path    string          `json:"path"`
		Content []byte          `json:"content"`
		Mode    string          `json:"mode" enum:"create,overwrite"`
		N       int             `json:"n"`
		Tags    []string        `json:"tags"`
		Ops     []op            `json:"ops"`
		Data    json.RawMessage `json:"data"`
		Extra   []extra         `json:"-" extra:"true"`
	}
	seeds := []string{`{"name":"a","k#":1},`, `"",`, `1,`, `{"path":`, `9`, `[{"data": … }]`}
	testbed.FuzzLinear(f, 16<<10, time.Microsecond, seeds, func(text []byte) int {
		piece := string(text)
		quoted, _ := json.Marshal(piece)
		for _, args := range []string{
			piece, "{" + piece + `"z":1}`, `{"data":` + piece + `}`, `{"data":[` + piece + `1]}`, `{"data":{` + piece + `"z":1}}`,
			`{"path":"a.json","content":[` + piece + `1]}`, `{"path":` + string(quoted) + `}`, `{` + string(quoted) + `:1}`, `{"mode":` + string(quoted) + `}`,
			`{"tags":[` + piece + `""]}`, `{"ops":[` + piece + `{"name":""}]}`, `{"n":` + piece + `}`, `{"ops":[{"name":"",` + piece + `"z":1}]}`,
		} {
			var c call
			if _, err := schema.Decode(context.Background(), []byte(args), &c); err != nil {
				_ = err.Error()
			} else {
				schema.Encode(c)
			}
			schema.Decode(context.Background(), []byte(args), new(sample))
		}
		schema.Closest(piece, []string{"rw_safe_write", "rw_edit"})
		return 0
	})
}
