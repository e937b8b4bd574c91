package main

import (
	"testing"

	"github.com/firebase/genkit/go/genkit"

	"github.com/resilientwrite/resilientwrite/internal/scripted"
)

// TestScriptedModel: the model is refused, repairs its call, and writes.
func TestScriptedModel(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	dir, g := t.TempDir(), genkit.Init(t.Context())
	text, err := run(t.Context(), g, scriptedModel(g), dir, "write deploy.env")
	if err != nil || text != scripted.Done {
		t.Errorf("%q %v", text, err)
	}
	if err := scripted.Check(dir); err != nil {
		t.Error(err)
	}
}
