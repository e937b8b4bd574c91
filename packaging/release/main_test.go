package main

import (
	"archive/zip"
	"bytes"
	"compress/flate"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"
	"github.com/santhosh-tekuri/jsonschema/v6"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

const root = "../.."

// read decodes a file into v; an unknown member is an error.
func read(t *testing.T, data []byte, v any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	testbed.NoErr(t, d.Decode(v))
	testbed.Require(t, !d.More(), "something follows the document")
}

func file(t *testing.T, name string) []byte {
	t.Helper()
	data := testbed.Must(os.ReadFile(filepath.Join(root, name)))(t)
	return data
}

// serverDoc is the part of the schema of the registry (2025-12-11) that we use.
type serverDoc struct {
	Schema      string `json:"$schema"`
	Name        string
	Title       string
	Description string
	Version     string
	WebsiteURL  string `json:"websiteUrl"`
	Repository  struct{ URL, Source string }
	Packages    []struct {
		RegistryType, Identifier, Version string
		FileSHA256                        string `json:"fileSha256"`
		Transport                         struct{ Type string }
	}
}

// check checks a server.json against the rules of the registry.
func (d serverDoc) check(t *testing.T) {
	t.Helper()
	module, _, _ := strings.Cut(strings.TrimPrefix(string(file(t, "go.mod")), "module "), "\n")
	owner, name, _ := strings.Cut(strings.TrimPrefix(module, "github.com/"), "/")
	testbed.Expect(t, d.Name == "io.github."+owner+"/"+name && regexp.MustCompile(`^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$`).MatchString(d.Name),
		"the name is %s", d.Name)
	testbed.Equal(t, d.Schema, "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json", "the schema is")
	testbed.Expect(t, d.Version == rw.Version, "the version is %s, that of the program %s", d.Version, rw.Version)
	n := len(d.Description)
	testbed.Expect(t, n != 0 && n <= 100, "the description has %d characters, at most 100 are allowed", n)
	n = len(d.Title)
	testbed.Expect(t, n != 0 && n <= 100, "the title has %d characters", n)
	testbed.Expect(t, d.Repository.URL == "https://"+module && d.Repository.Source == "github" && d.WebsiteURL == "https://"+module,
		"%+v %s", d.Repository, d.WebsiteURL)
	seen := map[string]bool{}
	for _, p := range d.Packages {
		release := "https://" + module + "/releases/download/v" + rw.Version + "/"
		if p.RegistryType == "npm" && p.Identifier == "resilient-write" && p.Version == rw.Version && p.Transport.Type == "stdio" {
			continue
		}
		testbed.Expect(t, p.RegistryType == "mcpb" && p.Transport.Type == "stdio" && p.Version == rw.Version && strings.HasPrefix(p.Identifier, release),
			"%+v", p)
		testbed.Expect(t, regexp.MustCompile(`^[a-f0-9]{64}$`).MatchString(p.FileSHA256) && !seen[p.FileSHA256] && !seen[p.Identifier], "%+v", p)
		testbed.Expect(t, strings.Contains(p.Identifier, "mcp"), "the registry wants mcp in %s", p.Identifier)
		seen[p.FileSHA256], seen[p.Identifier] = true, true
	}
}

// TestServerJSON: the committed file is valid, and names no package as long as
// there is none.
func TestServerJSON(t *testing.T) {
	var d serverDoc
	read(t, file(t, "server.json"), &d)
	d.check(t)
	registrySchema(t, file(t, "server.json"))
	testbed.Expect(t, len(d.Packages) == 0, "packages are filled in at the release, from files that are there")
}

// TestFilesOfARelease: server.json and the formula name every archive and bundle
// with the hash of its bytes, and SHA256SUMS names all files.
func TestFilesOfARelease(t *testing.T) {
	r := &release{log: io.Discard, root: root, out: t.TempDir(), license: []byte("l"), licenses: []byte("m"), sums: map[string]string{}}
	for _, to := range targets {
		for _, step := range []func(target, []byte) error{r.archive, r.bundle} {
			testbed.NoErr(t, step(to, []byte("program for "+to.String())))
		}
	}
	testbed.NoErr(t, r.finish(targets))
	testbed.NoErr(t, r.list())
	made := func(name string) []byte {
		content := testbed.Must(os.ReadFile(filepath.Join(r.out, name)))(t)
		return content
	}
	var d serverDoc
	read(t, made("server.json"), &d)
	d.check(t)
	registrySchema(t, made("server.json"))
	testbed.MustEqual(t, len(d.Packages), len(targets)+1, "packages")
	for _, p := range d.Packages {
		if p.RegistryType == "mcpb" {
			testbed.Equal(t, digest(made(path.Base(p.Identifier))), p.FileSHA256, p.Identifier, " has")
		}
	}
	pairs := regexp.MustCompile(`url "(.*)"\n\s*sha256 "(.*)"`).FindAllStringSubmatch(string(made("resilient-write.rb")), -1)
	testbed.Expect(t, len(pairs) == 4, "the formula has %d archives", len(pairs))
	for _, p := range pairs {
		testbed.Expect(t, address(path.Base(p[1])) == p[1] && digest(made(path.Base(p[1]))) == p[2], "the formula has %v", p)
	}
	if ruby, err := exec.LookPath("ruby"); err == nil {
		out, err := exec.Command(ruby, "-c", filepath.Join(r.out, "resilient-write.rb")).CombinedOutput()
		testbed.Expect(t, err == nil, "%v: %s", err, out)
	} else if full() {
		t.Error("NOT RUN: the formula is not compiled, ruby is absent")
	}
	sums := strings.Fields(string(made("SHA256SUMS")))
	for i := 0; i < len(sums); i += 2 {
		testbed.Equal(t, digest(made(sums[i+1])), sums[i], "SHA256SUMS is wrong about ", sums[i+1])
	}
	testbed.Equal(t, len(sums), 2*(2*len(targets)+4), "SHA256SUMS has ", len(sums)/2, " files")
}

// digest returns the hash of bytes in hexadecimal.
func digest(data []byte) string { return fmt.Sprintf("%x", sha256.Sum256(data)) }

// manifestDoc is the part of the format (0.3) that we use.
type manifestDoc struct {
	ManifestVersion string `json:"manifest_version"`
	Name            string
	DisplayName     string `json:"display_name"`
	Version         string
	Description     string
	LongDescription string `json:"long_description"`
	Author          struct{ Name, URL string }
	Repository      struct{ Type, URL string }
	Documentation   string
	Support         string
	License         string
	Keywords        []string
	Server          struct {
		Type       string
		EntryPoint string `json:"entry_point"`
		Config     struct {
			Command string
			Args    []string
			Env     map[string]string
		} `json:"mcp_config"`
	}
	Compatibility struct{ Platforms []string }
	Tools         []struct{ Name, Description string }
	UserConfig    map[string]struct {
		Type, Title, Description string
		Required                 bool
		Default                  string
	} `json:"user_config"`
}

// TestManifest: the committed manifest and those made from it are valid for
// every system.
func TestManifest(t *testing.T) {
	var committed manifestDoc
	read(t, file(t, "packaging/release/data/mcpb.json"), &committed)
	testbed.Expect(t, committed.Version == "" && committed.ManifestVersion == "0.3" && committed.Server.Type == "binary" && committed.License == "MIT",
		"%+v", committed)
	testbed.Expect(t, len(committed.Tools) == 0, "the tools come from the table")
	for _, to := range targets {
		doc := testbed.Must(manifest(to))(t)
		var d manifestDoc
		read(t, doc, &d)
		testbed.Expect(t, d.Version == rw.Version, "%s: version %s", to, d.Version)
		testbed.Expect(t, d.Server.Config.Command == "${__dirname}/"+d.Server.EntryPoint && (to.system == "windows") == strings.HasSuffix(d.Server.EntryPoint, ".exe"),
			"%s: %+v", to, d.Server)
		testbed.Expect(t, slices.Contains([]string{"darwin", "win32", "linux"}, d.Compatibility.Platforms[0]), "%s: %v", to, d.Compatibility)
		validate(t, doc)
		for _, arg := range d.Server.Config.Args {
			name, asked := strings.CutPrefix(arg, "${user_config.")
			c, there := d.UserConfig[strings.TrimSuffix(name, "}")]
			if asked && (!there || !c.Required && c.Default == "") {
				t.Errorf("%s: %s is not filled in", to, arg)
			}
		}
	}
}

// validate runs the validator of the format's authors on a manifest.
func validate(t *testing.T, doc []byte) {
	t.Helper()
	if !full() {
		return
	}
	npx := need(t, "npx")
	name := filepath.Join(t.TempDir(), "manifest.json")
	testbed.NoErr(t, os.WriteFile(name, doc, 0o644))
	must(t, filepath.Dir(name), npx, "--yes", "@anthropic-ai/mcpb@2.1.2", "validate", name)
}

// TestTargets: a misspelled name of a system is an error, not a smaller
// release.
func TestTargets(t *testing.T) {
	all, err := choose("")
	testbed.Expect(t, err == nil && len(all) == len(targets), "%v %v", all, err)
	for _, list := range []string{"linux", "linux/amd64,", "linux/amd64, darwin/arm64", "plan9/amd64"} {
		got, err := choose(list)
		testbed.Expect(t, err != nil, "%q is %v", list, got)
	}
}

const aCommit = "0123456789abcdef0123456789abcdef01234567"

// made is a release for this system.
type made struct {
	*release
	to      target
	program []byte
}

// makeOnce makes the release once for all tests, with a program that was
// compiled as in daily work: [TestReproducible] covers the way a release
// compiles it.
var makeOnce = sync.OnceValues(func() (*made, error) {
	dir, err := os.MkdirTemp("", "release")
	if err != nil {
		return nil, err
	}
	madeIn = dir
	m := &made{release: &release{log: io.Discard, root: root, out: dir, sums: map[string]string{}}}
	i := slices.Index(targets, target{runtime.GOOS, runtime.GOARCH})
	if i < 0 {
		return nil, fmt.Errorf("there is no release for %s/%s", runtime.GOOS, runtime.GOARCH)
	}
	m.to = targets[i]
	if m.license, err = os.ReadFile(filepath.Join(root, "LICENSE")); err != nil {
		return nil, err
	}
	built := filepath.Join(dir, "built")
	cmd := exec.Command("go", "build", "-ldflags=-s -w -X main.commit="+aCommit, "-o", built, "./cmd/resilient-write")
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, text)
	}
	if m.program, err = os.ReadFile(built); err != nil {
		return nil, err
	}
	if err := m.pack(m.to, m.program); err != nil {
		return nil, err
	}
	return m, m.finish([]target{m.to})
})

