package scan

import (
	"encoding/base64"
	"strings"
)

// Keys of other services with a prefix of their own.
var rulesSaaS = []rule{
	{id: "datadog_client_key", family: familyAPIKey, what: "Datadog client token", expr: `pub[a-f0-9]{32}`, confidence: Likely},
	{id: "statsig_client_key", family: familyAPIKey, what: "Statsig client key", expr: `client-[A-Za-z0-9]{40,44}`, confidence: Likely},
	{id: "statsig_server_key", family: familySaaS, what: "Statsig server secret", expr: `secret-[A-Za-z0-9]{40,44}`},
	{id: "datadog_app_key", family: familySaaS, what: "Datadog application key", expr: `ddapp_[A-Za-z0-9]{34}`},
	{id: "newrelic_user_key", family: familySaaS, what: "New Relic user key", expr: `NRAK-[A-Z0-9]{27}`},
	{id: "newrelic_insert_key", family: familySaaS, what: "New Relic insert, query or admin key", expr: `NR(?:II|IQ|AA|RA|SP)-[A-Za-z0-9-]{27,32}`, words: []string{"NRII-", "NRIQ-", "NRAA-", "NRRA-", "NRSP-"}},
	{id: "newrelic_browser_key", family: familySaaS, what: "New Relic browser key", expr: `NRJS-[a-f0-9]{19}`, confidence: Likely},
	{id: "newrelic_license_key", family: familySaaS, what: "New Relic license key", expr: `[a-f0-9]{36}NRAL`, words: []string{"NRAL"}},
	{id: "sentry_org_token", family: familySaaS, what: "Sentry organization token", expr: `sntrys_eyJ[\w+/=-]{77,697}`},
	{id: "sentry_user_token", family: familySaaS, what: "Sentry user token", expr: `sntryu_[a-f0-9]{64}`},
	{id: "grafana_cloud_token", family: familySaaS, what: "Grafana Cloud token", expr: `glc_[A-Za-z0-9+/]{32,400}={0,3}`},
	{id: "grafana_service_token", family: familySaaS, what: "Grafana service account token", expr: `glsa_[A-Za-z0-9]{32}_[A-Fa-f0-9]{8}`},
	{id: "grafana_api_key", family: familySaaS, what: "Grafana API key", expr: `eyJrIjoi[A-Za-z0-9]{70,400}={0,3}`, check: grafanaKey},
	{id: "linear_api_key", family: familySaaS, what: "Linear API key", expr: `lin_api_[A-Za-z0-9]{40}`},
	{id: "linear_oauth_token", family: familySaaS, what: "Linear OAuth token", expr: `lin_oauth_[a-f0-9]{64}`},
	{id: "notion_token", family: familySaaS, what: "Notion integration token", expr: `ntn_[0-9]{11}[A-Za-z0-9]{35}`},
	{id: "notion_token", family: familySaaS, what: "Notion integration token, old form", expr: `secret_[A-Za-z0-9]{43}`},
	{id: "figma_token", family: familySaaS, what: "Figma token", expr: `fig(?:d|o|oh|or|ur)[hdro]?_[\w-]{36,52}`, words: []string{"figd_", "figo_", "figoh_", "figor_", "figu_", "figdr_", "figuh_", "figur_"}},
	{id: "airtable_token", family: familySaaS, what: "Airtable personal access token", words: []string{"pat"}, expr: `pat[A-Za-z0-9]{14}\.[a-f0-9]{64}`},
	{id: "airtable_key", family: familySaaS, what: "Airtable API key", words: []string{"airtable"}, within: 40, expr: `key[A-Za-z0-9]{14}`},
	{id: "asana_token", family: familySaaS, what: "Asana personal access token", expr: `[0-2]/\d{16}(?:/\d{16})?:[a-f0-9]{32}`, words: []string{"0/1", "1/1", "2/1"}},
	{id: "asana_token", family: familySaaS, what: "Asana client secret", words: []string{"asana"}, within: 40, expr: `[a-z0-9]{32}`},
	{id: "postman_key", family: familySaaS, what: "Postman API key", expr: `PMAK-[a-f0-9]{24}-[a-f0-9]{34}`},
	{id: "clickup_token", family: familySaaS, what: "ClickUp token", expr: `pk_\d{6,9}_[A-Z0-9]{32}`, words: []string{"pk_"}},
	{id: "hubspot_token", family: familySaaS, what: "HubSpot private app token", expr: `pat-(?:na|eu|ap)\d-` + exprUUID, words: []string{"pat-na", "pat-eu", "pat-ap"}},
	{id: "posthog_key", family: familySaaS, what: "PostHog personal or feature key", expr: `ph[xsr]_[A-Za-z0-9]{40,50}`, words: []string{"phx_", "phs_", "phr_"}},
	{id: "posthog_project_key", family: familySaaS, what: "PostHog project key", expr: `ph[ac]_[A-Za-z0-9]{40,50}`, words: []string{"pha_", "phc_"}, confidence: Likely},
	{id: "launchdarkly_key", family: familySaaS, what: "LaunchDarkly SDK key", expr: `sdk-` + exprUUID, words: []string{"sdk-"}},
	{id: "launchdarkly_key", family: familySaaS, what: "LaunchDarkly API or mobile key, which request ids look like", expr: `(?:api|mob)-` + exprUUID, words: []string{"api-", "mob-"}, confidence: Likely},
	{id: "mapbox_token", family: familySaaS, what: "Mapbox secret token", expr: `[ps]k\.eyJ[\w-]{60,120}\.[\w-]{22}`, words: []string{"sk.eyJ", "pk.eyJ"}},
	{id: "dropbox_token", family: familySaaS, what: "Dropbox access token", expr: `sl\.(?:u\.)?[\w=-]{130,}`, words: []string{"sl.b", "sl.u.", "sl.a", "sl.c"}},
	{id: "contentful_token", family: familySaaS, what: "Contentful management token", expr: `CFPAT-[\w-]{43}`},
	{id: "readme_key", family: familySaaS, what: "ReadMe API key", expr: `rdme_[a-z0-9]{70}`},
	{id: "frameio_token", family: familySaaS, what: "Frame.io token", expr: `fio-u-[\w=-]{64}`},
	{id: "typeform_token", family: familySaaS, what: "Typeform token", expr: `tfp_[\w.=-]{40,60}`},
	{id: "honeycomb_key", family: familySaaS, what: "Honeycomb ingest key", expr: `hc[a-z]ik_[a-z0-9]{58}`, words: []string{"hcaik_", "hcbik_", "hccik_"}},
	{id: "databento_key", family: familySaaS, what: "Databento key", words: []string{"db-"}, expr: `db-[A-Za-z0-9]{29}`, check: mixedCase},
	{id: "rapidapi_key", family: familySaaS, what: "RapidAPI key", expr: `[a-z0-9]{10}msh[a-z0-9]{15}p1[a-z0-9]{5}jsn[a-z0-9]{12}`, words: []string{"jsn"}, place: inToken, look: lookBack(35)},
	{id: "facebook_token", family: familySaaS, what: "Facebook access token", expr: `EAA[A-Za-z0-9]{80,400}`, words: []string{"eaa"}, entropy: 4.5, starts: true, place: inToken, look: lookApart, check: mixedCase},
	{id: "facebook_app_token", family: familySaaS, what: "Facebook app access token", words: []string{"facebook", "fb_app", "graph.face"}, within: 60, expr: `\d{15,16}(?:\||%7C)[\w-]{27,40}`},
	{id: "instagram_token", family: familySaaS, what: "Instagram access token", expr: `IGQV[\w-]{80,300}`},
	{id: "twitter_bearer_token", family: familySaaS, what: "Twitter bearer token", expr: `AAAAAAAAAAAAAAAAAAAAA[\w%-]{60,120}`, words: []string{"%3d", "%2b", "%2f"}, place: inToken, look: lookTwitter},
	{id: "salesforce_token", family: familySaaS, what: "Salesforce session or refresh token", expr: `00D[A-Za-z0-9]{12,15}![\w.]{80,120}`, words: []string{"00d"}},
	{id: "freemius_key", family: familySaaS, what: "Freemius secret key", words: []string{"freemius", "secret_key"}, within: 40, expr: `sk_[A-Za-z0-9!@#$%^&*_+=-]{29}`, confidence: Likely},
	{id: "openai_session_key", family: familySaaS, what: "OpenAI session key", expr: `sess_[A-Za-z0-9]{40,64}`, confidence: Likely},
	{id: "svix_token", family: familySaaS, what: "Svix API token", expr: `testsk_[\w.=-]{32,60}`},
	{id: "intercom_token", family: familySaaS, what: "Intercom access token", expr: `dG9rO[A-Za-z0-9+/]{50,60}=?`, words: []string{"dG9rO"}},
	{id: "settlemint_token", family: familySaaS, what: "Settlemint token", expr: `sm_[aps]at_[A-Za-z0-9]{16}`, words: []string{"sm_aat_", "sm_pat_", "sm_sat_"}},
	{id: "messagebird_key", family: familySaaS, what: "MessageBird access key", words: []string{"messagebird", "message-bird", "message_bird"}, within: 40, expr: `[A-Za-z0-9]{25}`},
	{id: "onfido_token", family: familySaaS, what: "Onfido API token", expr: `api_(?:live|sandbox)(?:_[a-z]{2})?\.[A-Za-z0-9]{11}\.[\w-]{32}`, words: []string{"api_live", "api_sandbox"}},
	{id: "ubidots_token", family: familySaaS, what: "Ubidots token", expr: `BBFF-[A-Za-z0-9]{30}`},
	{id: "cloudinary_url", family: familySaaS, what: "Cloudinary address with its secret", expr: `cloudinary://\d{12,16}:([\w-]{24,32})@`, words: []string{"cloudinary://"}},
	{id: "sentry_dsn", family: familySaaS, what: "Sentry DSN with a secret", expr: `https://[a-f0-9]{32}:([a-f0-9]{32})@`, words: []string{"://"}, place: inToken, look: lookDSN},
}

