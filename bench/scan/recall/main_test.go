package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/resilientwrite/resilientwrite/bench/scan/internal/texts"
	"github.com/resilientwrite/resilientwrite/internal/scan"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// TestFigures checks the figures of a known corpus.
func TestFigures(t *testing.T) {
	dir := t.TempDir()
	var rows bytes.Buffer
	for _, r := range []map[string]any{
		{"text": "t=" + texts.Token(), "label": "own-prefix", "usable": true, "source": "a"},
		{"text": "nothing at all", "label": "own-prefix", "usable": true, "source": "b"},
		{"text": "nobody can use it", "label": "own-prefix", "usable": false, "source": "b"},
		{"text": "write to jane.doe@acme.io", "label": "clean", "usable": false, "source": "c"},
	} {
		b := testbed.Must(json.Marshal(r))(t)
		rows.Write(append(b, '\n'))
	}
	put := func(name, text string) string {
		name = filepath.Join(dir, name)
		testbed.NoErr(t, os.WriteFile(name, []byte(text), 0o600))
		return name
	}
	files := []string{put("plain.txt", strings.Repeat("plain text\n", 100)), put("token.txt", texts.Token()), put("binary", "\x00\x01"), put("key.pem", pem()), filepath.Join(dir, "absent")}
	list, labelled := put("ordinary.txt", strings.Join(files, "\n")), put("rows.jsonl", rows.String())
	s := testbed.Must(scan.New(nil))(t)
	var out bytes.Buffer
	missed, noise := filepath.Join(dir, "missed"), filepath.Join(dir, "noise")
	testbed.NoErr(t, measureRows(s, &out, labelled, missed))
	testbed.NoErr(t, measureFiles(s, &out, list, noise, 2))
	testbed.Contains(t, out.String(),
		"clean all              1 rows  found 0.000  refused 0.000",
		"own-prefix all         3 rows  found 0.333  refused 0.333",
		"own-prefix usable      2 rows  found 0.500  refused 0.500",
		"own-prefix by rule     2 rules found 0.500  refused 0.500",
		"ordinary text      3 files",
		"ordinary files     4: refused 500.000 per 1,000 (2), without files that hold only private keys in full 250.000 (1)",
	)
	contains(t, missed, "1 missed of", "== own-prefix b\nnothing at all")
	contains(t, noise, "REFUSED "+files[1], "REFUSED "+files[3], "key.pem:1")
	if err := measureRows(s, &out, filepath.Join(dir, "absent"), ""); err == nil {
		t.Error("rows from nowhere")
	}
}

func contains(t *testing.T, name string, wants ...string) {
	t.Helper()
	testbed.Contains(t, string(testbed.Must(os.ReadFile(name))(t)), wants...)
}

// pem returns what looks like a private key: random bytes between the marks.
func pem() string {
	body := texts.Recipe{Unit: []string{"{b64 64}\n"}}
	return "-----BEGIN RSA PRIVATE KEY-----\nMII" + string(body.Text(12*65)) + "-----END RSA PRIVATE KEY-----\n"
}
