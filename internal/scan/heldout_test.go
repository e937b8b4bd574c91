package scan_test

import (
	"fmt"
	"hash/crc32"
	"hash/fnv"
	"net/url"
	"sort"
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
	if own.rate() < 0.95 {
		t.Errorf("recall of own-prefix formats %v, want at least 0.95", own)
	}
	if context.rate() < 0.75 {
		t.Errorf("recall of context formats %v, want at least 0.75", context)
	}
	if personal.rate() < 0.75 {
		t.Errorf("recall of pii %v, want at least 0.75", personal)
	}
	if noise.rate() > 0.02 {
		t.Errorf("near-misses flagged %v, want at most 0.02", noise)
	}
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
	formats := make([]string, 0, len(pos))
	for f := range pos {
		formats = append(formats, f)
	}
	sort.Strings(formats)
	for _, f := range formats {
		testbed.Expect(t, pos[f] >= 3 && neg[f] >= 1, "%s has %d positives and %d near-misses", f, pos[f], neg[f])
	}
	t.Logf("%d samples, %d formats", len(names), len(formats))
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
