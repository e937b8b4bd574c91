package scan

// Values that only a name makes suspicious.
var rulesGeneric = []rule{
	{id: "generic_password", family: familyGeneric, what: "Password in an assignment", words: []string{"password", "passwd", "passphrase", "pwd", "passwort", "pass_word", "db_pass", "dbpass"}, look: lookGeneric, confidence: Likely},
	{id: "generic_password", family: familyGeneric, what: "Password in an assignment to a short name", words: []string{"pass"}, look: lookShortName, confidence: Likely, short: true},
	{id: "generic_secret", family: familyGeneric, what: "Key or credentials in an assignment to a short name", words: []string{"key", "auth"}, look: lookShortName, confidence: Likely, short: true},
	{id: "generic_secret", family: familyGeneric, what: "Key, token or secret in an assignment",
		words: []string{"secret", "token", "api_key", "apikey", "api-key", "api key", "access_key", "accesskey", "auth_key", "authkey", "private_key", "privatekey", "encryption_key", "signing_key", "credential", "client_id_secret", "secret_key", "master_key", "license_key", "app_key", "appkey", "session_key", "jwt_key", "_key"},
		look:  lookGeneric, confidence: Likely},
}
