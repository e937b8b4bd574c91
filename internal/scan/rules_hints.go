package scan

// invisibles are the characters that are reported.
var invisibles = map[rune]bool{
	0x200b: true, 0x200c: true, 0x200d: true, 0x2060: true, 0xfeff: true, 0x202a: true, 0x202b: true, 0x202d: true, 0x202e: true, 0x2066: true, 0x2067: true, 0x2068: true, 0x2069: true, 0xe0001: true, 0x180e: true,
}

// Personal data, values that only a name makes suspicious, and findings that are
// reported and are not secrets.
var rulesHints = []rule{
	{id: "email", family: familyPII, what: "E-mail address", confidence: Info, alone: emailRule},
	{id: "ssn", family: familyPII, what: "US social security number", confidence: Likely, alone: ssnRule},
	{id: "payment_card", family: familyPII, what: "Payment card number", confidence: Likely, alone: cardRule},
	{id: "iban", family: familyPII, what: "International bank account number", confidence: Likely, alone: ibanRule},
	{id: "phone", family: familyPII, what: "Telephone number in international form", confidence: Info, alone: phoneRule},
	{id: "generic_password", family: familyGeneric, what: "Password in an assignment", words: []string{"password", "passwd", "passphrase", "pwd", "passwort", "pass_word", "db_pass", "dbpass"}, look: lookGeneric, confidence: Likely},
	{id: "generic_password", family: familyGeneric, what: "Password in an assignment to a short name", words: []string{"pass"}, look: lookShortName, confidence: Likely, short: true},
	{id: "generic_secret", family: familyGeneric, what: "Key or credentials in an assignment to a short name", words: []string{"key", "auth"}, look: lookShortName, confidence: Likely, short: true},
	{id: "generic_secret", family: familyGeneric, what: "Key, token or secret in an assignment",
		words: []string{"secret", "token", "api_key", "apikey", "api-key", "api key", "access_key", "accesskey", "auth_key", "authkey", "private_key", "privatekey", "encryption_key", "signing_key", "credential", "client_id_secret", "secret_key", "master_key", "license_key", "app_key", "appkey", "session_key", "jwt_key", "_key"},
		look:  lookGeneric, confidence: Likely},
	{id: "masked_credential", family: familyFilter, what: "Prefix of a credential whose rest is masked: upstream filters may still refuse the text", confidence: Info,
		words: []string{"sk-ant-", "sk-proj-", "ghp_", "gho_", "github_pat_", "akia", "xoxb-", "xoxp-", "sk_live_", "glpat-", "aiza", "npm_", "hf_"}, starts: true, look: lookFilter},
	{id: "invisible_character", family: familyInvisible, what: "Character that shows nothing or turns the direction of text", confidence: Info, alone: hiddenRule},
	{id: "long_base64_blob", family: familyBinary, what: "Encoded bytes of 200 characters and more", confidence: Info, alone: blobRule},
}
