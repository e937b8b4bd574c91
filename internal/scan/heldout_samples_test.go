package scan_test

import (
	"encoding/base64"
	"encoding/hex"
	"fmt"
	"maps"
	"math/big"
	"net/url"
	"slices"
	"strings"
)

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

var shapes = []shape{
	// AI vendors
	{"anthropic-api", "sk-ant-api03-{a93}AA", "anthropic api key", true},
	{"anthropic-admin", "sk-ant-admin01-{a93}AA", "anthropic admin key", true},
	{"anthropic-oauth", "sk-ant-oat01-{a93}AA", "claude code oauth token", true},
	{"openai-legacy", "sk-{w20}T3BlbkFJ{w20}", "openai api key", true},
	{"openai-project", "sk-proj-{a74}T3BlbkFJ{a74}", "openai api key", true},
	{"openai-project-58", "sk-proj-{a58}T3BlbkFJ{a58}", "openai api key", true},
	{"openai-service", "sk-svcacct-{a74}T3BlbkFJ{a74}", "openai service key", true},
	{"openai-admin", "sk-admin-{a58}T3BlbkFJ{a58}", "openai admin key", true},
	{"google-api", "AIza{a35}", "google maps key", true},
	{"google-client-secret", "GOCSPX-{a28}", "google client secret", true},
	{"google-access", "ya29.a0{a180}", "google access token", true},
	{"google-refresh", "1//0{a99}", "google refresh token", true},
	{"huggingface", "hf_{A34}", "hf token", true},
	{"huggingface-org", "api_org_{A34}", "hf org token", true},
	{"groq", "gsk_{w20}WGdyb3FY{w24}", "groq api key", true},
	{"xai", "xai-{w80}", "xai api key", true},
	{"replicate", "r8_{w37}", "replicate api token", true},
	{"perplexity", "pplx-{w48}", "perplexity api key", true},
	{"openrouter", "sk-or-v1-{h64}", "openrouter api key", true},
	{"nvidia", "nvapi-{a64}", "nvidia api key", true},
	{"pinecone", "pcsk_{w5}_{w63}", "pinecone api key", true},
	{"together", "tgp_v1_{a43}", "together api key", true},
	{"fireworks", "fw_{w24}", "fireworks api key", true},
	{"langsmith", "lsv2_pt_{h32}_{h10}", "langsmith api key", true},
	{"tavily", "tvly-dev-{w32}", "tavily api key", true},
	{"llamacloud", "llx-{w48}", "llama cloud api key", true},
	{"elevenlabs", "sk_{h48}", "elevenlabs api key", true},
	{"mistral", "{w32}", "mistral api key", false},
	{"cohere", "{w40}", "cohere api key", false},
	{"deepseek", "sk-{h32}", "deepseek api key", false},
	{"together-legacy", "{h64}", "together api key", false},
	// clouds
	{"aws-id", "AKIA{v16}", "aws access key id", true},
	{"aws-temporary-id", "ASIA{v16}", "aws access key id", true},
	{"aws-bedrock", "ABSKQmVk{bedrock}", "aws bearer token bedrock", true},
	{"aws-bedrock-short", "bedrock-api-key-YmVkcm9jay5h{bedrock-url}", "aws bearer token bedrock", true},
	{"aws-appsync", "da2-{l26}", "appsync api key", true},
	{"aws-secret", "{b40}", "aws secret access key", false},
	{"aws-session", "IQoJb3JpZ2luX2Vj{b340}", "aws session token", false},
	{"azure-identifiable", "{w52}JQQJ99BAAC{w12}AIAA{w6}", "azure openai key", true},
	{"azure-devops", "{w52}JQQJ99BKACAAAAAAAAAAAAASAZDO{w4}", "azure devops pat", true},
	{"azure-entra", "{w3}8Q~{a34}", "azure client secret", false},
	{"azure-devops-legacy", "{z52}", "azure devops pat", false},
	{"azure-storage", "{b86}==", "azure storage account key", false},
	{"alibaba-id", "LTAI5t{w18}", "alibaba access key id", true},
	{"alibaba-secret", "{w30}", "alibaba access key secret", false},
	{"digitalocean-pat", "dop_v1_{h64}", "digitalocean token", true},
	{"digitalocean-oauth", "doo_v1_{h64}", "digitalocean token", true},
	{"digitalocean-refresh", "dor_v1_{h64}", "digitalocean refresh token", true},
	{"cloudflare-key", "cfk_{w40}{h8}", "cloudflare api key", true},
	{"cloudflare-user", "cfut_{w40}{h8}", "cloudflare api token", true},
	{"cloudflare-account", "cfat_{w40}{h8}", "cloudflare api token", true},
	{"cloudflare-legacy", "{a40}", "cloudflare api token", false},
	{"vault-service", "hvs.CAESI{a90}", "vault token", true},
	{"vault-batch", "hvb.AAAAAQ{a150}", "vault token", true},
	{"terraform", "{w14}.atlasv1.{a67}", "tfe token", true},
	{"heroku", "HRKU-AA{a58}", "heroku api key", true},
	{"heroku-legacy", "{uuid}", "heroku api key", false},
	{"databricks", "dapi{h32}", "databricks token", true},
	{"supabase", "sbp_{h40}", "supabase access token", true},
	{"supabase-secret", "sb_secret_{a22}_{a8}", "supabase secret key", true},
	{"vercel", "vcp_{w56}", "vercel token", true},
	{"netlify", "nfp_{w36}", "netlify auth token", true},
	{"fly", "FlyV1 fm2_{b200}", "fly api token", true},
	{"tailscale", "tskey-auth-k{w11}CNTRL-{w32}", "tailscale auth key", true},
	{"planetscale-token", "pscale_tkn_{a43}", "planetscale service token", true},
	{"planetscale-password", "pscale_pw_{a43}", "planetscale password", true},
	{"doppler", "dp.pt.{w43}", "doppler token", true},
	{"pulumi", "pul-{h40}", "pulumi access token", true},
	{"snowflake", "{w9}#{w8}", "snowflake password", false},
	// code hosts and registries
	{"github-pat", "ghp_{w30}{crc}", "github token", true},
	{"github-oauth", "gho_{w30}{crc}", "github token", true},
	{"github-user", "ghu_{w30}{crc}", "github token", true},
	{"github-server", "ghs_{w30}{crc}", "github token", true},
	{"github-refresh", "ghr_{w30}{crc}", "github refresh token", true},
	{"github-fine", "github_pat_{w22}_{w59}", "github token", true},
	{"github-stateless", "ghs_{d7}_{rs}", "github token", true},
	{"gitlab-pat", "glpat-{a20}", "gitlab token", true},
	{"gitlab-deploy", "gldt-{a20}", "gitlab deploy token", true},
	{"gitlab-runner", "glrt-{a20}", "gitlab runner token", true},
	{"gitlab-trigger", "glptt-{h40}", "gitlab trigger token", true},
	{"gitlab-job", "glcbt-{h2}_{a20}", "ci job token", true},
	{"gitlab-feed", "glft-{a20}", "gitlab feed token", true},
	{"gitlab-scim", "glsoat-{a20}", "gitlab scim token", true},
	{"gitlab-oauth", "gloas-{a64}", "gitlab oauth secret", true},
	{"gitlab-agent", "glagent-{a50}", "gitlab agent token", true},
	{"gitlab-mail", "glimt-{a25}", "gitlab incoming mail token", true},
	{"gitlab-registration", "GR1348941{a20}", "gitlab registration token", true},
	{"bitbucket", "ATBB{w24}{atl}", "bitbucket app password", true},
	{"atlassian", "ATATT3xFfGF0{a171}={atl}", "jira api token", true},
	{"npm", "npm_{w30}{crc}", "npm token", true},
	{"pypi", "pypi-AgEIcHlwaS5vcmc{a152}", "twine password", true},
	{"rubygems", "rubygems_{h48}", "gem host api key", true},
	{"cargo", "cio{w32}", "cargo registry token", true},
	{"nuget", "oy2{l43}", "nuget api key", true},
	{"docker-pat", "dckr_pat_{a27}", "docker password", true},
	{"docker-org", "dckr_oat_{a32}", "docker password", true},
	{"artifactory", "AKCp8{w68}", "artifactory api key", true},
	// chat and mail
	{"slack-bot", "xoxb-{d12}-{d13}-{w24}", "slack bot token", true},
	{"slack-user", "xoxp-{d12}-{d12}-{d13}-{h32}", "slack user token", true},
	{"slack-refresh", "xoxe-1-{w147}", "slack refresh token", true},
	{"slack-rotating", "xoxe.xoxp-1-{w166}", "slack token", true},
	{"slack-app", "xapp-1-A{u10}-{d13}-{h64}", "slack app token", true},
	{"slack-webhook", "https://hooks.slack.com/services/T{u10}/B{u10}/{w24}", "alert hook", true},
	{"slack-workflow", "https://hooks.slack.com/workflows/T{u10}/A{u10}/{d18}/{w24}", "alert hook", true},
	{"discord-webhook", "https://discord.com/api/webhooks/1{d18}/{a68}", "alert hook", true},
	{"teams-webhook", "https://acme.webhook.office.com/webhookb2/{uuid}@{uuid}/IncomingWebhook/{h32}/{uuid}", "alert hook", true},
	{"zapier-webhook", "https://hooks.zapier.com/hooks/catch/{d7}/{l7}", "alert hook", true},
	{"discord-bot", "{snowflake-id}.G{w5}.{a38}", "discord bot token", false},
	{"telegram", "{d10}:AA{a33}", "telegram bot token", false},
	{"twilio-key", "SK{h32}", "twilio api key", true},
	{"twilio-token", "{h32}", "twilio auth token", false},
	{"sendgrid", "SG.{a22}.{a43}", "sendgrid api key", true},
	{"mailgun", "key-{h32}", "mailgun api key", false},
	{"mailchimp", "{h32}-us1{d1}", "mailchimp api key", false},
	{"postmark", "{uuid}", "postmark server token", false},
	// payment and SaaS
	{"stripe-live", "sk_live_{w24}", "stripe key", true},
	{"stripe-live-long", "sk_live_51{w97}", "stripe key", true},
	{"stripe-restricted", "rk_live_{w24}", "stripe key", true},
	{"stripe-test", "sk_test_{w24}", "stripe key", true},
	{"stripe-webhook", "whsec_{w32}", "stripe webhook secret", true},
	{"square-token", "sq0atp-{a22}", "square token", true},
	{"square-secret", "sq0csp-{a43}", "square secret", true},
	{"square-access", "EAAA{a60}", "square access token", true},
	{"braintree", "access_token$production${l16}${h32}", "braintree token", true},
	{"shopify-admin", "shpat_{h32}", "shopify token", true},
	{"shopify-custom", "shpca_{h32}", "shopify token", true},
	{"shopify-private", "shppa_{h32}", "shopify password", true},
	{"shopify-shared", "shpss_{h32}", "shopify shared secret", true},
	{"plaid-access", "access-production-{uuid}", "plaid access token", true},
	{"plaid-secret", "{h30}", "plaid secret", false},
	{"adyen", "AQE{w1}hmf{w10}{b120}", "adyen api key", false},
	{"datadog-api", "{h32}", "datadog api key", false},
	{"datadog-app", "{h40}", "datadog app key", false},
	{"newrelic", "NRAK-{u27}", "new relic api key", true},
	{"sentry-org", "sntrys_eyJp{sentry}_{b43}", "sentry auth token", true},
	{"sentry-user", "sntryu_{h64}", "sentry auth token", true},
	{"grafana-cloud", "glc_eyJv{grafana}", "grafana cloud token", true},
	{"grafana-service", "glsa_{w32}_{h8}", "grafana token", true},
	{"pagerduty", "{a20}", "pagerduty api key", false},
	{"linear", "lin_api_{w40}", "linear api key", true},
	{"notion", "ntn_{d11}{w35}", "notion token", true},
	{"notion-legacy", "secret_{w43}", "notion token", false},
	{"figma", "figd_{a40}", "figma token", true},
	{"airtable", "pat{w14}.{h64}", "airtable token", true},
	{"postman", "PMAK-{h24}-{h34}", "postman api key", true},
	{"asana", "1/{d16}:{h32}", "asana access token", false},
	{"okta", "00{a40}", "okta api token", false},
	{"auth0", "{a64}", "auth0 client secret", false},
	{"posthog", "phx_{w43}", "posthog api key", true},
	{"circleci", "CCIPAT_{w22}_{h40}", "circleci token", true},
	{"1password-service", "ops_eyJz{ops}", "op service account token", true},
	{"1password-secret", "A3-{u6}-{u6}-{u5}-{u5}-{u5}", "op secret key", true},
	{"age", "AGE-SECRET-KEY-1{e58}", "age identity", true},
	{"jwt", "{jwt}", "session jwt", true},
	{"jwt-rs256", "{rs}", "id token", true},
	// generic assignments
	{"generic-password", "{w6}#{w5}!{w4}", "admin password", false},
	{"generic-db-password", "{w18}", "db password", false},
	{"generic-passwd", "{w16}", "ldap bind passwd", false},
	{"generic-secret", "{h40}", "session secret", false},
	{"generic-signing", "{b43}=", "webhook signing secret", false},
	{"generic-token", "{w36}", "internal auth token", false},
	{"generic-api-key", "{a32}", "weather api key", false},
	{"generic-access-key", "{w28}", "storage access key", false},
	{"generic-client-secret", "{a40}", "oauth client secret", false},
}

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
