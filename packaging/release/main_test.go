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
	if d.More() {
		t.Fatal("something follows the document")
	}
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
	if d.Name != "io.github."+owner+"/"+name || !regexp.MustCompile(`^[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+$`).MatchString(d.Name) {
		t.Errorf("the name is %s", d.Name)
	}
	if d.Schema != "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json" {
		t.Errorf("the schema is %s", d.Schema)
	}
	if d.Version != rw.Version {
		t.Errorf("the version is %s, that of the program %s", d.Version, rw.Version)
	}
	if n := len(d.Description); n == 0 || n > 100 {
		t.Errorf("the description has %d characters, at most 100 are allowed", n)
	}
	if n := len(d.Title); n == 0 || n > 100 {
		t.Errorf("the title has %d characters", n)
	}
	if d.Repository.URL != "https://"+module || d.Repository.Source != "github" || d.WebsiteURL != "https://"+module {
		t.Errorf("%+v %s", d.Repository, d.WebsiteURL)
	}
	seen := map[string]bool{}
	for _, p := range d.Packages {
		release := "https://" + module + "/releases/download/v" + rw.Version + "/"
		if p.RegistryType == "npm" && p.Identifier == "resilient-write" && p.Version == rw.Version && p.Transport.Type == "stdio" {
			continue
		}
		if p.RegistryType != "mcpb" || p.Transport.Type != "stdio" || p.Version != rw.Version || !strings.HasPrefix(p.Identifier, release) {
			t.Errorf("%+v", p)
		}
		if !regexp.MustCompile(`^[a-f0-9]{64}$`).MatchString(p.FileSHA256) || seen[p.FileSHA256] || seen[p.Identifier] {
			t.Errorf("%+v", p)
		}
		if !strings.Contains(p.Identifier, "mcp") {
			t.Errorf("the registry wants mcp in %s", p.Identifier)
		}
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
	if len(d.Packages) > 0 {
		t.Error("packages are filled in at the release, from files that are there")
	}
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
	if len(d.Packages) != len(targets)+1 {
		t.Fatalf("%d packages", len(d.Packages))
	}
	for _, p := range d.Packages {
		if p.RegistryType == "mcpb" {
			if got := digest(made(path.Base(p.Identifier))); got != p.FileSHA256 {
				t.Errorf("%s has %s", p.Identifier, got)
			}
		}
	}
	pairs := regexp.MustCompile(`url "(.*)"\n\s*sha256 "(.*)"`).FindAllStringSubmatch(string(made("resilient-write.rb")), -1)
	if len(pairs) != 4 {
		t.Errorf("the formula has %d archives", len(pairs))
	}
	for _, p := range pairs {
		if address(path.Base(p[1])) != p[1] || digest(made(path.Base(p[1]))) != p[2] {
			t.Errorf("the formula has %v", p)
		}
	}
	if ruby, err := exec.LookPath("ruby"); err == nil {
		if out, err := exec.Command(ruby, "-c", filepath.Join(r.out, "resilient-write.rb")).CombinedOutput(); err != nil {
			t.Errorf("%v: %s", err, out)
		}
	} else if full() {
		t.Error("NOT RUN: the formula is not compiled, ruby is absent")
	}
	sums := strings.Fields(string(made("SHA256SUMS")))
	for i := 0; i < len(sums); i += 2 {
		if digest(made(sums[i+1])) != sums[i] {
			t.Errorf("SHA256SUMS is wrong about %s", sums[i+1])
		}
	}
	if len(sums) != 2*(2*len(targets)+4) {
		t.Errorf("SHA256SUMS has %d files", len(sums)/2)
	}
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
	if committed.Version != "" || committed.ManifestVersion != "0.3" || committed.Server.Type != "binary" || committed.License != "MIT" {
		t.Errorf("%+v", committed)
	}
	if len(committed.Tools) > 0 {
		t.Error("the tools come from the table")
	}
	for _, to := range targets {
		doc := testbed.Must(manifest(to))(t)
		var d manifestDoc
		read(t, doc, &d)
		if d.Version != rw.Version {
			t.Errorf("%s: version %s", to, d.Version)
		}
		if d.Server.Config.Command != "${__dirname}/"+d.Server.EntryPoint || (to.system == "windows") != strings.HasSuffix(d.Server.EntryPoint, ".exe") {
			t.Errorf("%s: %+v", to, d.Server)
		}
		if !slices.Contains([]string{"darwin", "win32", "linux"}, d.Compatibility.Platforms[0]) {
			t.Errorf("%s: %v", to, d.Compatibility)
		}
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
	if all, err := choose(""); err != nil || len(all) != len(targets) {
		t.Errorf("%v %v", all, err)
	}
	for _, list := range []string{"linux", "linux/amd64,", "linux/amd64, darwin/arm64", "plan9/amd64"} {
		if got, err := choose(list); err == nil {
			t.Errorf("%q is %v", list, got)
		}
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
	if m.licenses, err = m.notices(m.program); err != nil {
		return nil, err
	}
	for _, step := range m.steps() {
		if err := step(m.to, m.program); err != nil {
			return nil, err
		}
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
	code := m.Run()
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
		if err != nil {
			t.Fatalf("%s %q: %v %s", name, more, err, out)
		}
		return string(out)
	}
	if out := call("version"); !strings.Contains(out, rw.Version) || !strings.Contains(out, aCommit) {
		t.Errorf("the version is %s", out)
	}
	call("write", "a.txt")
	if text, err := os.ReadFile(filepath.Join(dir, "a.txt")); err != nil || string(text) != "text\n" {
		t.Errorf("%q %v", text, err)
	}
	if got := tools(t, name, append(slices.Clone(args), "serve", "--root", dir)); len(got) != 12 {
		t.Errorf("%d tools", len(got))
	}
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
	if err != nil || !strings.Contains(string(text), "github.com/mark3labs/mcp-go v") || !strings.Contains(string(text), "== Go go1.") {
		t.Errorf("%v, %d bytes of licenses", err, len(text))
	}
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
	if diff := cmp.Diff(promised, tools(t, fill.Replace(d.Server.Config.Command), args)); diff != "" {
		t.Error(diff)
	}
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
