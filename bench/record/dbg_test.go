//go:build linux

package main

import (
	"fmt"
	"os"
	"testing"
	"time"
)

func TestMain(m *testing.M) {
	if ran, err := job(); ran {
		if err != nil {
			fmt.Println(err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}
func TestDbg(t *testing.T) {
	for _, arm := range armNames {
		dir := t.TempDir()
		t0 := time.Now()
		p, err := startProc(arm, dir, "full")
		if err != nil {
			t.Fatal(err)
		}
		fmt.Println(arm, "first start", time.Since(t0))
		for _, size := range []int{4 << 10, 64 << 10, 1 << 20, 4 << 20} {
			text := prose(dice(1, "a", size), size)
			t0 = time.Now()
			rep := p.Call(t.Context(), call{Verb: write, Path: fmt.Sprint("f", size), Text: text})
			fmt.Println(arm, size, rep.OK, time.Since(t0))
		}
		for range 3 {
			t0 = time.Now()
			p.restart()
			fmt.Println(arm, "restart", time.Since(t0))
		}
		t0 = time.Now()
		f, err := p.inspect()
		fmt.Println("inspect", time.Since(t0), f, err)
		t0 = time.Now()
		w, err := p.watched()
		fmt.Println("watch", time.Since(t0), err)
		w.observe(-1)
		text := prose(dice(1, "a", 5), 4<<20)
		t0 = time.Now()
		rep := p.Call(t.Context(), call{Verb: write, Path: "n", Text: text})
		fmt.Println(arm, "watched 4M", rep.OK, time.Since(t0))
		fmt.Println(w.rest())
		t0 = time.Now()
		p.stop()
		fmt.Println("stop", time.Since(t0))
		t0 = time.Now()
		os.RemoveAll(dir)
		fmt.Println("remove", time.Since(t0))
	}
	t0 := time.Now()
	prose(dice(1, "a", 5), 4<<20)
	fmt.Println("prose 4M", time.Since(t0))
}
