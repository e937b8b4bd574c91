package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/flate"
	"compress/gzip"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
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
