package resilientwrite

// UnifiedDiff is the diff that replies show.
func UnifiedDiff(path string, before, after []byte) string { return unifiedDiff(path, before, after) }
