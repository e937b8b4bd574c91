package scan

import "encoding/base64"

// Further services: keys with a prefix or a shape of their own, then names
// right before a value.
var rulesServices = []rule{
	{id: "harness_token", family: familyCode, what: "Harness API key", expr: `(?:pat|sat)\.[\w-]{22}\.[0-9a-z]{24}\.\w{20}`, words: []string{"pat.", "sat."}},
	{id: "gitlab_session", family: familyCode, what: "GitLab session cookie", expr: `_gitlab_session=([a-z0-9]{32})`},
	{id: "gitlab_routable_token", family: familyCode, what: "GitLab routable token with its version", expr: `gl(?:pat|dt|rt|ptt|ft|soat|cbt|agent|oas)-[\w-]{20,300}\.[0-9a-z]{2}\.[0-9a-z]{9}`,
		words: []string{"glpat-", "gldt-", "glrt-", "glptt-", "glft-", "glsoat-", "glcbt-", "glagent-", "gloas-"}},
	{id: "postman_collection_token", family: familySaaS, what: "Postman collection access token", expr: `PMAT-[A-Z0-9]{26}`},
	{id: "packagist_key", family: familyRegistry, what: "Private Packagist API key or secret", expr: `packagist_ac[ks]_[a-f0-9]{28,96}`, words: []string{"packagist_ack_", "packagist_acs_"}},
	{id: "sourcegraph_token", family: familyCode, what: "Sourcegraph access token, in capitals too", expr: `sgp_(?:local_|[a-fA-F0-9]{16}_)?[a-fA-F0-9]{40}`},
	{id: "sourcegraph_token", family: familyCode, what: "Sourcegraph access token, old form", words: []string{"sourcegraph"}, within: 40, expr: `[a-fA-F0-9]{40}`},
	{id: "sonar_token", family: familyCode, what: "SonarQube or SonarCloud token, old form", words: []string{"sonar"}, within: 40, expr: `[a-f0-9]{40}`},
	{id: "xai_management_key", family: familyAI, what: "xAI management key", expr: `xai-token-[A-Za-z0-9_]{70,90}`},
	{id: "pypi_token", family: familyRegistry, what: "Token of a package index", expr: `pypi-AgEI[\w-]{80,1000}`, words: []string{"pypi-AgEI"}},
	{id: "intra42_secret", family: familySaaS, what: "Intra 42 client secret", expr: `s-s4t2(?:ud|af)-[a-f0-9]{64}`, words: []string{"s-s4t2ud-", "s-s4t2af-"}},
	{id: "onepassword_recovery_code", family: familyCloud, what: "1Password recovery code",
		expr: `1PRK(?:-[A-Z0-9]{4}-[A-Z0-9]{4}-[A-Z0-9]{4}-[A-Z0-9]{4}-[A-Z0-9]{4}-[A-Z0-9]{4}-[A-Z0-9]{4}-[A-Z0-9]{4}-[A-Z0-9]{4}-[A-Z0-9]{4}-[A-Z0-9]{4}-[A-Z0-9]{4}-[A-Z0-9]{4})`, words: []string{"1PRK-"}},
	{id: "adobe_secret", family: familySaaS, what: "Adobe client secret", expr: `p8e-[A-Za-z0-9_-]{32}`, check: twoDigits},
	{id: "fly_token", family: familyCloud, what: "Fly.io token without its scheme", expr: `fm1[ar]_[A-Za-z0-9+/]{80,}={0,3}`, words: []string{"fm1a_", "fm1r_"}},
	{id: "slack_legacy_token", family: familyChat, what: "Slack workspace token of the old kind", expr: `xox[ar]-\d-[A-Za-z0-9-]{10,60}`, words: []string{"xoxa-", "xoxr-"}, check: twoDigits},
	{id: "slack_app_token", family: familyChat, what: "Slack app-level token, of a later version", expr: `xapp-\d{1,6}-[A-Z0-9]{8,14}-\d{10,14}-[A-Za-z0-9]{32,70}`},
	{id: "dynatrace_token", family: familyCloud, what: "Dynatrace token in any case", expr: `dt0[a-z]\d\d\.[A-Za-z0-9]{24}\.[A-Za-z0-9]{64}`, words: []string{"dt0"}},
	{id: "newrelic_user_key", family: familySaaS, what: "New Relic user key in any case", expr: `NRAK-[A-Za-z0-9]{27}`},
	{id: "runway_key", family: familyAI, what: "Runway API key", expr: `key_[a-f0-9]{128}`, words: []string{"key_"}},
	{id: "photoroom_key", family: familyAI, what: "Photoroom API key", expr: `sk_pr_[a-z]{2,16}_[a-f0-9]{40}`},
	{id: "photoroom_key", family: familyAI, what: "Photoroom sandbox key", expr: `sandbox_sk_pr_[a-z]{2,16}_[a-f0-9]{40}`, words: []string{"sandbox_sk_pr_"}},
	{id: "ollama_key", family: familyAI, what: "Ollama API key", words: []string{"ollama"}, within: 40, expr: `[a-f0-9]{32}\.[A-Za-z0-9_-]{24}`},
	{id: "tableau_token", family: familySaaS, what: "Tableau personal access token", words: []string{"==:"}, expr: `[A-Za-z0-9+/]{22}==:[A-Za-z0-9]{32}`},
	{id: "mattermost_webhook", family: familyChat, what: "Incoming webhook of Mattermost", expr: `/hooks/([a-z0-9]{26})`, words: []string{"/hooks/"}, inside: true, check: twoDigits},
	{id: "teams_webhook", family: familyChat, what: "Microsoft Teams webhook, old form", expr: `outlook\.office(?:365)?\.com/webhook/(` + exprUUID + `@` + exprUUID + `/IncomingWebhook/[a-zA-Z0-9]{32}/` + exprUUID + `)`, inside: true,
		words: []string{"outlook.office"}},
	{id: "azure_storage_key", family: familyCloud, what: "Azure storage account key, named", words: []string{"account_key", "storage_key", "storage_account", "azure_storage", "blob_key"}, within: 48, expr: `[A-Za-z0-9+/]{86}==`},
	{id: "aws_secret_access_key", family: familyAWS, what: "AWS secret access key beside its id", words: []string{"akia"}, expr: `[A-Za-z0-9+/]{40}`, within: 64, entropy: 4.2, place: beforeToken, look: lookAWSPair},
	{id: "gcs_hmac_id", family: familyCloud, what: "Access id of a Google Cloud Storage HMAC key", expr: `GOOG1[A-Z0-9]{56}`, confidence: Likely},
	{id: "discord_bot_token", family: familyChat, what: "Discord bot or user token: its first part is the id of the account in base64", expr: `[MNO][A-Za-z0-9]{22,25}\.[\w-]{6}\.[\w-]{27,40}`, alone: discordRule},
	{id: "hubspot_key", family: familySaaS, what: "HubSpot API key", words: []string{"hubspot"}, within: 40, expr: exprUUID},
	{id: "datadog_app_key", family: familySaaS, what: "Datadog key, named", words: []string{"datadog"}, within: 40, expr: `[a-z0-9]{40}`},
	{id: "discord_client_secret", family: familyChat, what: "Discord API key or public key, named", words: []string{"discord"}, within: 40, expr: `[a-f0-9]{64}`, confidence: Likely},
	{id: "launchdarkly_key", family: familySaaS, what: "LaunchDarkly access token, named", words: []string{"launchdarkly"}, within: 40, expr: `[A-Za-z0-9=_-]{40}`},
	{id: "netlify_token", family: familyCloud, what: "Netlify access token, named", words: []string{"netlify"}, within: 40, expr: `[A-Za-z0-9=_-]{40,46}`},
	{id: "beamer_token", family: familySaaS, what: "Beamer API token", words: []string{"beamer"}, within: 40, expr: `b_[A-Za-z0-9=_-]{44}`},
	{id: "linear_api_key", family: familySaaS, what: "Linear client secret", words: []string{"linear_client", "linear_secret", "linear_token", "linear_api"}, within: 24, expr: `[a-f0-9]{32}`},
	{id: "named_service_key", family: familySaaS, what: "Key of a service, right after its name", words: services, within: 40, expr: `[A-Za-z0-9_-]{20,128}`, confidence: Likely},
}

