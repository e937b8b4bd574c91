package scan_test

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"hash/crc32"
	"hash/fnv"
	"maps"
	"math/big"
	"net/url"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/scan"
	"github.com/resilientwrite/resilientwrite/internal/testbed"
)

// The held-out corpus: written from published facts about credential formats,
// without sight of the scanner's rules. Every credential is put together at run
// time; the files hold prefixes and shapes only.

// sample is one text with what the scanner should say about it.
type sample struct {
	name, format, text string
	secret             bool // a block is expected (for PII: a finding)
	own                bool // found by its own prefix, without context words
}

// pii formats need a finding of family "pii", not a verdict.
var pii = map[string]bool{"pii-ssn": true, "pii-card": true, "pii-iban": true, "pii-email": true, "pii-phone": true}

type tally struct{ hit, all int }

func (t *tally) add(hit bool) {
	t.all++
	if hit {
		t.hit++
	}
}

func (t tally) rate() float64 {
	if t.all == 0 {
		return 0
	}
	return float64(t.hit) / float64(t.all)
}

func (t tally) String() string { return fmt.Sprintf("%d/%d = %.3f", t.hit, t.all, t.rate()) }

func TestHeldOut(t *testing.T) {
	s := testbed.Must(scan.New(nil))(t)
	var own, context, personal, noise tally
	for _, c := range heldOut() {
		r := s.Score([]byte(c.text), scan.Options{})
		verdict := fmt.Sprint(r.Verdict)
		var tags []string // rule names only, never the text
		family := false
		for _, f := range r.Findings {
			tags = append(tags, fmt.Sprintf("%v/%v/%v", f.Family, f.Pattern, f.Confidence))
			family = family || fmt.Sprint(f.Family) == "pii"
		}
		report := func(what string) {
			t.Logf("%s %s: verdict %q, findings %v", what, c.name, verdict, tags)
		}
		switch {
		case !c.secret:
			flagged := verdict == "high" || verdict == "medium"
			if noise.add(flagged); flagged {
				report("FALSE")
			}
		case pii[c.format]:
			if personal.add(family); !family {
				report("MISS pii")
			}
		default:
			hit, kind, class := verdict == "high", "MISS context", &context
			if c.own {
				kind, class = "MISS own", &own
			}
			if class.add(hit); !hit {
				report(kind)
			}
		}
	}
	t.Logf("recall own %v, context %v, pii %v; false positives %v", own, context, personal, noise)
	testbed.Expect(t, own.rate() >= 0.95, "recall of own-prefix formats %v, want at least 0.95", own)
	testbed.Expect(t, context.rate() >= 0.75, "recall of context formats %v, want at least 0.75", context)
	testbed.Expect(t, personal.rate() >= 0.75, "recall of pii %v, want at least 0.75", personal)
	testbed.Expect(t, noise.rate() <= 0.02, "near-misses flagged %v, want at most 0.02", noise)
}

// TestHeldOutCorpus checks the corpus itself: names are unique, every format
// has three positives and a near-miss.
func TestHeldOutCorpus(t *testing.T) {
	names, pos, neg := map[string]bool{}, map[string]int{}, map[string]int{}
	for _, c := range heldOut() {
		testbed.Expect(t, !names[c.name], "two samples named %s", c.name)
		names[c.name] = true
		if c.secret {
			pos[c.format]++
		} else {
			neg[c.format]++
		}
	}
	for _, f := range slices.Sorted(maps.Keys(pos)) {
		testbed.Expect(t, pos[f] >= 3 && neg[f] >= 1, "%s has %d positives and %d near-misses", f, pos[f], neg[f])
	}
	t.Logf("%d samples, %d formats", len(names), len(pos))
}

// rng is splitmix64, seeded by a name: the corpus is the same on every run.
type rng uint64

func seeded(name string) *rng {
	h := fnv.New64a()
	h.Write([]byte("held-out 1 " + name))
	r := rng(h.Sum64())
	return &r
}

func (r *rng) next() uint64 {
	*r += 0x9e3779b97f4a7c15
	z := uint64(*r)
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

func (r *rng) n(n int) int { return int(r.next() % uint64(n)) }

func (r *rng) bytes(n int) []byte {
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(r.next())
	}
	return b
}

func (r *rng) str(alphabet string, n int) string {
	b := make([]byte, n)
	for i := range b {
		b[i] = alphabet[r.n(len(alphabet))]
	}
	return string(b)
}

const (
	digits = "0123456789"
	lower  = "abcdefghijklmnopqrstuvwxyz"
	upper  = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	base62 = digits + upper + lower
)

// alphabets of the shapes: "{w36}" is 36 characters of alphabet w.
var alphabets = map[byte]string{
	'w': base62, 'd': digits, 'A': upper + lower, 'U': upper, 'u': upper + digits, 'l': lower + digits, 'L': lower,
	'h': digits + "abcdef", 'H': digits + "ABCDEF", 'a': base62 + "-_", 'b': base62 + "+/",
	'v': upper + "234567", 'z': lower + "234567", 'g': "ghijklmnopqrstuvwyz", 'e': "QPZRY9X8GF2TVDW0S3JN54KHCE6MUA7L",
}

// build fills a shape. {crc} is GitHub's checksum of what follows the last "_",
// {atl} Atlassian's of all before it; the other named parts are in parts.
func build(r *rng, shape string) string {
	var b strings.Builder
	for shape != "" {
		i := strings.IndexByte(shape, '{')
		if i < 0 {
			b.WriteString(shape)
			break
		}
		b.WriteString(shape[:i])
		j := strings.IndexByte(shape, '}')
		part := shape[i+1 : j]
		shape = shape[j+1:]
		n := 0
		switch {
		case part == "crc":
			all := b.String()
			b.WriteString(crc62(all[strings.LastIndexByte(all, '_')+1:]))
		case part == "atl":
			fmt.Fprintf(&b, "%08X", crc32.ChecksumIEEE([]byte(b.String())))
		case parts[part] != nil:
			b.WriteString(parts[part](r))
		default:
			if _, err := fmt.Sscanf(part[1:], "%d", &n); err != nil || alphabets[part[0]] == "" {
				panic("bad shape " + part)
			}
			b.WriteString(r.str(alphabets[part[0]], n))
		}
	}
	return b.String()
}

