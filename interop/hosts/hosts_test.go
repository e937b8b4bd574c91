package main

import (
	"os"
	"strings"
	"testing"
)

// TestThePageNamesTheHosts: docs/install.md has a row for each host with the
// version that is driven, and a configuration for it.
func TestThePageNamesTheHosts(t *testing.T) {
	data, err := os.ReadFile("../../docs/install.md")
	if err != nil {
		t.Fatal(err)
	}
	page := string(data)
	if !strings.Contains(page, head) {
		t.Errorf("the table of the page has another head than %s", head)
	}
	for _, h := range hosts {
		version := h.pkg[strings.LastIndexByte(h.pkg, '@')+1:]
		if !strings.Contains(page, "\n| "+h.title+" | "+version+" | ") {
			t.Errorf("the page does not say how %s %s did", h.title, version)
		}
		d := desk{home: t.TempDir(), project: t.TempDir()}
		if err := h.configure(d, page, "http://127.0.0.1:1"); err != nil {
			t.Errorf("%s: %v", h.name, err)
		}
		file, err := fileOf(page, h.name)
		if err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(d.place(file))
		if err != nil || !strings.Contains(string(text), "resilient-write") || strings.Contains(string(text), "<model>") {
			t.Errorf("%s: %v %s", h.name, err, text)
		}
	}
}
