package surface_test

import (
	"context"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/surface"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
	"github.com/resilientwrite/resilientwrite/mcpserver"
)

var update = flag.Bool("update", false, "write the golden of the surface that is in the making")

const (
	goldens   = "../../testdata/surface"
	changelog = "../../docs/mcp-schema-changelog.md"
)

// current is the surface as the code makes it.
func current(t testing.TB) surface.Document {
	t.Helper()
	data := testbed.Must(mcpserver.Surface())(t)
	return testbed.Must(surface.Decode(data))(t)
}

// TestSurfaceMovesByItsRules compares the surface with the last released one:
// each difference is classified, has an entry in the changelog, and the version
// is far enough from the released one. docs/governance.md says what to do when
// this fails; -update writes the golden of the version in the making.
func TestSurfaceMovesByItsRules(t *testing.T) {
	log := testbed.Must(os.ReadFile(changelog))(t)
	doc := current(t)
	if *update {
		writeGolden(t, doc, log)
	}
	kept := map[string][]byte{}
	names := testbed.Must(filepath.Glob(filepath.Join(goldens, "*.json")))(t)
	for _, name := range names {
		data := testbed.Must(os.ReadFile(name))(t)
		kept[strings.TrimSuffix(filepath.Base(name), ".json")] = data
	}
	for _, problem := range surface.Review(kept, log, doc) {
		t.Error(problem)
	}
}

// writeGolden refuses to write a version that was released.
func writeGolden(t *testing.T, doc surface.Document, log []byte) {
	t.Helper()
	sections, problems := surface.ParseChangelog(log)
	testbed.Require(t, len(problems) == 0, "%v", problems)
	for _, s := range sections {
		testbed.Require(t, s.Version.String() != doc.SchemaVersion || s.Released == "",
			"%s was released; give SchemaVersion the next number first", s.Version)
	}
	data := testbed.Must(doc.Encode())(t)
	testbed.NoErr(t, os.MkdirAll(goldens, 0o755))
	testbed.NoErr(t, os.WriteFile(filepath.Join(goldens, doc.SchemaVersion+".json"), data, 0o644))
}

// list is the tools that a server lists.
func list(t testing.TB, s *server.MCPServer) []mcp.Tool {
	t.Helper()
	out, ok := s.HandleMessage(context.Background(), json.RawMessage(`{"jsonrpc":"2.0","id":1,"method":"tools/list"}`)).(mcp.JSONRPCResponse)
	testbed.Require(t, ok, "tools/list: %v", out)
	data := testbed.Must(json.Marshal(out.Result))(t)
	doc := testbed.Decoded[struct{ Tools []mcp.Tool }](t, data)
	return doc.Tools
}

// leftOut are the ends of the addresses at which the lists of core and standard
// say less than the tool checks: the server refuses in time.
var leftOut = regexp.MustCompile(`/(default|least value|most value|most length|\{\})$|^schema/envelope/last_good_state$`)

// TestPresetsAreAccurate: what a smaller preset says of the arguments of a
// tool holds for the tool, but for bounds; its objects are open, so that a
// client that validates rejects nothing that the server takes; and it lists no
// schema of the reply.
func TestPresetsAreAccurate(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	store := testbed.Must(rw.Open(t.Context(), t.TempDir(), nil))(t)
	t.Cleanup(func() { testbed.NoErr(t, store.Close(context.Background())) })
	tools := map[string]surface.Tool{}
	for _, tool := range current(t).Tools {
		tools["rw_"+tool.Name] = tool
	}
	for _, o := range []mcpserver.Options{{Tier: mcpserver.Core}, {}, {Tools: []string{"scratch_put", "rw_checkpoint", "rw.tx_stage"}}} {
		for _, tool := range list(t, mcpserver.New(store, &o)) {
			info := tools[tool.Name]
			data := testbed.Must(json.Marshal(tool))(t)
			one := testbed.Decoded[struct{ InputSchema, OutputSchema json.RawMessage }](t, data)
			for _, d := range surface.CompareInput(one.InputSchema, info.Input) {
				long := tool.Name == "rw_read" && d.Address == "schema/encoding/enum" // 27 names, which a refusal lists
				testbed.Expect(t, d.Class != surface.Breaking || leftOut.MatchString(d.Address) || long, "%s, %s, arguments: %s", o.Tier, tool.Name, d)
			}
			testbed.Expect(t, one.OutputSchema == nil && (!strings.Contains(string(one.InputSchema), "additionalProperties") || slices.Contains(o.Tools, "rw.tx_stage")),
				"%s, %s: %s", o.Tier, tool.Name, data)
		}
	}
	testbed.Equal(t, len(list(t, mcpserver.New(store, &mcpserver.Options{Tools: []string{"scratch_put", "rw_checkpoint", "rw.tx_stage"}}))), 15, "tools")
}
