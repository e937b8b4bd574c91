package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// full reports whether everything must be tested, for all systems.
func full() bool { return os.Getenv("RW_RELEASE") == "all" }

// notRun reports that a part of the release was not tested, which is an error
// if everything must be.
func notRun(t *testing.T, why string) {
	t.Helper()
	testbed.Require(t, !full(), "NOT RUN: %s", why)
	t.Skip("NOT RUN: " + why)
}

// need finds a program.
func need(t *testing.T, name string) string {
	t.Helper()
	found, err := exec.LookPath(name)
	if err != nil {
		notRun(t, name+" is absent")
	}
	return found
}

// must runs a program and returns what it prints.
func must(t *testing.T, dir, name string, args ...string) string {
	t.Helper()
	cmd := exec.Command(name, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	testbed.Require(t, err == nil, "%s %q: %v\n%s", name, args, err, out)
	return string(out)
}

// untar unpacks a .tar.gz.
func untar(t *testing.T, archive, to string) (names []string) {
	t.Helper()
	content := testbed.Must(os.ReadFile(archive))(t)
	z := testbed.Must(gzip.NewReader(bytes.NewReader(content)))(t)
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return names
		}
		testbed.NoErr(t, err)
		names = append(names, h.Name)
		file := filepath.Join(to, filepath.FromSlash(h.Name))
		testbed.NoErr(t, os.MkdirAll(filepath.Dir(file), 0o755))
		part := testbed.Must(io.ReadAll(r))(t)
		testbed.NoErr(t, os.WriteFile(file, part, h.FileInfo().Mode()))
	}
}

// TestNpmPackageRuns installs the packages from their files, without a registry,
// and runs the command that npm creates.
func TestNpmPackageRuns(t *testing.T) {
	npm := need(t, "npm")
	m, dir := aRelease(t), t.TempDir()
	main := m.file("npm/resilient-write-" + rw.Version + ".tgz")
	own := m.file("npm/resilientwrite-" + m.to.npmName() + "-" + rw.Version + ".tgz")

	// npm itself would pack the same files.
	names := untar(t, main, dir)
	var packed []struct{ Files []struct{ Path string } }
	out := must(t, filepath.Join(dir, "package"), npm, "pack", "--json", "--dry-run", "--offline")
	testbed.NoErr(t, json.Unmarshal([]byte(out[strings.Index(out, "["):]), &packed), out)
	var theirs []string
	for _, f := range packed[0].Files {
		theirs = append(theirs, "package/"+f.Path)
	}
	slices.Sort(names)
	slices.Sort(theirs)
	testbed.Equal(t, cmp.Diff(theirs, names), "")

	app := filepath.Join(dir, "app")
	testbed.NoErr(t, errors.Join(os.Mkdir(app, 0o755), os.WriteFile(filepath.Join(app, "package.json"), []byte(`{"name":"app","version":"1.0.0"}`), 0o644)))
	must(t, app, npm, "install", "--offline", "--no-audit", "--no-fund", "--cache", filepath.Join(dir, "cache"), own, main)
	command := filepath.Join(app, "node_modules", ".bin", "resilient-write")
	runs(t, command)
	cmd := exec.Command(command, "read", "no-such-file")
	cmd.Env = append(os.Environ(), "RW_WORKSPACE="+t.TempDir())
	if text, err := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != 4 && cmd.ProcessState.ExitCode() < 2 {
		t.Errorf("a refused call ends with %v: %s", err, text)
	}
	testbed.NoErr(t, os.RemoveAll(filepath.Join(app, "node_modules", "@resilientwrite")))
	text, err := exec.Command(command, "version").CombinedOutput()
	testbed.Expect(t, err != nil && strings.Contains(string(text), "@resilientwrite/"+m.to.npmName()+" is not installed"),
		"without the program: %v %s", err, text)
}

// TestDebianPackageRuns installs the package below a directory, with dpkg.
func TestDebianPackageRuns(t *testing.T) {
	dpkg := need(t, "dpkg")
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		notRun(t, "dpkg installs as root on linux")
	}
	m, system := aRelease(t), t.TempDir()
	pkg := m.file(m.to.name() + ".deb")
	testbed.Contains(t, must(t, ".", "dpkg-deb", "--info", pkg), "Version: "+strings.Replace(rw.Version, "-", "~", 1))
	for _, dir := range []string{"var/lib/dpkg/info", "var/lib/dpkg/updates", "var/lib/dpkg/triggers"} {
		testbed.NoErr(t, os.MkdirAll(filepath.Join(system, dir), 0o755))
	}
	for _, name := range []string{"status", "available"} {
		testbed.NoErr(t, os.WriteFile(filepath.Join(system, "var/lib/dpkg", name), nil, 0o644))
	}
	dpkgIn := func(args ...string) string {
		return must(t, ".", dpkg, append([]string{"--root=" + system, "--log=" + filepath.Join(system, "log")}, args...)...)
	}
	dpkgIn("--install", pkg)
	testbed.Contains(t, dpkgIn("--status", "resilient-write"), "Status: install ok installed")
	runs(t, filepath.Join(system, "usr/bin/resilient-write"))
	dpkgIn("--remove", "resilient-write")
	_, err := os.Stat(filepath.Join(system, "usr/bin/resilient-write"))
	testbed.Expect(t, err != nil, "the program is still there")
}

