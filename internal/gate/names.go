package gate

import (
	"reflect"
	"strings"

	"github.com/resilientwrite/resilientwrite/call"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/journal"
	"github.com/resilientwrite/resilientwrite/internal/lock"
	"github.com/resilientwrite/resilientwrite/internal/scan"
	"github.com/resilientwrite/resilientwrite/internal/visible"
)

// Names are the arguments of a call that are not content: paths, labels, keys.
// They are stored in the clear, in the workspace and in the journal, and are
// shown to every reader of the journal, so a credential in one of them cannot be
// withdrawn. The gate refuses a confirmed one, and reports about a refused call
// show its names redacted.

// contents are the fields of requests that hold content. The gate judges them as
// content; a reason given by the caller is stored redacted.
var contents = map[string]bool{
	"Content": true, "Old": true, "New": true, "Body": true, "Data": true, "Envelope": true, "AcceptRisk": true,
}

// name is one name of a call.
type name struct {
	argument string // as the caller knows it
	text     string
}

// names returns the names of a commit: those of its request, and those from the
// context or the options.
func (c *Check) names() []name {
	list := namesIn(nil, "", reflect.ValueOf(c.Args))
	list = append(list, name{"caller", c.Commit.Req.Caller}, name{"session", c.Commit.Req.Session}, name{"idempotency_key", c.Commit.Req.Key})
	for _, m := range c.Commit.Muts {
		list = append(list, name{"path", m.Path})
	}
	for _, d := range c.Commit.Dirs {
		if d.PrevMode == 0 { // it is made
			list = append(list, name{"path", d.Path})
		}
	}
	return list
}

// namesIn appends the texts of a value that are not content.
func namesIn(list []name, argument string, v reflect.Value) []name {
	switch v.Kind() {
	case reflect.String:
		if s := v.String(); s != "" {
			list = append(list, name{argument, s})
		}
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			list = namesIn(list, argument, v.Elem())
		}
	case reflect.Slice, reflect.Array:
		if v.Type().Elem().Kind() == reflect.Uint8 {
			break
		}
		for i := range v.Len() {
			list = namesIn(list, argument, v.Index(i))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && !contents[f.Name] {
				name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
				list = namesIn(list, name, v.Field(i))
			}
		}
	}
	return list
}

// CheckNames is the gate for names.
func (c *Check) CheckNames() error {
	g := c.setting()
	if g.Mode == Off {
		return nil
	}
	seen := map[string]bool{}
	for _, n := range c.names() {
		if seen[n.text] {
			continue
		}
		seen[n.text] = true
		family, pattern, found := c.Layer.SecretIn(n.argument, n.text)
		if !found {
			continue
		}
		switch {
		case g.Mode == Advise:
			c.warn(call.WarnSecretInName)
		case c.Risk.Accept != "" && g.Overrides == OverrideAny:
			c.Commit.Accepted = c.Layer.SafeText(c.Risk.Accept)
			c.warn(call.WarnRiskAccepted)
		default:
			return SecretInName(n.argument, family, pattern)
		}
	}
	return nil
}

// SecretIn looks for a credential in a name, the value of an argument. An
// exception of the policy for a path also applies to that path as a name.
func (l *Layer) SecretIn(argument, text string) (family, pattern string, found bool) {
	p, path := l.Policy(), ""
	if isPath[argument] {
		path = text
	}
	return p.Scanner().NamedSecret(text, p.Options(path))
}

// isPath are the arguments that name files of the workspace.
var isPath = map[string]bool{"path": true, "to": true, "output_path": true}

// SecretInName returns the error of a name that contains a credential.
func SecretInName(argument, family, pattern string) *fault.Fault {
	e := fault.New(fault.SecretInName).With("argument", argument).With("pattern", pattern)
	e.Patterns = []string{family}
	return e.Hintf("%s contains what looks like a credential (%s); names are stored and shown in clear text, so choose another one", argument, pattern)
}

// HideName returns a name as it may appear in an error, a receipt or a row of a
// refused call.
func (l *Layer) HideName(text string) string {
	p := l.Policy()
	return p.Scanner().RedactName(text, p.Options(""))
}

