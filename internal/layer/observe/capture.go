package observe

import (
	"hash/fnv"
	"slices"
	"strings"

	"github.com/bmatcuk/doublestar/v4"
)

// Capture selects the files for which the policy decides instead of git. The globs
// match paths relative to the workspace; a glob of a directory covers its content.
type Capture struct {
	Include []string // recorded although git ignores them
	Exclude []string // not recorded at all
}

// sum changes with the globs. It is 0 for none.
func (c *Capture) sum() uint64 {
	if len(c.Include)+len(c.Exclude) == 0 {
		return 0
	}
	h := fnv.New64a()
	for _, list := range [][]string{c.Include, c.Exclude} {
		for _, glob := range list {
			h.Write([]byte(glob + "\x00"))
		}
		h.Write([]byte{1})
	}
	return h.Sum64()
}

func covered(globs []string, p string) bool {
	return slices.ContainsFunc(globs, func(glob string) bool {
		return doublestar.MatchUnvalidated(glob, p) || doublestar.MatchUnvalidated(glob+"/**", p)
	})
}

func (c *Capture) excludes(p string) bool { return len(c.Exclude) > 0 && covered(c.Exclude, p) }

func (c *Capture) Includes(p string) bool { return len(c.Include) > 0 && covered(c.Include, p) }

// mayHold reports whether a directory is included or may hold something that is.
func (c *Capture) mayHold(dir string) bool {
	return c.Includes(dir) || slices.ContainsFunc(c.Include, func(glob string) bool {
		parts := strings.Split(glob, "/")
		for i, name := range strings.Split(dir, "/") {
			switch {
			case i == len(parts):
				return false
			case parts[i] == "**":
				return true
			case !doublestar.MatchUnvalidated(parts[i], name):
				return strings.ContainsAny(parts[i], "{}") // an alternative may hold a /
			}
		}
		return true
	})
}
