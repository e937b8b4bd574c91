package resilientwrite

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"reflect"
	"slices"
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/engine/publish"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/protect"
)

// ProtectMode says what becomes of a change of a file of the protected
// defaults: one that executes, launches or grants by lying in the project
// ([ProtectedFiles] lists them).
type ProtectMode string

const (
	// ProtectAsk asks the user about those that do so at once, refuses where
	// no user can be asked, and warns about the others.
	ProtectAsk ProtectMode = "ask"
	// ProtectWarn warns about all of them.
	ProtectWarn ProtectMode = "warn"
	// ProtectOff does not look.
	ProtectOff ProtectMode = "off"
)

// rank orders the modes by strictness.
func (m ProtectMode) rank() int {
	return slices.Index([]ProtectMode{ProtectOff, ProtectWarn, ProtectAsk}, m)
}

// check refuses an invalid value.
func (m ProtectMode) check() *fault.Fault {
	if m != "" && m.rank() < 0 {
		return badChoice("protect_defaults", "ask", "warn", "off")
	}
	return nil
}

type protectKey struct{}

// WithProtectDefaults returns a context whose calls use mode for the protected
// defaults if the options do not set one. It is the default that an adapter
// chooses for its callers. An invalid value is [ProtectAsk].
func WithProtectDefaults(ctx context.Context, mode ProtectMode) context.Context {
	if mode.rank() < 0 {
		mode = ProtectAsk
	}
	return context.WithValue(ctx, protectKey{}, mode)
}

// protectFor returns the mode that applies to a call: that of the host, or a
// weaker one if the policy sets it.
func (s *Store) protectFor(ctx context.Context) ProtectMode {
	mode := s.opts.ProtectDefaults
	if of, ok := ctx.Value(protectKey{}).(ProtectMode); ok && mode == "" {
		mode = of
	}
	if mode == "" {
		mode = ProtectOff
	}
	if most := ProtectMode(s.policy().file.ProtectDefaults); most != "" && most.rank() < mode.rank() {
		mode = most
	}
	return mode
}

// ProtectedFile is one row of the protected defaults.
type ProtectedFile struct {
	// Paths, at any depth and in any letter case; braces list alternatives.
	Pattern string `json:"pattern"`
	// ask: the user is asked, and the change is refused when no user can be
	// asked. warn: the receipt carries a warning.
	Answer string `json:"answer" enum:"ask,warn"`
	// Stable name of the reason.
	Class string `json:"class"`
	// What such a file does.
	Reason string `json:"reason"`
	// Version of the list that added it.
	Since int `json:"since"`
}

// ProtectedFiles lists the files that take effect just by being in a project:
// they are executed, launch something or grant access. The first row that matches
// a path counts.
func ProtectedFiles() []ProtectedFile {
	var list []ProtectedFile
	for _, r := range protect.Rules() {
		d := ProtectedFile{Pattern: r.Pattern, Answer: string(r.Answer), Class: string(r.Class), Reason: r.Reason(), Since: r.Since}
		if r.Scripts {
			d.Reason += "; only when scripts changed"
		}
		list = append(list, d)
	}
	return list
}

// guarded is a path of a commit that the user is to be asked about.
type guarded struct {
	m    *engine.Mutation
	path string // under which it is protected: as it was requested, or after links are resolved
	rule protect.Rule
}

// name returns the path of the file that an answer is about.
func (g guarded) name() string { return g.m.Target.Path }

// ruleFor returns the rule that applies to a mutation, by either of its names.
func (c *commit) ruleFor(m *engine.Mutation) (guarded, bool) {
	found := guarded{m: m}
	if m.Private || m.Target == nil {
		return found, false
	}
	for _, p := range []string{m.Path, m.Target.Path} {
		match := protect.Match
		if m.Link() {
			match = protect.MatchLink
		}
		rule, ok := match(p)
		if !ok || c.s.policy().excepts(p) {
			continue
		}
		if found.path == "" || rule.Answer == protect.Ask {
			found.path, found.rule = p, rule
		}
		if rule.Answer == protect.Ask {
			break
		}
	}
	return found, found.path != ""
}

// toAsk lists the files of the commit that the user has not been asked about.
func (c *commit) toAsk() []guarded {
	if c.protect != ProtectAsk {
		return nil
	}
	var list []guarded
	for _, m := range c.Muts {
		g, ok := c.ruleFor(m)
		if ok && g.rule.Answer == protect.Ask && !c.consented[g.name()] && !c.s.answers.coversPath(c.answersKey(), g.name()) {
			list = append(list, g)
		}
	}
	return list
}

// defaultsAsk is the hook number of questions that no hook asks.
const defaultsAsk = -1

// protectQuestion returns the question to the user about protected files.
func (c *commit) protectQuestion(list []guarded) question {
	var names []string
	for i, g := range list {
		if i == maxAsked {
			names = append(names, fmt.Sprintf("and %d more protected files", len(list)-i))
			break
		}
		name := shownPath(g.path)
		if g.path != g.m.Path {
			name = shownPath(g.m.Path) + ", which leads to " + name
		}
		names = append(names, fmt.Sprintf("%s (%s)", name, g.rule.Reason()))
	}
	text := fmt.Sprintf("%s of %s would change %s. Allow it? From now on means: these files, in this session.", c.Req.Op, shownPath(c.Req.Caller), strings.Join(names, "; "))
	return question{hook: defaultsAsk, text: c.s.questionText(text)}
}

