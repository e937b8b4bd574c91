package scan

// More keys with a prefix of their own.
var rulesMore = []rule{
	{id: "apify_token", family: familySaaS, what: "Apify API token", expr: `apify_api_[A-Za-z0-9]{36}`},
	{id: "clickhouse_key", family: familyCloud, what: "ClickHouse Cloud API secret key", expr: `4b1d[A-Za-z0-9]{38}`, check: mixedCase},
	{id: "circleci_project_token", family: familyCode, what: "CircleCI project token", expr: `CCIPRJ_[A-Za-z0-9]{22}_[a-f0-9]{40}`},
	{id: "defined_networking_token", family: familyCloud, what: "Defined Networking API token", expr: `dnkey-[A-Za-z0-9=_-]{26}-[A-Za-z0-9=_-]{52}`},
	{id: "deno_token", family: familyCloud, what: "Deno Deploy token", words: []string{"ddp_", "ddo_", "ddw_"}, expr: `dd[pow]_[A-Za-z0-9]{36}`},
	{id: "endor_key", family: familySaaS, what: "Endor Labs API key", expr: `endr\+[A-Za-z0-9-]{16}`},
	{id: "maxmind_key", family: familySaaS, what: "MaxMind license key", words: []string{"_mmk"}, expr: `[A-Za-z0-9]{6}_[A-Za-z0-9]{29}_mmk`, place: inToken, look: lookBack(36)},
	{id: "klaviyo_key", family: familySaaS, what: "Klaviyo private key", words: []string{"pk_"}, expr: `pk_[a-f0-9]{34}`},
	{id: "nightfall_key", family: familySaaS, what: "Nightfall API key", expr: `NF-[A-Za-z0-9]{32}`, check: mixedCase},
	{id: "onesignal_key", family: familySaaS, what: "OneSignal API key", words: []string{"os_v2_app_", "os_v2_org_"}, expr: `os_v2_(?:app|org)_[a-z2-7]{103}`},
	{id: "persona_key", family: familySaaS, what: "Persona API key", words: []string{"persona_sandbox_", "persona_production_"}, expr: `persona_(?:sandbox|production)_` + exprUUID},
	{id: "portainer_token", family: familyCloud, what: "Portainer token", expr: `ptr_[A-Za-z0-9+/]{43}=?`, check: mixedCase},
	{id: "recharge_token", family: familyPayment, what: "Recharge API token", words: []string{"sk_1x", "sk_2x", "sk_3x", "sk_5x"}, expr: `sk_(?:1|2|3|5|10)x(?:n|\d{1,2})?_[a-f0-9]{64}`},
	{id: "salad_key", family: familyCloud, what: "SaladCloud API key", expr: `salad_cloud_[A-Za-z0-9]{1,7}_[A-Za-z0-9]{7,235}`},
	{id: "sourcegraph_cody_key", family: familyCode, what: "Sourcegraph Cody or license token", words: []string{"slk_", "sgd_"}, expr: `s(?:lk|gd)_[a-f0-9]{64}`},
	{id: "stytch_secret", family: familySaaS, what: "Stytch secret", words: []string{"secret-live-", "secret-test-"}, expr: `secret-(?:live|test)-[\w-]{36}=`},
	{id: "stackhawk_key", family: familySaaS, what: "StackHawk key", words: []string{"hawk."}, expr: `hawk\.[\w-]{20}\.[\w-]{20}`},
	{id: "telnyx_key", family: familyChat, what: "Telnyx API key", words: []string{"KEY0"}, expr: `KEY0[A-F0-9]{31}_[A-Za-z0-9]{22}`},
	{id: "trigger_key", family: familySaaS, what: "Trigger.dev key", words: []string{"tr_dev_", "tr_prod_"}, expr: `tr_(?:dev|prod)_[A-Za-z0-9]{20,24}`},
	{id: "voiceflow_key", family: familyAI, what: "Voiceflow key", words: []string{"VF.DM.", "VF.WS."}, expr: `VF\.(?:DM|WS)\.[a-f0-9]{24}\.[A-Za-z0-9]{16}`},
	{id: "wakatime_key", family: familySaaS, what: "WakaTime key", expr: `waka_` + exprUUID},
	{id: "zuplo_key", family: familySaaS, what: "Zuplo API key", expr: `zpka_[a-z0-9]{32}_[a-f0-9]{8}`},
	{id: "xata_key", family: familyCloud, what: "Xata API key", expr: `xau_[A-Za-z0-9]{40,44}`},
	{id: "axiom_token", family: familySaaS, what: "Axiom token", words: []string{"xaat-", "xapt-"}, expr: `xa[ap]t-` + exprUUID},
	{id: "tinybird_token", family: familyCloud, what: "Tinybird token", words: []string{"p.eyJ"}, expr: `p\.eyJ[\w-]{40,300}\.[\w-]{27,50}`},
	{id: "checkly_key", family: familySaaS, what: "Checkly key", expr: `cu_[a-f0-9]{32}`},
	{id: "brave_key", family: familyAI, what: "Brave Search key", expr: `BSA[\w-]{27,28}`, check: mixedCase},
	{id: "helicone_key", family: familyAI, what: "Helicone key", expr: `sk-helicone-[a-z0-9-]{20,60}`},
	{id: "volcengine_key", family: familyCloud, what: "Volcengine access key", expr: `AKLT[A-Za-z0-9_-]{40,60}`, check: mixedCase},
	{id: "baidu_key", family: familyCloud, what: "Baidu Cloud key", expr: `bce-v3/ALTAK-[A-Za-z0-9]{21}/[a-f0-9]{40}`},
	{id: "dbt_token", family: familyCloud, what: "dbt Cloud token", words: []string{"dbtu_", "dbtc_", "dbts_"}, expr: `dbt[ucs]_[\w-]{36,64}`},
	{id: "mongodb_secret", family: familyCloud, what: "MongoDB Atlas service account secret", expr: `mdb_sa_sk_[\w-]{40}`},
	{id: "cal_key", family: familySaaS, what: "Cal.com key", words: []string{"cal_live_", "cal_test_"}, expr: `cal_(?:live|test)_[a-f0-9]{32}`},
	{id: "riot_key", family: familySaaS, what: "Riot Games key", expr: `RGAPI-` + exprUUID},
	{id: "lichess_token", family: familySaaS, what: "Lichess token", expr: `lip_[A-Za-z0-9]{20}`, check: mixedCase},
	{id: "discord_mfa_token", family: familyChat, what: "Discord user token", expr: `mfa\.[\w-]{84}`},
	{id: "pinterest_token", family: familySaaS, what: "Pinterest access token", words: []string{"pina_"}, expr: `pina_[A-Z0-9]{60,80}`},
	{id: "paddle_key", family: familyPayment, what: "Paddle key", words: []string{"pdl_live_", "pdl_sdbx_"}, expr: `pdl_(?:live|sdbx)_apikey_[a-z0-9]{26}_[A-Za-z0-9]{22}_[A-Za-z0-9]{3}`},
	{id: "polar_token", family: familyPayment, what: "Polar token", words: []string{"polar_oat_", "polar_pat_", "polar_whs_"}, expr: `polar_(?:oat|pat|whs)_[A-Za-z0-9]{32,60}`},
	{id: "close_key", family: familySaaS, what: "Close API key", words: []string{"api_"}, expr: `api_[A-Za-z0-9]{22}\.[A-Za-z0-9]{22}`},
	{id: "gitpod_token", family: familyCode, what: "Gitpod token", expr: `gitpod_pat_[\w.-]{40,300}`},
	{id: "youtrack_token", family: familyCode, what: "JetBrains permanent token", words: []string{"perm:", "perm-"}, expr: `perm[:-][A-Za-z0-9=+/_-]{6,60}\.[A-Za-z0-9=+/_-]{4,40}\.[A-Za-z0-9]{30}`},
	{id: "swarm_token", family: familyCloud, what: "Docker Swarm join token", expr: `SWMTKN-1-[a-z0-9]{50}-[a-z0-9]{25}`},
	{id: "laravel_key", family: familySaaS, what: "Laravel application key", expr: `base64:([A-Za-z0-9+/]{43}=)`},
	{id: "roblox_cookie", family: familySaaS, what: "Roblox session", words: []string{"_|WARNING:-DO-NOT-SHARE-THIS"}, expr: `_\|WARNING:-DO-NOT-SHARE-THIS\.[A-Za-z0-9.,-]{20,200}\|_([A-F0-9]{100,900})`},
	{id: "socket_token", family: familyCode, what: "Socket or Snyk service token", words: []string{"sktsec_", "snyk_uat.", "snyk_sat."}, expr: `(?:sktsec|snyk_[us]at)[._][\w.-]{30,120}`},
	{id: "prompt_key", family: familyAI, what: "PromptLayer or Portkey key", words: []string{"pl_"}, expr: `pl_[a-f0-9]{32}`},
	{id: "dub_key", family: familySaaS, what: "Dub, Unkey, Val Town or Loops key", words: []string{"dub_", "unkey_", "vtwn_"}, expr: `(?:dub|unkey|vtwn)_[A-Za-z0-9]{20,44}`, check: mixedCase},
	{id: "deepl_key", family: familyAI, what: "DeepL API key", words: []string{":fx"}, expr: exprUUID + `:fx`, place: inToken, look: lookBack(36)},
	{id: "authress_key", family: familySaaS, what: "Authress service client key", words: []string{".acc_", ".acc-"}, place: inToken, look: lookAuthress},
}

// lookAuthress matches a key of four parts, from its third one.
func lookAuthress(t *text, r *rule, pos, end int) {
	start := behind(t.b, pos, 48, func(c byte) bool { return isWord(c) || c == '.' })
	known := false
	for _, prefix := range []string{"sc_", "ext_", "scauth_", "authress_"} {
		known = known || hasPrefixAt(t.b, start, prefix, false)
	}
	dot := ahead(t.b, end, 33, isKey)
	if !known || dot-end < 10 || dot >= len(t.b) || t.b[dot] != '.' {
		return
	}
	to := ahead(t.b, dot+1, 121, isBase64)
	if secret := t.b[dot+1 : to]; len(secret) >= 30 && !placeholder(secret) && measured(secret).entropy >= 3.5 {
		t.add(r, start, to, start, to, Confirmed)
	}
}