// services issue keys without a form of their own.
var services = []string{
	"aftership", "airbrake", "airship", "algolia", "amplitude", "apify", "apilayer", "aviationstack", "bannerbear", "bitly", "bugsnag", "bulksms", "buttercms", "calendarific", "calendly", "capsulecrm", "chartmogul", "checkly", "clickhelp", "clicksend", "clockify", "cloudconvert", "cloudmersive", "codeclimate", "codemagic", "coinapi", "coinlayer", "debounce", "deepai",
	"delighted", "diffbot", "docparser", "dotdigital", "edenai", "eventbrite", "everhour", "eversign", "fibery", "flightapi", "frontapp", "geoapify", "geocodify", "getresponse", "glassnode", "graphhopper", "groovehq", "gumroad", "gyazo", "happyscribe", "hellosign", "holidayapi", "honeybadger", "iexcloud", "imagekit", "imagga", "insightly", "intrinio", "jotform", "jumpcloud", "kickbox", "kontent",
	"lastfm", "leadfeeder", "lemlist", "lemonsqueezy", "livestorm", "loggly", "loginradius", "madkudu", "magicbell", "mailboxlayer", "mailsac", "marketstack", "mavenlink", "mediastack", "meistertask", "miro_api", "mixmax", "mixpanel", "mockaroo", "monday_api", "monkeylearn", "moosend", "newscatcher", "numverify", "nutritionix", "nylas", "omnisend", "onelogin", "onesignal", "opsgenie", "optimizely",
	"pandadoc", "paperform", "parsehub", "partnerstack", "pastebin", "pdflayer", "pdfshift", "peopledatalabs", "pinata", "pipedream", "pivotaltracker", "pixabay", "planview", "podio", "prodpad", "pushbullet", "pusher", "raygun", "rebrandly", "ringcentral", "rocketreach", "rollbar", "route4me", "salesflare", "saladcloud", "scalr", "scrapestack", "scrapfly", "screenshotlayer", "scrutinizer",
	"serpstack", "sheety", "shotstack", "shutterstock", "signalwire", "signaturit", "smartsheet", "smartystreets", "snipcart", "sportradar", "spotify", "sslmate", "stackhawk", "statuspal", "stockdata", "stormglass", "surveysparrow", "swiftype", "taxjar", "telnyx", "testingbot", "textmagic", "thinkific", "thousandeyes", "ticketmaster", "tiingo", "timecamp", "tradier", "twelvedata", "twist_api",
	"ubidots", "unsplash", "uploadcare", "urlscan", "userflow", "userstack", "vatlayer", "veriphone", "voicegain", "wakatime", "walkscore", "webex", "webflow", "wepay", "wistia", "wrike", "yandex", "yelp", "yousign", "zenrows", "zenscrape", "zenserp", "zeplin", "zerobounce", "zerotier", "zulip",
}

