package scan

// invisibles are the characters that are reported: a soft hyphen is one that
// books use, two of them are not.
var invisibles = []string{
	"\u200b", "\u200c", "\u200d", "\u2060", "\ufeff", "\u202a", "\u202b", "\u202d", "\u202e", "\u2066", "\u2067", "\u2068", "\u2069", "\u00ad\u00ad", "\U000e0001", "\u180e",
}

// Findings that are reported and are not secrets.
var rulesHints = []rule{
	{id: "masked_credential", family: familyFilter, what: "Prefix of a credential whose rest is masked: upstream filters may still refuse the text", confidence: Info,
		words: []string{"sk-ant-", "sk-proj-", "ghp_", "gho_", "github_pat_", "akia", "xoxb-", "xoxp-", "sk_live_", "glpat-", "aiza", "npm_", "hf_"}, starts: true, look: lookFilter,
		hits: []string{"sk-ant-api03-****", "ghp_…", "AKIA************"}, misses: []string{"sk-ant-", "ghp_ is the prefix"}},
	{id: "invisible_character", family: familyInvisible, what: "Character that shows nothing or turns the direction of text", confidence: Info,
		hits: []string{"pay\u200bload", "if\u202e access"}, misses: []string{"plain text", "👩\u200d👩\u200d👧"}},
	{id: "long_base64_blob", family: familyBinary, what: "Encoded bytes of 200 characters and more", confidence: Info,
		hits: []string{"{b64 240}"}, misses: []string{"{b64 120}"}},
}
