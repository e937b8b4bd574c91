package scan

import "bytes"

// Tokens and webhooks of chat and messaging services.
var rulesChat = []rule{
	{id: "slack_bot_token", family: familyChat, what: "Slack bot token", expr: `xoxb-[0-9]{9,14}-[0-9]{9,14}-[A-Za-z0-9]{16,34}`},
	{id: "slack_config_token", family: familyChat, what: "Slack configuration token", expr: `xoxe\.xox[bp]-\d-[A-Za-z0-9]{100,200}`},
	{id: "slack_token", family: familyChat, what: "Slack token", expr: `xox[abeoprs]-[A-Za-z0-9-]{24,250}`, words: []string{"xoxa-", "xoxb-", "xoxe-", "xoxo-", "xoxp-", "xoxr-", "xoxs-"}, check: slackDigits},
	{id: "slack_cookie", family: familyChat, what: "Slack session cookie", expr: `xoxd-[A-Za-z0-9%/+=-]{60,400}`},
	{id: "slack_app_token", family: familyChat, what: "Slack app-level token", expr: `xapp-\d-[A-Z0-9]{8,14}-\d{10,14}-[A-Za-z0-9]{32,70}`},
	{id: "slack_webhook", family: familyChat, what: "Slack incoming webhook", expr: `hooks\.slack\.com/(?:services|workflows|triggers)/([A-Za-z0-9/_+-]{35,100})`, inside: true},
	{id: "discord_webhook", family: familyChat, what: "Discord webhook", expr: `discord(?:app)?\.com/api/(?:v\d{1,2}/)?webhooks/(\d{17,20}/[\w-]{60,80})`, words: []string{"discord.com/api", "discordapp.com/api"}, inside: true},
	{id: "discord_bot_token", family: familyChat, what: "Discord bot token", words: []string{"discord", "bot_token", "bottoken", "bot token"}, within: 50, expr: `[MNO][A-Za-z\d]{23,25}\.[\w-]{6}\.[\w-]{27,38}`},
	{id: "discord_client_secret", family: familyChat, what: "Discord client secret", words: []string{"discord"}, within: 40, expr: `[\w-]{32}`},
	{id: "teams_webhook", family: familyChat, what: "Microsoft Teams webhook", expr: `webhook\.office\.com/webhookb2/(` + exprUUID + `@` + exprUUID + `/IncomingWebhook/[a-zA-Z0-9]{32}/` + exprUUID + `)`, inside: true,
		words: []string{"webhook.office.com"}},
	{id: "teams_workflow_webhook", family: familyChat, what: "Power Automate webhook", words: []string{"logic.azure.com", "powerplatform.com"}, place: inToken, look: lookPowerAutomate},
	{id: "zapier_webhook", family: familyChat, what: "Zapier webhook", expr: `hooks\.zapier\.com/hooks/catch/(\d{5,12}/[A-Za-z0-9]{5,16})`, inside: true, entropy: 2.2},
	{id: "google_chat_webhook", family: familyChat, what: "Google Chat webhook", expr: `chat\.googleapis\.com/v1/spaces/([\w-]{8,14}/messages\?key=AIza[\w-]{35}&token=[\w%-]{40,60})`, inside: true},
	{id: "telegram_bot_token", family: familyChat, what: "Telegram bot token", expr: `\d{8,10}:AA[\w-]{32,33}`, words: []string{":AA"}},
	{id: "telegram_bot_token", family: familyChat, what: "Telegram bot token, named", words: []string{"telegram", "api.telegram.org/bot", "tg_bot"}, within: 40, expr: `\d{8,10}:[\w-]{35}`},
	{id: "twilio_api_key", family: familyChat, what: "Twilio API key", expr: `SK[a-f0-9]{32}`, alone: twilioKeyRule},
	{id: "twilio_auth_token", family: familyChat, what: "Twilio authentication token", words: []string{"twilio"}, within: 50, expr: `[a-f0-9]{32}`},
	{id: "twilio_account_sid", family: familyChat, what: "Twilio account SID, an identifier", expr: `AC[a-f0-9]{32}`, confidence: Info, alone: twilioAccountRule},
	{id: "line_messaging_token", family: familyChat, what: "LINE channel access token", words: []string{"line_channel", "channel_access_token", "linebot"}, within: 40, expr: `[A-Za-z0-9+/]{160,180}={0,2}`},
	{id: "mattermost_token", family: familyChat, what: "Mattermost access token", words: []string{"mattermost"}, within: 40, expr: `[a-z0-9]{26}`},
}

// slackDigits asks for the numbers that Slack's tokens begin with, and for the
// letters that they end with.
var slackDigits = made(5, 0.75, func(m *shape) bool { return m.digits > 3 && m.lower+m.upper > 0 })

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
	to := ahead(t.b[:stop], from, stop-from, func(c byte) bool { return isKey(c) || c == '%' })
	if to-from < 40 || placeholder(t.b[from:to]) || measured(t.b[from:to]).entropy < 3.5 {
		return
	}
	t.add(r, from, to, from, to, Confirmed)
}
