//go:build linux

package main

import "github.com/resilientwrite/resilientwrite/spec"

// typed reports whether a refusal is machine-readable: an envelope that
// conforms to the published schema.
func typed(text string) bool { return spec.ValidateEnvelope([]byte(text)) == nil }