func crc62(s string) string {
	c, out := crc32.ChecksumIEEE([]byte(s)), []byte("000000")
	for i := 5; i >= 0; i, c = i-1, c/62 {
		out[i] = base62[c%62]
	}
	return string(out)
}

// name forms of "vendor api key"
func words(v string) []string { return strings.Fields(v) }
func shout(v string) string   { return strings.ToUpper(strings.Join(words(v), "_")) }
func snake(v string) string   { return strings.Join(words(v), "_") }
func kebab(v string) string   { return strings.Join(words(v), "-") }
func camel(v string) string {
	w := words(v)
	for i := 1; i < len(w); i++ {
		w[i] = strings.ToUpper(w[i][:1]) + w[i][1:]
	}
	return strings.Join(w, "")
}
func tail(v string) string {
	if w := words(v); len(w) > 1 {
		return camel(strings.Join(w[1:], " "))
	}
	return v
}

// wrap puts a value x, called v, into the text it would be met in.
type wrap struct {
	name string
	text func(v, x string) string
}

// named wrappings keep the words of v beside the value.
var named = []wrap{
	{"env", func(v, x string) string { return "LOG_LEVEL=info\n" + shout(v) + "=" + x + "\nPORT=8080\n" }},
	{"go", func(v, x string) string {
		return "package main\n\nconst " + camel(v) + " = \"" + x + "\"\n\nfunc main() { run(" + camel(v) + ") }\n"
	}},
	{"yaml", func(v, x string) string {
		return "service:\n  replicas: 2\n" + words(v)[0] + ":\n  " + tail(v) + ": " + x + "\n  timeout: 30s\n"
	}},
	{"json", func(v, x string) string { return "{\"region\": \"eu-west-1\", \"" + camel(v) + "\": \"" + x + "\"}\n" }},
	{"python", func(v, x string) string { return "import os\n\n" + shout(v) + " = '" + x + "'  # move to vault\n" }},
	{"docker", func(v, x string) string {
		return "FROM alpine:3.20\nENV " + shout(v) + "=" + x + "\nCMD [\"/app\"]\n"
	}},
	{"toml", func(v, x string) string { return "[upstream]\nretries = 3\n" + snake(v) + " = \"" + x + "\"\n" }},
	{"export", func(v, x string) string { return "#!/bin/sh\nexport " + shout(v) + "=\"" + x + "\"\nexec ./run\n" }},
	{"ts", func(v, x string) string { return "export const config = {\n  " + camel(v) + ": '" + x + "',\n};\n" }},
	{"header", func(v, x string) string {
		return "curl -sS -H \"X-" + kebab(v) + ": " + x + "\" https://api.acme-internal.io/v1/items\n"
	}},
	{"log", func(v, x string) string {
		return "2026-10-02T08:14:55Z DEBUG startup config " + snake(v) + "=" + x + " retries=3\n"
	}},
	{"diff", func(v, x string) string { return "@@ -3,2 +3,2 @@\n region: eu\n+" + snake(v) + ": \"" + x + "\"\n" }},
}

// bare wrappings hold only the value.
var bare = []wrap{
	{"prose", func(_, x string) string { return "Sorry, I pasted " + x + " into the channel; who can rotate it?\n" }},
	{"access-log", func(_, x string) string {
		return "10.2.0.7 - - [02/Oct/2026:08:14:55 +0000] \"POST /v1/run\" 401 cred=" + x + " 12ms\n"
	}},
	{"call", func(_, x string) string { return "client := vendor.New(ctx, \"" + x + "\")\ndefer client.Close()\n" }},
	{"query", func(_, x string) string {
		return "GET https://api.acme-internal.io/v2/list?limit=10&k=" + url.QueryEscape(x) + "&page=2\n"
	}},
	{"bearer", func(_, x string) string {
		return "curl -X POST https://api.acme-internal.io/run \\\n  -H \"Authorization: Bearer " + x + "\" -d '{}'\n"
	}},
	{"markdown", func(_, x string) string { return "| stage | value |\n|---|---|\n| prod | `" + x + "` |\n" }},
	{"sentence", func(_, x string) string { return "The old one was " + x + ".\nPlease do not use it again.\n" }},
}

// heldOut is the whole corpus.
func heldOut() []sample {
	var all []sample
	for i, f := range shapes {
		all = append(all, positives(i, f)...)
		all = append(all, nearMisses(i, f)...)
	}
	all = append(all, composites()...)
	all = append(all, encoded()...)
	return append(all, benign()...)
}

// shape is a format that is one token.
type shape struct {
	format, shape, vars string
	own                 bool
}

// literal is what the format's documentation would name: its first fixed text.
func (f shape) literal() string {
	for _, s := range strings.Split(f.shape, "}") {
		if lit, _, _ := strings.Cut(s, "{"); strings.ContainsAny(lit, base62) {
			return lit
		}
	}
	return ""
}

func positives(i int, f shape) []sample {
	var out []sample
	add := func(w wrap) {
		name := f.format + "/" + w.name
		out = append(out, sample{name, f.format, w.text(f.vars, build(seeded(name), f.shape)), true, f.own})
	}
	for k := range 3 {
		add(named[(i+5*k)%len(named)])
	}
	if f.own {
		add(bare[i%len(bare)])
		add(bare[(i+3)%len(bare)])
	}
	return out
}

