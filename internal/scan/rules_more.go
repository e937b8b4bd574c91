package scan

// More keys with a prefix of their own.
var rulesMore = []rule{
	{id: "apify_token", family: familySaaS, what: "Apify API token", expr: `apify_api_[A-Za-z0-9]{36}`,
		hits: []string{"apify_api_{an 36}"}, misses: []string{"apify_api_{an 3}"}},
	{id: "clickhouse_key", family: familyCloud, what: "ClickHouse Cloud API secret key", expr: `4b1d[A-Za-z0-9]{38}`, check: mixedCase,
		hits: []string{"4b1d{an 38}"}, misses: []string{"4b1d{an 3}"}},
	{id: "circleci_project_token", family: familyCode, what: "CircleCI project token", expr: `CCIPRJ_[A-Za-z0-9]{22}_[a-f0-9]{40}`,
		hits: []string{"CCIPRJ_{an 22}_{hex 40}"}, misses: []string{"CCIPRJ_{an 3}_{hex 3}"}},
	{id: "defined_networking_token", family: familyCloud, what: "Defined Networking API token", expr: `dnkey-[A-Za-z0-9=_-]{26}-[A-Za-z0-9=_-]{52}`,
		hits: []string{"dnkey-{an 26}-{an 52}"}, misses: []string{"dnkey-{an 3}-{an 3}"}},
	{id: "deno_token", family: familyCloud, what: "Deno Deploy token", words: []string{"ddp_", "ddo_", "ddw_"}, expr: `dd[pow]_[A-Za-z0-9]{36}`,
		hits: []string{"ddp_{an 36}"}, misses: []string{"ddp_{an 3}"}},
	{id: "endor_key", family: familySaaS, what: "Endor Labs API key", expr: `endr\+[A-Za-z0-9-]{16}`,
		hits: []string{"endr+{an 16}"}, misses: []string{"endr+{an 3}"}},
	{id: "maxmind_key", family: familySaaS, what: "MaxMind license key", words: []string{"_mmk"}, expr: `[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk`, place: inToken, look: lookTail,
		hits: []string{"{an 6}_{an 29}_mmk"}, misses: []string{"{an 3}_{an 3}_mmk"}},
	{id: "klaviyo_key", family: familySaaS, what: "Klaviyo private key", words: []string{"pk_"}, expr: `pk_[a-f0-9]{34}`,
		hits: []string{"pk_{hex 34}"}, misses: []string{"pk_{hex 3}"}},
	{id: "nightfall_key", family: familySaaS, what: "Nightfall API key", expr: `NF-[A-Za-z0-9]{32}`, check: mixedCase,
		hits: []string{"NF-{an 32}"}, misses: []string{"NF-{an 3}"}},
	{id: "onesignal_key", family: familySaaS, what: "OneSignal API key", words: []string{"os_v2_app_", "os_v2_org_"}, expr: `os_v2_(?:app|org)_[a-z2-7]{103}`,
		hits: []string{"os_v2_app_{l32 103}"}, misses: []string{"os_v2_app_{l32 3}"}},
	{id: "persona_key", family: familySaaS, what: "Persona API key", words: []string{"persona_sandbox_", "persona_production_"}, expr: `persona_(?:sandbox|production)_` + exprUUID,
		hits: []string{"persona_production_{uuid}"}, misses: []string{"persona_production_{hex 8}"}},
	{id: "portainer_token", family: familyCloud, what: "Portainer token", expr: `ptr_[A-Za-z0-9+/]{43}=?`, check: mixedCase,
		hits: []string{"ptr_{b64 43}="}, misses: []string{"ptr_{b64 3}="}},
	{id: "recharge_token", family: familyPayment, what: "Recharge API token", words: []string{"sk_1x", "sk_2x", "sk_3x", "sk_5x"}, expr: `sk_(?:1|2|3|5|10)x(?:n|\d{1,2})?_[a-f0-9]{64}`,
		hits: []string{"sk_1x1_{hex 64}"}, misses: []string{"sk_1x1_{hex 3}"}},
	{id: "salad_key", family: familyCloud, what: "SaladCloud API key", expr: `salad_cloud_[A-Za-z0-9]{1,7}_[A-Za-z0-9]{7,235}`,
		hits: []string{"salad_cloud_user_{an 50}"}, misses: []string{"salad_cloud_user_{an 3}"}},
	{id: "sourcegraph_cody_key", family: familyCode, what: "Sourcegraph Cody or license token", words: []string{"slk_", "sgd_"}, expr: `s(?:lk|gd)_[a-f0-9]{64}`,
		hits: []string{"slk_{hex 64}"}, misses: []string{"slk_{hex 3}"}},
	{id: "stytch_secret", family: familySaaS, what: "Stytch secret", words: []string{"secret-live-", "secret-test-"}, expr: `secret-(?:live|test)-[\w-]{36}=`,
		hits: []string{"secret-live-{url 36}="}, misses: []string{"secret-live-{url 3}="}},
	{id: "stackhawk_key", family: familySaaS, what: "StackHawk key", words: []string{"hawk."}, expr: `hawk\.[\w-]{20}\.[\w-]{20}`,
		hits: []string{"hawk.{url 20}.{url 20}"}, misses: []string{"hawk.{url 3}.{url 3}"}},
	{id: "telnyx_key", family: familyChat, what: "Telnyx API key", words: []string{"KEY0"}, expr: `KEY0[A-F0-9]{31}_[A-Za-z0-9]{22}`,
		hits: []string{"KEY0{HEX 31}_{an 22}"}, misses: []string{"KEY0{HEX 3}_{an 3}"}},
	{id: "trigger_key", family: familySaaS, what: "Trigger.dev key", words: []string{"tr_dev_", "tr_prod_"}, expr: `tr_(?:dev|prod)_[A-Za-z0-9]{20,24}`,
		hits: []string{"tr_prod_{an 24}"}, misses: []string{"tr_prod_{an 3}"}},
	{id: "voiceflow_key", family: familyAI, what: "Voiceflow key", words: []string{"VF.DM.", "VF.WS."}, expr: `VF\.(?:DM|WS)\.[a-f0-9]{24}\.[A-Za-z0-9]{16}`,
		hits: []string{"VF.DM.{hex 24}.{an 16}"}, misses: []string{"VF.DM.{hex 3}.{an 3}"}},
	{id: "wakatime_key", family: familySaaS, what: "WakaTime key", expr: `waka_` + exprUUID,
		hits: []string{"waka_{uuid}"}, misses: []string{"waka_{hex 8}"}},
	{id: "zuplo_key", family: familySaaS, what: "Zuplo API key", expr: `zpka_[a-z0-9]{32}_[a-f0-9]{8}`,
		hits: []string{"zpka_{hex 32}_{hex 8}"}, misses: []string{"zpka_{hex 3}_{hex 3}"}},
	{id: "xata_key", family: familyCloud, what: "Xata API key", expr: `xau_[A-Za-z0-9]{40,44}`,
		hits: []string{"xau_{an 44}"}, misses: []string{"xau_{an 3}"}},
	{id: "axiom_token", family: familySaaS, what: "Axiom token", words: []string{"xaat-", "xapt-"}, expr: `xa[ap]t-` + exprUUID,
		hits: []string{"xaat-{uuid}"}, misses: []string{"xaat-{hex 8}"}},
	{id: "tinybird_token", family: familyCloud, what: "Tinybird token", words: []string{"p.eyJ"}, expr: `p\.eyJ[\w-]{40,300}\.[\w-]{27,50}`,
		hits: []string{"p.eyJ{url 100}.{url 43}"}, misses: []string{"p.eyJ{url 3}.{url 3}"}},
	{id: "checkly_key", family: familySaaS, what: "Checkly key", expr: `cu_[a-f0-9]{32}`,
		hits: []string{"cu_{hex 32}"}, misses: []string{"cu_{hex 3}"}},
	{id: "brave_key", family: familyAI, what: "Brave Search key", expr: `BSA[\w-]{27,28}`, check: mixedCase,
		hits: []string{"BSA{an 28}"}, misses: []string{"BSA{an 3}"}},
	{id: "helicone_key", family: familyAI, what: "Helicone key", expr: `sk-helicone-[a-z0-9-]{20,60}`,
		hits: []string{"sk-helicone-{lan 7}-{lan 7}-{lan 7}-{lan 7}"}, misses: []string{"sk-helicone-{lan 3}-{lan 3}-{lan 3}-{lan 3}"}},
	{id: "volcengine_key", family: familyCloud, what: "Volcengine access key", expr: `AKLT[A-Za-z0-9_-]{40,60}`, check: mixedCase,
		hits: []string{"AKLT{an 44}"}, misses: []string{"AKLT{an 3}"}},
	{id: "baidu_key", family: familyCloud, what: "Baidu Cloud key", expr: `bce-v3/ALTAK-[A-Za-z0-9]{21}/[a-f0-9]{40}`,
		hits: []string{"bce-v3/ALTAK-{an 21}/{hex 40}"}, misses: []string{"bce-v3/ALTAK-{an 3}/{hex 3}"}},
	{id: "dbt_token", family: familyCloud, what: "dbt Cloud token", words: []string{"dbtu_", "dbtc_", "dbts_"}, expr: `dbt[ucs]_[\w-]{36,64}`,
		hits: []string{"dbtc_{url 44}"}, misses: []string{"dbtc_{url 3}"}},
	{id: "mongodb_secret", family: familyCloud, what: "MongoDB Atlas service account secret", expr: `mdb_sa_sk_[\w-]{40}`,
		hits: []string{"mdb_sa_sk_{url 40}"}, misses: []string{"mdb_sa_sk_{url 3}"}},
	{id: "cal_key", family: familySaaS, what: "Cal.com key", words: []string{"cal_live_", "cal_test_"}, expr: `cal_(?:live|test)_[a-f0-9]{32}`,
		hits: []string{"cal_live_{hex 32}"}, misses: []string{"cal_live_{hex 3}"}},
	{id: "riot_key", family: familySaaS, what: "Riot Games key", expr: `RGAPI-` + exprUUID,
		hits: []string{"RGAPI-{uuid}"}, misses: []string{"RGAPI-{hex 8}"}},
	{id: "lichess_token", family: familySaaS, what: "Lichess token", expr: `lip_[A-Za-z0-9]{20}`, check: mixedCase,
		hits: []string{"lip_{an 20}"}, misses: []string{"lip_{an 3}"}},
	{id: "discord_mfa_token", family: familyChat, what: "Discord user token", expr: `mfa\.[\w-]{84}`,
		hits: []string{"mfa.{url 84}"}, misses: []string{"mfa.{url 3}"}},
	{id: "pinterest_token", family: familySaaS, what: "Pinterest access token", words: []string{"pina_"}, expr: `pina_[A-Z0-9]{60,80}`,
		hits: []string{"pina_{uan 71}"}, misses: []string{"pina_{uan 3}"}},
	{id: "paddle_key", family: familyPayment, what: "Paddle key", words: []string{"pdl_live_", "pdl_sdbx_"}, expr: `pdl_(?:live|sdbx)_apikey_[a-z0-9]{26}_[A-Za-z0-9]{22}_[A-Za-z0-9]{3}`,
		hits: []string{"pdl_live_apikey_{lan 26}_{an 22}_{an 3}"}, misses: []string{"pdl_live_apikey_{lan 3}_{an 3}_{an 3}"}},
	{id: "polar_token", family: familyPayment, what: "Polar token", words: []string{"polar_oat_", "polar_pat_", "polar_whs_"}, expr: `polar_(?:oat|pat|whs)_[A-Za-z0-9]{32,60}`,
		hits: []string{"polar_oat_{an 43}"}, misses: []string{"polar_oat_{an 3}"}},
	{id: "close_key", family: familySaaS, what: "Close API key", words: []string{"api_"}, expr: `api_[A-Za-z0-9]{22}\.[A-Za-z0-9]{22}`,
		hits: []string{"api_{an 22}.{an 22}"}, misses: []string{"api_{an 3}.{an 3}"}},
	{id: "gitpod_token", family: familyCode, what: "Gitpod token", expr: `gitpod_pat_[\w.-]{40,300}`,
		hits: []string{"gitpod_pat_{url 60}"}, misses: []string{"gitpod_pat_{url 3}"}},
	{id: "youtrack_token", family: familyCode, what: "JetBrains permanent token", words: []string{"perm:", "perm-"}, expr: `perm[:-][A-Za-z0-9=+/_-]{6,60}\.[A-Za-z0-9=+/_-]{4,40}\.[A-Za-z0-9]{30}`,
		hits: []string{"perm:{an 12}.{an 8}.{an 30}"}, misses: []string{"perm:{an 3}.{an 3}.{an 3}"}},
	{id: "swarm_token", family: familyCloud, what: "Docker Swarm join token", expr: `SWMTKN-1-[a-z0-9]{50}-[a-z0-9]{25}`,
		hits: []string{"SWMTKN-1-{lan 50}-{lan 25}"}, misses: []string{"SWMTKN-1-{lan 3}-{lan 3}"}},
	{id: "laravel_key", family: familySaaS, what: "Laravel application key", expr: `base64:([A-Za-z0-9+/]{43}=)`,
		hits: []string{"APP_KEY=base64:{b64 43}="}, misses: []string{"APP_KEY=base64:{b64 3}="}},
	{id: "roblox_cookie", family: familySaaS, what: "Roblox session", words: []string{"_|WARNING:-DO-NOT-SHARE-THIS"}, expr: `_\|WARNING:-DO-NOT-SHARE-THIS\.[A-Za-z0-9.,-]{20,200}\|_([A-F0-9]{100,900})`,
		hits: []string{"_|WARNING:-DO-NOT-SHARE-THIS.--Sharing-this-will-allow-someone-to-log-in|_{HEX 300}"}, misses: []string{"_|WARNING:-DO-NOT-SHARE-THIS.--Sharing-this-will-allow-someone-to-log-in|_{HEX 3}"}},
	{id: "socket_token", family: familyCode, what: "Socket or Snyk service token", words: []string{"sktsec_", "snyk_uat.", "snyk_sat."}, expr: `(?:sktsec|snyk_[us]at)[._][\w.-]{30,120}`,
		hits: []string{"sktsec_{an 40}_api"}, misses: []string{"sktsec_{an 3}_api"}},
	{id: "prompt_key", family: familyAI, what: "PromptLayer or Portkey key", words: []string{"pl_"}, expr: `pl_[a-f0-9]{32}`,
		hits: []string{"pl_{hex 32}"}, misses: []string{"pl_{hex 3}"}},
	{id: "dub_key", family: familySaaS, what: "Dub, Unkey, Val Town or Loops key", words: []string{"dub_", "unkey_", "vtwn_"}, expr: `(?:dub|unkey|vtwn)_[A-Za-z0-9]{20,44}`, check: mixedCase,
		hits: []string{"dub_{an 24}"}, misses: []string{"dub_{an 3}"}},
	{id: "deepl_key", family: familyAI, what: "DeepL API key", words: []string{":fx"}, expr: exprUUID + `:fx`, place: inToken, look: lookTail,
		hits: []string{"{uuid}:fx"}, misses: []string{"{hex 8}:fx"}},
	{id: "authress_key", family: familySaaS, what: "Authress service client key", words: []string{".acc_", ".acc-"}, place: inToken, look: lookAuthress,
		hits: []string{"sc_{lan 12}.{lan 5}.acc-{lan 12}.{b64 44}"}, misses: []string{"x.acc-{lan 12}"}},
}