var madeIn string // the directory of makeOnce

func aRelease(t *testing.T) *made {
	t.Helper()
	m := testbed.Must(makeOnce())(t)
	return m
}

func TestMain(m *testing.M) {
	if !full() {
		level = flate.NoCompression
	}
	remove := testbed.State()
	code := m.Run()
	remove()
	if madeIn != "" {
		os.RemoveAll(madeIn)
	}
	os.Exit(code)
}

// file returns the path of a file of the release.
func (m *made) file(name string) string { return filepath.Join(m.out, name) }

// runs checks that a program is that of the release, and that it writes and
// serves.
func runs(t *testing.T, name string, args ...string) {
	t.Helper()
	dir := t.TempDir()
	call := func(more ...string) string {
		cmd := exec.Command(name, append(slices.Clone(args), more...)...)
		cmd.Env, cmd.Stdin = append(os.Environ(), "RW_WORKSPACE="+dir), strings.NewReader("text\n")
		out, err := cmd.Output()
		testbed.Require(t, err == nil, "%s %q: %v %s", name, more, err, out)
		return string(out)
	}
	out := call("version")
	testbed.Expect(t, strings.Contains(out, rw.Version) && strings.Contains(out, aCommit), "the version is %s", out)
	call("write", "a.txt")
	testbed.Holds(t, filepath.Join(dir, "a.txt"), "text\n")
	got := tools(t, name, append(slices.Clone(args), "serve", "--root", dir))
	testbed.Expect(t, len(got) == 12, "%d tools", len(got))
}

