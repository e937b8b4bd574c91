//go:build linux

package main

import "fmt"

var leakage = scenario{
	id: "C7", name: "secret leakage", level: "full", trials: 400, smoke: 40, noLoss: true,
	extra:  []extra{{"credentials found", "caught", "secrets"}, {"credentials on disk", "leaked", "secrets"}, {"false alarms", "false_alarms", "harmless"}},
	fault:  "every other text of the corpus holds one credential of 20 kinds, made at run time; the others are harmless and have lines that look alike",
	oracle: "no 12 bytes in a row of the last 16 of a credential are found in the workspace or the state outside of the quarantine; harmless texts are written as they are",
	run: func(r *ring, add func(trial)) error {
		t, err := r.tool()
		if err != nil {
			return err
		}
		defer closeTool(t)
		var done []*exposure
		for n := range r.n {
			x, err := r.expose(t, n)
			if err != nil {
				return err
			}
			done = append(done, x)
		}
		if err := r.search(done); err != nil {
			return err
		}
		for _, x := range done {
			add(x.judge())
		}
		return nil
	},
}

// exposure is one text that is to be written.
type exposure struct {
	trial
	secret  string // "": there is none
	refused bool
	leaked  bool
}

func (r *ring) expose(t tool, n int) (*exposure, error) {
	d := r.dice(n)
	x := &exposure{}
	line := harmless[n/2%len(harmless)](d)
	if n%2 == 0 {
		s := makeSecret(d, n/2)
		line, x.secret = s.line, s.value
	}
	text, at := spreadText(d, 1500, line)
	path := fmt.Sprintf("c7/%03d.txt", n)
	w := r.agent(t)
	w.pursue(task{call: call{Verb: write, Path: path, Text: text, Key: path}})
	w.end()
	got, there, err := r.content(path)
	if err != nil {
		return nil, err
	}
	asExpected := got == text
	if x.secret != "" {
		asExpected = redactedOnly(text, got, x.secret, at, at+len(line))
	}
	x.refused = !w.began.IsZero()
	x.trial = w.finish(there && asExpected, false, false)
	return x, nil
}

// The search looks for parts of secrets. The last bytes of a credential are
// random in every family, while the first ones may be those of its kind. A leak
// may be cut or escaped, so any run of that many of them counts; twelve matching
// hexadecimal digits are very unlikely by chance in files of this size.
const (
	tailBytes = 16
	leakBytes = 12
)

// search looks for every secret in every file of the workspace, including the
// state directory but not the quarantine.
func (r *ring) search(list []*exposure) error {
	marks := map[string]*exposure{}
	for _, x := range list {
		end := x.secret[max(0, len(x.secret)-tailBytes):]
		for i := 0; i+leakBytes <= len(end); i++ {
			marks[end[i:i+leakBytes]] = x
		}
	}
	return r.read(".", "quarantine", func(data []byte) bool {
		for i := 0; i+leakBytes <= len(data); i++ {
			if x := marks[string(data[i:i+leakBytes])]; x != nil {
				x.leaked = true
			}
		}
		return true
	})
}

// judge returns the trial of an exposure.
func (x *exposure) judge() trial {
	t := x.trial
	t.Broken = x.leaked
	if x.secret != "" {
		t.Fault = true // whether or not the agent got an error
		t.Counts["secrets"], t.Counts["caught"], t.Counts["leaked"] = 1, btoi(x.refused), btoi(x.leaked)
		return t
	}
	t.Counts["harmless"], t.Counts["false_alarms"] = 1, btoi(x.refused)
	return t
}
