package resilientwrite

import (
	"context"
	"reflect"
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/fault"
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
func (c *commit) names() []name {
	list := namesIn(nil, "", reflect.ValueOf(c.args))
	list = append(list, name{"caller", c.Req.Caller}, name{"session", c.Req.Session}, name{"idempotency_key", c.Req.Key})
	for _, m := range c.Muts {
		list = append(list, name{"path", m.Path})
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
				list = namesIn(list, argumentOf(f), v.Field(i))
			}
		}
	}
	return list
}

// argumentOf returns the name of a field on the wire.
func argumentOf(f reflect.StructField) string {
	name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
	return name
}

// checkNames is the gate for names.
func (c *commit) checkNames(ctx context.Context) error {
	g := c.gateOf(ctx)
	if g.Mode == GateOff {
		return nil
	}
	seen := map[string]bool{}
	for _, n := range c.names() {
		if seen[n.text] {
			continue
		}
		seen[n.text] = true
		family, pattern, found := c.s.secretIn(n)
		if !found {
			continue
		}
		switch {
		case g.Mode == GateAdvise:
			c.warn(WarnSecretInName)
		case c.risk.accept != "" && g.Overrides == OverrideAny:
			c.Accepted = c.s.safeText(c.risk.accept)
			c.warn(WarnRiskAccepted)
		default:
			return secretInName(n.argument, family, pattern)
		}
	}
	return nil
}

// secretIn looks for a credential in a name. An exception of the policy for a
// path also applies to that path as a name.
func (s *Store) secretIn(n name) (family, pattern string, found bool) {
	p := s.policy()
	path := ""
	if isPath[n.argument] {
		path = n.text
	}
	return p.scanner.NamedSecret(n.text, p.options(path))
}

// isPath are the arguments that name files of the workspace.
var isPath = map[string]bool{"path": true, "to": true, "output_path": true}

func secretInName(argument, family, pattern string) *fault.Fault {
	e := fault.New(fault.SecretInName).With("argument", argument).With("pattern", pattern)
	e.Patterns = []string{family}
	return e.Hintf("%s contains what looks like a credential (%s); names are stored and shown in clear text, so choose another one", argument, pattern)
}

// hideName returns a name as it may appear in an error, a receipt or a row of a
// refused call.
func (s *Store) hideName(text string) string {
	p := s.policy()
	if p == nil {
		return text // Open failed before there was a policy: no call came in
	}
	return p.scanner.RedactName(text, p.options(""))
}

// hideNames redacts the names of a refused call: from here on, no reader can
// learn them from it.
func (c *commit) hideNames() {
	for _, text := range []*string{&c.Req.Caller, &c.Req.Session, &c.Req.Key, &c.Req.Tx} {
		*text = c.s.hideName(*text)
	}
	for _, m := range c.Muts {
		m.Path = c.s.hideName(m.Path)
		if m.Target != nil {
			m.Target.Path = c.s.hideName(m.Target.Path)
		}
	}
}

// hideIn redacts the names in an error.
func (s *Store) hideIn(e *fault.Fault) {
	e.Path, e.Hint = s.hideName(e.Path), s.hideName(e.Hint)
	if len(e.Context) > 0 {
		e.Context = s.hidden(reflect.ValueOf(e.Context)).Interface().(map[string]any)
	}
}

// hidden returns a copy of a value with the names in it redacted.
func (s *Store) hidden(v reflect.Value) reflect.Value {
	if v.Kind() == reflect.Invalid || isNil(v) {
		return v
	}
	out := reflect.New(v.Type()).Elem()
	out.Set(v)
	switch v.Kind() {
	case reflect.String:
		out.SetString(s.hideName(v.String()))
	case reflect.Interface:
		out.Set(s.hidden(v.Elem()))
	case reflect.Pointer:
		out.Set(reflect.New(v.Type().Elem()))
		out.Elem().Set(s.hidden(v.Elem()))
	case reflect.Slice:
		out.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
		for i := range v.Len() {
			out.Index(i).Set(s.hidden(v.Index(i)))
		}
	case reflect.Map:
		out.Set(reflect.MakeMapWithSize(v.Type(), v.Len()))
		for _, key := range v.MapKeys() {
			out.SetMapIndex(s.hidden(key), s.hidden(v.MapIndex(key)))
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				out.Field(i).Set(s.hidden(v.Field(i)))
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
