package surface

import "fmt"

// window is how many minor versions a deprecated tool lives.
func window(tier string) int {
	if visibility[tier] <= visibility["advanced"] {
		return 1
	}
	return 2
}

func (d Document) find(tool string) *Tool {
	for i := range d.Tools {
		if d.Tools[i].Name == tool {
			return &d.Tools[i]
		}
	}
	return nil
}

// retirement is what the released versions announced about the removal of a tool.
type retirement struct {
	first Version // the first version that calls it deprecated, without a break until now
	lived int     // minor versions released since
	need  int     // minor versions that its tier promises; a tier that was lowered since does not shorten that
}

func retirementOf(released []snapshot, version Version, tool string) retirement {
	r := retirement{first: version}
	minors := map[[2]int]bool{}
	for i := len(released) - 1; i >= 0; i-- {
		t := released[i].doc.find(tool)
		if t == nil {
			break
		}
		r.need = max(r.need, window(t.Tier))
		if t.Deprecated == nil {
			break
		}
		r.first = released[i].version
		minors[[2]int(r.first[:2])] = true
	}
	r.lived = len(minors)
	return r
}

// plans checks the announced end of deprecated tools: when it was first announced, what
// to use instead, and that the end is far enough away and has not passed.
func plans(released []snapshot, version Version, now Document) (problems []string) {
	for _, t := range now.Tools {
		if t.Deprecated == nil {
			continue
		}
		complain := func(format string, args ...any) {
			problems = append(problems, fmt.Sprintf("%s is deprecated: %s", t.Name, fmt.Sprintf(format, args...)))
		}
		since, err := ParseVersion(t.Deprecated.Since)
		if err != nil {
			complain("since: %v", err)
			continue
		}
		if first := retirementOf(released, version, t.Name).first; since != first {
			complain("since is %s, but %s is the first version that says so", since, first)
		}
		if r := now.find(t.Deprecated.Replacement); r == nil || r.Name == t.Name || r.Deprecated != nil {
			complain("its replacement %q is not a tool that stays", t.Deprecated.Replacement)
		}
		end, err := ParseVersion(t.Deprecated.RemoveIn)
		switch least := earliest(since, t.Tier); {
		case err != nil:
			complain("remove in: %v", err)
		case end[2] != 0 || end[0] != 0 && end[1] != 0:
			complain("%s cannot remove a tool: only a version that may break can", end)
		case end.Compare(least) < 0:
			complain("it is removed in %s, which is before %s: a tool of tier %s lives %d minor versions", end, least, t.Tier, window(t.Tier))
		case version.Compare(end) >= 0:
			complain("it was to be removed in %s, and this is %s: remove it, or put its end off", end, version)
		}
	}
	return problems
}

// earliest is the first version that may be without a tool that is deprecated
// since the given one. From 1.0.0 on that is a major version; whether enough
// minor ones came before it is visible only in history.
func earliest(since Version, tier string) Version {
	if since[0] == 0 {
		return Version{0, since[1] + window(tier), 0}
	}
	return Version{since[0] + 1, 0, 0}
}

// removals checks that each tool that is gone had been deprecated for long
// enough, and that its time had come.
func removals(released []snapshot, version Version, now Document) (problems []string) {
	for _, t := range released[len(released)-1].doc.Tools {
		if now.find(t.Name) != nil {
			continue
		}
		complain := func(format string, args ...any) {
			problems = append(problems, fmt.Sprintf("%s was removed: %s", t.Name, fmt.Sprintf(format, args...)))
		}
		if t.Deprecated == nil {
			complain("it was never deprecated; deprecate it first, a tool of tier %s lives %d minor versions then", t.Tier, window(t.Tier))
			continue
		}
		if end, err := ParseVersion(t.Deprecated.RemoveIn); err != nil || version.Compare(end) < 0 {
			complain("it was promised until %s, and this is %s", t.Deprecated.RemoveIn, version)
		}
		if r := retirementOf(released, version, t.Name); r.lived < r.need {
			complain("it was deprecated for %d minor versions, its users were promised %d", r.lived, r.need)
		}
	}
	return problems
}
