package engine

import (
	"strings"

	"github.com/aymanbagabas/go-udiff"

	"github.com/resilientwrite/resilientwrite/internal/merge"
)

const (
	DiffLimit = 1 << 20  // bytes of both sides together that are compared
	DiffCap   = 32 << 10 // bytes of a diff that are shown
)

// ErrorLines is how many lines of a file an error may show.
const ErrorLines = 20

// UnifiedDiff returns the change of one file, truncated at a line if it is long.
func UnifiedDiff(path string, before, after []byte) string {
	from, to := merge.Names(path)
	return CutDiff(udiff.Unified(from, to, string(before), string(after)), DiffCap)
}

func CutDiff(text string, limit int) string {
	if len(text) <= limit {
		return text
	}
	cut := strings.LastIndexByte(text[:limit], '\n') + 1
	return text[:cut] + "… cut off\n"
}

// FirstLines truncates a text after n lines, and long lines after 200 bytes.
func FirstLines(text string, n int) string {
	lines := strings.SplitAfterN(text, "\n", n+1)
	if len(lines) > n {
		lines[n] = "… cut off\n"
	}
	for i, l := range lines {
		if len(l) > 200 {
			lines[i] = strings.ToValidUTF8(l[:200], "") + "…\n"
		}
	}
	return strings.Join(lines, "")
}
