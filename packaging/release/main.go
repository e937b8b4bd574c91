// Command release makes the files of a release, for linux, macOS and Windows on
// amd64 and arm64: archives, bundles that Claude Desktop and others open
// (.mcpb), npm packages, Debian packages, a Homebrew formula, the context of a
// container image, a list of the modules in each program (CycloneDX), the
// server.json of the public registry, and SHA256SUMS. Run it in the root of the
// repository:
//
//	go run ./packaging/release -out dist
//
// The same sources and the same version of Go produce the same bytes, in any
// directory. It needs only Go. See docs/release.md.
package main

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"text/template"

	rw "github.com/resilientwrite/resilientwrite"
)

const home = "https://github.com/resilientwrite/resilientwrite"

//go:embed data
var data embed.FS

func main() {
	out := flag.String("out", "dist", "directory for what is made")
	only := flag.String("targets", "", "systems, as in linux/amd64,darwin/arm64; default all")
	flag.Parse()
	if err := run(os.Stdout, ".", *out, *only); err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// A target is a system for which the program is built.
type target struct{ system, machine string }

var targets = []target{
	{"darwin", "amd64"}, {"darwin", "arm64"},
	{"linux", "amd64"}, {"linux", "arm64"},
	{"windows", "amd64"}, {"windows", "arm64"},
}

func (t target) String() string { return t.system + "/" + t.machine }

// program returns the name of the compiled program.
func (t target) program() string {
	if t.system == "windows" {
		return "resilient-write.exe"
	}
	return "resilient-write"
}

// name returns the prefix of the name of every file for the target.
func (t target) name() string {
	return fmt.Sprintf("resilient-write_%s_%s_%s", rw.Version, t.system, t.machine)
}

// choose parses a list of targets; an empty list means all.
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

// A release is the result of one run.
type release struct {
	log       io.Writer
	root, out string
	commit    string            // of the sources, empty if not known
	license   []byte            // of the program
	licenses  []byte            // of the modules in the program of the current target
	sums      map[string]string // SHA-256 of each file
}

// run makes the release of the repository in root.
func run(log io.Writer, root, out, only string) error {
	chosen, err := choose(only)
	if err != nil {
		return err
	}
	r := &release{log: log, root: root, out: out, commit: commitOf(root), sums: map[string]string{}}
	if r.license, err = os.ReadFile(filepath.Join(root, "LICENSE")); err != nil {
		return err
	}
	for _, to := range chosen {
		if err := r.make(to); err != nil {
			return fmt.Errorf("%s: %w", to, err)
		}
	}
	if err := r.finish(chosen); err != nil {
		return err
	}
	return r.list()
}

// make makes everything for one target.
func (r *release) make(to target) error {
	program, err := r.compile(to)
	if err != nil {
		return err
	}
	return r.pack(to, program)
}

// pack makes the files of one target from its program.
func (r *release) pack(to target, program []byte) (err error) {
	if r.licenses, err = r.notices(program); err != nil {
		return err
	}
	for _, step := range []func(target, []byte) error{r.archive, r.bundle, r.npm, r.modules, r.debian, r.container} {
		if err := step(to, program); err != nil {
			return err
		}
	}
	return nil
}

// compile builds the program. The result does not depend on the machine.
func (r *release) compile(to target) ([]byte, error) {
	temp, err := os.MkdirTemp("", "release")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(temp)
	program := filepath.Join(temp, to.program())
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w -buildid= -X main.commit="+r.commit, "-o", program, "./cmd/resilient-write")
	cmd.Dir = r.root
	cmd.Env = append(os.Environ(), "GOOS="+to.system, "GOARCH="+to.machine, "CGO_ENABLED=0", "GOFLAGS=", "GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=")
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, fmt.Errorf("%w: %s", err, text)
	}
	return os.ReadFile(program)
}

// commitOf returns the commit of a checkout without changes, otherwise "".
func commitOf(root string) string {
	git := func(args ...string) (string, error) {
		cmd := exec.Command("git", args...)
		cmd.Dir = root
		out, err := cmd.Output()
		return strings.TrimSpace(string(out)), err
	}
	if changes, err := git("status", "--porcelain"); err != nil || changes != "" {
		return ""
	}
	commit, _ := git("rev-parse", "HEAD")
	return commit
}

// write makes a file of the release.
func (r *release) write(name string, content []byte, mode os.FileMode) error {
	path := filepath.Join(r.out, filepath.FromSlash(name))
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	sum := sha256.Sum256(content)
	r.sums[name] = hex.EncodeToString(sum[:])
	return os.WriteFile(path, content, mode)
}

// finish makes the files that name the files of several targets.
func (r *release) finish(chosen []target) error {
	if err := r.npmMain(); err != nil {
		return err
	}
	file, err := data.ReadFile("data/Containerfile")
	if err != nil {
		return err
	}
	if err := r.write("container/Containerfile", file, 0o644); err != nil {
		return err
	}
	if len(chosen) < len(targets) {
		fmt.Fprintln(r.log, "not all targets: no formula and no server.json")
		return nil
	}
	formula, err := fill("formula.rb", r)
	if err != nil {
		return err
	}
	if err := r.write("resilient-write.rb", formula, 0o644); err != nil {
		return err
	}
	doc, err := r.registry()
	if err != nil {
		return err
	}
	return r.write("server.json", doc, 0o644)
}

// list writes SHA256SUMS, in the form that sha256sum checks.
func (r *release) list() error {
	var b bytes.Buffer
	for _, name := range slices.Sorted(maps.Keys(r.sums)) {
		fmt.Fprintf(&b, "%s  %s\n", r.sums[name], name)
	}
	fmt.Fprint(r.log, b.String())
	return os.WriteFile(filepath.Join(r.out, "SHA256SUMS"), b.Bytes(), 0o644)
}

// Methods called by templates.

func (r *release) Home() string    { return home }
func (r *release) Version() string { return rw.Version }

// URL returns the address of the archive of a target after the release.
func (r *release) URL(system, machine string) string {
	return address(target{system, machine}.name() + ".tar.gz")
}

// Sum returns the hash of the archive of a target.
func (r *release) Sum(system, machine string) string {
	return r.sums[target{system, machine}.name()+".tar.gz"]
}

// address returns the address of a file of the release once it is uploaded.
func address(name string) string { return home + "/releases/download/v" + rw.Version + "/" + name }

// fill fills in a template.
func fill(name string, values any) ([]byte, error) {
	t, err := template.ParseFS(data, "data/"+name)
	if err != nil {
		return nil, err
	}
	var b bytes.Buffer
	err = t.Execute(&b, values)
	return b.Bytes(), err
}
