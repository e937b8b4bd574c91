package scan

// invisibles are the characters that are reported.
var invisibles = map[rune]bool{
	0x200b: true, 0x200c: true, 0x200d: true, 0x2060: true, 0xfeff: true, 0x202a: true, 0x202b: true, 0x202d: true, 0x202e: true, 0x2066: true, 0x2067: true, 0x2068: true, 0x2069: true, 0xe0001: true, 0x180e: true,
}

// Findings that are reported and are not secrets.
var rulesHints = []rule{
	{id: "masked_credential", family: familyFilter, what: "Prefix of a credential whose rest is masked: upstream filters may still refuse the text", confidence: Info,
		words: []string{"sk-ant-", "sk-proj-", "ghp_", "gho_", "github_pat_", "akia", "xoxb-", "xoxp-", "sk_live_", "glpat-", "aiza", "npm_", "hf_"}, starts: true, look: lookFilter},
	{id: "invisible_character", family: familyInvisible, what: "Character that shows nothing or turns the direction of text", confidence: Info, alone: hiddenRule},
	{id: "long_base64_blob", family: familyBinary, what: "Encoded bytes of 200 characters and more", confidence: Info, alone: blobRule},
}
