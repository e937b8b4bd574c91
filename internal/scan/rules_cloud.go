package scan

const (
	exprUUID = `[a-fA-F0-9]{8}-[a-fA-F0-9]{4}-[a-fA-F0-9]{4}-[a-fA-F0-9]{4}-[a-fA-F0-9]{12}`
)

// Keys of clouds, hosting, infrastructure and databases as a service.
var rulesCloud = []rule{
	{id: "aws_access_key_id", family: familyAPIKey, what: "AWS access key id", expr: `(?:AKIA|ASIA|ABIA|ACCA|A3T[A-Z0-9])[A-Z2-7]{16}`, words: []string{"akia", "asia", "abia", "acca", "a3t"}, check: awsID},
	{id: "aws_secret_access_key", family: familyAWS, what: "AWS secret access key",
		words: []string{"aws_secret", "secretaccesskey", "secret_access_key", "secret-access-key", "secret access key", "aws.secret", "awssecret", "aws-secret", "secret_key", "secretkey", "aws_sk", "aws_key", "aws_sec"}, within: 40,
		expr: `[A-Za-z0-9+/]{40}`, entropy: 3.9, place: beforeToken, look: lookAWSSecret},
	{id: "aws_session_token", family: familyAWS, what: "AWS session token", expr: `(?:FwoGZXIvYXdz|IQoJb3JpZ2lu|FQoGZXIvYXdz|FQoDYXdz)[A-Za-z0-9/+=]{80,}`, words: []string{"FwoGZXIvYXdz", "IQoJb3JpZ2lu", "FQoGZXIvYXdz", "FQoDYXdz"}},
	{id: "aws_bedrock_key", family: familyCloud, what: "Amazon Bedrock API key", expr: `ABSK[A-Za-z0-9+/]{100,269}={0,2}`},
	{id: "aws_bedrock_short_key", family: familyCloud, what: "Amazon Bedrock short-term API key", expr: `bedrock-api-key-YmVkcm9jay5h[A-Za-z0-9+/=_%-]{60,}`},
	{id: "aws_appsync_key", family: familyCloud, what: "AWS AppSync API key", expr: `da2-[a-z0-9]{26}`},
	{id: "aws_mws_token", family: familyCloud, what: "Amazon MWS token", expr: `amzn\.mws\.` + exprUUID},
	{id: "google_oauth_secret", family: familyCloud, what: "Google OAuth client secret", expr: `GOCSPX-[\w-]{28}`},
	{id: "google_access_token", family: familyCloud, what: "Google OAuth access token", expr: `ya29\.[\w-]{30,}`},
	{id: "google_refresh_token", family: familyCloud, what: "Google OAuth refresh token", expr: `1//0[\w-]{80,120}`},
	{id: "firebase_server_key", family: familyCloud, what: "Firebase Cloud Messaging server key", expr: `[\w-]{11}:APA91b[\w-]{134,180}`, words: []string{":APA91b"}},
	{id: "azure_storage_key", family: familyCloud, what: "Azure storage account key", expr: `AccountKey=([A-Za-z0-9+/]{86}==)`},
	{id: "azure_storage_key", family: familyCloud, what: "Azure identifiable key of 88 characters", expr: `[A-Za-z0-9+/]{76}(?:\+ASt|ACDb|\+ABa|\+AMC)[A-Za-z0-9+/]{5}[AQgw]==`, words: []string{"+ASt", "ACDb", "+ABa", "+AMC"},
		inside: true},
	{id: "azure_shared_access_key", family: familyCloud, what: "Azure shared access key", expr: `SharedAccessKey=([A-Za-z0-9+/]{43}=)`},
	{id: "azure_common_key", family: familyCloud, what: "Azure identifiable key", check: identifiable, expr: `[A-Za-z0-9]{52}JQQJ9[9DH9][A-Za-z0-9][A-L][A-Za-z0-9]{16}[A-Za-z][A-Za-z0-9]{7}(?:[A-Za-z0-9]{2}==)?`},
	{id: "azure_container_registry_key", family: familyCloud, what: "Azure container registry key", expr: `[A-Za-z0-9+/]{42}\+ACR[A-Za-z0-9]{6}`},
	{id: "azure_function_key", family: familyCloud, what: "Azure function key", expr: `[\w-]{44}AzFu[\w-]{5}[AQgw]==`},
	{id: "azure_search_key", family: familyCloud, what: "Azure search key", expr: `[A-Za-z0-9]{42}AzSe[A-D][A-Za-z0-9]{5}`},
	{id: "azure_cache_key", family: familyCloud, what: "Azure cache for Redis key", expr: `[A-Za-z0-9]{33}AzCa[A-P][A-Za-z0-9]{5}=`},
	{id: "azure_event_key", family: familyCloud, what: "Azure event hub, service bus or IoT key", expr: `[A-Za-z0-9+/]{33}(?:AIoT|\+AEhb|\+ASbb|\+ARm|AEhB)[A-Za-z0-9+/]{4,6}=`, words: []string{"AIoT", "+AEhb", "+ASbb", "+ARm"}},
	{id: "azure_client_secret", family: familyCloud, what: "Microsoft Entra client secret", expr: `[\w~.-]{3}[0-9]Q~[\w~.-]{31,34}`, words: []string{"0Q~", "1Q~", "2Q~", "3Q~", "4Q~", "5Q~", "6Q~", "7Q~", "8Q~", "9Q~"},
		place: inToken, look: lookEntra},
	{id: "azure_sas_signature", family: familyCloud, what: "Azure shared access signature", words: []string{"sig="}, expr: `sig=([A-Za-z0-9%/+]{43,63}(?:%3[Dd]|=))`},
	{id: "alibaba_access_key_id", family: familyCloud, what: "Alibaba Cloud access key id", expr: `LTAI[A-Za-z0-9]{12,20}`},
	{id: "tencent_secret_id", family: familyCloud, what: "Tencent Cloud secret id", expr: `AKID[A-Za-z0-9]{32}`},
	{id: "yandex_key", family: familyCloud, what: "Yandex Cloud key or token", expr: `(?:AQVN[\w-]{35,38}|t1\.[A-Z0-9a-z_-]{20,}[=]{0,2}\.[A-Z0-9a-z_-]{86}[=]{0,2}|y0_[\w-]{50,60}|YC[\w-]{38})`, words: []string{"AQVN", "y0_", "t1."}},
	{id: "digitalocean_token", family: familyCloud, what: "DigitalOcean token", expr: `do[opr]_v1_[a-f0-9]{64}`, words: []string{"doo_v1_", "dop_v1_", "dor_v1_"}},
	{id: "cloudflare_token", family: familyCloud, what: "Cloudflare API token or key", expr: `cf(?:k|ut|at)_[A-Za-z0-9_-]{40}[a-fA-F0-9]{8}`, words: []string{"cfk_", "cfut_", "cfat_"}, starts: true, place: inToken,
		look: lookJoined(48, 48, 8)},
	{id: "cloudflare_origin_ca_key", family: familyCloud, what: "Cloudflare origin CA key", expr: `v1\.0-[a-f0-9]{24}-[a-f0-9]{146}`},
	{id: "vault_service_token", family: familyCloud, what: "HashiCorp Vault service token", expr: `hvs\.[\w-]{24,300}`, entropy: 3.2},
	{id: "vault_batch_token", family: familyCloud, what: "HashiCorp Vault batch token", expr: `hvb\.[\w-]{100,500}`},
	{id: "vault_recovery_token", family: familyCloud, what: "HashiCorp Vault recovery token", expr: `hvr\.[\w-]{24,300}`},
	{id: "vault_old_token", family: familyCloud, what: "HashiCorp Vault token, old form", words: []string{"vault"}, within: 40, expr: `s\.[A-Za-z0-9]{24}`},
	{id: "terraform_token", family: familyCloud, what: "HCP Terraform API token", expr: `[A-Za-z0-9]{14}\.atlasv1\.[\w=-]{60,70}`},
	{id: "heroku_key", family: familyCloud, what: "Heroku API key", expr: `HRKU-(?:AA)?[\w-]{36,62}`},
	{id: "heroku_key", family: familyCloud, what: "Heroku API key, old form", words: []string{"heroku"}, within: 40, expr: exprUUID},
	{id: "databricks_token", family: familyCloud, what: "Databricks personal access token", expr: `dapi[a-f0-9]{32}(?:-\d)?`},
	{id: "databricks_oauth_secret", family: familyCloud, what: "Databricks OAuth secret", expr: `dose[a-f0-9]{32}`},
	{id: "supabase_token", family: familyCloud, what: "Supabase management token", expr: `sbp_[a-f0-9]{40}`},
	{id: "supabase_secret_key", family: familyCloud, what: "Supabase secret key", expr: `sb_secret_[\w-]{22}_[\w-]{8}`, starts: true, place: inToken, look: lookJoined(30, 32, 0)},
	{id: "vercel_token", family: familyCloud, what: "Vercel token", expr: `vc[apirk]_[A-Za-z0-9]{24,60}`, words: []string{"vca_", "vcp_", "vci_", "vcr_", "vck_"}, check: mixedCase},
	{id: "vercel_token", family: familyCloud, what: "Vercel token, old form", words: []string{"vercel"}, within: 40, expr: `[A-Za-z0-9]{24}`},
	{id: "netlify_token", family: familyCloud, what: "Netlify access token", expr: `nfp_[A-Za-z0-9]{36,40}`},
	{id: "fly_token", family: familyCloud, what: "Fly.io token", expr: `fm2_[A-Za-z0-9+/]{40,}={0,3}`},
	{id: "fly_token", family: familyCloud, what: "Fly.io token", expr: `FlyV1 (fm[12][ar]?_[A-Za-z0-9+/=,]{40,})`, words: []string{"FlyV1 "}},
	{id: "fly_access_token", family: familyCloud, what: "Fly.io access token", expr: `fo1_[\w-]{43}`},
	{id: "tailscale_key", family: familyCloud, what: "Tailscale key", expr: `tskey-(?:[a-z]{3,8}-)?[A-Za-z0-9]{8,24}(?:CNTRL)?-[A-Za-z0-9]{18,48}`},
	{id: "planetscale_token", family: familyCloud, what: "PlanetScale password or token", expr: `pscale_(?:tkn|pw|oauth)_[\w=.-]{32,64}`},
	{id: "doppler_token", family: familyCloud, what: "Doppler token", expr: `dp\.(?:pt|ct|sa|st|scim|audit)\.(?:[a-z0-9_-]{2,35}\.)?[A-Za-z0-9]{40,44}`, words: []string{"dp.pt.", "dp.ct.", "dp.sa.", "dp.st.", "dp.scim.", "dp.audit."}},
	{id: "pulumi_token", family: familyCloud, what: "Pulumi access token", expr: `pul-[a-f0-9]{40}`},
	{id: "render_key", family: familyCloud, what: "Render API key", expr: `rnd_[A-Za-z0-9]{28,36}`, check: mixedCase},
	{id: "neon_key", family: familyCloud, what: "Neon API key", expr: `napi_[a-z0-9]{64}`},
	{id: "scalingo_token", family: familyCloud, what: "Scalingo API token", expr: `tk-us-[\w-]{48}`},
	{id: "scaleway_key", family: familyCloud, what: "Scaleway access key", expr: `SCW[A-Z0-9]{17}`, check: awsID},
	{id: "infracost_key", family: familyCloud, what: "Infracost API key", expr: `ico-[A-Za-z0-9]{32}`},
	{id: "aiven_password", family: familyCloud, what: "Aiven service password", expr: `AVNS_[\w-]{19}`},
	{id: "cockroach_key", family: familyCloud, what: "CockroachDB Cloud key", expr: `CCDB1_[A-Za-z0-9]{22}_[A-Za-z0-9]{40}`},
	{id: "prefect_key", family: familyCloud, what: "Prefect API key", expr: `pn[ub]_[A-Za-z0-9]{36}`, words: []string{"pnu_", "pnb_"}},
	{id: "dynatrace_token", family: familyCloud, what: "Dynatrace token", expr: `dt0[a-z]\d\d\.[A-Z0-9]{24}\.[A-Z0-9]{64}`, words: []string{"dt0"}},
	{id: "openshift_token", family: familyCloud, what: "OpenShift user token", expr: `sha256~[\w-]{43}`},
	{id: "onepassword_token", family: familyCloud, what: "1Password service account token", expr: `ops_eyJ[A-Za-z0-9+/_-]{200,}={0,3}`},
	{id: "onepassword_secret_key", family: familyCloud, what: "1Password secret key", expr: `A3-[A-Z0-9]{6}-[A-Z0-9]{6,11}-[A-Z0-9]{5}-[A-Z0-9]{5}-[A-Z0-9]{5}(?:-[A-Z0-9]{5})?`, words: []string{"A3-"}},
	{id: "infisical_token", family: familyCloud, what: "Infisical service token", expr: `st\.[a-f0-9]{8}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{12}\.[a-f0-9]{32}\.[a-f0-9]{32}`, words: []string{"st."}},
	{id: "ngrok_token", family: familyCloud, what: "ngrok authentication token", words: []string{"ngrok"}, within: 40, expr: `[12][A-Za-z0-9]{26}_[A-Za-z0-9]{21}`},
	{id: "ionic_token", family: familyCloud, what: "Ionic token", expr: `ion_[a-z0-9]{42}`},
	{id: "upstash_token", family: familyCloud, what: "Upstash REST token", words: []string{"upstash"}, within: 60, expr: `A[A-Za-z0-9]{30,100}={0,2}`},
}

