package report

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"html"
	"strings"
	"unicode"
	"unicode/utf8"
)

// How much of a text is shown.
const (
	nameSigns = 160 // of a path, a caller and other names; cut in the middle
	noteSigns = 400 // of a reason and other sentences; cut in the middle
	lineSigns = 400 // of a line of a diff; cut off at the end
)

// piece is a stretch of a text: as it is, or the name of a character that must
// not act on the page.
type piece struct {
	Text  string
	Named bool
}

// signs takes a text apart into what one sees: a character that prints is
// itself, every other one – control characters, those that turn the direction
// of writing, those that have no width, spaces that look like a space – is
// named, and so is a byte that is no UTF-8. A pile of more than two combining
// marks would cover the lines above it, so the rest of the pile is named too.
func signs(s string, tabs bool) []piece {
	list := make([]piece, 0, len(s))
	marks := 0
	for len(s) > 0 {
		r, n := utf8.DecodeRuneInString(s)
		if r > unicode.MaxLatin1 && unicode.Is(unicode.M, r) {
			marks++
		} else {
			marks = 0
		}
		switch {
		case r == utf8.RuneError && n == 1:
			list = append(list, piece{fmt.Sprintf("⟨0x%02X⟩", s[0]), true})
		case marks > 2, !plain(r) && (r != '\t' || !tabs):
			list = append(list, piece{fmt.Sprintf("⟨U+%04X⟩", r), true})
		default:
			list = append(list, piece{s[:n], false})
		}
		s = s[n:]
	}
	return list
}

// plain reports whether a character is shown as it is. The ideographic space is
// the ordinary one of some scripts.
func plain(r rune) bool {
	if r <= unicode.MaxASCII {
		return unicode.IsPrint(r)
	}
	hidden := unicode.In(r, unicode.Cf, unicode.Other_Default_Ignorable_Code_Point, unicode.Variation_Selector) || r == 0x2800
	return unicode.IsPrint(r) && !hidden || r == 0x3000
}

// join makes long pieces of short ones.
func join(list []piece) []piece {
	var out []piece
	for i := 0; i < len(list); {
		j := i
		var b strings.Builder
		for ; j < len(list) && list[j].Named == list[i].Named; j++ {
			b.WriteString(list[j].Text)
		}
		out = append(out, piece{b.String(), list[i].Named})
		i = j
	}
	return out
}

// middle cuts the middle out of a text that is too long: the ends are more useful.
// One that turns between both kinds of pieces all the time takes much markup,
// so it is cut as well.
func middle(list []piece, most int) []piece {
	var out []piece
	if len(list) <= most {
		out = join(list)
	} else {
		out = append(join(list[:most/2]), piece{"…", true})
		out = append(out, join(list[len(list)-most/2+1:])...)
	}
	if len(out) > manyPieces {
		tail := out[len(out)-manyPieces/2:]
		out = append(append(out[:manyPieces/2:manyPieces/2], piece{"…", true}), tail...)
	}
	return out
}

// manyPieces is how many pieces one text has at most, about.
const manyPieces = 12

// start cuts off the end of a text that is too long, and says how much it was.
func start(list []piece, most int) []piece {
	if len(list) <= most {
		return join(list)
	}
	return append(join(list[:most]), piece{fmt.Sprintf("… %s more characters", count(len(list)-most)), true})
}

// flat is the text of pieces, for places that hold no markup.
func flat(list []piece) string {
	var b strings.Builder
	for _, p := range list {
		b.WriteString(p.Text)
	}
	return b.String()
}

// cost is how many bytes of the page the pieces take.
func cost(list []piece) int {
	n := 0
	for _, p := range list {
		n += len(html.EscapeString(p.Text)) + strings.Count(p.Text, "+")*4 // the template writes &#43;
		if p.Named {
			n += len(`<span class="c"></span>`)
		}
	}
	return n
}

// clip keeps a name from taking more memory than it is worth. Two names that
// were cut stay two names. What is cut was cleaned before: half a secret is
// not known to be one.
func clip(name string, clean func(string) string) string {
	const most = 512
	if len(name) <= most {
		return strings.Clone(name)
	}
	sum := sha256.Sum256([]byte(name))
	name = clean(name)
	if len(name) > most {
		name = strings.ToValidUTF8(name[:most/2], "") + "…" + strings.ToValidUTF8(name[len(name)-most/4:], "")
	}
	return name + "#" + hex.EncodeToString(sum[:4])
}

// count is a number with its thousands apart.
func count[N int | int64 | uint64](n N) string {
	s := fmt.Sprint(n)
	for i := len(s) - 3; i > 0 && s[i-1] != '-'; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}

// counted is a number of things.
func counted[N int | int64 | uint64](n N, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return count(n) + " " + many
}

// size is a number of bytes as people read it.
func size(n int64) string {
	if n < 1024 {
		return count(n) + " B"
	}
	x := float64(n)
	for _, unit := range []string{"KiB", "MiB", "GiB"} {
		if x /= 1024; x < 1024 {
			return fmt.Sprintf("%.1f %s", x, unit)
		}
	}
	return fmt.Sprintf("%.1f TiB", x/1024)
}
