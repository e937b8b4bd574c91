package scan

import "bytes"

// Tokens and webhooks of chat and messaging services.
var rulesChat = []rule{
	{id: "slack_bot_token", family: familyChat, what: "Slack bot token", expr: `xoxb-[0-9]{9,14}-[0-9]{9,14}-[A-Za-z0-9]{16,34}`,
		hits: []string{"xoxb-{num 12}-{num 13}-{an 24}"}, misses: []string{"xoxb-{num 4}", "xoxb-xxxxxxxxxxxx-xxxxxxxxxxxx-xxxxxxxxxxxxxxxxxxxxxxxx"}},
	{id: "slack_config_token", family: familyChat, what: "Slack configuration token", expr: `xoxe\.xox[bp]-\d-[A-Za-z0-9]{100,200}`,
		hits: []string{"xoxe.xoxp-1-{an 163}"}, misses: []string{"xoxe.xoxp-1-{an 4}"}},
	{id: "slack_token", family: familyChat, what: "Slack token", expr: `xox[abeoprs]-[A-Za-z0-9-]{24,250}`, words: []string{"xoxa-", "xoxb-", "xoxe-", "xoxo-", "xoxp-", "xoxr-", "xoxs-"}, check: slackDigits,
		hits: []string{"xoxp-{num 12}-{num 12}-{num 13}-{hex 32}", "xoxb-{num 12}-{an 24}", "xoxe-1-{an 147}"}, misses: []string{"xoxp-{an 4}", "xoxp-{num 12}-{num 12}-{num 12}-####"}},
	{id: "slack_cookie", family: familyChat, what: "Slack session cookie", expr: `xoxd-[A-Za-z0-9%/+=-]{60,400}`,
		hits: []string{"xoxd-{an 120}"}, misses: []string{"xoxd-{an 4}"}},
	{id: "slack_app_token", family: familyChat, what: "Slack app-level token", expr: `xapp-\d-[A-Z0-9]{8,14}-\d{10,14}-[A-Za-z0-9]{32,70}`,
		hits: []string{"xapp-1-A{uan 10}-{num 13}-{hex 64}"}, misses: []string{"xapp-1-{an 4}"}},
	{id: "slack_webhook", family: familyChat, what: "Slack incoming webhook", expr: `hooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9/_+-]{35,100})`, inside: true,
		hits: []string{"https://hooks.slack.com/services/T{uan 10}/B{uan 10}/{an 24}", "https://hooks.slack.com/workflows/T{uan 10}/A{uan 10}/{num 18}/{an 24}"}, misses: []string{"https://hooks.slack.com/services/T00000000/B00000000/XXXXXXXXXXXXXXXXXXXXXXXX", "https://hooks.slack.com/services/"}},
	{id: "discord_webhook", family: familyChat, what: "Discord webhook", expr: `discord(?:app)?\.com/api/(?:v\d{1,2}/)?webhooks/(\d{17,20}/[\w-]{60,80})`, words: []string{"discord.com/api", "discordapp.com/api"}, inside: true,
		hits: []string{"https://discord.com/api/webhooks/{num 18}/{url 68}", "https://discordapp.com/api/webhooks/{num 18}/{url 68}"}, misses: []string{"https://discord.com/api/webhooks/{num 18}"}},
	{id: "discord_bot_token", family: familyChat, what: "Discord bot token", words: []string{"discord", "bot_token", "bottoken", "bot token"}, within: 50, expr: `[MNO][A-Za-z\d]{23,25}\.[\w-]{6}\.[\w-]{27,38}`,
		hits: []string{"DISCORD_TOKEN=M{an 23}.{an 6}.{url 38}", "discord_token: \"M{an 25}.{an 6}.{url 27}\""}, misses: []string{"discord M{an 5}.{an 6}"}},
	{id: "discord_client_secret", family: familyChat, what: "Discord client secret", words: []string{"discord"}, within: 40, expr: `[\w-]{32}`,
		hits: []string{"DISCORD_CLIENT_SECRET={url 32}"}, misses: []string{"discord {an 12}"}},
	{id: "teams_webhook", family: familyChat, what: "Microsoft Teams webhook", expr: `webhook\.office\.com/webhookb2/(` + exprUUID + `@` + exprUUID + `/IncomingWebhook/[a-zA-Z0-9]{32}/` + exprUUID + `)`, inside: true, words: []string{"webhook.office.com"},
		hits: []string{"https://acme.webhook.office.com/webhookb2/{uuid}@{uuid}/IncomingWebhook/{hex 32}/{uuid}"}, misses: []string{"https://acme.webhook.office.com/webhookb2/{uuid}"}},
	{id: "teams_workflow_webhook", family: familyChat, what: "Power Automate webhook", words: []string{"logic.azure.com", "powerplatform.com"}, place: inToken, look: lookPowerAutomate,
		hits: []string{"https://prod-01.westus.logic.azure.com:443/workflows/{hex 32}/triggers/manual/paths/invoke?api-version=2016-06-01&sp=%2Ftriggers%2Fmanual%2Frun&sv=1.0&sig={an 43}"}, misses: []string{"https://prod-01.westus.logic.azure.com:443/workflows/"}},
	{id: "zapier_webhook", family: familyChat, what: "Zapier webhook", expr: `hooks\.zapier\.com/hooks/catch/(\d{5,12}/[A-Za-z0-9]{5,16})`, inside: true, entropy: 2.2,
		hits: []string{"https://hooks.zapier.com/hooks/catch/{num 7}/{lan 7}/"}, misses: []string{"https://hooks.zapier.com/hooks/catch/"}},
	{id: "google_chat_webhook", family: familyChat, what: "Google Chat webhook", expr: `chat\.googleapis\.com/v1/spaces/([\w-]{8,14}/messages\?key=AIza[\w-]{35}&token=[\w%-]{40,60})`, inside: true,
		hits: []string{"https://chat.googleapis.com/v1/spaces/{an 11}/messages?key=AIza{url 35}&token={url 43}"}, misses: []string{"https://chat.googleapis.com/v1/spaces/AAAA/messages"}},
	{id: "telegram_bot_token", family: familyChat, what: "Telegram bot token", expr: `\d{8,10}:AA[\w-]{32,33}`, words: []string{":AA"},
		hits: []string{"{num 9}:AA{url 33}"}, misses: []string{"{num 4}:AA{url 33}", "12:AA:BB:CC"}},
	{id: "telegram_bot_token", family: familyChat, what: "Telegram bot token, named", words: []string{"telegram", "api.telegram.org/bot", "tg_bot"}, within: 40, expr: `\d{8,10}:[\w-]{35}`,
		hits: []string{"TELEGRAM_BOT_TOKEN={num 10}:{url 35}"}, misses: []string{"telegram {num 9}"}},
	{id: "twilio_api_key", family: familyChat, what: "Twilio API key", expr: `SK[a-f0-9]{32}`,
		hits: []string{"SK{hex 32}"}, misses: []string{"SK{hex 12}"}},
	{id: "twilio_auth_token", family: familyChat, what: "Twilio authentication token", words: []string{"twilio"}, within: 50, expr: `[a-f0-9]{32}`,
		hits: []string{"TWILIO_AUTH_TOKEN={hex 32}"}, misses: []string{"twilio {hex 12}"}},
	{id: "twilio_account_sid", family: familyChat, what: "Twilio account SID, an identifier", expr: `AC[a-f0-9]{32}`, confidence: Info,
		hits: []string{"AC{hex 32}"}, misses: []string{"AC{hex 12}"}},
	{id: "line_messaging_token", family: familyChat, what: "LINE channel access token", words: []string{"line_channel", "channel_access_token", "linebot"}, within: 40, expr: `[A-Za-z0-9+/]{160,180}={0,2}`,
		hits: []string{"LINE_CHANNEL_ACCESS_TOKEN={b64 172}"}, misses: []string{"LINE_CHANNEL {b64 8}"}},
	{id: "mattermost_token", family: familyChat, what: "Mattermost access token", words: []string{"mattermost"}, within: 40, expr: `[a-z0-9]{26}`,
		hits: []string{"MATTERMOST_TOKEN={lan 26}"}, misses: []string{"mattermost {lan 8}"}},
}

// slackDigits asks for the numbers that Slack's tokens begin with, and for the
// letters that they end with.
func slackDigits(secret []byte) outcome {
	if kind := mix(secret[5:]); kind.digits < 4 || kind.lower+kind.upper == 0 || wordy(secret[5:]) > 0.75 {
		return isNone
	}
	return passes
}

// lookPowerAutomate finds the signature of a workflow's address.
func lookPowerAutomate(t *text, r *rule, pos, end int) {
	stop := t.pieceEnd(pos)
	if stop = min(stop, pos+1024); stop-pos < 100 {
		return
	}
	at := bytes.Index(t.b[pos:stop], []byte("sig="))
	if at < 0 {
		return
	}
	from := pos + at + 4
	to := from
	for to < stop && (isWord(t.b[to]) || t.b[to] == '-' || t.b[to] == '%') {
		to++
	}
	if to-from < 40 || placeholder(t.b[from:to]) || entropy(t.b[from:to]) < 3.5 {
		return
	}
	t.add(r, from, to, from, to, Confirmed)
}