func nearMisses(i int, f shape) []sample {
	var out []sample
	add := func(kind, text string) {
		out = append(out, sample{f.format + "/near/" + kind, f.format, text, false, f.own})
	}
	r, lit, v := seeded(f.format+" near"), f.literal(), f.vars
	full := build(r, f.shape)
	placeholders := []string{lit + strings.Repeat("x", 32), "<your-" + kebab(v) + ">", "your_" + snake(v) + "_here", "${" + shout(v) + "}", lit + "****************", lit + "..."}
	add("placeholder", named[(i+2)%len(named)].text(v, placeholders[i%len(placeholders)]))
	refs := []string{
		camel(v) + " := os.Getenv(\"" + shout(v) + "\")\nif " + camel(v) + " == \"\" {\n\treturn errMissing\n}\n",
		"interface Config {\n  " + camel(v) + ": string;\n  region?: string;\n}\n",
		"env:\n  " + shout(v) + ": ${{ secrets." + shout(v) + " }}\n",
		"export const key = process.env." + shout(v) + " ?? '';\n",
		shout(v) + " = os.environ[\"" + shout(v) + "\"]\n",
		"- name: " + shout(v) + "\n  valueFrom:\n    secretKeyRef:\n      name: " + kebab(v) + "\n      key: " + camel(v) + "\n",
		"variable \"" + snake(v) + "\" {\n  type      = string\n  sensitive = true\n}\n",
	}
	add("reference", refs[i%len(refs)])
	if lit == "" && f.own { // a JWT: its near-misses are with the composites
		return out
	}
	if lit == "" {
		neutral := []string{"X-Request-Id: %s\n", "ETag: \"%s\"\n", "commit %s\nAuthor: A\n", "<section id=\"%s\">\n", "object %s stored in 12ms\n", "\"digest\": \"sha256:%s\"\n"}
		add("no-context", fmt.Sprintf(neutral[i%len(neutral)], full))
		return out
	}
	if !f.own {
		return out
	}
	add("documentation", "Credentials of this vendor start with `"+lit+"`, followed by random characters; see the reference.\n")
	at := strings.Index(full, lit)
	body := full[at+len(lit):]
	if at > 0 { // a marker in the middle
		body, lit = full, ""
	}
	if !strings.Contains(f.shape, "{rs}") { // the rest would still be a JWT
		add("broken", "the sample value "+lit+body[:5]+"!"+body[5:]+" does not parse\n")
	}
	add("short", "rotated "+lit+body[:8]+"… at 08:14, owner infra\n")
	lax := strings.HasPrefix(f.format, "slack-") || strings.HasSuffix(f.format, "-webhook") // vendors' rules take any letter
	if !lax && (strings.Contains(f.shape, "{h3") || strings.Contains(f.shape, "{h4") || strings.Contains(f.shape, "{h6")) {
		add("not-hex", "ignored "+build(r, strings.ReplaceAll(f.shape, "{h", "{g"))+" in the list\n")
	}
	return out
}

