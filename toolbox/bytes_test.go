package toolbox

import (
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
)

// TestPartsOfATextEndBetweenCharacters: the part of a file that a reply holds
// as text never ends within a character, unless nothing follows it.
func TestPartsOfATextEndBetweenCharacters(t *testing.T) {
	for _, row := range []struct {
		content   string
		truncated bool
		want      string
		text      bool
	}{
		{"ab", true, "ab", true}, {"a\xe6\x97", true, "a", true}, {"a日", true, "a日", true}, {"a\xe6\x97", false, "a\xe6\x97", false},
		{"\xff", true, "\xff", false}, {"\x97\xa5b", true, "\x97\xa5b", false}, {"", true, "", true}, {"a\xf0\x9f\x98", true, "a", true},
	} {
		r := rw.ChunkPreviewResult{Content: []byte(row.content), Truncated: row.truncated}
		if text := isText(&r); text != row.text || string(r.Content) != row.want {
			t.Errorf("%q: %q, text %v", row.content, r.Content, text)
		}
	}
	if !isText(&rw.SafeWriteResult{}) {
		t.Error("a reply without content cannot be sent")
	}
}
