package main

import (
	"bytes"
	"crypto/sha256"
	"debug/buildinfo"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/jsontext"
)

// bom is a list of components in the format CycloneDX 1.6. It has no serial
// number and no time, so that the same program has the same list.
type bom struct {
	Format       string       `json:"bomFormat"`
	SpecVersion  string       `json:"specVersion"`
	Version      int          `json:"version"`
	Metadata     metadata     `json:"metadata"`
	Components   []component  `json:"components"`
	Dependencies []dependency `json:"dependencies"`
}

type metadata struct {
	Component component `json:"component"`
}

type component struct {
	Type       string     `json:"type"`
	Ref        string     `json:"bom-ref"`
	Name       string     `json:"name"`
	Version    string     `json:"version"`
	PURL       string     `json:"purl"`
	Hashes     []hash     `json:"hashes,omitempty"`
	Licenses   []license  `json:"licenses,omitempty"`
	Properties []property `json:"properties,omitempty"`
}

type hash struct {
	Alg     string `json:"alg"`
	Content string `json:"content"`
}

type license struct {
	License struct {
		ID string `json:"id"`
	} `json:"license"`
}

type property struct {
	Name  string `json:"name"`
	Value string `json:"value"`
}

type dependency struct {
	Ref       string   `json:"ref"`
	DependsOn []string `json:"dependsOn"`
}

// purl returns the package URL of a module.
func purl(path, version string) string { return "pkg:golang/" + path + "@" + version }

// modules writes the list of the modules in a program, from what the compiler
// recorded in it.
func (r *release) modules(to target, program []byte) error {
	info, err := buildinfo.Read(bytes.NewReader(program))
	if err != nil {
		return err
	}
	own := purl(info.Main.Path, "v"+rw.Version) + "?goos=" + to.system + "&goarch=" + to.machine + "#cmd/resilient-write"
	doc := bom{Format: "CycloneDX", SpecVersion: "1.6", Version: 1, Metadata: metadata{component{
		Type: "application", Ref: own, Name: "resilient-write", Version: rw.Version, PURL: own,
		Hashes: []hash{{"SHA-256", fmt.Sprintf("%x", sha256.Sum256(program))}}, Licenses: make([]license, 1),
	}}}
	doc.Metadata.Component.Licenses[0].License.ID = "MIT"
	if r.commit != "" {
		doc.Metadata.Component.Properties = []property{{"vcs:revision", r.commit}}
	}
	version := strings.TrimPrefix(info.GoVersion, "go")
	doc.Components = []component{{Type: "library", Name: "std", Version: version, PURL: purl("std", version)}}
	for _, m := range info.Deps {
		if m.Replace != nil {
			return fmt.Errorf("%s is replaced; a release has no replaced modules", m.Path)
		}
		// The hash is that of a directory, in Go's own form.
		doc.Components = append(doc.Components, component{Type: "library", Name: m.Path, Version: m.Version, PURL: purl(m.Path, m.Version),
			Properties: []property{{"golang:sum", m.Sum}}})
	}
	all := dependency{Ref: own}
	for i := range doc.Components {
		c := &doc.Components[i]
		c.Ref = c.PURL
		all.DependsOn = append(all.DependsOn, c.Ref)
	}
	doc.Dependencies = []dependency{all}
	text, err := jsontext.Encode(doc, "  ")
	if err != nil {
		return err
	}
	return r.write(to.name()+".cdx.json", text, 0o644)
}

// notices returns the licenses of the modules in a program, whose texts must
// accompany it.
func (r *release) notices(program []byte) ([]byte, error) {
	info, err := buildinfo.Read(bytes.NewReader(program))
	if err != nil {
		return nil, err
	}
	cmd := exec.Command("go", "list", "-m", "-f", "{{.Path}}\t{{.Dir}}", "all")
	cmd.Dir = r.root
	out, err := cmd.Output()
	if err != nil {
		return nil, err
	}
	dirs := map[string]string{}
	for _, line := range strings.Split(strings.TrimSpace(string(out)), "\n") {
		path, dir, _ := strings.Cut(line, "\t")
		dirs[path] = dir
	}
	root := exec.Command("go", "env", "GOROOT")
	goroot, err := root.Output()
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	write := func(name, dir string) error {
		found := 0
		for _, pattern := range []string{"LICENSE*", "LICENCE*", "COPYING*", "NOTICE*"} {
			files, _ := filepath.Glob(filepath.Join(dir, pattern))
			for _, file := range files {
				text, err := os.ReadFile(file)
				if err != nil {
					return err
				}
				fmt.Fprintf(&b, "== %s, %s\n\n%s\n", name, filepath.Base(file), text)
				found++
			}
		}
		if found == 0 {
			return fmt.Errorf("%s has no license", name)
		}
		return nil
	}
	if err := write("Go "+info.GoVersion, strings.TrimSpace(string(goroot))); err != nil {
		return nil, err
	}
	for _, m := range info.Deps {
		if err := write(m.Path+" "+m.Version, dirs[m.Path]); err != nil {
			return nil, err
		}
	}
	return b.Bytes(), nil
}