// benign is ordinary text that looks like a credential and is not one.
func benign() []sample {
	r := seeded("benign")
	gen := func(shape string) string { return build(r, shape) }
	repeat := func(n int, f func() string) string {
		var b strings.Builder
		for range n {
			b.WriteString(f())
		}
		return b.String()
	}
	texts := []string{
		// digests and identifiers
		gen("{h64}  dist/app.tar.gz\n{h64}  dist/app.zip\n"),
		gen("commit {h40}\nAuthor: Ann <ann@acme-internal.io>\n\n    fix token refresh\n"),
		gen("golang.org/x/text v0.14.0 h1:{b43}=\ngolang.org/x/text v0.14.0/go.mod h1:{b43}=\n"),
		gen("      \"integrity\": \"sha512-{b86}==\",\n      \"resolved\": \"https://registry.npmjs.org/a/-/a-1.0.0.tgz\"\n"),
		gen("integrity sha512-{b86}==\n  dependencies:\n    js-tokens \"^4.0.0\"\n"),
		gen("FROM node:22@sha256:{h64} AS build\nUSER node\n"),
		gen("uses: actions/checkout@{h40} # v4.2.2\n"),
		gen("trace_id: \"{h32}\", span_id: \"{h16}\"\n"),
		gen("request {uuid} took 12ms, user {uuid}\n"),
		gen("aud = \"{uuid}\"\ntenant_id = \"{uuid}\"\nclient_id: {uuid}\n"),
		gen("checksum = \"{h64}\"\nname = \"serde\"\nversion = \"1.0.200\"\n"),
		gen("--hash=sha256:{h64} \\\n    --hash=sha256:{h64}\n"),
		gen("<script src=\"a.js\" integrity=\"sha384-{b64}\" crossorigin=\"anonymous\"></script>\n"),
		gen("ETag: W/\"{h32}\"\nX-Amz-Request-Id: {u16}\nx-amz-id-2: {b75}=\n"),
		gen("index {h7}..{h7} 100644\nblob {h40} 1534\n"),
		gen("fingerprint SHA256:{b43} ann@host\n"),
		gen("ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAI{b43} ann@host\n"),
		"ssh-rsa AAAAB3NzaC1yc2EAAAADAQABAAABAQ" + gen("{b340}") + "== ann@host\n",
		pem("CERTIFICATE", lines("MIID"+gen("{b900}"), 64)), pem("PUBLIC KEY", lines("MIIB"+gen("{b380}"), 64)), pem("CERTIFICATE REQUEST", lines("MIIC"+gen("{b500}"), 64)),
		// embedded data
		"<img src=\"data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAA" + gen("{b2400}") + "==\">\n",
		"@font-face { src: url(data:font/woff2;base64,d09GMgABAAAAA" + gen("{b3000}") + ") }\n",
		"//# sourceMappingURL=data:application/json;base64," + b64([]byte(`{"version":3,"sources":["a.ts"],"mappings":"AAAA,SAASA,EAAE"}`)) + "\n",
		"<path d=\"M12.5 3.2c0-1.1.9-2 2-2h4.4c1.1 0 2 .9 2 2v17.6c0 1.1-.9 2-2 2\"/>\n",
		repeat(40, func() string { return gen("0x{h2}, 0x{h2}, 0x{h2}, 0x{h2},\n") }),
		lines(gen("{w1500}")+"AKIA"+gen("{v16}{w1500}"), 4000), gen("{b900}sk_live{b900}\n"), gen("{w300}ghp{w300}\n"), gen("{h4000}\n"),
		// minified and styled
		"!function(e,t){var n={};function r(o){if(n[o])return n[o].exports;var i=n[o]={i:o,l:!1,exports:{}};return e[o].call(i.exports,i,i.exports,r),i.l=!0,i.exports}}([function(e){e.exports=token}]);\n",
		".sk-fading-circle .sk-circle12:before { animation-delay: -0.1s }\n.sk-chasing-dots-animation-container-element { margin: 0 }\n",
		"#sk-container-id-1 div.sk-estimator-doc-link-fitted-hover-transition-background { color: red }\n",
		".Button_primary__" + gen("{w5}") + " .css-" + gen("{l6}") + "-MuiButtonBase-root-MuiIconButton-sizeMedium { padding: 0 }\n",
		"import { sk_live_component_registry_helper_functions_table } from './sk';\n", "task-management-dashboard-component-with-sidebar-layout risk-assessment-questionnaire-results-page\n",
		"ghp_pages_deployment_workflow_configuration_file = True\n", "npm_config_registry_authentication_provider_name=none\nnpm_package_dependencies_eslint_plugin=1\n",
		"hf_hub_download(repo, filename)\nhf_transfer_enable_progress_bars_for_all_files = 1\n", "gsk_buffer_unref(gsk_shader_args_builder_new(shader, NULL));\n",
		"r8_unorm_texture_format_conversion_shader_entry\n", "fw_device_request_firmware_nowait_callback(fw)\n", "dapi_get_current_thread_identifier_value()\n",
		"SK_IMAGE_ALPHA_TYPE_PREMULTIPLIED SKIA_COLOR\n", "EAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA\n", "AIzaXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXXX\n",
		"SG.config.setting.value.of.the.day\n", "whsec_ and rk_live_ are prefixes, LTAI and AKIA too; hvs. is Vault's.\n", "xai-native-research-group-website-and-blog-articles-archive-of-the-year\n",
		"pplx-inference-cluster-deployment-configuration-manual\n", "key-value-store-implementation-with-compaction\nkey-0123-abc\n", "patients.example.medical-records-of-the-hospital-archive\n",
		"ops_eyeball_network_routing_table\n", "cio_readRequestBufferFromSocketNow(x)\n", "oy2 is how a NuGet key begins\n", "secret_sharing_scheme_over_finite_fields_with_lagrange\n", "pul-monary function test; tskey-auth- prefix; figd_ prefix\n",
		// examples from vendors' documentation
		"aws_access_key_id = AKIA" + "IOSFODNN7EXAMPLE\naws_secret_access_key = wJalrXUtnFEMI/K7MDENG/" + "bPxRfiCYEXAMPLEKEY\n",
		"export ANTHROPIC_API_KEY=sk-ant-xxxxxxxx\nexport OPENAI_API_KEY=sk-...\n", "GITHUB_TOKEN=ghp_" + strings.Repeat("x", 36) + "\n", "STRIPE_KEY=sk_test_" + "your_key_here\n", "SLACK_BOT_TOKEN=xoxb-your-token-here\n",
		"https://hooks.slack.com/services/T00000000/B00000000/" + strings.Repeat("X", 24) + "\n", "re := regexp.MustCompile(`ghp_[0-9A-Za-z]{36}|glpat-[\\w-]{20}|AKIA[A-Z2-7]{16}`)\n", "regex: '(?i)\\b(sk-ant-api03-[\\w-]{93}AA)\\b'\n",
		"pk_live_" + gen("{w24}") + " is the publishable key in the page.\n", "<div class=\"g-recaptcha\" data-sitekey=\"6Le" + gen("{a37}") + "\"></div>\n", "ACCOUNT_SID=AC" + gen("{h32}") + "\n", "phc_" + " starts PostHog's public project key\n",
		// code about secrets
		"password := os.Getenv(\"DB_PASSWORD\")\n", "password = os.environ.get('PASSWORD', '')\n", "interface Login { user: string; password: string; token?: string }\n", "password VARCHAR(255) NOT NULL,\nsecret TEXT,\n", "token := lexer.NextToken()\nfor token.Kind != EOF { token = lexer.NextToken() }\n",
		"<input type=\"password\" name=\"password\" placeholder=\"Enter your password\" autocomplete=\"current-password\">\n", "secretName: tls-cert-production\nimagePullSecrets:\n- name: registry-credentials\n", "password: ${{ secrets.DOCKERHUB_PASSWORD }}\ntoken: ${{ github.token }}\n",
		"db_password = var.db_password\ntoken = data.vault_generic_secret.app.data[\"token\"]\n", "password: {{ vault_db_password }}\nsecret: !vault.secret/path#key\n", "\"password\": \"Passwort zurücksetzen\",\n\"token_expired\": \"Your session has expired, please sign in again\",\n",
		"def reset_password_token_generator(user): return PasswordResetTokenGenerator().make_token(user)\n", "apiKey: config.get('services.weather.apiKey'),\nsecret: this.configService.getOrThrow<string>('JWT_SECRET'),\n", "const accessToken = await this.authService.getAccessTokenSilently();\n",
		"tokenizer_config = AutoTokenizer.from_pretrained(\"bert-base-uncased\")\n", "{\"token_type\": \"bearer\", \"expires_in\": 3600}\n", "public static final String ACCESS_TOKEN_HEADER = \"X-Access-Token\";\n", "PASSWORD=\nTOKEN=\nSECRET=changeme\n", "password = \"********\"\npasswd = \"<redacted>\"\n",
		"primary_key = \"customer_order_line_item_id\"\ncache_key = \"user-profile-settings-v2\"\n", "publicKey: \"" + gen("{b43}") + "=\"\n", "if (password !== confirmPassword) throw new Error('passwordsDoNotMatch');\n", "secret_key_path = \"/etc/app/keys/signing.pem\"\ntoken_url = \"https://id.acme-internal.io/oauth/token\"\n",
		"func TestLogin(t *testing.T) {\n\tpassword := \"password\"\n\ttoken := \"test-token\"\n}\n", "SECRET_KEY_BASE=<%= ENV['SECRET_KEY_BASE'] %>\n", "--password-file=/run/secrets/db_password --token-ttl=24h\n", "aws secretsmanager get-secret-value --secret-id prod/db/password\n", "arn:aws:secretsmanager:eu-west-1:123456789012:secret:prod/db-" + gen("{w6}") + "\n",
		// addresses and numbers
		"git@github.com:acme/tool.git\nhttps://github.com/acme/tool/commit/" + gen("{h40}") + "\n", "http://localhost:8080/@user:8080/path\nhttps://medium.com/@author/title-" + gen("{h12}") + "\n", "mongodb://localhost:27017/test\nredis://redis:6379\npostgres://postgres@localhost/app\n",
		"3.141592653589793238462643383279502884197\n1764583200000 1764583200001\n", "2001:0db8:85a3:0000:0000:8a2e:0370:7334 00:1b:44:11:3a:b7\n", "https://docs.google.com/document/d/" + gen("{a44}") + "/edit\n", "https://www.youtube.com/watch?v=" + gen("{a11}") + "&list=PL" + gen("{a32}") + "\n",
		"https://cdn.acme-internal.io/assets/app-" + gen("{w8}") + ".js?v=" + gen("{h20}") + "\n", "0x" + gen("{h40}") + " is the contract's address\nbc1q" + gen("{l38}") + "\n", "panic: runtime error\ngoroutine 1 [running]:\nmain.main()\n\t/src/main.go:12 +0x1b\n",
	}
	var out []sample
	for i, text := range texts {
		out = append(out, sample{fmt.Sprintf("benign/near/%d", i), "benign", text, false, false})
	}
	return out
}

