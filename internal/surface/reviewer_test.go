package surface

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
)

// Review checks a surface against its history: goldens are the kept documents by
// version, changelog is docs/mcp-schema-changelog.md. It returns the problems, in words
// that say how to fix them, or nil if there are none.
//
// A released version is frozen: its golden has the hash that the changelog names. The
// version in development is compared with the newest released one: its number must be
// far enough from it, the changelog must have an entry for each difference, and no tool
// may be removed. Its own golden must equal the document
// that the code generates now, so that a review of the code shows the change. Before
// the first release nothing can break: only the golden and the changelog must be there.
func Review(goldens map[string][]byte, changelog []byte, now Document) (problems []string) {
	complain := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	sections, wrong := ParseChangelog(changelog)
	problems = append(problems, wrong...)
	if len(sections) == 0 || len(wrong) > 0 {
		return append(problems, "the changelog cannot be read")
	}
	problems = append(problems, order(sections)...)
	released, wrong := history(goldens, sections)
	problems = append(problems, wrong...)
	newest := sections[0]
	version, err := ParseVersion(now.SchemaVersion)
	if err != nil {
		return append(problems, err.Error())
	}
	if newest.Version != version {
		complain("the surface is %s, the newest section of the changelog is %s: they go together", version, newest.Version)
		return problems
	}
	problems = append(problems, fresh(goldens[version.String()], now, newest.Released != "")...)
	if newest.Released != "" {
		return problems // frozen: fresh has said all there is to say
	}
	if len(released) == 0 {
		return problems
	}
	last := released[len(released)-1]
	list := Compare(last.doc, now)
	if least := last.version.After(Worst(list)); len(list) > 0 && version.Compare(least) < 0 {
		complain("%s differs from %s in what is %s, so it is %s at least; the worst: %s", version, last.version, Worst(list), least, worstOf(list))
	}
	for _, t := range last.doc.Tools {
		if !slices.ContainsFunc(now.Tools, func(n Tool) bool { return n.Name == t.Name }) {
			complain("%s was removed: a tool is deprecated first", t.Name)
		}
	}
	return append(problems, newest.entries(list)...)
}

func worstOf(list []Difference) Difference {
	return slices.MaxFunc(list, func(a, b Difference) int { return int(a.Class) - int(b.Class) })
}

// order checks that the sections follow each other as versions do.
func order(sections []Section) (problems []string) {
	for i, s := range sections {
		if i > 0 && s.Released == "" {
			problems = append(problems, fmt.Sprintf("the changelog has %s unreleased, but a newer version", s.Version))
		}
		if i+1 < len(sections) {
			before := sections[i+1].Version
			if next := before.next(); !slices.Contains(next[:], s.Version) {
				problems = append(problems, fmt.Sprintf("%s does not follow %s: %s, %s or %s would", s.Version, before, next[0], next[1], next[2]))
			}
		}
	}
	return problems
}

// snapshot is a released surface.
type snapshot struct {
	version Version
	doc     Document
}

// history reads the goldens of the released versions, oldest first.
func history(goldens map[string][]byte, sections []Section) (list []snapshot, problems []string) {
	complain := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	known := map[string]bool{}
	for i := len(sections) - 1; i >= 0; i-- {
		s := sections[i]
		known[s.Version.String()] = true
		if s.Released == "" {
			continue
		}
		data, ok := goldens[s.Version.String()]
		if !ok {
			complain("%s was released, but its golden is gone", s.Version)
			continue
		}
		sum := sha256.Sum256(data)
		if hash := hex.EncodeToString(sum[:]); s.Hash == "" {
			complain("%s was released: the changelog needs the line Surface: `sha256:%s`", s.Version, hash)
		} else if hash != s.Hash {
			complain("%s was released and is frozen, but its golden was changed", s.Version)
		}
		doc, err := Decode(data)
		if err != nil || doc.SchemaVersion != s.Version.String() {
			complain("the golden of %s cannot be read, or is of another version", s.Version)
			continue
		}
		list = append(list, snapshot{s.Version, doc})
	}
	for _, name := range slices.Sorted(maps.Keys(goldens)) {
		if !known[name] {
			complain("there is a golden of %s, but no section in the changelog", name)
		}
	}
	return list, problems
}

// fresh checks that a golden equals the document that the code generates now, and
// describes the difference.
func fresh(golden []byte, now Document, released bool) (problems []string) {
	data, err := now.Encode()
	if err != nil {
		return []string{err.Error()}
	}
	if bytes.Equal(golden, data) {
		return nil
	}
	what := fmt.Sprintf("the golden of %s is not what the code makes now: run the test with -update and look at what changed", now.SchemaVersion)
	if released {
		what = fmt.Sprintf("%s was released, and the code makes another surface now: begin a new version", now.SchemaVersion)
	}
	problems = append(problems, what)
	if old, err := Decode(golden); err == nil {
		for _, d := range Compare(old, now) {
			problems = append(problems, "  "+d.String())
		}
	}
	return problems
}
