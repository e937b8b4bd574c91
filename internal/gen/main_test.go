package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/resilientwrite/resilientwrite/internal/schema"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// TestGeneratedFilesAreFresh fails when a generated file is not what the code
// makes now; go generate ./... mends it.
func TestGeneratedFilesAreFresh(t *testing.T) {
	files := Files()
	text := testbed.Must(descriptions("../.."))(t)
	files[descriptionsFile] = text
	for name, want := range files {
		got, err := os.ReadFile(filepath.Join("..", "..", filepath.FromSlash(name)))
		if err != nil {
			t.Error(err)
			continue
		}
		testbed.Equal(t, cmp.Diff(string(want), string(got)), "", name, " is stale, run go generate ./...")
	}
}

// TestTablesNameEveryType: also of fields that take null, two types, or all.
func TestTablesNameEveryType(t *testing.T) {
	type reply struct {
		Data  json.RawMessage `json:"data" desc:"D."`
		Line  *int            `json:"line" desc:"L."`
		Word  *string         `json:"word" enum:"a,b"`
		Flag  string          `json:"flag" types:"boolean,string"`
		Maybe *string         `json:"maybe" types:"boolean,string"`
		Names []string        `json:"names" default:""`
		Depth int             `json:"depth" default:"3"`
	}
	got := fields("Reply", schema.Output(reflect.TypeFor[reply]()))
	want := `
| Reply | type | meaning |
|---|---|---|
| ` + "`ok`" + ` | boolean | True on success, false when the other fields are an error envelope. |
| ` + "`data`" + ` | any JSON | D. |
| ` + "`line`" + ` | integer or null | L. |
| ` + "`word`" + ` | a, b, null |  |
| ` + "`flag`" + ` | boolean or string |  |
| ` + "`maybe`" + ` | boolean or string or null |  |
| ` + "`names`" + ` | array |  |
| ` + "`depth`" + ` | integer |  Default: 3. |
`
	testbed.Equal(t, cmp.Diff(want, got), "")
}
