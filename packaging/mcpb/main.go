// Command mcpb makes what a release needs besides its tag: a bundle for each
// system, which Claude Desktop and others install by opening it, and the
// server.json of the public registry with the address and the hash of each
// bundle. Run it in the root of the repository:
//
//	go run ./packaging/mcpb -out dist
//
// The same sources make the same bytes, so that anybody can compare the hashes.
// The manifests are validated by the tool of the format's authors where npx is
// there; where it is not, that is said. See docs/release.md.
package main

import (
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	rw "github.com/resilientwrite/resilientwrite"
)

func main() {
	out := flag.String("out", "dist", "directory for the bundles and server.json")
	only := flag.String("targets", "", "systems, as in linux/amd64,darwin/arm64; default all")
	flag.Parse()
	if err := run(os.Stdout, ".", *out, *only); err != nil {
		fmt.Fprintln(os.Stderr, "mcpb:", err)
		os.Exit(1)
	}
}

// validator is the tool that validates manifests, pinned.
const validator = "@anthropic-ai/mcpb@2.1.2"

// run makes the bundles of the repository in root.
func run(log io.Writer, root, out, only string) error {
	chosen, err := choose(only)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(out, 0o755); err != nil {
		return err
	}
	var made []bundle
	for _, to := range chosen {
		b, err := build(root, out, to)
		if err != nil {
			return fmt.Errorf("%s: %w", to, err)
		}
		fmt.Fprintf(log, "%s  %s\n", b.sha256, b.name)
		if err := validate(log, root, to); err != nil {
			return fmt.Errorf("%s: %w", to, err)
		}
		made = append(made, b)
	}
	if strings.Contains(rw.Version, "-dev") {
		fmt.Fprintf(log, "%s is no release: server.json was not filled in\n", rw.Version)
		return nil
	}
	doc, err := registry(root, made)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, "server.json"), doc, 0o644)
}

// bundle is one file of a release.
type bundle struct {
	name   string
	sha256 string
}

// build compiles the program for a system and packs it.
func build(root, out string, to target) (bundle, error) {
	temp, err := os.MkdirTemp("", "mcpb")
	if err != nil {
		return bundle{}, err
	}
	defer os.RemoveAll(temp)
	program := filepath.Join(temp, to.program())
	cmd := exec.Command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w", "-o", program, "./cmd/resilient-write")
	cmd.Dir, cmd.Env = root, append(os.Environ(), "GOOS="+to.system, "GOARCH="+to.machine, "CGO_ENABLED=0")
	if text, err := cmd.CombinedOutput(); err != nil {
		return bundle{}, fmt.Errorf("%w: %s", err, text)
	}
	data, err := os.ReadFile(program)
	if err != nil {
		return bundle{}, err
	}
	return write(root, out, to, data)
}

// write packs a compiled program and writes the bundle.
func write(root, out string, to target, program []byte) (bundle, error) {
	data, err := pack(root, to, program)
	if err != nil {
		return bundle{}, err
	}
	sum := sha256.Sum256(data)
	b := bundle{name: to.file(), sha256: hex.EncodeToString(sum[:])}
	return b, os.WriteFile(filepath.Join(out, b.name), data, 0o644)
}

// validate runs the tool of the format's authors over the manifest.
func validate(log io.Writer, root string, to target) error {
	npx, err := exec.LookPath("npx")
	if err != nil {
		fmt.Fprintln(log, "  not validated: there is no npx here")
		return nil
	}
	doc, err := manifest(root, to)
	if err != nil {
		return err
	}
	temp, err := os.MkdirTemp("", "mcpb")
	if err != nil {
		return err
	}
	defer os.RemoveAll(temp)
	if err := os.WriteFile(filepath.Join(temp, "manifest.json"), doc, 0o644); err != nil {
		return err
	}
	cmd := exec.Command(npx, "--yes", validator, "validate", "manifest.json")
	cmd.Dir = temp
	text, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("the manifest is not valid, or %s could not be had: %w: %s", validator, err, text)
	}
	fmt.Fprintf(log, "  validated by %s\n", validator)
	return nil
}
