package resilientwrite_test

import (
	"strings"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
)

// TestScannedEarly: content that is scanned while it is hashed gets the same
// warnings as content that is scanned later, however the call and the policy
// are, and a gate that blocks refuses it.
func TestScannedEarly(t *testing.T) {
	t.Parallel()
	secret := awsID(11)
	allow := "allow: [{path: b.txt, reason: a synthetic key of this test}]\n"
	calls := []struct {
		name, policy, before string
		change               func(*rw.SafeWriteRequest)
	}{
		{name: "create"},
		{name: "replace", before: "harmless\n"},
		{name: "secret was there", before: "x " + secret + "\n"},
		{name: "line ends", change: func(r *rw.SafeWriteRequest) { r.EOL = "crlf" }},
		{name: "append", before: "harmless\n", change: func(r *rw.SafeWriteRequest) { r.Mode = rw.ModeAppend }},
		{name: "allowed", policy: allow, change: func(r *rw.SafeWriteRequest) { r.Path = "b.txt" }},
		{name: "allowed elsewhere", policy: allow},
		{name: "stricter", change: func(r *rw.SafeWriteRequest) { yes := true; r.Classify = &yes }},
	}
	for _, c := range calls {
		var told [2]string
		for i, size := range []int{64 << 10, 512 << 10} {
			line := "a line of ordinary words that say nothing\n"
			text := strings.Repeat(line, size/2/len(line)) + "key " + secret + "\n" + strings.Repeat(line, size/2/len(line))
			dir := ramspace(t)
			s := openWith(t, dir, "gate: {mode: advise}\n"+c.policy, nil)
			r := rw.SafeWriteRequest{Path: "a.txt", Content: []byte(text), Mode: rw.ModeOverwrite}
			if c.change != nil {
				c.change(&r)
			}
			if c.before != "" {
				passes(t, s, put(r.Path, c.before, rw.ModeCreate))
			}
			out, err := s.SafeWrite(background, r)
			told[i] = reasons(out.Warnings)
			if err != nil {
				told[i] = string(rw.AsError("", err).Detail)
			}
		}
		if told[0] != told[1] {
			t.Errorf("%s: %q where it is scanned early, %q where it is not", c.name, told[1], told[0])
		}
		if allowed := c.name == "allowed"; (told[0] == "") != allowed {
			t.Errorf("%s: %q", c.name, told)
		}
	}
}
