package scan

// Values that only a name makes suspicious.
var rulesGeneric = []rule{
	{id: "generic_password", family: familyGeneric, what: "Password in an assignment", words: []string{"password", "passwd", "passphrase", "pwd", "passwort", "pass_word", "db_pass", "dbpass"}, look: lookGeneric, confidence: Likely,
		hits: []string{`password = "{an 20}"`, `DB_PASSWORD: "{an 16}"`}, misses: []string{`password = os.Getenv("DB_PASSWORD")`, `password = "changeme"`, `password: string`, `password = "<password>"`}},
	{id: "generic_secret", family: familyGeneric, what: "Key, token or secret in an assignment", words: []string{"secret", "token", "api_key", "apikey", "api-key", "api key", "access_key", "accesskey", "auth_key", "authkey", "private_key", "privatekey", "encryption_key", "signing_key", "credential", "client_id_secret", "master_key", "license_key", "app_key", "appkey", "session_key", "jwt_key", "_key"}, look: lookGeneric, confidence: Likely,
		hits: []string{`client_secret = "{an 32}"`, `API_KEY={hex 32}`, `"token": "{an 40}"`}, misses: []string{`token = next_token()`, `secret_name = "my-secret-name-in-vault"`, `api_key = os.environ["API_KEY"]`, `"integrity_token": "sha512-abc"`}},
}
