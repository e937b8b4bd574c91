//go:build linux

package main

import (
	"encoding/base64"
	"math/rand/v2"
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/scan"
)

// The corpus is generated when the benchmark runs: no file of ours contains
// anything that looks like a live credential. The formats are those that the
// vendors publish; the values are random.
const (
	digits   = "0123456789"
	hexes    = digits + "abcdef"
	uppers   = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	lowers   = "abcdefghijklmnopqrstuvwxyz"
	alnum    = digits + uppers + lowers
	urlSafe  = alnum + "-_"
	base32   = uppers + "234567"
	base64ed = alnum + "+/"
)

func some(rng *rand.Rand, from string, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = from[rng.IntN(len(from))]
	}
	return string(b)
}

// checked returns a token whose last six characters are the CRC-32, in base 62,
// of the thirty before them.
func checked(rng *rand.Rand, prefix string) string {
	body := some(rng, alnum, 30)
	return prefix + body + scan.Checksum(body)
}

// secret is one synthetic credential: the value that must not leak, and a line
// of a file as it typically contains the value.
type secret struct{ family, value, line string }

var families = []struct {
	name string
	make func(rng *rand.Rand) (value, line string)
}{
	{"aws", func(r *rand.Rand) (string, string) {
		v := some(r, base64ed, 40)
		return v, "aws_access_key_id = AKIA" + some(r, base32, 16) + "\naws_secret_access_key = " + v
	}},
	{"github", func(r *rand.Rand) (string, string) {
		v := checked(r, "gh"+"p_")
		return v, "git clone https://x:" + v + "@github.com/acme/tool.git"
	}},
	{"gitlab", plainly("gl"+"pat-", urlSafe, 20, "GITLAB_TOKEN=%")},
	{"anthropic", func(r *rand.Rand) (string, string) {
		v := "sk-" + "ant-api03-" + some(r, urlSafe, 93) + "AA"
		return v, `client = Client(api_key="` + v + `")`
	}},
	{"openai", func(r *rand.Rand) (string, string) {
		v := "sk-" + "proj-" + some(r, urlSafe, 74) + "T3Blb" + "kFJ" + some(r, urlSafe, 74)
		return v, `export OPENAI_API_KEY="` + v + `"`
	}},
	{"google", plainly("AI"+"za", urlSafe, 35, `"apiKey": "%",`)},
	{"hugging_face", plainly("h"+"f_", uppers+lowers, 34, "login(token='%')")},
	{"slack", func(r *rand.Rand) (string, string) {
		v := "xox" + "b-" + some(r, digits, 12) + "-" + some(r, digits, 12) + "-" + some(r, alnum, 24)
		return v, "slack_token: " + v
	}},
	{"stripe", plainly("sk_"+"live_", alnum, 24, "stripe.api_key = '%'")},
	{"npm", func(r *rand.Rand) (string, string) {
		v := checked(r, "np"+"m_")
		return v, "//registry.example.org/:_authToken=" + v
	}},
	{"pypi", plainly("py"+"pi-AgEIcHlwaS5vcmc", urlSafe, 120, "password = %")},
	{"sendgrid", func(r *rand.Rand) (string, string) {
		v := "SG" + "." + some(r, urlSafe, 22) + "." + some(r, urlSafe, 43)
		return v, "SENDGRID_API_KEY: " + v
	}},
	{"shopify", plainly("shp"+"at_", hexes, 32, `{"token": "%"}`)},
	{"digitalocean", plainly("dop"+"_v1_", hexes, 64, "doctl auth init -t %")},
	{"vault", plainly("hv"+"s.", urlSafe, 95, "VAULT_TOKEN=%")},
	{"databricks", plainly("da"+"pi", hexes, 32, "databricks_token = %")},
	{"jwt", func(r *rand.Rand) (string, string) {
		enc := base64.RawURLEncoding.EncodeToString
		v := enc([]byte(`{"alg":"HS256","typ":"JWT"}`)) + "." + enc([]byte(`{"sub":"`+some(r, alnum, 12)+`","iat":1`+some(r, digits, 9)+`}`)) + "." + some(r, urlSafe, 43)
		return v, "Authorization: Bearer " + v
	}},
	{"database", func(r *rand.Rand) (string, string) {
		v := some(r, alnum, 18)
		return v, "DATABASE_URL=postgres://app:" + v + "@db.internal.acme.io:5432/app"
	}},
	{"private_key", func(r *rand.Rand) (string, string) {
		var body []string
		for range 12 {
			body = append(body, some(r, base64ed, 64))
		}
		v := strings.Join(body, "\n")
		return body[3], "-----BEGIN RSA PRIV" + "ATE KEY-----\n" + v + "\n-----END RSA PRIV" + "ATE KEY-----"
	}},
	{"password", func(r *rand.Rand) (string, string) {
		v := some(r, alnum+"!#%&*+-", 22)
		return v, `"db_password": "` + v + `",`
	}},
}

func plainly(prefix, from string, n int, line string) func(*rand.Rand) (string, string) {
	return func(r *rand.Rand) (string, string) {
		v := prefix + some(r, from, n)
		return v, strings.Replace(line, "%", v, 1)
	}
}

// makeSecret makes the nth credential: the families take turns.
func makeSecret(rng *rand.Rand, n int) secret {
	f := families[n%len(families)]
	value, line := f.make(rng)
	return secret{f.name, value, line}
}

// harmless generate lines that resemble credentials but are not.
var harmless = []func(r *rand.Rand) string{
	func(r *rand.Rand) string { return "commit " + some(r, hexes, 40) },
	func(r *rand.Rand) string { return "sha256:" + some(r, hexes, 64) + "  release.tar.gz" },
	func(r *rand.Rand) string {
		return "id: " + some(r, hexes, 8) + "-" + some(r, hexes, 4) + "-4" + some(r, hexes, 3) + "-a" + some(r, hexes, 3) + "-" + some(r, hexes, 12)
	},
	func(r *rand.Rand) string { return "OPENAI_API_KEY=" + "sk-" + "your-key-here" },
	func(r *rand.Rand) string { return "aws_access_key_id = AKIA" + "IOSFODNN7EXAMPLE" },
	func(r *rand.Rand) string { return `password = os.environ["DB_PASSWORD"]` },
	func(r *rand.Rand) string { return "api_key: ${VAULT_API_KEY}" },
	func(r *rand.Rand) string {
		return "The password must have at least twelve characters, one of them a digit."
	},
	func(r *rand.Rand) string { return `token := strings.TrimPrefix(header, "Bearer ")` },
	func(r *rand.Rand) string {
		return `"integrity": "sha512-` + some(r, base64ed, 86) + `==",`
	},
	func(r *rand.Rand) string {
		return `<img src="data:image/png;base64,iVBORw0KGgo` + some(r, base64ed, 240) + `">`
	},
	func(r *rand.Rand) string { return "postgres://user:password@localhost:5432/test" },
	func(r *rand.Rand) string {
		return "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI" + some(r, base64ed, 43) + " ann@host"
	},
	func(r *rand.Rand) string { return "const maxTokens = 4096 // of the model" },
	func(r *rand.Rand) string { return "https://example.org/items?id=" + some(r, digits, 12) + "&page=2" },
	func(r *rand.Rand) string { return "v1.4.2-0.2026" + some(r, digits, 10) + "-" + some(r, hexes, 12) },
}