var (
	b64    = base64.StdEncoding.EncodeToString
	rawURL = base64.RawURLEncoding.EncodeToString
)

// parts are the named pieces of shapes.
var parts map[string]func(*rng) string

func init() {
	parts = map[string]func(*rng) string{
		"uuid": func(r *rng) string { return build(r, "{h8}-{h4}-4{h3}-a{h3}-{h12}") },
		"jwt":  func(r *rng) string { return jwt(r, "HS256", 43) },
		"rs":   func(r *rng) string { return jwt(r, "RS256", 342) },
		"bedrock": func(r *rng) string {
			return b64([]byte("BedrockAPIKey-" + r.str(lower+digits, 4) + "-at-" + r.str(digits, 12) + ":" + b64(r.bytes(33))))[4:]
		},
		"bedrock-url": func(r *rng) string {
			return rawURL([]byte("amazonaws.com/?Action=CallWithBearerToken&X-Amz-Credential=" + r.str(upper, 20) + "&X-Amz-Signature=" + build(r, "{h64}") + "&Version=1"))
		},
		"ops": func(r *rng) string {
			return b64([]byte(`"signInAddress":"my.1password.com","userAuth":{"method":"SRPg-4096","alg":"PBES2g-HS256","iterations":650000,"salt":"` + build(r, "{a22}") + `"},"email":"` + build(r, "{l13}") + `@1passwordserviceaccounts.com","srpX":"` + build(r, "{h64}") + `"}`))
		},
		"sentry": func(r *rng) string {
			return rawURL([]byte(`"iat":17` + r.str(digits, 8) + `.31,"url":"https://sentry.io","region_url":"https://us.sentry.io","org":"` + r.str(lower, 7) + `"}`))
		},
		"grafana": func(r *rng) string {
			return b64([]byte(`"o":"` + r.str(digits, 6) + `","n":"stack-` + r.str(digits, 6) + `-hl-write","k":"` + r.str(base62, 24) + `","m":{"r":"prod-eu-west-0"}}`))
		},
		"snowflake-id": func(r *rng) string { return b64([]byte("1" + r.str(digits, 17))) },
	}
}

// jwt is a signed-looking token; n is the length of its signature.
func jwt(r *rng, alg string, n int) string {
	head := rawURL([]byte(`{"alg":"` + alg + `","typ":"JWT"}`))
	body := rawURL([]byte(`{"sub":"` + r.str(digits, 9) + `","iss":"https://id.acme-internal.io","iat":17` + r.str(digits, 8) + `,"scope":"` + r.str(lower, 9) + `"}`))
	return head + "." + body + "." + build(r, fmt.Sprintf("{a%d}", n))
}

// shapes are read from testdata/shapes.txt.
var shapes = func() (list []shape) {
	text, err := os.ReadFile("testdata/shapes.txt")
	if err != nil {
		panic(err)
	}
	for line := range strings.Lines(string(text)) {
		if f := strings.Split(strings.TrimSuffix(line, "\n"), "\t"); len(f) == 4 {
			list = append(list, shape{f[0], f[1], f[2], f[3] == "own"})
		}
	}
	return list
}()

const dashes = "-----"

func pem(kind, body string) string {
	return dashes + "BEGIN " + kind + dashes + "\n" + body + "\n" + dashes + "END " + kind + dashes + "\n"
}

func lines(s string, n int) string {
	var out []string
	for ; len(s) > n; s = s[n:] {
		out = append(out, s[:n])
	}
	return strings.Join(append(out, s), "\n")
}

func indent(s, by string) string {
	return by + strings.ReplaceAll(strings.TrimSpace(s), "\n", "\n"+by) + "\n"
}

func escaped(s string) string { return strings.ReplaceAll(s, "\n", `\n`) }

