package main

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/toolbox"
)

// target is a system to make a bundle for. The format knows the system but not
// the machine, so there is one bundle for each pair, and its name says which.
type target struct{ system, machine string }

var targets = []target{
	{"darwin", "amd64"}, {"darwin", "arm64"},
	{"linux", "amd64"}, {"linux", "arm64"},
	{"windows", "amd64"}, {"windows", "arm64"},
}

func (t target) String() string { return t.system + "/" + t.machine }

// platform is the name of the system in a manifest.
func (t target) platform() string {
	if t.system == "windows" {
		return "win32"
	}
	return t.system
}

// program is the name of the compiled program.
func (t target) program() string {
	if t.system == "windows" {
		return "resilient-write.exe"
	}
	return "resilient-write"
}

// file is the name of the bundle. The registry wants "mcp" in its address.
func (t target) file() string {
	return fmt.Sprintf("resilient-write-mcp_%s_%s_%s.mcpb", rw.Version, t.system, t.machine)
}

// choose reads a list of targets, empty for all.
func choose(list string) ([]target, error) {
	if list == "" {
		return targets, nil
	}
	var out []target
	for _, name := range strings.Split(list, ",") {
		i := slices.IndexFunc(targets, func(t target) bool { return t.String() == name })
		if i < 0 {
			return nil, fmt.Errorf("unknown target %q; there are %v", name, targets)
		}
		out = append(out, targets[i])
	}
	return out, nil
}

// manifest is the committed manifest made fit for one system: the name of its
// program, and the tools of the default tier.
func manifest(root string, to target) ([]byte, error) {
	doc, err := readObject(filepath.Join(root, "packaging", "mcpb", "manifest.json"))
	if err != nil {
		return nil, err
	}
	if doc["version"] != rw.Version {
		return nil, fmt.Errorf("the manifest is of version %v, the program of %s", doc["version"], rw.Version)
	}
	server := doc["server"].(map[string]any)
	server["entry_point"] = "server/" + to.program()
	server["mcp_config"].(map[string]any)["command"] = "${__dirname}/server/" + to.program()
	doc["compatibility"] = map[string]any{"platforms": []string{to.platform()}}
	var tools []map[string]string
	for _, t := range toolbox.New(nil, nil).Tools() {
		first, _, _ := strings.Cut(t.Description, ". ")
		tools = append(tools, map[string]string{"name": t.Name, "description": strings.TrimSuffix(first, ".") + "."})
	}
	doc["tools"] = tools
	return encode(doc)
}

// epoch is the time of every file in a bundle: the earliest that the format of
// the archive can say.
var epoch = time.Date(1980, 1, 1, 0, 0, 0, 0, time.UTC)

// pack makes the archive: the manifest, the program, the license. The same
// parts make the same bytes.
func pack(root string, to target, program []byte) ([]byte, error) {
	doc, err := manifest(root, to)
	if err != nil {
		return nil, err
	}
	license, err := os.ReadFile(filepath.Join(root, "LICENSE"))
	if err != nil {
		return nil, err
	}
	var out bytes.Buffer
	z := zip.NewWriter(&out)
	for _, f := range []struct {
		name string
		mode os.FileMode
		data []byte
	}{
		{"manifest.json", 0o644, doc},
		{"server/" + to.program(), 0o755, program},
		{"LICENSE", 0o644, license},
	} {
		h := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: epoch}
		h.SetMode(f.mode)
		w, err := z.CreateHeader(h)
		if err != nil {
			return nil, err
		}
		if _, err := w.Write(f.data); err != nil {
			return nil, err
		}
	}
	if err := z.Close(); err != nil {
		return nil, err
	}
	return out.Bytes(), nil
}

// registry is server.json with the bundles of a release filled in.
func registry(root string, made []bundle) ([]byte, error) {
	doc, err := readObject(filepath.Join(root, "server.json"))
	if err != nil {
		return nil, err
	}
	if doc["version"] != rw.Version {
		return nil, fmt.Errorf("server.json is of version %v, the program of %s", doc["version"], rw.Version)
	}
	var packages []map[string]any
	for _, b := range made {
		packages = append(packages, map[string]any{
			"registryType": "mcpb",
			"identifier":   fmt.Sprintf("%s/releases/download/v%s/%s", doc["websiteUrl"], rw.Version, b.name),
			"version":      rw.Version,
			"fileSha256":   b.sha256,
			"transport":    map[string]string{"type": "stdio"},
		})
	}
	doc["packages"] = packages
	return encode(doc)
}

func readObject(path string) (map[string]any, error) {
	data, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	var doc map[string]any
	if err := json.Unmarshal(data, &doc); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Base(path), err)
	}
	return doc, nil
}

// encode writes JSON for readers, with its members in order of their names.
func encode(doc any) ([]byte, error) {
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	e.SetIndent("", "  ")
	err := e.Encode(doc)
	return out.Bytes(), err
}
