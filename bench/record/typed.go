//go:build linux

package main

import "github.com/resilientwrite/resilientwrite/spec"

// typed reports whether a refusal is one that a program can act on: an
// envelope that conforms to the published schema.
func typed(text string) bool { return spec.ValidateEnvelope([]byte(text)) == nil }