// TestArchiveRuns unpacks the archive and runs the program in it.
func TestArchiveRuns(t *testing.T) {
	m, dir := aRelease(t), t.TempDir()
	if m.to.system == "windows" {
		unpack(t, m.file(m.to.name()+".zip"), dir)
	} else {
		untar(t, m.file(m.to.name()+".tar.gz"), dir)
	}
	home := filepath.Join(dir, m.to.name())
	runs(t, filepath.Join(home, m.to.program()))
	text, err := os.ReadFile(filepath.Join(home, "LICENSES.txt"))
	testbed.Expect(t, err == nil && strings.Contains(string(text), "github.com/mark3labs/mcp-go v") && strings.Contains(string(text), "== Go go1."),
		"%v, %d bytes of licenses", err, len(text))
}

// TestBundleRuns installs the bundle of this system as a client does: it
// unpacks the archive, fills in the user's settings, starts the program, and
// finds the tools that the manifest lists.
func TestBundleRuns(t *testing.T) {
	m, home := aRelease(t), t.TempDir()
	unpack(t, m.file(m.to.bundleName()), home)
	var d manifestDoc
	doc := testbed.Must(os.ReadFile(filepath.Join(home, "manifest.json")))(t)
	read(t, doc, &d)
	fill := strings.NewReplacer("${__dirname}", home, "${user_config.workspace}", t.TempDir(), "${user_config.tier}", d.UserConfig["tier"].Default)
	var args, promised []string
	for _, arg := range d.Server.Config.Args {
		args = append(args, fill.Replace(arg))
	}
	for _, tool := range d.Tools {
		promised = append(promised, tool.Name)
	}
	slices.Sort(promised)
	testbed.Equal(t, cmp.Diff(promised, tools(t, fill.Replace(d.Server.Config.Command), args)), "")
}