// refuseProtected returns the error of a change without permission.
func (c *commit) refuseProtected(list []guarded, why string) error {
	g := list[0]
	var paths []string
	for _, g := range list {
		paths = append(paths, g.path)
	}
	line := fmt.Sprintf("protect_exceptions: [%q]", g.path)
	e := fault.New(fault.ProtectedDefault).With("rule", g.rule.Pattern).With("class", string(g.rule.Class)).With("paths", paths).With("policy_line", line).
		Hintf("%s is protected because %s; %s. The user can make the change, or allow it in the policy file with %s", g.path, g.rule.Reason(), why, line)
	return c.About(g.m, e)
}

// consent records what the user answered with yes.
func (c *commit) consent(list []guarded, always bool) {
	if c.consented == nil {
		c.consented = map[string]bool{}
	}
	for _, g := range list {
		c.consented[g.name()] = true
		if always {
			c.s.answers.rememberPath(c.answersKey(), g.name())
		}
	}
}

// answersKey returns the scope of a lasting yes: the session, of the same client
// over the same connection, because a session name can be claimed. "" is no
// scope, when an adapter knows neither a session nor a connection.
func (c *commit) answersKey() string {
	if c.Via == nil {
		return "\x00" + c.Req.Session
	}
	if c.Req.Session == "" && c.Via.Connection == "" {
		return ""
	}
	return strings.Join([]string{c.Via.Client, c.Via.Connection, c.Req.Session}, "\x00")
}

// stayConsented refuses a commit that now leads to a protected file about which
// the user was not asked: a link may have been changed while the call waited, or
// its plan may move more files along.
func (c *commit) stayConsented() error {
	if c.Unasked { // the idempotency key answers, or no one can be asked
		return nil
	}
	list := c.toAsk()
	if len(list) == 0 || c.Req.DryRun {
		return nil
	}
	return c.About(list[0].m, fault.New(fault.ChangedDuringWrite).
		Hintf("the files of this call changed while the user was asked; send it again, so that the user can be asked about the current files"))
}

// coversPath reports whether the user allowed all later changes of a file.
func (a *answers) coversPath(key, path string) bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return key != "" && a.paths[key+"\x00"+path]
}

// rememberPath records a yes for all later changes of a file.
func (a *answers) rememberPath(key, path string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if key == "" {
		return
	}
	if a.paths == nil {
		a.paths = map[string]bool{}
	}
	a.paths[key+"\x00"+path] = true
}

// warnProtected warns of protected files that are changed without a question,
// and of files that are executable. The final bytes are known.
func (c *commit) warnProtected() error {
	if c.protect == ProtectOff {
		return nil
	}
	for _, m := range c.Muts {
		if m.Private || m.Unchanged() || m.Forgotten {
			continue
		}
		ends := []*engine.Mutation{m}
		if m.Source != nil {
			ends = append(ends, m.Source)
		}
		for _, end := range ends {
			if err := c.warnAbout(m, end); err != nil {
				return err
			}
		}
	}
	return nil
}

// warnAbout adds the warnings about one end of a change to the mutation that the
// receipt shows.
func (c *commit) warnAbout(shown, m *engine.Mutation) error {
	g, ok := c.ruleFor(m)
	if ok && g.rule.Scripts {
		changed, err := changesScripts(shown)
		if err != nil {
			return err
		}
		ok = changed
	}
	if ok && (g.rule.Answer == protect.Warn || c.protect == ProtectWarn) {
		shown.Warn(warnOf(g.rule.Class))
	}
	if m.Prev.Exists && m.Prev.Stat.Mode&0o111 != 0 && !c.s.policy().excepts(m.Target.Path) {
		shown.Warn(WarnChangesExecutable)
	}
	return nil
}

// warnOf returns the warning of a class.
func warnOf(class protect.Class) string { return "changes_" + string(class) }

// maxScripts is the size in bytes up to which scripts are compared.
const maxScripts = 4 << 20

// changesScripts reports whether the member scripts of the JSON differs from
// before. What cannot be compared counts as changed.
func changesScripts(m *engine.Mutation) (bool, error) {
	if m.Prev.Stat.Size > maxScripts || m.Size > maxScripts {
		return true, nil
	}
	var before, after []byte
	var err error
	if m.Prev.Exists {
		if before, err = io.ReadAll(m.Prev.Reader()); err != nil {
			return false, err
		}
	}
	if m.Op != engine.OpDelete {
		if after, err = io.ReadAll(m.Final.Reader()); err != nil {
			return false, err
		}
	}
	if m.How == publish.Append {
		after = append(bytes.Clone(before), after...)
	}
	was, ok1 := scriptsOf(before)
	is, ok2 := scriptsOf(after)
	return !ok1 || !ok2 || !reflect.DeepEqual(was, is), nil
}

// scriptsOf returns the member scripts of a JSON object, nil for an empty text.
func scriptsOf(text []byte) (scripts any, ok bool) {
	if len(text) == 0 {
		return nil, true
	}
	var doc map[string]json.RawMessage
	if json.Unmarshal(text, &doc) != nil {
		return nil, false
	}
	if doc["scripts"] == nil {
		return nil, true
	}
	err := json.Unmarshal(doc["scripts"], &scripts)
	return scripts, err == nil
}
