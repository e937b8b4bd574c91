package scan

const (
	exprUUID = `[a-fA-F0-9]{8}-[a-fA-F0-9]{4}-[a-fA-F0-9]{4}-[a-fA-F0-9]{4}-[a-fA-F0-9]{12}`
)

// Keys of clouds, hosting, infrastructure and databases as a service.
var rulesCloud = []rule{
	{id: "aws_access_key_id", family: familyAPIKey, what: "AWS access key id", expr: `(?:AKIA|ASIA|ABIA|ACCA|A3T[A-Z0-9])[A-Z2-7]{16}`, words: []string{"akia", "asia", "abia", "acca", "a3t"},
		hits: []string{"AKIA{b32 16}", "ASIA{b32 16}", "A3TX{b32 16}"}, misses: []string{"AKIAIOSFODNN7EXAMPLE", "AKIA{b32 12}", "ASIANDEVELOPMENTBANK"}, check: awsID},
	{id: "aws_secret_access_key", family: familyAWS, what: "AWS secret access key", words: []string{"aws_secret", "secretaccesskey", "secret_access_key", "secret-access-key", "secret access key", "aws.secret", "awssecret", "aws-secret", "secret_key", "secretkey", "aws_sk", "aws_key", "aws_sec"}, within: 40, expr: `[A-Za-z0-9+/]{40}`,
		entropy: 3.9, hits: []string{"aws_secret_access_key = {b64 40}", `"SecretAccessKey": "{b64 40}"`}, misses: []string{"aws_secret_access_key = {b64 30}", "aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY"}, place: beforeToken, look: lookAWSSecret},
	{id: "aws_session_token", family: familyAWS, what: "AWS session token", expr: `(?:FwoGZXIvYXdz|IQoJb3JpZ2lu|FQoGZXIvYXdz|FQoDYXdz)[A-Za-z0-9/+=]{80,}`, words: []string{"FwoGZXIvYXdz", "IQoJb3JpZ2lu", "FQoGZXIvYXdz", "FQoDYXdz"},
		hits: []string{"IQoJb3JpZ2lu{b64 200}"}, misses: []string{"IQoJb3JpZ2lu{b64 10}"}},
	{id: "aws_bedrock_key", family: familyCloud, what: "Amazon Bedrock API key", expr: `ABSK[A-Za-z0-9+/]{100,269}={0,2}`,
		hits: []string{"ABSK{b64 128}"}, misses: []string{"ABSK{b64 12}"}},
	{id: "aws_bedrock_short_key", family: familyCloud, what: "Amazon Bedrock short-term API key", expr: `bedrock-api-key-YmVkcm9jay5h[A-Za-z0-9+/=_%-]{60,}`,
		hits: []string{"bedrock-api-key-YmVkcm9jay5h{b64 120}"}, misses: []string{"bedrock-api-key-name"}},
	{id: "aws_appsync_key", family: familyCloud, what: "AWS AppSync API key", expr: `da2-[a-z0-9]{26}`,
		hits: []string{"da2-{lan 26}"}, misses: []string{"da2-{lan 10}"}},
	{id: "aws_mws_token", family: familyCloud, what: "Amazon MWS token", expr: `amzn\.mws\.` + exprUUID,
		hits: []string{"amzn.mws.{uuid}"}, misses: []string{"amzn.mws.auth"}},
	{id: "google_oauth_secret", family: familyCloud, what: "Google OAuth client secret", expr: `GOCSPX-[\w-]{28}`,
		hits: []string{"GOCSPX-{url 28}"}, misses: []string{"GOCSPX-{url 8}"}},
	{id: "google_access_token", family: familyCloud, what: "Google OAuth access token", expr: `ya29\.[\w-]{30,}`,
		hits: []string{"ya29.{url 120}"}, misses: []string{"ya29.{url 8}"}},
	{id: "google_refresh_token", family: familyCloud, what: "Google OAuth refresh token", expr: `1//0[\w-]{80,120}`,
		hits: []string{"1//0{url 99}"}, misses: []string{"1//0{url 8}"}},
	{id: "firebase_server_key", family: familyCloud, what: "Firebase Cloud Messaging server key", expr: `[\w-]{11}:APA91b[\w-]{134,180}`, words: []string{":APA91b"},
		hits: []string{"{an 11}:APA91b{url 134}"}, misses: []string{"AAAA:APA91b"}},
	{id: "azure_storage_key", family: familyCloud, what: "Azure storage account key", expr: `AccountKey=([A-Za-z0-9+/]{86}==)`,
		hits: []string{"AccountName=acme;AccountKey={b64 86}==;EndpointSuffix=core.windows.net"}, misses: []string{"AccountKey={b64 20}=="}},
	{id: "azure_storage_key", family: familyCloud, what: "Azure identifiable key of 88 characters", expr: `[A-Za-z0-9+/]{76}(?:\+ASt|ACDb|\+ABa|\+AMC)[A-Za-z0-9+/]{5}[AQgw]==`, words: []string{"+ASt", "ACDb", "+ABa", "+AMC"},
		hits: []string{"{b64 76}+ASt{b64 5}Q=="}, misses: []string{"+ASt{b64 5}Q=="}, inside: true},
	{id: "azure_shared_access_key", family: familyCloud, what: "Azure shared access key", expr: `SharedAccessKey=([A-Za-z0-9+/]{43}=)`,
		hits: []string{"Endpoint=sb://acme.servicebus.windows.net/;SharedAccessKeyName=Root;SharedAccessKey={b64 43}="}, misses: []string{"SharedAccessKeyName=Root"}},
	{id: "azure_common_key", family: familyCloud, what: "Azure identifiable key", check: identifiable, expr: `[A-Za-z0-9]{52}JQQJ9[9DH9][A-Za-z0-9][A-L][A-Za-z0-9]{16}[A-Za-z][A-Za-z0-9]{7}(?:[A-Za-z0-9]{2}==)?`,
		hits: []string{"{an 52}JQQJ99{an 1}B{an 16}x{an 7}"}, misses: []string{"JQQJ99{an 20}"}},
	{id: "azure_container_registry_key", family: familyCloud, what: "Azure container registry key", expr: `[A-Za-z0-9+/]{42}\+ACR[A-Za-z0-9]{6}`,
		hits: []string{"{an 42}+ACR{an 6}"}, misses: []string{"x+ACR{an 6}"}},
	{id: "azure_function_key", family: familyCloud, what: "Azure function key", expr: `[\w-]{44}AzFu[\w-]{5}[AQgw]==`,
		hits: []string{"{url 44}AzFu{an 5}Q=="}, misses: []string{"AzFu{an 5}Q=="}},
	{id: "azure_search_key", family: familyCloud, what: "Azure search key", expr: `[A-Za-z0-9]{42}AzSe[A-D][A-Za-z0-9]{5}`,
		hits: []string{"{an 42}AzSeA{an 5}"}, misses: []string{"AzSeA{an 5}"}},
	{id: "azure_cache_key", family: familyCloud, what: "Azure cache for Redis key", expr: `[A-Za-z0-9]{33}AzCa[A-P][A-Za-z0-9]{5}=`,
		hits: []string{"{an 33}AzCaB{an 5}="}, misses: []string{"AzCaB{an 5}="}},
	{id: "azure_event_key", family: familyCloud, what: "Azure event hub, service bus or IoT key", expr: `[A-Za-z0-9+/]{33}(?:AIoT|\+AEhb|\+ASbb|\+ARm|AEhB)[A-Za-z0-9+/]{4,6}=`, words: []string{"AIoT", "+AEhb", "+ASbb", "+ARm"},
		hits: []string{"{an 33}AIoT{an 5}=", "{an 33}+ASbb{an 5}="}, misses: []string{"AIoT{an 5}="}},
	{id: "azure_client_secret", family: familyCloud, what: "Microsoft Entra client secret", expr: `[\w~.-]{3}[0-9]Q~[\w~.-]{31,34}`, words: []string{"0Q~", "1Q~", "2Q~", "3Q~", "4Q~", "5Q~", "6Q~", "7Q~", "8Q~", "9Q~"},
		hits: []string{"{an 3}8Q~{an 31}", "{an 3}7Q~{url 34}"}, misses: []string{"{an 3}8Q~{an 12}"}, place: inToken, look: lookEntra},
	{id: "azure_sas_signature", family: familyCloud, what: "Azure shared access signature", words: []string{"sig="}, expr: `sig=([A-Za-z0-9%/+]{43,63}(?:%3[Dd]|=))`,
		hits: []string{"https://acme.blob.core.windows.net/c?sv=2024-11-04&se=2026-01-01&sr=c&sp=rl&sig={an 43}%3D"}, misses: []string{"?sig={an 12}"}},
	{id: "alibaba_access_key_id", family: familyCloud, what: "Alibaba Cloud access key id", expr: `LTAI[A-Za-z0-9]{12,20}`,
		hits: []string{"LTAI{an 20}", "LTAI5t{an 18}"}, misses: []string{"LTAI{an 4}"}},
	{id: "tencent_secret_id", family: familyCloud, what: "Tencent Cloud secret id", expr: `AKID[A-Za-z0-9]{32}`,
		hits: []string{"AKID{an 32}"}, misses: []string{"AKID{an 8}"}},
	{id: "yandex_key", family: familyCloud, what: "Yandex Cloud key or token", expr: `(?:AQVN[\w-]{35,38}|t1\.[A-Z0-9a-z_-]{20,}[=]{0,2}\.[A-Z0-9a-z_-]{86}[=]{0,2}|y0_[\w-]{50,60}|YC[\w-]{38})`, words: []string{"AQVN", "y0_", "t1."},
		hits: []string{"AQVN{url 36}", "y0_{url 55}"}, misses: []string{"AQVN{an 3}"}},
	{id: "digitalocean_token", family: familyCloud, what: "DigitalOcean token", expr: `do[opr]_v1_[a-f0-9]{64}`, words: []string{"doo_v1_", "dop_v1_", "dor_v1_"},
		hits: []string{"dop_v1_{hex 64}", "doo_v1_{hex 64}", "dor_v1_{hex 64}"}, misses: []string{"dop_v1_{hex 20}"}},
	{id: "cloudflare_token", family: familyCloud, what: "Cloudflare API token or key", expr: `cf(?:k|ut|at)_[A-Za-z0-9_-]{40}[a-fA-F0-9]{8}`, words: []string{"cfk_", "cfut_", "cfat_"},
		hits: []string{"cfk_{an 40}{hex 8}", "cfut_{an 40}{hex 8}", "cfat_{an 40}{hex 8}"}, misses: []string{"cfat_{an 10}"}, starts: true, place: inToken, look: lookCloudflare},
	{id: "cloudflare_origin_ca_key", family: familyCloud, what: "Cloudflare origin CA key", expr: `v1\.0-[a-f0-9]{24}-[a-f0-9]{146}`,
		hits: []string{"v1.0-{hex 24}-{hex 146}"}, misses: []string{"v1.0-{hex 8}"}},
	{id: "vault_service_token", family: familyCloud, what: "HashiCorp Vault service token", expr: `hvs\.[\w-]{24,300}`, entropy: 3.2,
		hits: []string{"hvs.{url 95}"}, misses: []string{"hvs.{an 8}"}},
	{id: "vault_batch_token", family: familyCloud, what: "HashiCorp Vault batch token", expr: `hvb\.[\w-]{100,500}`,
		hits: []string{"hvb.{url 150}"}, misses: []string{"hvb.{an 8}"}},
	{id: "vault_recovery_token", family: familyCloud, what: "HashiCorp Vault recovery token", expr: `hvr\.[\w-]{24,300}`,
		hits: []string{"hvr.{url 24}"}, misses: []string{"hvr.{an 8}"}},
	{id: "vault_old_token", family: familyCloud, what: "HashiCorp Vault token, old form", words: []string{"vault"}, within: 40, expr: `s\.[A-Za-z0-9]{24}`,
		hits: []string{"VAULT_TOKEN=s.{an 24}"}, misses: []string{"vault s.{an 5}"}},
	{id: "terraform_token", family: familyCloud, what: "HCP Terraform API token", expr: `[A-Za-z0-9]{14}\.atlasv1\.[\w=-]{60,70}`,
		hits: []string{"{an 14}.atlasv1.{url 67}"}, misses: []string{"{an 14}.atlasv1.{url 10}"}},
	{id: "heroku_key", family: familyCloud, what: "Heroku API key", expr: `HRKU-(?:AA)?[\w-]{36,62}`,
		hits: []string{"HRKU-AA{url 58}"}, misses: []string{"HRKU-{an 5}"}},
	{id: "heroku_key", family: familyCloud, what: "Heroku API key, old form", words: []string{"heroku"}, within: 40, expr: exprUUID,
		hits: []string{"HEROKU_API_KEY={uuid}"}, misses: []string{"heroku {hex 8}"}},
	{id: "databricks_token", family: familyCloud, what: "Databricks personal access token", expr: `dapi[a-f0-9]{32}(?:-\d)?`,
		hits: []string{"dapi{hex 32}", "dapi{hex 32}-2"}, misses: []string{"dapi{hex 12}"}},
	{id: "databricks_oauth_secret", family: familyCloud, what: "Databricks OAuth secret", expr: `dose[a-f0-9]{32}`,
		hits: []string{"dose{hex 32}"}, misses: []string{"dose{hex 4}"}},
	{id: "supabase_token", family: familyCloud, what: "Supabase management token", expr: `sbp_[a-f0-9]{40}`,
		hits: []string{"sbp_{hex 40}"}, misses: []string{"sbp_{hex 4}"}},
	{id: "supabase_secret_key", family: familyCloud, what: "Supabase secret key", expr: `sb_secret_[\w-]{22}_[\w-]{8}`, starts: true, place: inToken, look: lookSupabase,
		hits: []string{"sb_secret_{an 22}_{an 8}"}, misses: []string{"sb_secret_{an 4}"}},
	{id: "vercel_token", family: familyCloud, what: "Vercel token", expr: `vc[apirk]_[A-Za-z0-9]{24,60}`, words: []string{"vca_", "vcp_", "vci_", "vcr_", "vck_"},
		hits: []string{"vcp_{an 56}", "vca_{an 24}"}, misses: []string{"vcp_{an 4}"}, check: mixedCase},
	{id: "vercel_token", family: familyCloud, what: "Vercel token, old form", words: []string{"vercel"}, within: 40, expr: `[A-Za-z0-9]{24}`,
		hits: []string{"VERCEL_TOKEN={an 24}"}, misses: []string{"vercel {an 12}"}},
	{id: "netlify_token", family: familyCloud, what: "Netlify access token", expr: `nfp_[A-Za-z0-9]{36,40}`,
		hits: []string{"nfp_{an 36}", "nfp_{an 40}"}, misses: []string{"nfp_{an 4}"}},
	{id: "fly_token", family: familyCloud, what: "Fly.io token", expr: `fm2_[A-Za-z0-9+/]{40,}={0,3}`,
		hits: []string{"FlyV1 fm2_{b64 200}"}, misses: []string{"fm2_{an 8}"}},
	{id: "fly_token", family: familyCloud, what: "Fly.io token", expr: `FlyV1 (fm[12][ar]?_[A-Za-z0-9+/=,]{40,})`, words: []string{"FlyV1 "},
		hits: []string{"FlyV1 fm1r_{b64 200}"}, misses: []string{"FlyV1 token"}},
	{id: "fly_access_token", family: familyCloud, what: "Fly.io access token", expr: `fo1_[\w-]{43}`,
		hits: []string{"fo1_{url 43}"}, misses: []string{"fo1_{an 4}"}},
	{id: "tailscale_key", family: familyCloud, what: "Tailscale key", expr: `tskey-(?:[a-z]{3,8}-)?[A-Za-z0-9]{8,24}(?:CNTRL)?-[A-Za-z0-9]{18,48}`,
		hits: []string{"tskey-auth-{an 11}CNTRL-{an 32}", "tskey-{an 11}-{an 21}"}, misses: []string{"tskey-auth-{an 2}"}},
	{id: "planetscale_token", family: familyCloud, what: "PlanetScale password or token", expr: `pscale_(?:tkn|pw|oauth)_[\w=.-]{32,64}`,
		hits: []string{"pscale_tkn_{url 43}", "pscale_pw_{url 43}", "pscale_oauth_{url 43}"}, misses: []string{"pscale_tkn_{an 4}"}},
	{id: "doppler_token", family: familyCloud, what: "Doppler token", expr: `dp\.(?:pt|ct|sa|st|scim|audit)\.(?:[a-z0-9_-]{2,35}\.)?[A-Za-z0-9]{40,44}`, words: []string{"dp.pt.", "dp.ct.", "dp.sa.", "dp.st.", "dp.scim.", "dp.audit."},
		hits: []string{"dp.pt.{an 43}", "dp.st.dev.{an 43}"}, misses: []string{"dp.pt.{an 4}"}},
	{id: "pulumi_token", family: familyCloud, what: "Pulumi access token", expr: `pul-[a-f0-9]{40}`,
		hits: []string{"pul-{hex 40}"}, misses: []string{"pul-{hex 4}"}},
	{id: "render_key", family: familyCloud, what: "Render API key", expr: `rnd_[A-Za-z0-9]{28,36}`, check: mixedCase,
		hits: []string{"rnd_{an 32}"}, misses: []string{"rnd_{an 4}"}},
	{id: "neon_key", family: familyCloud, what: "Neon API key", expr: `napi_[a-z0-9]{64}`,
		hits: []string{"napi_{lan 64}"}, misses: []string{"napi_create_function"}},
	{id: "scalingo_token", family: familyCloud, what: "Scalingo API token", expr: `tk-us-[\w-]{48}`,
		hits: []string{"tk-us-{an 48}"}, misses: []string{"tk-us-{an 4}"}},
	{id: "scaleway_key", family: familyCloud, what: "Scaleway access key", expr: `SCW[A-Z0-9]{17}`, check: awsID,
		hits: []string{"SCW{uan 17}"}, misses: []string{"SCW_ACCESS_KEY"}},
	{id: "infracost_key", family: familyCloud, what: "Infracost API key", expr: `ico-[A-Za-z0-9]{32}`,
		hits: []string{"ico-{an 32}"}, misses: []string{"ico-arrow", "https://acme.io/video.ico-{hex 32}.png"}},
	{id: "aiven_password", family: familyCloud, what: "Aiven service password", expr: `AVNS_[\w-]{19}`,
		hits: []string{"AVNS_{an 19}"}, misses: []string{"AVNS_{an 4}"}},
	{id: "cockroach_key", family: familyCloud, what: "CockroachDB Cloud key", expr: `CCDB1_[A-Za-z0-9]{22}_[A-Za-z0-9]{40}`,
		hits: []string{"CCDB1_{an 22}_{an 40}"}, misses: []string{"CCDB1_{an 4}"}},
	{id: "prefect_key", family: familyCloud, what: "Prefect API key", expr: `pn[ub]_[A-Za-z0-9]{36}`, words: []string{"pnu_", "pnb_"},
		hits: []string{"pnu_{an 36}"}, misses: []string{"pnu_{an 4}"}},
	{id: "dynatrace_token", family: familyCloud, what: "Dynatrace token", expr: `dt0[a-z]\d\d\.[A-Z0-9]{24}\.[A-Z0-9]{64}`, words: []string{"dt0"},
		hits: []string{"dt0c01.{uan 24}.{uan 64}"}, misses: []string{"dt0c01.{uan 4}"}},
	{id: "openshift_token", family: familyCloud, what: "OpenShift user token", expr: `sha256~[\w-]{43}`,
		hits: []string{"sha256~{url 43}"}, misses: []string{"sha256~{an 4}"}},
	{id: "onepassword_token", family: familyCloud, what: "1Password service account token", expr: `ops_eyJ[A-Za-z0-9+/_-]{200,}={0,3}`,
		hits: []string{"ops_eyJ{url 300}"}, misses: []string{"ops_eyJ{an 4}"}},
	{id: "onepassword_secret_key", family: familyCloud, what: "1Password secret key", expr: `A3-[A-Z0-9]{6}-[A-Z0-9]{6,11}-[A-Z0-9]{5}-[A-Z0-9]{5}-[A-Z0-9]{5}(?:-[A-Z0-9]{5})?`, words: []string{"A3-"},
		hits: []string{"A3-{uan 6}-{uan 11}-{uan 5}-{uan 5}-{uan 5}"}, misses: []string{"A3-SIZE"}},
	{id: "infisical_token", family: familyCloud, what: "Infisical service token", expr: `st\.[a-f0-9]{8}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{12}\.[a-f0-9]{32}\.[a-f0-9]{32}`, words: []string{"st."},
		hits: []string{"st.{uuid}.{hex 32}.{hex 32}"}, misses: []string{"st.{hex 8}"}},
	{id: "ngrok_token", family: familyCloud, what: "ngrok authentication token", words: []string{"ngrok"}, within: 40, expr: `[12][A-Za-z0-9]{26}_[A-Za-z0-9]{21}`,
		hits: []string{"NGROK_AUTHTOKEN=2{an 26}_{an 21}"}, misses: []string{"ngrok 2{an 4}"}},
	{id: "ionic_token", family: familyCloud, what: "Ionic token", expr: `ion_[a-z0-9]{42}`,
		hits: []string{"ion_{lan 42}"}, misses: []string{"ion_engine"}},
	{id: "upstash_token", family: familyCloud, what: "Upstash REST token", words: []string{"upstash"}, within: 60, expr: `A[A-Za-z0-9]{30,100}={0,2}`,
		hits: []string{"UPSTASH_REDIS_REST_TOKEN=A{an 55}"}, misses: []string{"upstash A{an 4}"}},
}

