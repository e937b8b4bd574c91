package schema

import "strings"

// Closest returns the choice that is most similar to word, or "" if none is similar
// enough.
func Closest(word string, choices []string) string {
	if len(word) > 60 {
		return ""
	}
	best, score := "", len(word)/3+1
	for _, c := range choices {
		if d := distance(plain(word), plain(c)); d <= score {
			if d < score || best == "" {
				best, score = c, d
			}
		}
	}
	return best
}

// plain leaves out what people write differently in one name.
func plain(s string) string {
	return strings.NewReplacer("_", "", "-", "", ".", "").Replace(strings.ToLower(s))
}

// distance counts the letters to insert, remove, replace or swap with their
// neighbor to get from a to b (Damerau and Levenshtein, restricted form).
func distance(a, b string) int {
	before, last, now := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range last {
		last[j] = j
	}
	for i := 1; i <= len(a); i++ {
		now[0] = i
		for j := 1; j <= len(b); j++ {
			cost := 1
			if a[i-1] == b[j-1] {
				cost = 0
			}
			now[j] = min(last[j]+1, now[j-1]+1, last[j-1]+cost)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				now[j] = min(now[j], before[j-2]+1)
			}
		}
		before, last, now = last, now, before
	}
	return last[len(b)]
}
