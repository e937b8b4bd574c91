package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/jsontext"
	"github.com/resilientwrite/resilientwrite/toolbox"
)

// An entry is a file of an archive.
type entry struct {
	name    string
	mode    os.FileMode
	content []byte
}

// epoch is the time of every file in an archive: the earliest that all formats
// can represent.
var epoch = time.Date(1985, 10, 26, 8, 15, 0, 0, time.UTC)

// level is that of the compression.
var level = flate.DefaultCompression

// tarball makes a .tar.gz. With a prefix of "./" it has the directories too, as
// a Debian package needs them.
func tarball(prefix string, files []entry) ([]byte, error) {
	var b bytes.Buffer
	z, err := gzip.NewWriterLevel(&b, level)
	if err != nil {
		return nil, err
	}
	t := tar.NewWriter(z)
	add := func(h *tar.Header, content []byte) error {
		h.ModTime, h.Uname, h.Gname, h.Format = epoch, "root", "root", tar.FormatUSTAR
		if err := t.WriteHeader(h); err != nil {
			return err
		}
		_, err := t.Write(content)
		return err
	}
	if prefix == "./" {
		for _, dir := range parents(files) {
			if err := add(&tar.Header{Typeflag: tar.TypeDir, Name: prefix + dir + "/", Mode: 0o755}, nil); err != nil {
				return nil, err
			}
		}
	}
	for _, f := range files {
		if err := add(&tar.Header{Typeflag: tar.TypeReg, Name: prefix + f.name, Mode: int64(f.mode), Size: int64(len(f.content))}, f.content); err != nil {
			return nil, err
		}
	}
	if err := t.Close(); err != nil {
		return nil, err
	}
	err = z.Close()
	return b.Bytes(), err
}

// parents returns the directories of files, each before its content.
func parents(files []entry) []string {
	var dirs []string
	for _, f := range files {
		for dir := path.Dir(f.name); dir != "."; dir = path.Dir(dir) {
			dirs = append(dirs, dir)
		}
	}
	slices.Sort(dirs)
	return slices.Compact(dirs)
}

// zipped makes a .zip.
func zipped(prefix string, files []entry) ([]byte, error) {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	z.RegisterCompressor(zip.Deflate, func(w io.Writer) (io.WriteCloser, error) { return flate.NewWriter(w, level) })
	for _, f := range files {
		h := &zip.FileHeader{Name: prefix + f.name, Method: zip.Deflate, Modified: epoch}
		h.SetMode(f.mode)
		w, err := z.CreateHeader(h)
		if err != nil {
			return nil, err
		}
		if _, err := w.Write(f.content); err != nil {
			return nil, err
		}
	}
	err := z.Close()
	return b.Bytes(), err
}

// texts returns the licenses, which accompany the program everywhere.
func (r *release) texts(dir string) []entry {
	return []entry{{dir + "LICENSE", 0o644, r.license}, {dir + "LICENSES.txt", 0o644, r.licenses}}
}

// archive makes the archive for people.
func (r *release) archive(to target, program []byte) error {
	pack, end := tarball, ".tar.gz"
	if to.system == "windows" {
		pack, end = zipped, ".zip"
	}
	packed, err := pack(to.name()+"/", append([]entry{{to.program(), 0o755, program}}, r.texts("")...))
	if err != nil {
		return err
	}
	return r.write(to.name()+end, packed, 0o644)
}

// debian makes a package for Debian and its derivatives.
func (r *release) debian(to target, program []byte) error {
	if to.system != "linux" {
		return nil
	}
	files := append([]entry{{"usr/bin/resilient-write", 0o755, program}}, r.texts("usr/share/doc/resilient-write/")...)
	files[1].name = "usr/share/doc/resilient-write/copyright"
	control, err := fill("control", map[string]any{
		// A version with a tilde suffix sorts before the release.
		"Debian": strings.Replace(rw.Version, "-", "~", 1), "Machine": to.machine, "Home": home, "KiB": (len(program) + len(r.licenses)) / 1024,
	})
	if err != nil {
		return err
	}
	about, err := tarball("./", []entry{{"control", 0o644, control}})
	if err != nil {
		return err
	}
	content, err := tarball("./", files)
	if err != nil {
		return err
	}
	var b bytes.Buffer
	b.WriteString("!<arch>\n")
	for _, f := range []entry{{"debian-binary", 0, []byte("2.0\n")}, {"control.tar.gz", 0, about}, {"data.tar.gz", 0, content}} {
		fmt.Fprintf(&b, "%-16s%-12d%-6d%-6d%-8s%-10d`\n", f.name, epoch.Unix(), 0, 0, "100644", len(f.content))
		b.Write(f.content)
		if b.Len()%2 == 1 {
			b.WriteByte('\n')
		}
	}
	return r.write(to.name()+".deb", b.Bytes(), 0o644)
}

// container puts the program where the container file expects it.
func (r *release) container(to target, program []byte) error {
	if to.system != "linux" {
		return nil
	}
	for _, f := range append(r.texts(""), entry{"resilient-write", 0o755, program}) {
		if err := r.write("container/linux-"+to.machine+"/"+f.name, f.content, f.mode); err != nil {
			return err
		}
	}
	return nil
}

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
	maps.Copy(doc, more)
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
	for _, name := range slices.Sorted(maps.Keys(r.sums)) {
		if strings.HasSuffix(name, ".mcpb") {
			packages = append(packages, map[string]any{
				"registryType": "mcpb", "identifier": address(name), "version": rw.Version, "fileSha256": r.sums[name], "transport": stdio,
			})
		}
	}
	doc["packages"] = packages
	return jsontext.Encode(doc, "  ")
}
