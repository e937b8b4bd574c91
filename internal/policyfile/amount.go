package policyfile

import (
	"math"
	"regexp"
	"strconv"
	"time"

	"github.com/resilientwrite/resilientwrite/internal/isoduration"
)

const (
	sizePattern = `^([0-9]{1,19})(B|KB|MB|GB|TB|KiB|MiB|GiB|TiB)$`
	agePattern  = `^([0-9]{1,19})(s|m|h|d|w)$`
	isoPattern  = `^P[0-9WDTHMS.,]+$`
)

var (
	sizeForm  = regexp.MustCompile(sizePattern)
	ageForm   = regexp.MustCompile(agePattern)
	sizeUnits = map[string]int64{
		"B": 1, "KB": 1e3, "MB": 1e6, "GB": 1e9, "TB": 1e12,
		"KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30, "TiB": 1 << 40,
	}
	ageUnits = map[string]int64{
		"s": int64(time.Second), "m": int64(time.Minute), "h": int64(time.Hour),
		"d": int64(24 * time.Hour), "w": int64(7 * 24 * time.Hour),
	}
)

// readSize reads bytes, as a number or with a unit.
func readSize(n *node) (any, *problem) {
	const hint = "write bytes, or a size such as 512MiB"
	if n.Kind == wholeNumber {
		if !decimalForm.MatchString(n.Text) {
			return nil, badValue(hint, "the number %s is not in the decimal form", clip(n.Text))
		}
		size, err := strconv.ParseInt(n.Text, 10, 64)
		if err != nil {
			return nil, badValue("", "the size %s is too large", clip(n.Text))
		}
		if size < 0 {
			return nil, badValue("leave the key out for no limit", "a size cannot be negative")
		}
		return size, nil
	}
	m := sizeForm.FindStringSubmatch(n.Text)
	if m == nil {
		return nil, badValue(hint, "%s is not a size", clip(n.Text))
	}
	size, ok := times(m[1], sizeUnits[m[2]])
	if !ok {
		return nil, badValue("", "the size %s is too large", clip(n.Text))
	}
	return size, nil
}

// readAge reads a duration with one unit, or in ISO 8601.
func readAge(s string) (any, *problem) {
	if m := ageForm.FindStringSubmatch(s); m != nil {
		ns, ok := times(m[1], ageUnits[m[2]])
		if !ok || time.Duration(ns) > isoduration.MaxYears*366*24*time.Hour {
			return nil, badValue("", "the duration %s is too long", clip(s))
		}
		return time.Duration(ns), nil
	}
	d, err := isoduration.Parse(s)
	if err != nil {
		return nil, badValue("write it such as 30d, 12h, 90m or P30D", "%s is not a duration", clip(s))
	}
	if d.Years != 0 || d.Months != 0 {
		return nil, badValue("write it in days", "years and months have no fixed length")
	}
	return time.Duration(d.Weeks*7+d.Days)*24*time.Hour + d.Clock, nil
}

// times multiplies digits with a unit, and reports whether the result fits.
func times(digits string, unit int64) (int64, bool) {
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n > math.MaxInt64/unit {
		return 0, false
	}
	return n * unit, true
}