// grafanaKey decodes a key: an object with the key, its name and its id.
func grafanaKey(secret []byte) outcome {
	plain, err := base64.RawStdEncoding.DecodeString(strings.TrimRight(string(secret), "="))
	if err != nil || indexOf(plain, `"n":"`) < 0 || indexOf(plain, `"id":`) < 0 {
		return isNone
	}
	return passes
}

// lookBack matches an expression whose keyword is so many bytes from its start.
func lookBack(n int) func(t *text, r *rule, pos, end int) {
	return func(t *text, r *rule, pos, end int) {
		if pos < n || !t.begins(pos-n) {
			return
		}
		if m, ok := r.x.match(t, pos-n); ok && t.ends(m.end) {
			r.report(t, m, r.grade())
		}
	}
}

// lookTwitter finds the percent-encoded character that is in every token
// and goes back to the row of letters that it begins with.
func lookTwitter(t *text, r *rule, pos, end int) {
	token := func(c byte) bool { return isKey(c) || c == '%' }
	start := behind(t.b, pos, 110, token)
	start += t.escapeAt(start)
	if !hasPrefixAt(t.b, start, "AAAAAAAAAAAAAAAAAAAAA", false) || !t.begins(start) {
		return
	}
	from := start + 21
	to := ahead(t.b, end, 110, token)
	if s := measured(t.b[from:to]); s.length < 60 || s.length > 130 || s.entropy < 4 || s.digits == 0 {
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
