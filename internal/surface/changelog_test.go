package surface

import (
	"bufio"
	"bytes"
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

// Section is the changelog entry of one version.
type Section struct {
	Version  Version
	Released string // the day, "" while the version is in development
	Hash     string // SHA-256 of the released golden, "" when none is given
	Entries  []Entry
}

// Entry is one line of a section.
type Entry struct {
	Class     Class
	Addresses []string
	Line      int
}

var (
	sectionForm = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`^## (\S+) – (unreleased|[0-9]{4}-[0-9]{2}-[0-9]{2})$`)
	})
	hashForm   = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("^Surface: `sha256:([0-9a-f]{64})`$") })
	entryForm  = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("^- ((?:`[^`]+`(?:, )?)+): \\S.*$") })
	quotedForm = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile("`([^`]+)`") })
)

var headings = map[string]Class{"### Breaking": Breaking, "### Compatible": Compatible, "### Documentation": Documentation}

// ParseChangelog reads docs/mcp-schema-changelog.md: sections "## 1.2.3 –
// unreleased" or with the day of the release, newest first; in them the
// headings Breaking, Compatible and Documentation; below these, lines of the
// form "- `address`: text", several addresses separated by commas. What looks
// like one of these and is not is a problem, so that nothing is overlooked.
func ParseChangelog(data []byte) (sections []Section, problems []string) {
	complain := func(line int, format string, args ...any) {
		problems = append(problems, fmt.Sprintf("changelog line %d: %s", line, fmt.Sprintf(format, args...)))
	}
	var class Class
	lines := bufio.NewScanner(bytes.NewReader(data))
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		text := strings.TrimRight(lines.Text(), " \t\r")
		switch {
		case strings.HasPrefix(text, "## "):
			class = 0
			s, err := parseSection(text)
			if err != nil {
				complain(n, "%v", err)
			}
			sections = append(sections, s)
		case strings.HasPrefix(text, "### "):
			if class = headings[text]; class == 0 || len(sections) == 0 {
				complain(n, "the headings of a version are Breaking, Compatible and Documentation")
			}
		case len(sections) == 0:
		case strings.HasPrefix(text, "Surface:"):
			m := hashForm().FindStringSubmatch(text)
			if m == nil {
				complain(n, "the line is Surface: `sha256:…`")
				continue
			}
			sections[len(sections)-1].Hash = m[1]
		case strings.HasPrefix(text, "- ") && class != 0:
			m := entryForm().FindStringSubmatch(text)
			if m == nil {
				complain(n, "an entry is - `address`: what changed for whom")
				continue
			}
			e := Entry{Class: class, Line: n}
			for _, q := range quotedForm().FindAllStringSubmatch(m[1], -1) {
				e.Addresses = append(e.Addresses, q[1])
			}
			last := &sections[len(sections)-1]
			last.Entries = append(last.Entries, e)
		}
	}
	if err := lines.Err(); err != nil {
		complain(0, "%v", err)
	}
	return sections, problems
}

func parseSection(text string) (Section, error) {
	m := sectionForm().FindStringSubmatch(text)
	if m == nil {
		return Section{}, fmt.Errorf("a version is ## 1.2.3 – unreleased, or with the day as 2026-01-31")
	}
	v, err := ParseVersion(m[1])
	s := Section{Version: v}
	if m[2] != "unreleased" {
		s.Released = m[2]
	}
	return s, err
}

// covers reports whether an address of an entry includes the difference: it is the
// address of the difference, or of something that contains it. Below Breaking, *
// matches one step.
func (e Entry) covers(address string, d Difference) bool {
	if e.Class < d.Class {
		return false
	}
	want, at := strings.Split(address, "/"), strings.Split(d.Address, "/")
	if len(want) > len(at) || e.Class == Breaking && len(want) < 2 && len(at) > 1 {
		return false
	}
	for i, step := range want {
		if step != at[i] && (step != "*" || e.Class == Breaking) {
			return false
		}
	}
	return true
}

// entries compares the entries of a section with the differences: each difference has
// an entry, and no entry describes a change that did not happen.
func (s Section) entries(list []Difference) (problems []string) {
	covered := make([]bool, len(list))
	for _, e := range s.Entries {
		for _, address := range e.Addresses {
			own := false
			for i, d := range list {
				if e.covers(address, d) {
					covered[i] = true
					own = own || d.Class == e.Class
				}
			}
			if !own {
				problems = append(problems, fmt.Sprintf("changelog line %d: no %s difference at %s", e.Line, e.Class, address))
			}
		}
	}
	for i, d := range list {
		if !covered[i] {
			problems = append(problems, fmt.Sprintf("the changelog of %s lacks, under %s: - `%s`: %s", s.Version, title(d.Class), d.Address, d.What))
		}
	}
	return problems
}

func title(c Class) string { return strings.ToUpper(c.String()[:1]) + c.String()[1:] }

// Version is the version of a surface: major, minor, patch.
type Version [3]int

var versionForm = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(0|[1-9][0-9]{0,5})\.(0|[1-9][0-9]{0,5})\.(0|[1-9][0-9]{0,5})$`)
})

// ParseVersion reads a version: three numbers, nothing before or after.
func ParseVersion(s string) (Version, error) {
	m := versionForm().FindStringSubmatch(s)
	if m == nil {
		return Version{}, fmt.Errorf("%q is not a version of the form 1.2.3", s)
	}
	var v Version
	for i := range v {
		v[i], _ = strconv.Atoi(m[i+1]) // digits, as the form says
	}
	return v, nil
}

func (v Version) String() string { return fmt.Sprintf("%d.%d.%d", v[0], v[1], v[2]) }

// Compare is negative when v is older than w, positive when it is newer.
func (v Version) Compare(w Version) int {
	for i := range v {
		if c := cmp.Compare(v[i], w[i]); c != 0 {
			return c
		}
	}
	return 0
}

// next are the versions that may follow v: a patch, a minor, a major one.
func (v Version) next() [3]Version {
	return [3]Version{{v[0], v[1], v[2] + 1}, {v[0], v[1] + 1, 0}, {v[0] + 1, 0, 0}}
}

// After returns the least version that may follow v if the worst difference is of the
// class c. From 1.0.0 on that is a major version for a breaking difference, a minor
// version for an addition, and a patch for wording. Before 1.0.0 it is a minor version
// for a breaking difference, and a patch for the rest.
func (v Version) After(c Class) Version {
	step := map[Class]int{Breaking: 2, Compatible: 1}[c]
	if v[0] == 0 && step > 0 {
		step--
	}
	return v.next()[step]
}

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
