package surface

import (
	"cmp"
	"fmt"
	"regexp"
	"strconv"
	"sync"
)

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
