package scan

import (
	"encoding/base64"
	"strings"
)

// Keys of other services with a prefix of their own.
var rulesSaaS = []rule{
	{id: "datadog_client_key", family: familyAPIKey, what: "Datadog client token", expr: `pub[a-f0-9]{32}`, confidence: Likely,
		hits: []string{"pub{hex 32}"}, misses: []string{"pub{hex 8}", "publications"}},
	{id: "statsig_client_key", family: familyAPIKey, what: "Statsig client key", expr: `client-[A-Za-z0-9]{40,44}`, confidence: Likely,
		hits: []string{"client-{an 43}"}, misses: []string{"client-{an 8}", "client-side"}},
	{id: "statsig_server_key", family: familySaaS, what: "Statsig server secret", expr: `secret-[A-Za-z0-9]{40,44}`,
		hits: []string{"secret-{an 43}"}, misses: []string{"secret-{an 8}"}},
	{id: "datadog_app_key", family: familySaaS, what: "Datadog application key", expr: `ddapp_[A-Za-z0-9]{34}`,
		hits: []string{"ddapp_{an 34}"}, misses: []string{"ddapp_{an 8}"}},
	{id: "newrelic_user_key", family: familySaaS, what: "New Relic user key", expr: `NRAK-[A-Z0-9]{27}`,
		hits: []string{"NRAK-{uan 27}"}, misses: []string{"NRAK-{uan 8}"}},
	{id: "newrelic_insert_key", family: familySaaS, what: "New Relic insert, query or admin key", expr: `NR(?:II|IQ|AA|RA|SP)-[A-Za-z0-9-]{27,32}`, words: []string{"NRII-", "NRIQ-", "NRAA-", "NRRA-", "NRSP-"},
		hits: []string{"NRII-{an 32}"}, misses: []string{"NRII-{an 8}"}},
	{id: "newrelic_browser_key", family: familySaaS, what: "New Relic browser key", expr: `NRJS-[a-f0-9]{19}`, confidence: Likely,
		hits: []string{"NRJS-{hex 19}"}, misses: []string{"NRJS-{hex 4}"}},
	{id: "newrelic_license_key", family: familySaaS, what: "New Relic license key", expr: `[a-f0-9]{36}NRAL`, words: []string{"NRAL"},
		hits: []string{"{hex 36}NRAL"}, misses: []string{"{hex 8}NRAL"}},
	{id: "sentry_org_token", family: familySaaS, what: "Sentry organization token", expr: `sntrys_eyJ[\w+/=-]{77,697}`,
		hits: []string{"sntrys_eyJpYXQiO{b64 100}=_{b64 43}"}, misses: []string{"sntrys_{an 8}", "sntrys_{an 120}"}},
	{id: "sentry_user_token", family: familySaaS, what: "Sentry user token", expr: `sntryu_[a-f0-9]{64}`,
		hits: []string{"sntryu_{hex 64}"}, misses: []string{"sntryu_{hex 8}"}},
	{id: "grafana_cloud_token", family: familySaaS, what: "Grafana Cloud token", expr: `glc_[A-Za-z0-9+/]{32,400}={0,3}`,
		hits: []string{"glc_{b64 100}="}, misses: []string{"glc_{an 8}"}},
	{id: "grafana_service_token", family: familySaaS, what: "Grafana service account token", expr: `glsa_[A-Za-z0-9]{32}_[A-Fa-f0-9]{8}`,
		hits: []string{"glsa_{an 32}_{hex 8}"}, misses: []string{"glsa_{an 8}"}},
	{id: "grafana_api_key", family: familySaaS, what: "Grafana API key", expr: `eyJrIjoi[A-Za-z0-9]{70,400}={0,3}`, check: grafanaKey,
		hits: []string{"{grafana}"}, misses: []string{"eyJrIjoi{an 90}"}},
	{id: "linear_api_key", family: familySaaS, what: "Linear API key", expr: `lin_api_[A-Za-z0-9]{40}`,
		hits: []string{"lin_api_{an 40}"}, misses: []string{"lin_api_{an 8}"}},
	{id: "linear_oauth_token", family: familySaaS, what: "Linear OAuth token", expr: `lin_oauth_[a-f0-9]{64}`,
		hits: []string{"lin_oauth_{hex 64}"}, misses: []string{"lin_oauth_{hex 8}"}},
	{id: "notion_token", family: familySaaS, what: "Notion integration token", expr: `ntn_[0-9]{11}[A-Za-z0-9]{35}`,
		hits: []string{"ntn_{num 11}{an 35}"}, misses: []string{"ntn_{num 4}"}},
	{id: "notion_token", family: familySaaS, what: "Notion integration token, old form", expr: `secret_[A-Za-z0-9]{43}`,
		hits: []string{"secret_{an 43}"}, misses: []string{"secret_{an 8}", "secret_access_key_id_of_the_production_system"}},
	{id: "figma_token", family: familySaaS, what: "Figma token", expr: `fig(?:d|o|oh|or|ur)[hdro]?_[\w-]{36,52}`, words: []string{"figd_", "figo_", "figoh_", "figor_", "figu_", "figdr_", "figuh_", "figur_"},
		hits: []string{"figd_{url 40}"}, misses: []string{"figd_{an 8}"}},
	{id: "airtable_token", family: familySaaS, what: "Airtable personal access token", words: []string{"pat"}, expr: `pat[A-Za-z0-9]{14}\.[a-f0-9]{64}`,
		hits: []string{"pat{an 14}.{hex 64}"}, misses: []string{"pat{an 14}", "pattern"}},
	{id: "airtable_key", family: familySaaS, what: "Airtable API key", words: []string{"airtable"}, within: 40, expr: `key[A-Za-z0-9]{14}`,
		hits: []string{"AIRTABLE_API_KEY=key{an 14}"}, misses: []string{"airtable key"}},
	{id: "asana_token", family: familySaaS, what: "Asana personal access token", expr: `[0-2]/\d{16}(?:/\d{16})?:[a-f0-9]{32}`, words: []string{"0/1", "1/1", "2/1"},
		hits: []string{"1/1{num 15}:{hex 32}", "2/1{num 15}/1{num 15}:{hex 32}"}, misses: []string{"1/1{num 4}"}},
	{id: "asana_token", family: familySaaS, what: "Asana client secret", words: []string{"asana"}, within: 40, expr: `[a-z0-9]{32}`,
		hits: []string{"ASANA_CLIENT_SECRET={hex 32}"}, misses: []string{"asana {hex 8}"}},
	{id: "postman_key", family: familySaaS, what: "Postman API key", expr: `PMAK-[a-f0-9]{24}-[a-f0-9]{34}`,
		hits: []string{"PMAK-{hex 24}-{hex 34}"}, misses: []string{"PMAK-{hex 8}"}},
	{id: "clickup_token", family: familySaaS, what: "ClickUp token", expr: `pk_\d{6,9}_[A-Z0-9]{32}`, words: []string{"pk_"},
		hits: []string{"pk_{num 8}_{uan 32}"}, misses: []string{"pk_{num 8}"}},
	{id: "hubspot_token", family: familySaaS, what: "HubSpot private app token", expr: `pat-(?:na|eu|ap)\d-` + exprUUID, words: []string{"pat-na", "pat-eu", "pat-ap"},
		hits: []string{"pat-na1-{uuid}"}, misses: []string{"pat-na1-"}},
	{id: "posthog_key", family: familySaaS, what: "PostHog personal or feature key", expr: `ph[xsr]_[A-Za-z0-9]{40,50}`, words: []string{"phx_", "phs_", "phr_"},
		hits: []string{"phx_{an 43}"}, misses: []string{"phx_{an 8}"}},
	{id: "posthog_project_key", family: familySaaS, what: "PostHog project key", expr: `ph[ac]_[A-Za-z0-9]{40,50}`, words: []string{"pha_", "phc_"}, confidence: Likely,
		hits: []string{"phc_{an 43}"}, misses: []string{"phc_{an 8}"}},
	{id: "launchdarkly_key", family: familySaaS, what: "LaunchDarkly SDK key", expr: `sdk-` + exprUUID, words: []string{"sdk-"},
		hits: []string{"sdk-{uuid}"}, misses: []string{"sdk-{hex 8}"}},
	{id: "launchdarkly_key", family: familySaaS, what: "LaunchDarkly API or mobile key, which request ids look like", expr: `(?:api|mob)-` + exprUUID, words: []string{"api-", "mob-"}, confidence: Likely,
		hits: []string{"api-{uuid}", "mob-{uuid}"}, misses: []string{"api-{hex 8}"}},
	{id: "mapbox_token", family: familySaaS, what: "Mapbox secret token", expr: `[ps]k\.eyJ[\w-]{60,120}\.[\w-]{22}`, words: []string{"sk.eyJ", "pk.eyJ"},
		hits: []string{"sk.eyJ{url 80}.{url 22}"}, misses: []string{"sk.eyJ{an 8}"}},
	{id: "dropbox_token", family: familySaaS, what: "Dropbox access token", expr: `sl\.(?:u\.)?[\w=-]{130,}`, words: []string{"sl.b", "sl.u.", "sl.a", "sl.c"},
		hits: []string{"sl.B{url 140}"}, misses: []string{"sl.B{an 8}"}},
	{id: "contentful_token", family: familySaaS, what: "Contentful management token", expr: `CFPAT-[\w-]{43}`,
		hits: []string{"CFPAT-{url 43}"}, misses: []string{"CFPAT-{an 8}"}},
	{id: "readme_key", family: familySaaS, what: "ReadMe API key", expr: `rdme_[a-z0-9]{70}`,
		hits: []string{"rdme_{lan 70}"}, misses: []string{"rdme_{an 8}"}},
	{id: "frameio_token", family: familySaaS, what: "Frame.io token", expr: `fio-u-[\w=-]{64}`,
		hits: []string{"fio-u-{url 64}"}, misses: []string{"fio-u-{an 8}"}},
	{id: "typeform_token", family: familySaaS, what: "Typeform token", expr: `tfp_[\w.=-]{40,60}`,
		hits: []string{"tfp_{url 44}"}, misses: []string{"tfp_{an 8}"}},
	{id: "honeycomb_key", family: familySaaS, what: "Honeycomb ingest key", expr: `hc[a-z]ik_[a-z0-9]{58}`, words: []string{"hcaik_", "hcbik_", "hccik_"},
		hits: []string{"hcaik_{lan 58}"}, misses: []string{"hcaik_{an 8}"}},
	{id: "databento_key", family: familySaaS, what: "Databento key", words: []string{"db-"}, expr: `db-[A-Za-z0-9]{29}`, check: mixedCase,
		hits: []string{"db-{an 29}"}, misses: []string{"db-migrations-of-the-service"}},
	{id: "rapidapi_key", family: familySaaS, what: "RapidAPI key", expr: `[a-z0-9]{10}msh[a-z0-9]{15}p1[a-z0-9]{5}jsn[a-z0-9]{12}`, words: []string{"jsn"}, place: inToken, look: lookRapidAPI,
		hits: []string{"{lan 10}msh{lan 15}p1{lan 5}jsn{lan 12}"}, misses: []string{"jsn{lan 12}"}},
	{id: "facebook_token", family: familySaaS, what: "Facebook access token", expr: `EAA[A-Za-z0-9]{80,400}`, words: []string{"eaa"}, entropy: 4.5, starts: true, place: inToken, look: lookApart, check: mixedCase,
		hits: []string{"EAA{an 160}"}, misses: []string{"EAA{an 8}", "{b64 20}/EAA{an 160}/{b64 20}", "{b64 64}\nEAA{an 100}/{b64 20}\n"}},
	{id: "facebook_app_token", family: familySaaS, what: "Facebook app access token", words: []string{"facebook", "fb_app", "graph.face"}, within: 60, expr: `\d{15,16}(?:\||%7C)[\w-]{27,40}`,
		hits: []string{"FACEBOOK_TOKEN={num 15}|{an 27}"}, misses: []string{"facebook {num 15}"}},
	{id: "instagram_token", family: familySaaS, what: "Instagram access token", expr: `IGQV[\w-]{80,300}`,
		hits: []string{"IGQV{an 120}"}, misses: []string{"IGQV{an 8}"}},
	{id: "twitter_bearer_token", family: familySaaS, what: "Twitter bearer token", expr: `AAAAAAAAAAAAAAAAAAAAA[\w%-]{60,120}`, words: []string{"%3d", "%2b", "%2f"}, place: inToken, look: lookTwitter,
		hits: []string{"AAAAAAAAAAAAAAAAAAAAAM{an 30}%3D{an 44}"}, misses: []string{"AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA"}},
	{id: "salesforce_token", family: familySaaS, what: "Salesforce session or refresh token", expr: `00D[A-Za-z0-9]{12,15}![\w.]{80,120}`, words: []string{"00d"},
		hits: []string{"00D{an 12}!{an 96}"}, misses: []string{"00D{an 12}"}},
	{id: "freemius_key", family: familySaaS, what: "Freemius secret key", words: []string{"freemius", "secret_key"}, within: 40, expr: `sk_[A-Za-z0-9!@#$%^&*_+=-]{29}`, confidence: Likely,
		hits: []string{"FREEMIUS_SECRET_KEY = 'sk_{an 29}'"}, misses: []string{"freemius sk_{an 4}"}},
	{id: "openai_session_key", family: familySaaS, what: "OpenAI session key", expr: `sess_[A-Za-z0-9]{40,64}`, confidence: Likely,
		hits: []string{"sess_{an 40}"}, misses: []string{"sess_{an 8}"}},
	{id: "svix_token", family: familySaaS, what: "Svix API token", expr: `testsk_[\w.=-]{32,60}`,
		hits: []string{"testsk_{an 32}"}, misses: []string{"testsk_{an 8}"}},
	{id: "intercom_token", family: familySaaS, what: "Intercom access token", expr: `dG9rO[A-Za-z0-9+/]{50,60}=?`, words: []string{"dG9rO"},
		hits: []string{"dG9rO{b64 55}="}, misses: []string{"dG9rO{an 8}"}},
	{id: "settlemint_token", family: familySaaS, what: "Settlemint token", expr: `sm_[aps]at_[A-Za-z0-9]{16}`, words: []string{"sm_aat_", "sm_pat_", "sm_sat_"},
		hits: []string{"sm_pat_{an 16}"}, misses: []string{"sm_pat_{an 4}"}},
	{id: "messagebird_key", family: familySaaS, what: "MessageBird access key", words: []string{"messagebird", "message-bird", "message_bird"}, within: 40, expr: `[A-Za-z0-9]{25}`,
		hits: []string{"MESSAGEBIRD_KEY={an 25}"}, misses: []string{"messagebird {an 8}"}},
	{id: "onfido_token", family: familySaaS, what: "Onfido API token", expr: `api_(?:live|sandbox)(?:_[a-z]{2})?\.[A-Za-z0-9]{11}\.[\w-]{32}`, words: []string{"api_live", "api_sandbox"},
		hits: []string{"api_live.{an 11}.{url 32}"}, misses: []string{"api_live.{an 4}"}},
	{id: "ubidots_token", family: familySaaS, what: "Ubidots token", expr: `BBFF-[A-Za-z0-9]{30}`,
		hits: []string{"BBFF-{an 30}"}, misses: []string{"BBFF-{an 8}"}},
	{id: "cloudinary_url", family: familySaaS, what: "Cloudinary address with its secret", expr: `cloudinary://\d{12,16}:([\w-]{24,32})@`, words: []string{"cloudinary://"},
		hits: []string{"cloudinary://{num 15}:{url 27}@acme"}, misses: []string{"cloudinary://key:secret@cloud"}},
	{id: "sentry_dsn", family: familySaaS, what: "Sentry DSN with a secret", expr: `https://[a-f0-9]{32}:([a-f0-9]{32})@`, words: []string{"://"}, place: inToken, look: lookDSN,
		hits: []string{"https://{hex 32}:{hex 32}@sentry.io/12"}, misses: []string{"https://{hex 32}@sentry.io/12"}},
}

