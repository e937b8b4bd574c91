package main

import (
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/scripted"
)

// TestScriptedModel: the model is refused, repairs its call, and writes.
func TestScriptedModel(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	dir := t.TempDir()
	text, err := run(t.Context(), &chatModel{}, dir, "write deploy.env")
	if err != nil || text != scripted.Done {
		t.Errorf("%q %v", text, err)
	}
	if err := scripted.Check(dir); err != nil {
		t.Error(err)
	}
}