// TestContainer does what the container file says, without a builder: in a root
// directory that holds only what is copied, as an unprivileged user.
func TestContainer(t *testing.T) {
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		notRun(t, "only root on linux can change the root directory")
	}
	m, image := aRelease(t), t.TempDir()
	text := testbed.Must(os.ReadFile(m.file("container/Containerfile")))(t)
	for _, line := range strings.Split(string(text), "\n") {
		args, is := strings.CutPrefix(line, "COPY ")
		if !is {
			continue
		}
		list := strings.Fields(strings.ReplaceAll(args, "${TARGETARCH}", m.to.machine))
		to := list[len(list)-1]
		for _, from := range list[:len(list)-1] {
			file := filepath.Join(image, to)
			if strings.HasSuffix(to, "/") {
				file = filepath.Join(image, to, path.Base(from))
			}
			info := testbed.Must(os.Stat(m.file("container/" + from)))(t)
			content := testbed.Must(os.ReadFile(m.file("container/" + from)))(t)
			testbed.NoErr(t, errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, content, info.Mode())))
		}
	}
	testbed.Expect(t, strings.Contains(string(text), "\nUSER 65532:65532\n") && strings.Contains(string(text), `ENTRYPOINT ["/usr/bin/resilient-write"]`),
		"the container file has another user or program")
	work := filepath.Join(image, "work")
	testbed.NoErr(t, errors.Join(os.Chmod(image, 0o755), os.Mkdir(work, 0o755), os.Chown(work, 65532, 65532)))
	cmd := inRoot(image, 65532, "/usr/bin/resilient-write", "write", "a.txt")
	cmd.Dir, cmd.Env, cmd.Stdin = "/work", []string{"RW_WORKSPACE=/work"}, strings.NewReader("text\n")
	out, err := cmd.CombinedOutput()
	testbed.Require(t, err == nil, "%v: %s", err, out)
	testbed.Holds(t, filepath.Join(work, "a.txt"), "text\n")
}

// TestImage builds the image and runs the program in it, as the user that the
// image names.
func TestImage(t *testing.T) {
	buildah := need(t, "buildah")
	if runtime.GOOS != "linux" || os.Geteuid() != 0 {
		notRun(t, "an image is built by root on linux")
	}
	m, dir := aRelease(t), t.TempDir()
	build := func(args ...string) string {
		storage := []string{"--storage-driver", "vfs", "--root", filepath.Join(dir, "images"), "--runroot", filepath.Join(dir, "run")}
		cmd := exec.Command(buildah, append(storage, args...)...)
		cmd.Dir = m.file("container")
		var said bytes.Buffer
		cmd.Stderr = &said
		out, err := cmd.Output()
		testbed.Require(t, err == nil, "buildah %q: %v\n%s", args, err, said.Bytes())
		return strings.TrimSpace(string(out))
	}
	build("build", "--isolation", "chroot", "-f", "Containerfile", "--build-arg", "TARGETARCH="+m.to.machine, "-t", "resilient-write:test", ".")
	var image struct {
		OCIv1 struct {
			Config struct {
				User, WorkingDir string
				Entrypoint, Cmd  []string
				Labels           map[string]string
			}
		}
	}
	testbed.NoErr(t, json.Unmarshal([]byte(build("inspect", "--type", "image", "resilient-write:test")), &image))
	config := image.OCIv1.Config
	testbed.Expect(t, config.User == "65532:65532" && config.WorkingDir == "/work" && config.Labels["io.modelcontextprotocol.server.name"] == "io.github.resilientwrite/resilientwrite", "%+v", config)
	testbed.Equal(t, strings.Join(append(config.Entrypoint, config.Cmd...), " "), "/usr/bin/resilient-write serve --root /work", "the image runs")
	work := filepath.Join(dir, "work")
	testbed.NoErr(t, errors.Join(os.Mkdir(work, 0o755), os.Chown(work, 65532, 65532)))
	container := build("from", "resilient-write:test")
	out := build("run", "--isolation", "chroot", "-v", work+":/work", container, "/usr/bin/resilient-write", "call", "rw_safe_write", `{"path":"a.txt","content":"text\n"}`)
	testbed.Holds(t, filepath.Join(work, "a.txt"), "text\n", out)
	build("rm", container)
}