// HideNames redacts the names of a refused call: from here on, no reader can
// learn them from it.
func (c *Check) HideNames() {
	for _, text := range []*string{&c.Commit.Req.Caller, &c.Commit.Req.Session, &c.Commit.Req.Key, &c.Commit.Req.Tx} {
		*text = c.Layer.HideName(*text)
	}
	for _, m := range c.Commit.Muts {
		m.Path = c.Layer.HideName(m.Path)
		if m.Target != nil {
			m.Target.Path = c.Layer.HideName(m.Target.Path)
		}
	}
}

// HideIn redacts the names in an error.
func (l *Layer) HideIn(e *fault.Fault) {
	e.Path, e.Hint = l.HideName(e.Path), l.HideName(e.Hint)
	if len(e.Context) > 0 {
		e.Context = l.hidden(reflect.ValueOf(e.Context)).Interface().(map[string]any)
	}
}

// MaxReason is the limit of a reason that a caller gives, in bytes.
const MaxReason = 500

// SafeText returns a text of the caller for the journal, with secrets in it
// replaced.
func (l *Layer) SafeText(text string) string {
	clean, _ := l.Policy().Scanner().Redact([]byte(strings.ToValidUTF8(text, "?")), scan.Options{})
	return visible.Prefix(string(clean), MaxReason)
}

// MaxLabel is the limit of the names a caller gives, in bytes.
const MaxLabel = 200

// Label makes a name valid for every request.
func Label(name string) string {
	return visible.Prefix(strings.ToValidUTF8(name, "\uFFFD"), MaxLabel)
}

// Via returns what is recorded about the origin of a call, without secrets. A
// thread that contains one counts as absent.
func (l *Layer) Via(via journal.Via) *journal.Via {
	if l.holdsSecret(strings.Join([]string{via.Client, via.Version, via.Thread, via.Call, via.Model, via.Turn, via.Trace}, "\n")) {
		if l.holdsSecret(via.Thread) {
			via.Thread = ""
		}
		for _, text := range []*string{&via.Client, &via.Version, &via.Call, &via.Model, &via.Turn, &via.Trace} {
			*text = Label(l.SafeText(*text))
		}
	}
	return &via
}

// holdsSecret reports whether a text certainly contains a secret. Rules that guess
// would match identifiers.
func (l *Layer) holdsSecret(text string) (found bool) {
	l.Policy().Scanner().Score([]byte(text), scan.Options{Each: func(f scan.Finding) { found = found || f.Confidence == scan.Confirmed }})
	return found
}

// hidden returns a copy of a value with the names in it redacted.
func (l *Layer) hidden(v reflect.Value) reflect.Value {
	if v.Kind() == reflect.Invalid || isNil(v) {
		return v
	}
	out := reflect.New(v.Type()).Elem()
	out.Set(v)
	switch v.Kind() {
	case reflect.String:
		out.SetString(l.HideName(v.String()))
	case reflect.Interface:
		out.Set(l.hidden(v.Elem()))
	case reflect.Pointer:
		out.Set(reflect.New(v.Type().Elem()))
		out.Elem().Set(l.hidden(v.Elem()))
	case reflect.Slice:
		out.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
		for i := range v.Len() {
			out.Index(i).Set(l.hidden(v.Index(i)))
		}
	case reflect.Map:
		out.Set(reflect.MakeMapWithSize(v.Type(), v.Len()))
		for _, key := range v.MapKeys() {
			out.SetMapIndex(l.hidden(key), l.hidden(v.MapIndex(key)))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				out.Field(i).Set(l.hidden(v.Field(i)))
			}
		}
	}
	return out
}

func isNil(v reflect.Value) bool {
	switch v.Kind() {
	case reflect.Interface, reflect.Pointer, reflect.Slice, reflect.Map:
		return v.IsNil()
	}
	return false
}

// Announce shows a call to other processes if it takes long, with secrets in its
// names removed. The caller calls end when the call ends.
func (l *Layer) Announce(op, caller string, paths func() []string) (end func()) {
	return l.Engine.Announce(func() lock.Call {
		out := lock.Call{Op: op, Caller: l.HideName(caller)}
		list := paths()
		for _, path := range list[:min(len(list), 10)] {
			out.Paths = append(out.Paths, l.HideName(path))
		}
		return out
	})
}

// AdapterPrefix begins the session names that an adapter assigns.
const AdapterPrefix = "mcp-"

// OfAdapter reports whether a session name is reserved for adapters, in any
// letter case, because other spellings would look alike.
func OfAdapter(session string) bool {
	return len(session) >= len(AdapterPrefix) && strings.EqualFold(session[:len(AdapterPrefix)], AdapterPrefix)
}
