// Package bench measures resilientwrite beside other ways to write a file, in
// one run, so that the ratios hold on a noisy machine. It is a module of its
// own: the peers are no dependency of the library.
//
//	cd bench && go test -bench Write -benchtime 300x
package bench

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/google/renameio/v2"
	"github.com/natefinch/atomic"

	rw "github.com/resilientwrite/resilientwrite"
)

// arm is one way to replace a file.
type arm struct {
	name  string
	start func(b *testing.B, dir string) func(path string, data []byte) error
}

var arms = []arm{
	{"os.WriteFile", plain(func(path string, data []byte) error { return os.WriteFile(path, data, 0o644) })},
	{"minimal", plain(minimal)},
	{"renameio", plain(func(path string, data []byte) error { return renameio.WriteFile(path, data, 0o644) })},
	{"natefinch", plain(func(path string, data []byte) error { return atomic.WriteFile(path, bytes.NewReader(data)) })},
	{"full", store(rw.SyncFull)},
	{"journal", store(rw.SyncJournal)},
	{"off", store(rw.SyncOff)},
}

func plain(write func(string, []byte) error) func(*testing.B, string) func(string, []byte) error {
	return func(_ *testing.B, dir string) func(string, []byte) error {
		return func(path string, data []byte) error { return write(filepath.Join(dir, path), data) }
	}
}

// minimal is the minimal correct durable replace: write, fsync, rename, fsync
// of the directory. Every ratio is to it.
func minimal(path string, data []byte) error {
	dir := filepath.Dir(path)
	f, err := os.CreateTemp(dir, ".tmp")
	if err != nil {
		return err
	}
	if _, err = f.Write(data); err == nil {
		err = f.Sync()
	}
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return err
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}

func store(level rw.SyncLevel) func(*testing.B, string) func(string, []byte) error {
	return func(b *testing.B, dir string) func(string, []byte) error {
		s, err := rw.Open(context.Background(), dir, &rw.Options{Sync: level})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(func() { s.Close(context.Background()) })
		return func(path string, data []byte) error {
			_, err := s.SafeWriteFrom(context.Background(), rw.SafeWriteRequest{Path: path, Mode: rw.ModeOverwrite, AllowShrink: true}, bytes.NewReader(data))
			return err
		}
	}
}

// BenchmarkWrite replaces files, each writer its own. Earlier versions are
// kept, so 64 MiB × 64 writers needs as much disk as it writes.
func BenchmarkWrite(b *testing.B) {
	for _, size := range []int{1 << 10, 64 << 10, 1 << 20, 64 << 20} {
		for _, writers := range []int{1, 4, 16, 64} {
			for _, a := range arms {
				b.Run(fmt.Sprintf("size=%d/writers=%d/arm=%s", size, writers, a.name), func(b *testing.B) {
					run(b, a, size, writers)
				})
			}
		}
	}
}

// scratch is where all arms write. It is removed at the very end: ext4 is slow
// to allocate inodes where many were freed in the last minutes, which would
// punish whoever is measured later.
var scratch string

func TestMain(m *testing.M) {
	var err error
	if scratch, err = os.MkdirTemp("", "rwbench"); err != nil {
		panic(err)
	}
	code := m.Run()
	os.RemoveAll(scratch)
	os.Exit(code)
}

func run(b *testing.B, a arm, size, writers int) {
	dir, err := os.MkdirTemp(scratch, a.name)
	if err != nil {
		b.Fatal(err)
	}
	write := a.start(b, dir)
	b.SetBytes(int64(size))
	b.ResetTimer()
	var wg sync.WaitGroup
	for w := range writers {
		wg.Add(1)
		go func() {
			defer wg.Done()
			data := bytes.Repeat([]byte{'a' + byte(w%26)}, size)
			for i := w; i < b.N; i += writers {
				copy(data, fmt.Sprintf("%d %d\n", w, i))
				if err := write(fmt.Sprintf("f%d.txt", w), data); err != nil {
					b.Error(err)
					return
				}
			}
		}()
	}
	wg.Wait()
}
