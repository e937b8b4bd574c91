package scan

import (
	"encoding/base64"
	"strings"
)

// Keys of services for payment and mail, and of others, with a prefix of their own.
var rulesSaaS = []rule{
	{id: "stripe_secret_key", family: familyPayment, what: "Stripe secret or restricted key", expr: `(?:sk|rk)_(?:live|test|prod)_[A-Za-z0-9]{16,250}`,
		words: []string{"sk_live_", "sk_test_", "rk_live_", "rk_test_", "sk_prod_", "rk_prod_"}, entropy: 2.6},
	{id: "stripe_webhook_secret", family: familyPayment, what: "Stripe webhook signing secret", expr: `whsec_[A-Za-z0-9+/]{24,70}=?`},
	{id: "square_access_token", family: familyPayment, what: "Square access token", expr: `sq0atp-[\w-]{22}`},
	{id: "square_secret", family: familyPayment, what: "Square OAuth secret", expr: `sq0csp-[\w-]{43}`},
	{id: "square_access_token", family: familyPayment, what: "Square access token", expr: `EAAA[\w-]{56,60}`, entropy: 4.5, starts: true, place: inToken, look: lookApart, check: mixedCase},
	{id: "braintree_access_token", family: familyPayment, what: "PayPal Braintree access token", expr: `access_token\$(?:production|sandbox)\$[0-9a-z]{16}\$[0-9a-f]{32}`},
	{id: "shopify_token", family: familyPayment, what: "Shopify token or shared secret", expr: `shp(?:at|ca|pa|ss|tka|ua)_[a-fA-F0-9]{32}`, words: []string{"shpat_", "shpca_", "shppa_", "shpss_", "shptka_", "shpua_"}},
	{id: "plaid_access_token", family: familyPayment, what: "Plaid access token", expr: `access-(?:sandbox|development|production)-` + exprUUID},
	{id: "plaid_secret", family: familyPayment, what: "Plaid secret", words: []string{"plaid"}, within: 40, expr: `[a-f0-9]{30}`},
	{id: "adyen_key", family: familyPayment, what: "Adyen API key", expr: `AQE[a-z][\w+/-]{40,400}={0,2}(?:-[\w+/=-]{10,200})?`,
		words: []string{"AQEyh", "AQElh", "AQEmh", "AQEqh", "AQErh", "AQEth", "AQEnh", "AQEoh", "AQEph", "AQEsh", "AQEuh", "AQEvh", "AQEwh", "AQExh", "AQEzh", "AQEkh", "AQEhh", "AQEjh", "AQEih", "AQEfh", "AQEgh"}},
	{id: "adyen_key", family: familyPayment, what: "Adyen API key, named", words: []string{"adyen"}, within: 40, expr: `AQE[A-Za-z0-9+/=.^*%\[\]{}~-]{40,400}`},
	{id: "razorpay_key", family: familyPayment, what: "Razorpay key id", expr: `rzp_(?:live|test)_[A-Za-z0-9]{14}`},
	{id: "flutterwave_key", family: familyPayment, what: "Flutterwave secret or encryption key", expr: `FLWSECK(?:_TEST|_PROD)?-[a-hA-H0-9]{12,32}(?:-X)?`},
	{id: "easypost_key", family: familyPayment, what: "EasyPost API key", expr: `EZ[AT]K[A-Za-z0-9]{54}`, words: []string{"EZAK", "EZTK"}},
	{id: "duffel_token", family: familyPayment, what: "Duffel access token", expr: `duffel_(?:test|live)_[\w=-]{43}`},
	{id: "shippo_token", family: familyPayment, what: "Shippo API token", expr: `shippo_(?:live|test)_[a-fA-F0-9]{40}`},
	{id: "lob_key", family: familyPayment, what: "Lob API key", words: []string{"lob"}, within: 30, expr: `(?:live|test)_[a-f0-9]{35}`},
	{id: "coinbase_key", family: familyPayment, what: "Coinbase access token", words: []string{"coinbase"}, within: 40, expr: `[\w-]{64}`},
	{id: "kraken_key", family: familyPayment, what: "Kraken access token", words: []string{"kraken"}, within: 40, expr: `[A-Za-z0-9+/=]{80,90}`},
	{id: "mercadopago_token", family: familyPayment, what: "Mercado Pago access token", expr: `APP_USR-\d{10,20}-\d{6}-[a-f0-9]{32}-\d{6,12}`},
	{id: "sendgrid_key", family: familyMail, what: "SendGrid API key", expr: `SG\.[\w-]{22}\.[\w-]{43}`, words: []string{"SG."}},
	{id: "sendgrid_key", family: familyMail, what: "SendGrid API key, variant", expr: `SG\.[\w=.-]{66}`, words: []string{"SG."}, confidence: Likely},
	{id: "mailgun_key", family: familyMail, what: "Mailgun API key", expr: `key-[a-f0-9]{32}`},
	{id: "mailgun_key", family: familyMail, what: "Mailgun signing key", expr: `[a-h0-9]{32}-[a-h0-9]{8}-[a-h0-9]{8}`, words: []string{"mailgun"}, within: 50},
	{id: "mailgun_key", family: familyMail, what: "Mailgun key, named", expr: `[a-f0-9]{32}`, words: []string{"mailgun"}, within: 40},
	{id: "mailchimp_key", family: familyMail, what: "Mailchimp API key", expr: `[a-f0-9]{32}-us\d{1,2}`, words: []string{"-us1", "-us2", "-us3", "-us4", "-us5", "-us6", "-us7", "-us8", "-us9"}},
	{id: "mandrill_key", family: familyMail, what: "Mandrill API key", words: []string{"mandrill"}, within: 40, expr: `md-[\w-]{22}`},
	{id: "brevo_key", family: familyMail, what: "Brevo API or SMTP key", expr: `xkeysib-[a-f0-9]{64}-[A-Za-z0-9]{16}`},
	{id: "brevo_smtp_key", family: familyMail, what: "Brevo SMTP key", expr: `xsmtpsib-[a-f0-9]{64}-[A-Za-z0-9]{16}`},
	{id: "resend_key", family: familyMail, what: "Resend API key", expr: `re_[A-Za-z0-9]{8}_[A-Za-z0-9]{24}`, words: []string{"re_"}, check: mixedCase},
	{id: "postmark_token", family: familyMail, what: "Postmark server token", words: []string{"postmark"}, within: 40, expr: exprUUID},
	{id: "sparkpost_key", family: familyMail, what: "SparkPost API key", words: []string{"sparkpost"}, within: 40, expr: `[a-f0-9]{40}`},
	{id: "mailerlite_key", family: familyMail, what: "MailerSend API token", expr: `mlsn\.[a-f0-9]{64}`},
	{id: "mailjet_key", family: familyMail, what: "Mailjet key", words: []string{"mailjet"}, within: 40, expr: `[a-f0-9]{32}`},
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
