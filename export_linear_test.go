package resilientwrite

import "github.com/resilientwrite/resilientwrite/internal/engine"

// UnifiedDiff is the diff that replies show.
func UnifiedDiff(path string, before, after []byte) string {
	return engine.UnifiedDiff(path, before, after)
}
