package main

import (
	"archive/zip"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/mark3labs/mcp-go/client"
	"github.com/mark3labs/mcp-go/mcp"

	rw "github.com/resilientwrite/resilientwrite"
)

const root = "../.."

// read decodes a file into v; a member that v does not know is an error.
func read(t *testing.T, data []byte, v any) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		t.Fatal(err)
	}
	if d.More() {
		t.Fatal("something follows the document")
	}
}

func file(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return data
}

// serverDoc is what the schema of the registry (2025-12-11) allows and we use.
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

// check holds a server.json against the rules of the registry.
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

// TestServerJSON: the committed file is right, and promises no package as long
// as there is none.
func TestServerJSON(t *testing.T) {
	var d serverDoc
	read(t, file(t, "server.json"), &d)
	d.check(t)
	if len(d.Packages) > 0 {
		t.Error("packages are filled in at the release, from files that are there")
	}
}

// TestServerJSONOfARelease names every bundle with the hash of its bytes.
func TestServerJSONOfARelease(t *testing.T) {
	out := t.TempDir()
	var made []bundle
	for _, to := range targets {
		b, err := write(root, out, to, []byte("program for "+to.String()))
		if err != nil {
			t.Fatal(err)
		}
		made = append(made, b)
	}
	doc, err := registry(root, made)
	if err != nil {
		t.Fatal(err)
	}
	var d serverDoc
	read(t, doc, &d)
	d.check(t)
	if len(d.Packages) != len(targets) {
		t.Fatalf("%d packages", len(d.Packages))
	}
	for _, p := range d.Packages {
		data, err := os.ReadFile(filepath.Join(out, p.Identifier[strings.LastIndex(p.Identifier, "/")+1:]))
		if err != nil {
			t.Fatal(err)
		}
		if got := digest(data); got != p.FileSHA256 {
			t.Errorf("%s has %s", p.Identifier, got)
		}
	}
}

// digest is the hash of bytes, hexadecimal.
func digest(data []byte) string { return fmt.Sprintf("%x", sha256.Sum256(data)) }

// manifestDoc is what the format (0.3) allows and we use.
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

// TestManifest: the committed manifest and those made of it are right for
// every system.
func TestManifest(t *testing.T) {
	var committed manifestDoc
	read(t, file(t, "packaging/mcpb/manifest.json"), &committed)
	if committed.Version != rw.Version || committed.ManifestVersion != "0.3" || committed.Server.Type != "binary" || committed.License != "MIT" {
		t.Errorf("%+v", committed)
	}
	if len(committed.Tools) > 0 {
		t.Error("the tools come from the table")
	}
	for _, to := range targets {
		doc, err := manifest(root, to)
		if err != nil {
			t.Fatal(err)
		}
		var d manifestDoc
		read(t, doc, &d)
		if d.Server.Config.Command != "${__dirname}/"+d.Server.EntryPoint || (to.system == "windows") != strings.HasSuffix(d.Server.EntryPoint, ".exe") {
			t.Errorf("%s: %+v", to, d.Server)
		}
		if !slices.Contains([]string{"darwin", "win32", "linux"}, d.Compatibility.Platforms[0]) {
			t.Errorf("%s: %v", to, d.Compatibility)
		}
		for _, arg := range d.Server.Config.Args {
			name, asked := strings.CutPrefix(arg, "${user_config.")
			c, there := d.UserConfig[strings.TrimSuffix(name, "}")]
			if asked && (!there || !c.Required && c.Default == "") {
				t.Errorf("%s: nobody fills in %s", to, arg)
			}
		}
	}
}

// TestBundlesAreReproducible: the same sources make the same bytes.
func TestBundlesAreReproducible(t *testing.T) {
	var first []byte
	for range 3 {
		data, err := pack(root, targets[0], []byte("program"))
		if err != nil {
			t.Fatal(err)
		}
		if first == nil {
			first = data
		}
		if diff := cmp.Diff(digest(first), digest(data)); diff != "" {
			t.Fatal(diff)
		}
	}
}

// TestTargets: a slip in the name of a system is an error, not a smaller
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

// TestBundleRuns installs the bundle of this system as a client does: it takes
// the archive apart, fills in what it asks the user, starts the program, and
// finds the tools that the manifest promises.
func TestBundleRuns(t *testing.T) {
	here := slices.IndexFunc(targets, func(to target) bool { return to.system == runtime.GOOS && to.machine == runtime.GOARCH })
	if here < 0 {
		t.Skipf("there is no bundle for %s/%s", runtime.GOOS, runtime.GOARCH)
	}
	to, dir := targets[here], t.TempDir()
	program := filepath.Join(dir, "built")
	cmd := exec.Command("go", "build", "-o", program, "./cmd/resilient-write")
	cmd.Dir = root
	if text, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	data, err := os.ReadFile(program)
	if err != nil {
		t.Fatal(err)
	}
	made, err := write(root, dir, to, data)
	if err != nil {
		t.Fatal(err)
	}
	home := filepath.Join(dir, "installed")
	unpack(t, filepath.Join(dir, made.name), home)
	var d manifestDoc
	doc, err := os.ReadFile(filepath.Join(home, "manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
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

// unpack takes an archive apart, with the modes that it holds.
func unpack(t *testing.T, archive, to string) {
	t.Helper()
	z, err := zip.OpenReader(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer z.Close()
	for _, f := range z.File {
		path := filepath.Join(to, filepath.FromSlash(f.Name))
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, f.Mode()); err != nil {
			t.Fatal(err)
		}
	}
}

// tools starts a server and returns the names of its tools, in order.
func tools(t *testing.T, command string, args []string) []string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	c, err := client.NewStdioMCPClient(command, os.Environ(), args...)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var req mcp.InitializeRequest
	req.Params.ProtocolVersion = mcp.LATEST_PROTOCOL_VERSION
	req.Params.ClientInfo = mcp.Implementation{Name: "bundle", Version: "1"}
	if _, err := c.Initialize(ctx, req); err != nil {
		t.Fatal(err)
	}
	res, err := c.ListTools(ctx, mcp.ListToolsRequest{})
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, tool := range res.Tools {
		names = append(names, tool.Name)
	}
	slices.Sort(names)
	return names
}
