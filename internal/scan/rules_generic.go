package scan

// Values that only a name makes suspicious.
var rulesGeneric = []rule{
	{id: "generic_password", family: familyGeneric, what: "Password in an assignment", words: []string{"password", "passwd", "passphrase", "pwd", "passwort", "pass_word", "db_pass", "dbpass"}, look: lookGeneric, confidence: Likely,
		hits: []string{`password = "{an 20}"`, `DB_PASSWORD: "{an 16}"`}, misses: []string{`password = os.Getenv("DB_PASSWORD")`, `password = "changeme"`, `password: string`, `password = "<password>"`}},
	{id: "generic_password", family: familyGeneric, what: "Password in an assignment to a short name", words: []string{"pass"}, look: lookShortName, confidence: Likely, short: true,
		hits: []string{`pass={an 16}`, `PASS="{an 18}"`}, misses: []string{`pass = true`, `passes={an 18}`, `pass=$MYSQL_PASS`, `pass: second_pass_over_data`, `pass=changeme12`}},
	{id: "generic_secret", family: familyGeneric, what: "Key or credentials in an assignment to a short name", words: []string{"key", "auth"}, look: lookShortName, confidence: Likely, short: true,
		hits: []string{`key={an 20}`, `acmeKey = "{an 24}"`, `auth: {an 32}`, `https://api.acme.io/v1?key={an 32}`}, misses: []string{`key = item.key2`, `for key := range 1000`, `monkey = "{an 24}"`, `auth: digest`, `key: "home.section2.title3"`, `keys={an 24}`}},
	{id: "generic_secret", family: familyGeneric, what: "Key, token or secret in an assignment", words: []string{"secret", "token", "api_key", "apikey", "api-key", "api key", "access_key", "accesskey", "auth_key", "authkey", "private_key", "privatekey", "encryption_key", "signing_key", "credential", "client_id_secret", "secret_key", "master_key", "license_key", "app_key", "appkey", "session_key", "jwt_key", "_key"}, look: lookGeneric, confidence: Likely,
		hits: []string{`client_secret = "{an 32}"`, `API_KEY={hex 32}`, `"token": "{an 40}"`}, misses: []string{`token = next_token()`, `secret_name = "my-secret-name-in-vault"`, `api_key = os.environ["API_KEY"]`, `"integrity_token": "sha512-abc"`}},
}
