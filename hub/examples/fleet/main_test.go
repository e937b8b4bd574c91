package main

import (
	"bytes"
	"os"
	"testing"
)

func TestMain(m *testing.M) {
	if len(os.Args) == 4 && os.Args[3] != "" && os.Args[1][0] != '-' {
		main()
		return
	}
	os.Exit(m.Run())
}

func TestOutput(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.TempDir(), os.Args[0], &out); err != nil {
		t.Fatal(err)
	}
	if out.String() != want {
		t.Fatalf("%s", out.String())
	}
}

const want = `first: published 2 files, epoch 1
the first agent is killed
second: the lease has not expired: hub_leased
second: resumed 2 files, epoch 2; readme.md is translated; next: translate install.md; drift: 0
second: published 3 files
first, again: its write is in its workspace; the hub says hub_fenced
task, epoch 1: create readme.md by first
task, epoch 1: handoff HANDOFF.md by first
task, epoch 2: restore HANDOFF.md by second
task, epoch 2: restore readme.md by second
task, epoch 2: create install.md by second
the hub: 2 stores, 0 problems
`
