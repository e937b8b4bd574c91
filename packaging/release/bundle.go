package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/jsontext"
	"github.com/resilientwrite/resilientwrite/toolbox"
)

// platform returns the name of the system in a manifest and in Node.
func (t target) platform() string {
	if t.system == "windows" {
		return "win32"
	}
	return t.system
}

// bundleName returns the name of the bundle. The format distinguishes systems
// but not machines, so there is one bundle for each pair; the registry requires
// "mcp" in its address.
func (t target) bundleName() string {
	return strings.Replace(t.name(), "resilient-write_", "resilient-write-mcp_", 1) + ".mcpb"
}

// bundle makes the bundle of a system: the manifest, the program, the licenses.
func (r *release) bundle(to target, program []byte) error {
	doc, err := manifest(to)
	if err != nil {
		return err
	}
	packed, err := zipped("", append([]entry{{"manifest.json", 0o644, doc}, {"server/" + to.program(), 0o755, program}}, r.texts("")...))
	if err != nil {
		return err
	}
	return r.write(to.bundleName(), packed, 0o644)
}

// manifest returns data/mcpb.json adapted to one system: the name of its
// program, and the tools of the default tier.
func manifest(to target) ([]byte, error) {
	text, err := data.ReadFile("data/mcpb.json")
	if err != nil {
		return nil, err
	}
	var doc map[string]any
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, err
	}
	doc["version"] = rw.Version
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
	return jsontext.Encode(doc, "  ")
}

// registry returns server.json with the bundles of the release and the npm
// package filled in.
func (r *release) registry() ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(r.root, "server.json"))
	if err != nil {
		return nil, err
	}
	var doc map[string]any
	if err := json.Unmarshal(text, &doc); err != nil {
		return nil, err
	}
	if doc["version"] != rw.Version {
		return nil, fmt.Errorf("server.json is of version %v, the program of %s", doc["version"], rw.Version)
	}
	stdio := map[string]string{"type": "stdio"}
	packages := []map[string]any{{"registryType": "npm", "identifier": "resilient-write", "version": rw.Version, "transport": stdio}}
	var names []string
	for name := range r.sums {
		if strings.HasSuffix(name, ".mcpb") {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		packages = append(packages, map[string]any{
			"registryType": "mcpb", "identifier": address(name), "version": rw.Version, "fileSha256": r.sums[name], "transport": stdio,
		})
	}
	doc["packages"] = packages
	return jsontext.Encode(doc, "  ")
}
