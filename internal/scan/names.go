package scan

import "slices"

// Names are short texts that are stored and shown in the clear: paths, labels,
// keys. Only a confirmed finding of a format with a value of its own counts in
// them, never one that rests on the words around it or on randomness alone:
// UUIDs, hashes and the call ids of hosts are names too.

// NamedSecret returns the first credential in a name, false when there is none.
func (s *Scanner) NamedSecret(name string, opt Options) (family, pattern string, found bool) {
	s.named([]byte(name), opt, func(f *raw) {
		if !found {
			family, pattern, found = f.rule.family, f.rule.id, true
		}
	})
	return family, pattern, found
}

// RedactName returns a name with each credential replaced as Redact does.
func (s *Scanner) RedactName(name string, opt Options) string {
	for range maxRedactions {
		var out []byte
		old, last := []byte(name), 0
		s.named(old, opt, func(f *raw) {
			if f.start < last {
				return
			}
			c := cut{rule: f.rule, start: f.start, end: f.end}
			out = append(out, old[last:f.start]...)
			out = c.mark(out, old)
			last = f.end
		})
		if last == 0 {
			break
		}
		name = string(append(out, old[last:]...))
	}
	return name
}

// onWords are rules that rest on the words before a value, and one whose values
// look like the request ids of a service.
var onWords = map[string]bool{
	"bearer_token": true, "basic_credentials": true, "npmrc_auth": true, "docker_auth": true, "curl_credentials": true,
	"netrc_password": true, "kubeconfig_token": true, "ado_password": true, "command_password": true, "sql_password": true, "curl_userpwd": true, "launchdarkly_key": true,
}

// shortestName is the length in bytes below which no name can hold a credential.
const shortestName = 12

// named calls fn for each credential in a name, in order of place.
func (s *Scanner) named(name []byte, opt Options, fn func(*raw)) {
	if len(name) < shortestName {
		return
	}
	t := s.newText(name)
	defer t.free()
	t.own = true
	found := slices.DeleteFunc(t.findings(), func(f raw) bool {
		return f.confidence != Confirmed || f.rule.worded ||
			opt.Allow != nil && opt.Allow(f.rule.family, f.rule.id)
	})
	for i := range found {
		fn(&found[i])
	}
}
