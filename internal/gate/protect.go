package gate

import (
	"bytes"
	"cmp"
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
	"github.com/resilientwrite/resilientwrite/internal/visible"
)

// Modes of the protected defaults.
const (
	ProtectAsk  = "ask"
	ProtectWarn = "warn"
	ProtectOff  = "off"
)

// ProtectRank orders the modes by strictness. It is -1 for what is no mode.
func ProtectRank(mode string) int {
	return slices.Index([]string{ProtectOff, ProtectWarn, ProtectAsk}, mode)
}

// ProtectFor returns the mode that applies to a call for which the host sets
// mode, "" for none: that one, or a weaker one if the policy sets it.
func (l *Layer) ProtectFor(mode string) string {
	mode = cmp.Or(mode, ProtectOff)
	if most := l.Policy().File.ProtectDefaults; most != "" && ProtectRank(most) < ProtectRank(mode) {
		return most
	}
	return mode
}

// Guarded is a path of a commit that the user is to be asked about.
type Guarded struct {
	m    *engine.Mutation
	path string // under which it is protected: as it was requested, or after links are resolved
	rule protect.Rule
}

// name returns the path of the file that an answer is about.
func (g Guarded) name() string { return g.m.Target.Path }

// ruleFor returns the rule that applies to a mutation, by either of its names.
func (c *Check) ruleFor(m *engine.Mutation) (Guarded, bool) {
	found := Guarded{m: m}
	if m.Private || m.Target == nil {
		return found, false
	}
	for _, p := range []string{m.Path, m.Target.Path} {
		match := protect.Match
		if m.Link() {
			match = protect.MatchLink
		}
		rule, ok := match(p)
		if !ok || c.Layer.Policy().Excepts(p) {
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

// ToAsk lists the files of the commit that the user has not been asked about.
func (c *Check) ToAsk() []Guarded {
	if c.Protect != ProtectAsk {
		return nil
	}
	var list []Guarded
	for _, m := range c.Commit.Muts {
		g, ok := c.ruleFor(m)
		if ok && g.rule.Answer == protect.Ask && !c.consented[g.name()] && !c.allowed(g.name()) {
			list = append(list, g)
		}
	}
	return list
}

// Question returns the question to the user about protected files.
func (c *Check) Question(list []Guarded) string {
	var names []string
	for i, g := range list {
		if i == MaxListed {
			names = append(names, fmt.Sprintf("and %d more protected files", len(list)-i))
			break
		}
		name := visible.Name(g.path)
		if g.path != g.m.Path {
			name = visible.Name(g.m.Path) + ", which leads to " + name
		}
		names = append(names, fmt.Sprintf("%s (%s)", name, g.rule.Reason()))
	}
	return fmt.Sprintf("%s of %s would change %s. Allow it? From now on means: these files, in this session.", c.Commit.Req.Op, visible.Name(c.Commit.Req.Caller), strings.Join(names, "; "))
}

// RefuseProtected returns the error of a change without permission.
func (c *Check) RefuseProtected(list []Guarded, why string) error {
	g := list[0]
	var paths []string
	for _, g := range list {
		paths = append(paths, g.path)
	}
	line := fmt.Sprintf("protect_exceptions: [%q]", g.path)
	e := fault.New(fault.ProtectedDefault).With("rule", g.rule.Pattern).With("class", string(g.rule.Class)).With("paths", paths).With("policy_line", line).
		Hintf("%s is protected because %s; %s. The user can make the change, or allow it in the policy file with %s", g.path, g.rule.Reason(), why, line)
	return c.Commit.About(g.m, e)
}

// Consent records what the user answered with yes.
func (c *Check) Consent(list []Guarded, always bool) {
	if c.consented == nil {
		c.consented = map[string]bool{}
	}
	for _, g := range list {
		c.consented[g.name()] = true
		if key := c.answersKey(); always && key != "" {
			c.Layer.consents.Store([2]string{key, g.name()}, nil)
		}
	}
}

// allowed reports whether the user allowed all later changes of a file.
func (c *Check) allowed(path string) bool {
	_, ok := c.Layer.consents.Load([2]string{c.answersKey(), path})
	return ok
}

// answersKey returns the scope of a lasting yes: the session, of the same client
// over the same connection, because a session name can be claimed. "" is no
// scope, when an adapter knows neither a session nor a connection.
func (c *Check) answersKey() string {
	if c.Commit.Via == nil {
		return "\x00" + c.Commit.Req.Session
	}
	if c.Commit.Req.Session == "" && c.Commit.Via.Connection == "" {
		return ""
	}
	return strings.Join([]string{c.Commit.Via.Client, c.Commit.Via.Connection, c.Commit.Req.Session}, "\x00")
}

// stayConsented refuses a commit that now leads to a protected file about which
// the user was not asked: a link may have been changed while the call waited, or
// its plan may move more files along.
func (c *Check) stayConsented() error {
	if c.Commit.Unasked { // the idempotency key answers, or no one can be asked
		return nil
	}
	list := c.ToAsk()
	if len(list) == 0 || c.Commit.Req.DryRun {
		return nil
	}
	return c.Commit.About(list[0].m, fault.New(fault.ChangedDuringWrite).
		Hintf("the files of this call changed while the user was asked; send it again, so that the user can be asked about the current files"))
}

// warnProtected warns of protected files that are changed without a question,
// and of files that are executable. The final bytes are known.
func (c *Check) warnProtected() error {
	if c.Protect == ProtectOff {
		return nil
	}
	for _, m := range c.Commit.Muts {
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
func (c *Check) warnAbout(shown, m *engine.Mutation) error {
	g, ok := c.ruleFor(m)
	if ok && g.rule.Scripts {
		changed, err := changesScripts(shown)
		if err != nil {
			return err
		}
		ok = changed
	}
	if ok && (g.rule.Answer == protect.Warn || c.Protect == ProtectWarn) {
		shown.Warn(warnOf(g.rule.Class))
	}
	if m.Prev.Exists && m.Prev.Stat.Mode&0o111 != 0 && !c.Layer.Policy().Excepts(m.Target.Path) {
		shown.Warn(warnOf(protect.Executable))
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
	if m.Primitive == publish.Append {
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