// composites are the formats that are more than one token.
func composites() []sample {
	var out []sample
	add := func(format string, own, secret bool, texts ...string) {
		for _, text := range texts {
			kind := "/"
			if !secret {
				kind = "/near/"
			}
			out = append(out, sample{fmt.Sprintf("%s%s%d", format, kind, len(out)), format, text, secret, own})
		}
	}
	yes := func(format string, own bool, texts ...string) { add(format, own, true, texts...) }
	no := func(format string, texts ...string) { add(format, false, false, texts...) }

	for _, kind := range slices.Sorted(maps.Keys(privateKeys)) {
		magic := privateKeys[kind]
		format := "key-" + strings.ToLower(strings.ReplaceAll(kind, " ", "-"))
		r := seeded(format)
		body := func() string { return lines(b64(append([]byte(magic), r.bytes(420)...)), 64) }
		yes(format, true, pem(kind, body()),
			`{"host": "db1", "key": "`+escaped(pem(kind, body()))+`"}`+"\n",
			"tls:\n  server.key: |\n"+indent(pem(kind, body()), "    "),
			"cat > /root/.ssh/id <<'END'\n"+pem(kind, body())+"END\nchmod 600 /root/.ssh/id\n",
			"SIGNING=\""+escaped(strings.TrimSpace(pem(kind, body())))+"\"\n",
			"data:\n  ssh.key: "+b64([]byte(pem(kind, body())))+"\n")
		no(format, "if strings.Contains(text, \""+dashes+"BEGIN "+kind+dashes+"\") {\n\treturn errKey\n}\n",
			"The file starts with `"+dashes+"BEGIN "+kind+dashes+"` and ends with the matching line.\n", pem(kind, "..."), pem(kind, "<paste your key here>"))
	}
	r := seeded("composites")
	gen := func(shape string) string { return build(r, shape) }
	pgp := func() string {
		return pem("PGP PRIVATE KEY BLOCK", "Version: GnuPG v2\n\n"+lines("lQVYB"+gen("{b635}"), 64)+"\n="+gen("{b4}"))
	}
	yes("key-pgp", true, pgp(), "data:\n  key: |\n"+indent(pgp(), "    "), `{"pgp": "`+escaped(pgp())+`"}`)
	no("key-pgp", pem("PGP PUBLIC KEY BLOCK", "\n"+lines("mQENB"+gen("{b635}"), 64)+"\n="+gen("{b4}")),
		dashes+"BEGIN PGP SIGNED MESSAGE"+dashes+"\nHash: SHA256\n\nhello\n")
	enc := func() string {
		return pem("RSA PRIVATE KEY", "Proc-Type: 4,ENCRYPTED\nDEK-Info: AES-128-CBC,"+gen("{H32}")+"\n\n"+lines(gen("{b700}"), 64))
	}
	yes("key-legacy-encrypted", true, enc(), "key: |\n"+indent(enc(), "  "), `{"pem":"`+escaped(enc())+`"}`)
	no("key-legacy-encrypted", "Proc-Type: 4,ENCRYPTED and DEK-Info: AES-128-CBC stand above the body of old keys.\n")
	ppk := func(v string) string {
		return "PuTTY-User-Key-File-" + v + ": ssh-rsa\nEncryption: none\nComment: rsa-key-20261002\nPublic-Lines: 6\n" + lines("AAAAB3NzaC1yc2EAAAAD"+gen("{b350}"), 64) +
			"\nPrivate-Lines: 14\n" + lines("AAABA"+gen("{b880}"), 64) + "\nPrivate-MAC: " + gen("{h40}") + "\n"
	}
	yes("key-putty", true, ppk("2"), ppk("3"), "write_files:\n- path: /k.ppk\n  content: |\n"+indent(ppk("2"), "    "))
	no("key-putty", "PuTTY-User-Key-File-2: is the first line of a .ppk file, Private-Lines: counts the rest.\n")
	no("age", "# public key: age1"+strings.ToLower(gen("{e58}"))+"\n", "age-keygen prints AGE-SECRET-KEY-1 followed by 58 characters.\n")

	gcp := func(key string) string {
		return `{"type": "service_account", "project_id": "acme-prod", "private_key_id": "` + gen("{h40}") + `", "private_key": "` + key +
			`", "client_email": "ci@acme-prod.iam.gserviceaccount.com", "token_uri": "https://oauth2.googleapis.com/token"}`
	}
	pk := func() string {
		return escaped(pem("PRIVATE KEY", lines("MIIEvQIBADANBgkqhkiG9w0BAQEFAASCBKc"+gen("{b1580}"), 64)))
	}
	yes("gcp-service-account", true, gcp(pk()), strings.ReplaceAll(gcp(pk()), ", ", ",\n  "), "GOOGLE_CREDENTIALS='"+gcp(pk())+"'\n", "creds: "+b64([]byte(gcp(pk())))+"\n")
	no("gcp-service-account", `{"type": "service_account", "project_id": "acme-prod"}`, gcp("<redacted>"), gcp(dashes+`BEGIN PRIVATE KEY`+dashes+`\n...\n`+dashes+`END PRIVATE KEY`+dashes+`\n`))

	for _, scheme := range []string{"postgres", "postgresql", "mysql", "mongodb", "mongodb+srv", "redis", "amqp", "amqps", "mssql", "sqlserver", "https", "ftp", "snowflake"} {
		f := "uri-" + scheme
		u := func(user, pass string) string {
			return scheme + "://" + user + ":" + pass + "@db-3.acme-internal.io/main"
		}
		yes(f, false, "DATABASE_URL="+u("app", gen("{w20}"))+"\n", "dsn := \""+u("svc_billing", gen("{w14}"))+"\"\n",
			"store:\n  url: "+u("root", gen("{w7}%40{w8}"))+"\n", "2026-10-02 ERROR cannot reach "+u("etl", gen("{w8}-{w9}"))+": timeout\n")
		no(f, "DATABASE_URL="+u("user", "password")+"\n", "url: "+u("${DB_USER}", "${DB_PASS}")+"\n", "fmt.Sprintf(\""+u("%s", "%s")+"\", user, pass)\n",
			u("app", "****")+"\n", u("<user>", "<password>")+"\n", "connect to "+scheme+"://db-3.acme-internal.io:5432/main\n")
	}
	jdbc := func(p string) string {
		return "jdbc:postgresql://db-3.acme-internal.io:5432/main?user=app&password=" + p
	}
	yes("uri-jdbc", false, "spring.datasource.url="+jdbc(gen("{w20}"))+"\n", "String u = \"jdbc:sqlserver://db:1433;databaseName=x;user=sa;password="+gen("{w18}")+";\";\n", "url: "+jdbc(gen("{w16}"))+"&ssl=true\n")
	no("uri-jdbc", "url: "+jdbc("${DB_PASSWORD}")+"\n", "jdbc:mysql://localhost:3306/test?useSSL=false\n", jdbc("password")+"\n")
	yes("uri-redis-nouser", false, "REDIS_URL=redis://:"+gen("{w32}")+"@cache-1:6379/0\n", "url: rediss://:"+gen("{w24}")+"@cache-1:6380\n", "redis-cli -u redis://:"+gen("{w28}")+"@cache-1\n")
	no("uri-redis-nouser", "REDIS_URL=redis://cache-1:6379/0\n", "redis://:${REDIS_PASSWORD}@cache-1:6379\n")

	yes("netrc", false, "machine git.acme-internal.io login ci password "+gen("{w20}")+"\n",
		"machine api.heroku.com\n  login ops@acme-internal.io\n  password "+gen("{h40}")+"\n", "RUN echo 'machine git.acme-internal.io login bot password "+gen("{w24}")+"' > ~/.netrc\n")
	no("netrc", "machine example.com login <user> password <password>\n", "A .netrc line holds machine, login and password in this order.\n", "machine git.acme.io login $USER password $TOKEN\n")
	yes("npmrc", false, "//registry.npmjs.org/:_authToken="+gen("{uuid}")+"\n", "registry=https://npm.acme-internal.io/\n//npm.acme-internal.io/:_authToken="+gen("{w40}")+"\n",
		"//npm.acme-internal.io/:_auth="+b64([]byte("ci:"+gen("{w22}")))+"\n", "//npm.acme-internal.io/:_password="+b64([]byte(gen("{w22}")))+"\n")
	no("npmrc", "//registry.npmjs.org/:_authToken=${NPM_TOKEN}\n", "registry=https://registry.npmjs.org/\nsave-exact=true\n", "//registry.npmjs.org/:_authToken=<token>\n")
	user := func(rest string) string {
		return "apiVersion: v1\nkind: Config\nusers:\n- name: admin\n  user:\n" + indent(rest, "    ")
	}
	yes("kubeconfig", false, user("token: "+jwt(r, "RS256", 342)), user("client-certificate-data: "+b64([]byte(pem("CERTIFICATE", lines(gen("{b600}"), 64))))+"\nclient-key-data: "+b64([]byte(pem("RSA PRIVATE KEY", lines("MIIEpA"+gen("{b1000}"), 64))))),
		user("token: "+gen("{l6}.{l16}{w20}")), user("username: admin\npassword: "+gen("{w24}")))
	no("kubeconfig", user("client-certificate: /etc/k8s/admin.crt\nclient-key: /etc/k8s/admin.key"), user("exec:\n  command: aws-iam-authenticator\n  args: [token, -i, prod]"), user("token: REDACTED"))
	auth := func(a string) string { return `{"auths": {"registry.acme-internal.io": {"auth": "` + a + `"}}}` }
	cred := func(shape string) string { return b64([]byte("ci:" + gen(shape))) }
	yes("docker-auth", false, auth(cred("{w24}")), strings.ReplaceAll(auth(cred("{h36}")), "{", "{\n  "), ".dockerconfigjson: "+b64([]byte(auth(cred("{w30}"))))+"\n")
	no("docker-auth", auth("<base64>"), `{"auths": {"registry.acme-internal.io": {}}, "credsStore": "desktop"}`, auth("${DOCKER_AUTH}"))
	yes("authorization", false, "curl -H 'Authorization: Basic "+cred("{w20}")+"' https://x.acme-internal.io/\n", "Authorization: Bearer "+gen("{a48}")+"\n",
		"GET / HTTP/1.1\r\nHost: x\r\nAuthorization: Token "+gen("{h40}")+"\r\n\r\n", "headers = {\"Authorization\": \"Bearer "+gen("{w40}")+"\"}\n", "Proxy-Authorization: Basic "+cred("{w18}")+"\n", "curl -u deploy:"+gen("{w22}")+" https://x.acme-internal.io/\n")
	no("authorization", "Authorization: Bearer <token>\n", "curl -H \"Authorization: Bearer $TOKEN\" https://x/\n", "req.Header.Set(\"Authorization\", \"Bearer \"+token)\n", "Authorization: Basic "+b64([]byte("user:password"))+"\n", "Authorization: Bearer YOUR_ACCESS_TOKEN\n")

	conn := func(k string) string {
		return "DefaultEndpointsProtocol=https;AccountName=acmeprod;AccountKey=" + k + ";EndpointSuffix=core.windows.net"
	}
	key := func(n int) string { return b64(r.bytes(n)) }
	yes("azure-connection", false, "AZURE_STORAGE_CONNECTION_STRING=\""+conn(key(64))+"\"\n", `{"Storage": "`+conn(key(64))+`"}`, "var c = new BlobServiceClient(\""+conn(key(64))+"\");\n",
		"bus: Endpoint=sb://acme.servicebus.windows.net/;SharedAccessKeyName=Root;SharedAccessKey="+key(32)+"\n", "Server=tcp:acme.database.windows.net,1433;Database=m;User ID=sa;Password="+gen("{w18}")+";Encrypt=True;\n")
	no("azure-connection", conn("<account-key>")+"\n", conn("${KEY}")+"\n", "UseDevelopmentStorage=true\n", "Server=db;Database=m;Integrated Security=true;\n", "Server=db;User ID=sa;Password={your_password};\n")
	sas := func(sig string) string {
		return "https://acmeprod.blob.core.windows.net/backup?sv=2024-11-04&ss=b&srt=sco&sp=rwdl&se=2027-01-01T00:00:00Z&spr=https&sig=" + sig
	}
	yes("azure-sas", false, "BACKUP="+sas(url.QueryEscape(key(32)))+"\n", "azcopy cp . \""+sas(url.QueryEscape(key(32)))+"\"\n", "uploaded to "+sas(url.QueryEscape(key(32)))+" in 3s\n")
	no("azure-sas", sas("<signature>")+"\n", sas("REDACTED")+"\n", "bool ok = verify(msg, sig=sig)\n")
	no("jwt", "eyJAAAAAAAAAAAA.eyJAAAAAAAAAAAAAAAA.AAAAAAAAAAAAAAAAAAAAAAAA\n", rawURL([]byte(`{"name":"x","id":12}`))+"."+rawURL([]byte(`{"page":2,"size":50}`))+"."+gen("{a43}")+"\n", "A JWT has three parts: header.payload.signature, and starts with eyJ.\n")

	yes("pii-ssn", false, "Employee SSN: "+ssn(r)+"\n", "name,ssn\nJ. Doe,"+ssn(r)+"\n", `{"social_security_number": "`+ssn(r)+`"}`, "My social security number is "+ssn(r)+", thanks.\n")
	no("pii-ssn", "SSN: 000-12-3456\n", "ssn 666-45-6789\n", "ssn: 912-45-6789\n", "ssn: 123-00-6789\n", "ssn: 123-45-0000\n", "part 12-345-678 rev 3\n")
	visa, master, amex := luhn("4"+gen("{d14}")), luhn("53"+gen("{d13}")), luhn("37"+gen("{d12}"))
	group := func(s, sep string) string { return s[:4] + sep + s[4:8] + sep + s[8:12] + sep + s[12:] }
	yes("pii-card", false, "card: "+visa+" exp 09/28\n", "Please charge "+group(master, " ")+" for the order.\n", `{"pan": "`+group(visa, "-")+`"}`, "amex "+amex[:4]+" "+amex[4:10]+" "+amex[10:]+"\n")
	wrong := visa[:15] + string('0'+(visa[15]-'0'+1)%10)
	no("pii-card", "card: "+wrong+"\n", "order id "+luhn("9"+gen("{d14}"))+"\n", "timestamp 1764583200000000\n", "card **** **** **** 4242\n")
	de, gb, fr := iban("DE", gen("{d18}")), iban("GB", "NWBK"+gen("{d14}")), iban("FR", gen("{d23}"))
	yes("pii-iban", false, "IBAN: "+de+"\n", "Bitte auf "+de[:4]+" "+de[4:8]+" "+de[8:12]+" "+de[12:16]+" "+de[16:20]+" "+de[20:]+" überweisen.\n", `{"iban": "`+gb+`"}`, "iban,"+fr+"\n")
	no("pii-iban", "IBAN: "+de[:21]+string('0'+(de[21]-'0'+1)%10)+"\n", "IBAN: DE00 0000 0000 0000 0000 00\n", "part number GB12ABCD\n")
	mail := func() string { return gen("{L6}.{L8}") + "@" + gen("{L9}") + ".de" }
	yes("pii-email", false, "Contact: "+mail()+"\n", `{"email": "`+mail()+`"}`, "Write to "+mail()+" for access.\n")
	no("pii-email", "git clone git@github.com:acme/tool.git\n", "npm i lodash@4.17.21\n", "Signed-off-by: Ann Example <ann@acme-internal.io>\n", "@media screen { a { color: red } }\n")
	yes("pii-phone", false, "Phone: +49 30 "+gen("9{d7}")+"\n", "call me at +1 (415) "+gen("86{d1}-2{d3}")+"\n", `{"phone": "+4479`+gen("{d8}")+`"}`)
	no("pii-phone", "version 1.415.867.5309\n", "2026-10-02 08:14:55\n", "192.168.100.200:8080\n", "ISBN 978-3-16-148410-0\n")
	return out
}

