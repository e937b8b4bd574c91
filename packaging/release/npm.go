package main

import (
	"fmt"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/jsontext"
)

// npmName returns the name of the package with the program of a target. npm
// installs the one that fits the system; the name consists of process.platform
// and process.arch.
func (t target) npmName() string {
	machine := t.machine
	if machine == "amd64" {
		machine = "x64"
	}
	return t.platform() + "-" + machine
}

func npmPackage(name, about string, more map[string]any) ([]byte, error) {
	doc := map[string]any{
		"name": name, "version": rw.Version, "description": about, "license": "MIT", "homepage": home,
		"repository": map[string]string{"type": "git", "url": "git+" + home + ".git"},
	}
	for key, value := range more {
		doc[key] = value
	}
	return jsontext.Encode(doc, "  ")
}

// npm makes the package with the program of a target.
func (r *release) npm(to target, program []byte) error {
	name := to.npmName()
	machine := name[len(to.platform())+1:]
	doc, err := npmPackage("@resilientwrite/"+name, fmt.Sprintf("The program of resilient-write for %s.", to), map[string]any{
		"os": []string{to.platform()}, "cpu": []string{machine}, "preferUnplugged": true,
	})
	if err != nil {
		return err
	}
	packed, err := tarball("package/", append([]entry{{"package.json", 0o644, doc}, {to.program(), 0o755, program}}, r.texts("")...))
	if err != nil {
		return err
	}
	return r.write("npm/resilientwrite-"+name+"-"+rw.Version+".tgz", packed, 0o644)
}

// npmMain makes the package that users install by name.
func (r *release) npmMain() error {
	programs := map[string]string{}
	for _, to := range targets {
		programs["@resilientwrite/"+to.npmName()] = rw.Version
	}
	doc, err := npmPackage("resilient-write", "Durable file writes for coding agents, as an MCP server and a command.", map[string]any{
		"bin": map[string]string{"resilient-write": "resilient-write.js"}, "engines": map[string]string{"node": ">=18"},
		"mcpName": "io.github.resilientwrite/resilientwrite", "optionalDependencies": programs,
	})
	if err != nil {
		return err
	}
	files := []entry{{"package.json", 0o644, doc}, {"LICENSE", 0o644, r.license}}
	for _, f := range []entry{{"resilient-write.js", 0o755, nil}, {"README.md", 0o644, nil}} {
		if f.content, err = data.ReadFile("data/npm/" + f.name); err != nil {
			return err
		}
		files = append(files, f)
	}
	packed, err := tarball("package/", files)
	if err != nil {
		return err
	}
	return r.write("npm/resilient-write-"+rw.Version+".tgz", packed, 0o644)
}
