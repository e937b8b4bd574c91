package main

import (
	"os"
	"strings"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// TestThePageNamesTheHosts: docs/install.md has a row for each host with the
// version that is driven, and a configuration for it.
func TestThePageNamesTheHosts(t *testing.T) {
	data := testbed.Must(os.ReadFile("../../docs/install.md"))(t)
	page := string(data)
	testbed.Expect(t, strings.Contains(page, head), "the table of the page has another head than %s", head)
	for _, h := range hosts {
		version := h.pkg[strings.LastIndexByte(h.pkg, '@')+1:]
		testbed.Expect(t, strings.Contains(page, "\n| "+h.title+" | "+version+" | "), "the page does not say how %s %s did", h.title, version)
		d := desk{home: t.TempDir(), project: t.TempDir()}
		if err := h.configure(d, page, "http://127.0.0.1:1"); err != nil {
			t.Errorf("%s: %v", h.name, err)
		}
		file := testbed.Must(fileOf(page, h.name))(t)
		text, err := os.ReadFile(d.place(file))
		testbed.Expect(t, err == nil && strings.Contains(string(text), "resilient-write") && !strings.Contains(string(text), "<model>"), "%s: %v %s", h.name, err, text)
	}
}