// privateKeys: PEM kinds and the bytes their bodies begin with.
var privateKeys = map[string]string{
	"RSA PRIVATE KEY":       "\x30\x82\x04\xa4\x02\x01\x00\x02\x82\x01\x01\x00",
	"EC PRIVATE KEY":        "\x30\x77\x02\x01\x01\x04\x20",
	"DSA PRIVATE KEY":       "\x30\x82\x01\xbb\x02\x01\x00\x02\x81\x81\x00",
	"OPENSSH PRIVATE KEY":   "openssh-key-v1\x00\x00\x00\x00\x04none\x00\x00\x00\x04none",
	"PRIVATE KEY":           "\x30\x82\x04\xbd\x02\x01\x00\x30\x0d\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x01\x01\x05\x00",
	"ENCRYPTED PRIVATE KEY": "\x30\x82\x05\x0e\x30\x40\x06\x09\x2a\x86\x48\x86\xf7\x0d\x01\x05\x0d",
}

func ssn(r *rng) string {
	return fmt.Sprintf("%03d-%02d-%04d", 101+r.n(500), 11+r.n(80), 1001+r.n(8000))
}

// luhn appends the check digit.
func luhn(s string) string {
	sum := 0
	for i := range s {
		d := int(s[len(s)-1-i] - '0')
		if i%2 == 0 {
			if d *= 2; d > 9 {
				d -= 9
			}
		}
		sum += d
	}
	return s + string(rune('0'+(10-sum%10)%10))
}

