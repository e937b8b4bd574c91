package scan

import (
	"strings"
	"testing"
)

// What looks like a secret and is not one is at most information.
func TestNearMisses(t *testing.T) {
	s := scanner(t)
	for _, template := range []string{
		// digests and identifiers
		"commit {hex 40}\nAuthor: A\n", "index {hex 7}..{hex 7} 100644\n", "{hex 64}  dist/app.tar.gz\n", "sha256:{hex 64}\n", "md5 = {hex 32}\n",
		"request {uuid} took 12ms\n", "\"id\": \"{uuid}\",\n", "client_id = \"{uuid}\"\n", "trace_id: \"{hex 32}\"\n", "etag: W/\"{hex 32}\"\n",
		"\"integrity\": \"sha512-{b64 86}==\",\n", "integrity sha512-{b64 86}==\n", "golang.org/x/text v0.14.0 h1:{b64 43}=\n", "--hash=sha256:{hex 64} \\\n",
		"uses: actions/checkout@{hex 40}\n", "image: app@sha256:{hex 64}\n", "github.com/jira/sdk,v1.2.3,h1:{b64 43}=,{hex 40}\n", "checksum = \"{hex 64}\"\n",
		"SHA256:{b64 43} me@host\n", "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{b64 43} me@host\n", "\"resolved\": \"https://registry.npmjs.org/a/-/a-1.0.0.tgz#{hex 40}\"\n",
		"request_token: {uuid}\n", "secret_version = \"{hex 64}\"\n", "api_key_version: \"{hex 32}\"\n",
		// embedded data and generated code
		"<img src=\"data:image/png;base64,iVBORw0KGgo{b64 900}==\">\n", "//# sourceMappingURL=data:application/json;base64,{b64 400}\n", "src: url(data:font/woff2;base64,d09GMgAB{b64 900})\n",
		"!function(e,t){var n=t(12),r=e.exports.{low 8}({num 5});return n}({hex 8});\n", ".css-{lan 8}-MuiButtonBase-root { color: #{hex 6} }\n", "__webpack_require__(\"{hex 20}\")\n",
		"{hex 2000}\n", "{an 300}ghp{an 300}\n", "{an 1500}AKIA{b32 16}{an 1500}\n",
		// a wrong length or alphabet
		"ghp_{an 35}\n", "ghp_{an 20}-{an 15}\n", "AKIA{b32 15}\n", "AKIA{lan 16}\n", "glpat-{an 12}\n", "xoxb-{num 3}-{num 3}-{an 3}\n", "sk-ant-api03-{an 20}\n", "SG.{an 21}.{an 20}\n", "AIza{an 30}\n", "dop_v1_{hex 40}\n",
		"npm_{an 30}\n", "hf_{an 30}\n", "sk_live_{an 8}\n", "shpat_{hex 20}\n", "key-{hex 20}\n", "dapi{hex 20}\n", "gsk_{an 40}\n", "pplx-{an 20}\n", "r8_{an 20}\n", "lin_api_{an 20}\n", "PMAK-{hex 24}-{hex 10}\n",
		// placeholders and references
		"GITHUB_TOKEN=ghp_xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx\n", "api_key: YOUR_API_KEY_HERE\n", "token = \"<your-token>\"\n", "password = \"********\"\n", "SECRET=${VAULT_SECRET_9a8b7c6d5e}\n", "token: {{ .Values.token9a8b7c6d }}\n",
		"apiKey: process.env.API_KEY_V2_2024\n", "secret = vault.read(\"secret/data/app1/key2\")\n", "password: !vault |\n", "token := next.Token(p12, q34)\n", "secretName: tls-cert-2024-prod-eu1\n", "key: app_v2_session_cache_key_2024\n",
		"aws_secret_access_key = \"wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY\"\n", "AWS_ACCESS_KEY_ID=AKIAIOSFODNN7EXAMPLE\n", "self.token = self.lib.NID_aes_256_cbc1\n",
		// identifiers that are called tokens, samples, test vectors, short names
		"\"ChangeToken\": \"{uuid}\",\n", "\"lockToken\": \"{an 36}\"\n", "clientToken = \"{hex 32}\"\n", "sum('', 'test_secret') => '{hex 64}'\n", "monkey = \"{an 24}\"\n", "crc-16-buypass', 'Crc16Buypass2x'\n",
		"auth: '{tob64 isaacs:not my }'\n", "key: PKCS12PrivateKeyTypes | None = None,\n", "for key in table9x8y: pass\n", "key: string\n", "keys={an 24}\n", "cache.key = \"user:profile:settings:v2\"\n", "pass: second_pass2_over3_data\n",
		"shared_secret: \"{hex 64}\",\nciphertext: \"{hex 400}\"\n", "\"secret\": \"{hex 64}\",\n\"enc\": \"{hex 96}\" +\n\t\"{hex 96}\"\n", "password > minimum9length8x\n", "private_key_hex = \"{hex 300}\"\n",
		"key: \"MFkwEwYHKoZIzj0CAQYIKoZIzj0DAQcDQgAE{b64 86}==\"\n", "<releaseManagerKey>{HEX 40}</releaseManagerKey>\n", "the token {hex 40} is a digest\n", "a token of_this_kind_2_and_3_more is\n", "X-Crowdin-Project: {hex 32}\n",
		"password = getpass2(prompt)\n", "'oauth_token': 'sdf0o9823sjdf7sdf',\n", "password: userPassword2,\n", "token = lexer9.next8()\n", "auth=digest qop=auth-int\n", "--password-file /run/secrets/db9x8w7v6u5\n", "--token $TOKEN9x8w7v6u5t4s\n", "--key=key_size_4096_bits2\n",
		// names of vendors in prose, addresses and lists
		"see https://github.com/datadog/agent/commit/{hex 40}\n", "LDAP and OpenLDAP-2.8 with BSD-4-clause-California texts\n", "follow us on twitter.com/{lan 30} or facebook.com/{hex 32}\n", "the jira ticket ABC-1234 of {num 8} in confluence/display/{an 24}\n",
		"Snowflake 2024.12.1-rc3 release notes\n", "wallet address 0x{hex 40}\n", "'key_{low 6}', 'gss_krb5_rfc1964_keydata', 'x'\n", "cloudflare ray id {hex 16}-AMS\n", "linkedin.com/in/jane-doe-{hex 8}\n",
		// numbers
		"4280 0111 4280\n", "2251799813685250.5\n", "-4234737173186232084, 5027552\n", "111-22-3333\n", "000-12-3456\n", "1764583200001 1764583200002\n", "tel:+49\n",
	} {
		for seed := range uint64(3) {
			text := expand(template, 20+seed)
			for _, f := range s.Score([]byte(text), Options{}).Findings {
				if f.Confidence != Info {
					t.Errorf("%s is %s in %q", f.Pattern, f.Confidence, strings.TrimSpace(text[:min(len(text), 160)]))
				}
			}
		}
	}
}
