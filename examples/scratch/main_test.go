package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

const want = `kept      deploy-log  120 bytes, deduped false
kept      incident-7  120 bytes, deduped true
refused   incident.md  risk_blocked
redacted  1 place, what is left is safe
written   incident.md  165 bytes
saved     incident-7, comes back to the letter: true
found     the token in .resilient_write/scratch
`

func TestScratch(t *testing.T) {
	var out bytes.Buffer
	if err := run(&out, t.TempDir()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
	if strings.Contains(out.String(), secret()[len("ghp_"):]) {
		t.Error("the output holds the secret")
	}
}