// iban puts in the mod 97 check digits.
func iban(country, account string) string {
	var n strings.Builder
	for _, c := range account + country + "00" {
		if c >= 'A' {
			fmt.Fprint(&n, c-'A'+10)
		} else {
			n.WriteRune(c)
		}
	}
	x, _ := new(big.Int).SetString(n.String(), 10)
	return fmt.Sprintf("%s%02d%s", country, 98-new(big.Int).Mod(x, big.NewInt(97)).Int64(), account)
}

// encoded are tokens with their own prefix, hidden one layer down.
func encoded() []sample {
	half := func(s string) (string, string) { return s[:len(s)/2], s[len(s)/2:] }
	hide := []wrap{
		{"base64", func(_, x string) string { return "blob: " + b64([]byte("value="+x+"\n")) + "\n" }},
		{"base64url", func(_, x string) string { return "state=" + rawURL([]byte(`{"k":"`+x+`"}`)) + "\n" }},
		{"base64-twice", func(_, x string) string { return "blob: " + b64([]byte(b64([]byte("v: "+x)))) + "\n" }},
		{"hex", func(_, x string) string { return "payload " + hex.EncodeToString([]byte(x)) + "\n" }},
		{"percent", func(_, x string) string {
			return "GET /cb?x=%" + strings.Join(split2(hex.EncodeToString([]byte(x))), "%") + "\n"
		}},
		{"concat", func(_, x string) string { a, b := half(x); return "v := \"" + a + "\" + \"" + b + "\"\n" }},
		{"concat-lines", func(_, x string) string {
			a, b := half(x)
			c, d := half(b)
			return "const v = '" + a + "' +\n  '" + c + "' +\n  '" + d + "';\n"
		}},
		{"zero-width", func(_, x string) string {
			a, b := half(x)
			return "here: " + a[:len(a)-3] + "\u200b" + a[len(a)-3:] + "\u200d" + b + " ok\n"
		}},
	}
	want := map[string]bool{"anthropic-api": true, "openai-project": true, "aws-id": true, "google-api": true, "github-pat": true, "npm": true,
		"gitlab-pat": true, "stripe-live": true, "slack-bot": true, "sendgrid": true, "digitalocean-pat": true, "groq": true}
	var out []sample
	for _, h := range hide {
		format := "encoded-" + h.name
		for _, f := range shapes {
			if want[f.format] {
				name := format + "/" + f.format
				out = append(out, sample{name, format, h.text("", build(seeded(name), f.shape)), true, true})
			}
		}
		for i, x := range []string{"the quick brown fox jumps over the lazy dog, twice a day", "https://docs.acme-internal.io/guide/getting-started", seeded(format).str(base62, 64)} {
			out = append(out, sample{fmt.Sprintf("%s/near/%d", format, i), format, h.text("", x), false, true})
		}
	}
	return out
}

func split2(s string) []string {
	return strings.Fields(strings.ReplaceAll(lines(s, 2), "\n", " "))
}