// identifiable accepts what holds the marker of an Azure key after random
// characters: the marker is the proof, what follows it may be a row of one
// letter.
func identifiable(secret []byte) outcome {
	if len(secret) < 40 || entropy(secret[:40]) < 3.8 || placeholder(secret[:40]) {
		return isNone
	}
	return proven
}

// awsID asks for an identifier that is no word in capitals.
func awsID(secret []byte) outcome {
	tail := secret[3:]
	if kind := mix(tail); kind.digits == 0 && wordy(tail) > 0.55 {
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
		kind := mix(v)
		if kind.upper < 3 || kind.lower < 3 || kind.digits == 0 || kind.turns < 12 || placeholder(v) || i+40 < len(t.b) && (isWord(t.b[i+40]) || t.b[i+40] == '-') || wordy(v) > 0.7 || entropy(v) < r.entropy {
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

// lookCloudflare matches 40 characters and a checksum whose method is not
// published.
func lookCloudflare(t *text, r *rule, pos, end int) {
	if !t.begins(pos) {
		return
	}
	i := end
	for i < len(t.b) && i-end < 49 && (isWord(t.b[i]) || t.b[i] == '-') {
		i++
	}
	if i-end != 48 || !onlyHex(t.b[i-8:i]) || placeholder(t.b[end:i]) || entropy(t.b[end:i]) < 3 {
		return
	}
	t.add(r, pos, i, pos, i, Confirmed)
}

// lookSupabase matches two parts that an underscore joins, which both may
// hold themselves.
func lookSupabase(t *text, r *rule, pos, end int) {
	if !t.begins(pos) {
		return
	}
	i := end
	for i < len(t.b) && i-end < 33 && (isWord(t.b[i]) || t.b[i] == '-') {
		i++
	}
	if n := i - end; n < 30 || n > 32 || placeholder(t.b[end:i]) || entropy(t.b[end:i]) < 3 {
		return
	}
	t.add(r, pos, i, pos, i, Confirmed)
}
