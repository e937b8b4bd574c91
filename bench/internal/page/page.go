// Package page writes the tables of a benchmark into a page of the
// documentation.
package page

import (
	"fmt"
	"os"
	"strings"
)

// Replace puts a text between two marks of a document.
func Replace(doc, begin, end, text string) error {
	data, err := os.ReadFile(doc)
	if err != nil {
		return err
	}
	before, rest, ok := strings.Cut(string(data), begin)
	_, after, ok2 := strings.Cut(rest, end)
	if !ok || !ok2 || strings.Contains(rest, begin) {
		return fmt.Errorf("%s does not have each mark once", doc)
	}
	return os.WriteFile(doc, []byte(before+begin+"\n\n"+text+"\n"+end+after), 0o644)
}

// Load returns the load average of the last minute.
func Load() string {
	data, err := os.ReadFile("/proc/loadavg")
	first, _, ok := strings.Cut(string(data), " ")
	if err != nil || !ok {
		return "unknown"
	}
	return first
}
