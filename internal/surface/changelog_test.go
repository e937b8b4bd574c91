package surface

import (
	"bufio"
	"bytes"
	"cmp"
	"fmt"
	"regexp"
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