// twoDigits asks for digits and letters, which no word has.
var twoDigits = made(0, 0.75, func(m *shape) bool { return m.digits > 2 && m.turns > 2 })

// lookAWSPair finds the secret key that follows a key id.
func lookAWSPair(t *text, r *rule, pos, end int) {
	if !t.begins(pos) || !hasPrefixAt(t.b, pos, "AKIA", false) || t.run(t.s.wordClass, pos, 21) != 20 {
		return
	}
	lookAWSSecret(t, r, pos, pos+20)
}

// discord looks for a token whose first part, the id of an account, ends with
// the run of base64 before the full stop at end. No other text has that shape,
// so it may follow anything.
func (t *text) discord(end int) {
	r := t.s.alone[discordRule]
	if r == nil {
		return
	}
	for _, n := range [...]int{23, 24, 26} { // 17, 18 and 19 digits
		if end < n || !snowflake(t.b[end-n:end]) {
			continue
		}
		m, ok := r.x.match(t, end-n)
		if signature := end + len(".abcdef."); ok && t.ends(m.end) && measured(t.b[signature:m.end]).entropy >= 2.8 {
			t.add(r, m.start, m.end, m.from, m.to, r.grade())
		}
		return
	}
}

// lastSnowflake is an id of the year 2045: 22 bits and milliseconds since 2015.
const lastSnowflake = 4e18

// snowflake reports whether a text is an id of 17 to 19 digits in base64.
func snowflake(v []byte) bool {
	var plain [24]byte
	if v[0] < 'M' || v[0] > 'O' { // of every digit
		return false
	}
	n, err := base64.RawURLEncoding.Decode(plain[:], v)
	if err != nil || plain[0] == '0' {
		return false
	}
	id := uint64(0) // of at most 19 digits, which fit
	for _, c := range plain[:n] {
		if !digit(c) {
			return false
		}
		id = 10*id + uint64(c-'0')
	}
	return id < lastSnowflake
}