// grafanaKey decodes a key: an object with the key, its name and its id.
func grafanaKey(secret []byte) outcome {
	plain, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(string(secret), "="))
	if err != nil || indexOf(plain, `"n":"`) < 0 || indexOf(plain, `"id":`) < 0 {
		return isNone
	}
	return passes
}

// lookRapidAPI matches a key whose parts are joined by fixed letters.
func lookRapidAPI(t *text, r *rule, pos, end int) {
	start := pos - 35
	if start < 0 || !t.begins(start) {
		return
	}
	if m, ok := r.x.match(t, start); ok && t.ends(m.end) {
		r.report(t, m, Confirmed)
	}
}

// lookTwitter finds the percent-encoded character that is in every token
// and goes back to the row of letters that it begins with.
func lookTwitter(t *text, r *rule, pos, end int) {
	token := func(c byte) bool { return isWord(c) || c == '%' || c == '-' }
	start := pos
	for start > 0 && pos-start < 110 && token(t.b[start-1]) {
		start--
	}
	start += t.escapeAt(start)
	if !hasPrefixAt(t.b, start, "AAAAAAAAAAAAAAAAAAAAA", false) || !t.begins(start) {
		return
	}
	from := start + 21
	to := end
	for to < len(t.b) && to-end < 110 && token(t.b[to]) {
		to++
	}
	tail := t.b[from:to]
	if len(tail) < 60 || len(tail) > 130 || entropy(tail) < 4 || mix(tail).digits == 0 {
		return
	}
	t.add(r, start, to, start, to, Confirmed)
}

// lookDSN matches the old form of a DSN, with public and secret key.
func lookDSN(t *text, r *rule, pos, end int) {
	if pos >= 5 && end+33 < len(t.b) && t.b[end+32] == ':' && isHex(t.b[end]) {
		if m, ok := r.x.match(t, pos-len("https")); ok {
			r.report(t, m, Confirmed)
		}
	}
}
