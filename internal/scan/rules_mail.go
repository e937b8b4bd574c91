package scan

// Keys of services that send mail.
var rulesMail = []rule{
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
}
