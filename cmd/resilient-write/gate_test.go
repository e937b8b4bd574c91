package main_test

import (
	"encoding/base64"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
)

// TestTheBinaryWritesWhatOnlyInforms: the server with its default gate writes a
// text that scores high only because of mail addresses, blobs and its size.
func TestTheBinaryWritesWhatOnlyInforms(t *testing.T) {
	dir := t.TempDir()
	c := connect(t, dir)
	var b strings.Builder
	rng := rand.New(rand.NewPCG(1, 2))
	blob := make([]byte, 180)
	for i := range 3 {
		for i := range blob {
			blob[i] = byte(rng.IntN(256))
		}
		fmt.Fprintf(&b, "jo%d@acme-mail.org\nblob %s\nkey %s\n", i, base64.StdEncoding.EncodeToString(blob), "gh"+"p_****")
	}
	b.WriteString(strings.Repeat("long line ", 300) + "\n")
	score := call(t, c, "rw_risk_score", args{"content": b.String()})
	if score["verdict"] != "high" {
		t.Fatalf("%v", score)
	}
	out := call(t, c, "rw_safe_write", args{"path": "a.txt", "content": b.String()})
	if out["ok"] != true {
		t.Errorf("%v", out)
	}
}