// lookTail matches an expression of one length whose keyword is its end.
func lookTail(t *text, r *rule, pos, end int) {
	start := end - r.x.least
	if start < 0 || !t.begins(start) || !t.ends(end) {
		return
	}
	if m, ok := r.x.match(t, start); ok {
		r.report(t, m, r.grade())
	}
}

// lookAuthress matches a key of four parts, from its third one.
func lookAuthress(t *text, r *rule, pos, end int) {
	start := pos
	for start > 0 && pos-start < 48 && (isWord(t.b[start-1]) || t.b[start-1] == '.') {
		start--
	}
	known := false
	for _, prefix := range []string{"sc_", "ext_", "scauth_", "authress_"} {
		known = known || hasPrefixAt(t.b, start, prefix, false)
	}
	dot := end
	for dot < len(t.b) && dot-end < 33 && (isWord(t.b[dot]) || t.b[dot] == '-') {
		dot++
	}
	if !known || dot-end < 10 || dot >= len(t.b) || t.b[dot] != '.' {
		return
	}
	to := dot + 1
	for to < len(t.b) && to-dot < 122 && (inRun[t.b[to]] || t.b[to] == '=') {
		to++
	}
	if secret := t.b[dot+1 : to]; len(secret) >= 30 && !placeholder(secret) && entropy(secret) >= 3.5 {
		t.add(r, start, to, start, to, Confirmed)
	}
}
