// Package bench measures resilientwrite beside other ways to write files, in one
// run, so that the ratios hold on a noisy machine. It is a module of its own: the
// peers are no dependency of the library.
package bench

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/bench/internal/minimal"
)

// BenchmarkTx sets one transaction of n files of 1 KiB beside n single writes
// and beside what a careful program does without a library: each file written,
// flushed, renamed and its directory flushed, between two flushed lines of a
// journal of its own.
//
//	cd bench && go test -run xxx -bench Tx -benchtime 20x -count 5
func BenchmarkTx(b *testing.B) {
	for _, n := range []int{10, 100, 256} {
		for _, a := range []struct {
			name  string
			start func(b *testing.B, dir string, n int) func(i int) error
		}{
			{"tx", txOf(rw.Options{})},
			{"volume", txOf(rw.Options{FlushVolume: true})},
			{"single", singles},
			{"naive", naive},
			{"off", txOf(rw.Options{Sync: rw.SyncOff})},
		} {
			b.Run(fmt.Sprintf("files=%d/%s", n, a.name), func(b *testing.B) {
				spread(scratch)
				dir, err := os.MkdirTemp(scratch, a.name)
				if err != nil {
					b.Fatal(err)
				}
				again := a.start(b, dir, n)
				if err := again(0); err != nil { // from here on every file is replaced
					b.Fatal(err)
				}
				for i := 1; b.Loop(); i++ {
					if err := again(i); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

func txName(f int) string { return fmt.Sprintf("f%d.txt", f) }

// txContent is 1 KiB that differs for every file and every time.
func txContent(i, f int) string { return fmt.Sprintf("%01000d %023d", i, f) }

func openTx(b *testing.B, dir string, opts rw.Options) *rw.Store {
	s, err := rw.Open(context.Background(), dir, &opts)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { s.Close(context.Background()) })
	return s
}

func txOf(opts rw.Options) func(*testing.B, string, int) func(int) error {
	return func(b *testing.B, dir string, n int) func(int) error {
		s := openTx(b, dir, opts)
		return func(i int) error {
			var ops []rw.TxOp
			for f := range n {
				ops = append(ops, rw.TxOp{Op: "write", Path: txName(f), Content: txContent(i, f), Mode: rw.ModeOverwrite})
			}
			_, err := s.Tx(context.Background(), rw.TxRequest{Ops: ops})
			return err
		}
	}
}

func singles(b *testing.B, dir string, n int) func(int) error {
	s := openTx(b, dir, rw.Options{})
	return func(i int) error {
		for f := range n {
			r := rw.SafeWriteRequest{Path: txName(f), Content: txContent(i, f), Mode: rw.ModeOverwrite}
			if _, err := s.SafeWrite(context.Background(), r); err != nil {
				return err
			}
		}
		return nil
	}
}

func naive(b *testing.B, dir string, n int) func(int) error {
	journal, err := os.OpenFile(filepath.Join(dir, "journal"), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { journal.Close() })
	line := func() error {
		if _, err := fmt.Fprintln(journal, strings.Repeat("j", 200)); err != nil {
			return err
		}
		return journal.Sync()
	}
	return func(i int) error {
		if err := line(); err != nil {
			return err
		}
		for f := range n {
			if err := minimal.Replace(filepath.Join(dir, txName(f)), []byte(txContent(i, f))); err != nil {
				return err
			}
		}
		return line()
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