// unpack unpacks an archive, with the modes that it holds.
func unpack(t *testing.T, archive, to string) {
	t.Helper()
	z := testbed.Must(zip.OpenReader(archive))(t)
	defer z.Close()
	for _, f := range z.File {
		path := filepath.Join(to, filepath.FromSlash(f.Name))
		testbed.NoErr(t, os.MkdirAll(filepath.Dir(path), 0o755))
		r := testbed.Must(f.Open())(t)
		data := testbed.Must(io.ReadAll(r))(t)
		testbed.NoErr(t, os.WriteFile(path, data, f.Mode()))
	}
}

// tools starts a server and returns the names of its tools, in order.
func tools(t *testing.T, command string, args []string) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	c := testbed.Must(client.NewStdioMCPClient(command, os.Environ(), args...))(t)
	defer c.Close()
	var req mcp.InitializeRequest
	req.Params.ProtocolVersion = mcp.LATEST_PROTOCOL_VERSION
	req.Params.ClientInfo = mcp.Implementation{Name: "bundle", Version: "1"}
	testbed.Must(c.Initialize(ctx, req))(t)
	res := testbed.Must(c.ListTools(ctx, mcp.ListToolsRequest{}))(t)
	var names []string
	for _, tool := range res.Tools {
		names = append(names, tool.Name)
	}
	slices.Sort(names)
	return names
}

// published validates a document against a schema as its authors publish it: a
// file of a Go module, next to those that it refers to.
func published(t *testing.T, module, schema string, text []byte) {
	t.Helper()
	if !full() {
		return // it needs the network
	}
	cmd := exec.Command("go", "mod", "download", "-json", module)
	cmd.Dir = t.TempDir() // outside our module, which does not need it
	out, err := cmd.Output()
	var got struct{ Dir, Error string }
	jsonErr := json.Unmarshal(out, &got)
	testbed.Require(t, err == nil && jsonErr == nil, "%s: %v %v %s", module, err, jsonErr, got.Error)
	c := jsonschema.NewCompiler()
	c.AssertFormat()
	files := testbed.Must(filepath.Glob(filepath.Join(got.Dir, filepath.Dir(schema), "*.json")))(t)
	var id string
	for _, name := range files {
		text := testbed.Must(os.ReadFile(name))(t)
		doc := testbed.Must(jsonschema.UnmarshalJSON(bytes.NewReader(text)))(t, name)
		own, _ := doc.(map[string]any)["$id"].(string)
		if own == "" || c.AddResource(own, doc) != nil {
			continue
		}
		if filepath.Base(name) == filepath.Base(schema) {
			id = own
		}
	}
	rules := testbed.Must(c.Compile(id))(t)
	doc := testbed.Must(jsonschema.UnmarshalJSON(bytes.NewReader(text)))(t)
	err = rules.Validate(doc)
	testbed.Expect(t, err == nil, "%v", err)
	// A schema that is not applied accepts everything.
	testbed.Expect(t, rules.Validate(map[string]any{}) != nil, "%s accepts an empty document", id)
}

// registrySchema validates a server.json against the schema of the registry.
func registrySchema(t *testing.T, text []byte) {
	t.Helper()
	published(t, "github.com/modelcontextprotocol/registry@v1.8.8", "internal/validators/schemas/2025-12-11.json", text)
}

// bomSchema validates a list of modules against the schema of the format.
func bomSchema(t *testing.T, text []byte) {
	t.Helper()
	published(t, "github.com/CycloneDX/cyclonedx-go@v0.12.0", "schema/bom-1.6.schema.json", text)
}