// identifiable accepts what holds the marker of an Azure key after random
// characters: the marker is the proof, what follows it may be a row of one
// letter.
func identifiable(secret []byte) outcome {
	if len(secret) < 40 || measured(secret[:40]).entropy < 3.8 || placeholder(secret[:40]) {
		return isNone
	}
	return proven
}

// awsID asks for an identifier that is no word in capitals.
func awsID(secret []byte) outcome {
	if s := measured(secret[3:]); s.digits == 0 && s.wordy() > 0.55 {
		return isNone
	}
	return passes
}

// lookAWSSecret finds the 40 characters of a secret access key after a name
// that says what they are.
func lookAWSSecret(t *text, r *rule, pos, end int) {
	class := r.x.firstClass()
	limit := min(len(t.b), end+r.within)
	for i := end; i < limit; i++ {
		c := t.b[i]
		if !t.classes.has(class, c) {
			continue
		}
		n := t.run(class, i, 64)
		if n != 40 {
			i += n
			continue
		}
		v := t.b[i : i+40]
		s := measured(v)
		if s.upper < 3 || s.lower < 3 || s.digits == 0 || s.turns < 12 || s.placeholder(v) || i+40 < len(t.b) && (isWord(t.b[i+40]) || t.b[i+40] == '-') || s.wordy() > 0.7 || s.entropy < r.entropy {
			return
		}
		t.add(r, i, i+40, i, i+40, Confirmed)
		return
	}
}

// lookEntra finds the marker of a Microsoft Entra secret in its fourth to
// sixth character.
func lookEntra(t *text, r *rule, pos, end int) {
	start := pos - 3
	if start < 0 || !t.begins(start) || start > 0 && t.b[start-1] == '~' {
		return
	}
	if m, ok := r.x.match(t, start); ok {
		r.report(t, m, Confirmed)
	}
}

// lookJoined matches parts of a key, which may hold what joins them, by the
// length of all. The last ones are hexadecimal: a checksum whose method is not
// published.
func lookJoined(least, most, hex int) func(t *text, r *rule, pos, end int) {
	return func(t *text, r *rule, pos, end int) {
		if !t.begins(pos) {
			return
		}
		i := ahead(t.b, end, most+1, isKey)
		if n := i - end; n < least || n > most || !onlyHex(t.b[i-hex:i]) || placeholder(t.b[end:i]) || measured(t.b[end:i]).entropy < 3 {
			return
		}
		t.add(r, pos, i, pos, i, Confirmed)
	}
}