// TestModulesAreListed checks the list of modules against the rules of the
// format and against the modules that go list reports.
func TestModulesAreListed(t *testing.T) {
	m := aRelease(t)
	text := testbed.Must(os.ReadFile(m.file(m.to.name() + ".cdx.json")))(t)
	bomSchema(t, text)
	type component struct {
		Type, Name, Version, PURL string
		Ref                       string `json:"bom-ref"`
		Hashes                    []struct{ Alg, Content string }
		Licenses                  []struct{ License struct{ ID string } }
		Properties                []struct{ Name, Value string }
	}
	var doc struct {
		BOMFormat, SpecVersion string
		Version                int
		Metadata               struct{ Component component }
		Components             []component
		Dependencies           []struct {
			Ref       string
			DependsOn []string
		}
	}
	read(t, text, &doc)
	own := doc.Metadata.Component
	testbed.Expect(t, doc.BOMFormat == "CycloneDX" && doc.SpecVersion == "1.6" && doc.Version == 1 && own.Type == "application" && own.Version == rw.Version && own.Licenses[0].License.ID == "MIT", "%+v", doc.Metadata)
	testbed.Expect(t, own.Hashes[0].Alg == "SHA-256" && own.Hashes[0].Content == digest(m.program), "%+v", own.Hashes)
	cmd := exec.Command("go", "list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}} {{.Version}}{{end}}{{end}}", "./cmd/resilient-write")
	cmd.Dir, cmd.Env = root, append(os.Environ(), "CGO_ENABLED=0")
	out := testbed.Must(cmd.Output())(t)
	want := strings.FieldsFunc(string(out), func(r rune) bool { return r == '\n' })
	slices.Sort(want)
	want = slices.Compact(want)
	var got []string
	refs := map[string]bool{own.Ref: true}
	for _, c := range doc.Components {
		testbed.Expect(t, c.Type == "library" && !refs[c.Ref] && c.Ref == c.PURL && regexp.MustCompile(`^pkg:golang/[a-zA-Z0-9./_-]+@v?[0-9][a-zA-Z0-9.+_-]*$`).MatchString(c.PURL),
			"%+v", c)
		refs[c.Ref] = true
		if c.Name == "std" {
			testbed.Equal(t, "go"+c.Version, runtime.Version(), "the standard library is of ", c.Version)
			continue
		}
		got = append(got, c.Name+" "+c.Version)
		testbed.Expect(t, len(c.Properties) == 1 && strings.HasPrefix(c.Properties[0].Value, "h1:"), "%s has no hash", c.Name)
	}
	slices.Sort(got)
	testbed.Equal(t, cmp.Diff(want, got), "")
	for _, d := range doc.Dependencies {
		testbed.Expect(t, refs[d.Ref] && len(d.DependsOn) == len(doc.Components), "%+v", d)
		for _, ref := range d.DependsOn {
			testbed.Expect(t, refs[ref], "nothing is %s", ref)
		}
	}
}

// TestReproducible makes the release in two directories. With RW_RELEASE=all it
// makes it for all systems both times, the second time with an empty build
// cache.
func TestReproducible(t *testing.T) {
	if os.Getenv("RW_CI") == "" && !full() {
		t.Skip("NOT RUN: it compiles everything again; RW_CI=1 runs it for one system, RW_RELEASE=all for all")
	}
	only := runtime.GOOS + "/" + runtime.GOARCH
	if full() {
		only = ""
	}
	list := strings.Split(strings.TrimSuffix(must(t, root, "git", "ls-files", "-z"), "\x00"), "\x00")
	make := func(dir string) map[string]string {
		for _, name := range list {
			content, err := os.ReadFile(filepath.Join(root, name))
			if errors.Is(err, os.ErrNotExist) {
				continue // removed but not committed
			}
			to := filepath.Join(dir, name)
			testbed.NoErr(t, errors.Join(err, os.MkdirAll(filepath.Dir(to), 0o755), os.WriteFile(to, content, 0o644)))
		}
		out := filepath.Join(dir, "dist")
		testbed.NoErr(t, run(io.Discard, dir, out, only))
		text := testbed.Must(os.ReadFile(filepath.Join(out, "SHA256SUMS")))(t)
		sums := map[string]string{}
		for _, line := range strings.Split(strings.TrimSpace(string(text)), "\n") {
			sum, name, _ := strings.Cut(line, "  ")
			sums[name] = sum
		}
		return sums
	}
	first := make(t.TempDir())
	if full() {
		t.Setenv("GOCACHE", t.TempDir())
	}
	second := make(filepath.Join(t.TempDir(), "another directory"))
	testbed.Equal(t, cmp.Diff(first, second), "")
	if full() && len(first) != 36 { // 3 for each system, 7 for npm, 7 for containers, 2 for Debian, formula, server.json
		t.Errorf("%d files for six systems", len(first))
	}
	t.Logf("%d files were made twice with equal bytes", len(first))
}
