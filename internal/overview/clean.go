package overview

import (
	"context"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/scan"
)

// Cleaner removes secrets from texts that are shown: those that the policy of the store
// defines, and those that the default rules detect, even where the policy allows them
// in the workspace.
type Cleaner struct {
	store *rw.Store
	any   *scan.Scanner     // with the default rules and no exceptions
	known map[string]string // texts that were cleaned
	err   error
}

// NewCleaner returns a Cleaner for texts from a store.
func NewCleaner(s *rw.Store) *Cleaner {
	c := &Cleaner{store: s, known: map[string]string{}}
	c.any, c.err = scan.New(nil)
	return c
}

// Err returns the error of the first text that could not be cleaned. The texts shown
// since then are incomplete.
func (c *Cleaner) Err() error { return c.err }

const (
	knownBytes = 1024 // of a text that is remembered
	knownTexts = 10_000
)

// Clean takes the secrets out of a text. A text that cannot be cleaned is
// empty, and so is every later one.
func (c *Cleaner) Clean(text string) string {
	if text == "" || c.err != nil {
		return ""
	}
	if have, ok := c.known[text]; ok {
		return have
	}
	out, err := c.store.Redact(context.Background(), rw.RedactRequest{Content: []byte(text)})
	if err != nil {
		c.err = err
		return ""
	}
	clean, _ := c.any.Redact(out.Content, scan.Options{})
	if len(text) < knownBytes && len(c.known) < knownTexts {
		c.known[text] = string(clean)
	}
	return string(clean)
}
