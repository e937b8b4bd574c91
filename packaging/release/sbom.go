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

// object is an object of JSON.
type object map[string]any

// purl returns the package URL of a module.
func purl(path, version string) string { return "pkg:golang/" + path + "@" + version }

// modules writes the list of the modules in a program, from what the compiler
// recorded in it, in the format CycloneDX 1.6. It has no serial number and no time, so
// that the same program has the same list.
func (r *release) modules(to target, program []byte) error {
	info, err := buildinfo.Read(bytes.NewReader(program))
	if err != nil {
		return err
	}
	own := purl(info.Main.Path, "v"+rw.Version) + "?goos=" + to.system + "&goarch=" + to.machine + "#cmd/resilient-write"
	main := object{
		"type": "application", "bom-ref": own, "name": "resilient-write", "version": rw.Version, "purl": own,
		"hashes":   []object{{"alg": "SHA-256", "content": fmt.Sprintf("%x", sha256.Sum256(program))}},
		"licenses": []object{{"license": object{"id": "MIT"}}},
	}
	if r.commit != "" {
		main["properties"] = []object{{"name": "vcs:revision", "value": r.commit}}
	}
	var libraries []object
	var refs []string
	add := func(name, version string, properties ...object) {
		library := object{"type": "library", "bom-ref": purl(name, version), "name": name, "version": version, "purl": purl(name, version)}
		if properties != nil {
			library["properties"] = properties
		}
		libraries, refs = append(libraries, library), append(refs, purl(name, version))
	}
	add("std", strings.TrimPrefix(info.GoVersion, "go"))
	for _, m := range info.Deps {
		if m.Replace != nil {
			return fmt.Errorf("%s is replaced; a release has no replaced modules", m.Path)
		}
		add(m.Path, m.Version, object{"name": "golang:sum", "value": m.Sum}) // of a directory, in Go's own form
	}
	text, err := jsontext.Encode(object{
		"bomFormat": "CycloneDX", "specVersion": "1.6", "version": 1, "metadata": object{"component": main},
		"components": libraries, "dependencies": []object{{"ref": own, "dependsOn": refs}},
	}, "  ")
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
