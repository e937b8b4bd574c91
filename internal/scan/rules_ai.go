package scan

import "bytes"

// Keys of model vendors and of the services around them.
var rulesAI = []rule{
	{id: "anthropic_oat", family: familyAPIKey, what: "Anthropic OAuth token", expr: `sk-ant-o[ar]t\d\d-[\w-]{80,128}`},
	{id: "anthropic_api", family: familyAPIKey, what: "Anthropic API or admin key", expr: `sk-ant-(?:api|admin|sid)\d\d-[\w-]{80,128}`},
	{id: "anthropic_key", family: familyAPIKey, what: "Anthropic key of unknown length", expr: `sk-ant-[a-z]{2,8}\d{0,2}-[\w-]{32,}`, confidence: Likely},
	{id: "openrouter_key", family: familyAI, what: "OpenRouter API key", expr: `sk-or-v1-[a-f0-9]{64}`},
	{id: "langfuse_secret_key", family: familyAI, what: "Langfuse secret key", expr: `sk-lf-[a-f0-9]{8}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{4}-[a-f0-9]{12}`},
	{id: "openai_project_key", family: familyAPIKey, what: "OpenAI project, service account or admin key", expr: `sk-(?:proj|svcacct|service|admin|None)-[\w-]{20,180}T3BlbkFJ[\w-]{20,180}`, starts: true, place: inToken,
		look: lookMarked},
	{id: "openai_key", family: familyAPIKey, what: "OpenAI API key", expr: `sk-[A-Za-z0-9]{20}T3BlbkFJ[A-Za-z0-9]{20}`},
	{id: "openai_key", family: familyAPIKey, what: "OpenAI style API key", expr: `sk-[A-Za-z0-9]{48}`},
	{id: "deepseek_key", family: familyAI, what: "DeepSeek API key, and others of this form", expr: `sk-[a-f0-9]{32}`},
	{id: "litellm_key", family: familyAI, what: "Key of a model proxy", expr: `sk-[\w]{22}`, confidence: Likely, check: mixedCase},
	{id: "google_api_key", family: familyCloud, what: "Google API key", expr: `AIza[\w-]{35}`},
	{id: "huggingface_token", family: familyAI, what: "Hugging Face access token", expr: `hf_[A-Za-z0-9]{34}`},
	{id: "huggingface_org_token", family: familyAI, what: "Hugging Face organization token", expr: `api_org_[A-Za-z0-9]{34}`},
	{id: "groq_key", family: familyAI, what: "Groq API key", expr: `gsk_[A-Za-z0-9]{52}`},
	{id: "xai_key", family: familyAI, what: "xAI API key", expr: `xai-[A-Za-z0-9_]{70,90}`},
	{id: "replicate_token", family: familyAI, what: "Replicate API token", expr: `r8_[\w-]{37}`},
	{id: "perplexity_key", family: familyAI, what: "Perplexity API key", expr: `pplx-[A-Za-z0-9]{48}`},
	{id: "nvidia_key", family: familyAI, what: "NVIDIA API key", expr: `nvapi-[\w-]{60,70}`},
	{id: "pinecone_key", family: familyAI, what: "Pinecone API key", expr: `pcsk_[A-Za-z0-9]{5,6}_[A-Za-z0-9]{63}`},
	{id: "together_key", family: familyAI, what: "Together API key", expr: `tgp_v1_[\w-]{43}`},
	{id: "langsmith_key", family: familyAI, what: "LangSmith API key", expr: `lsv2_(?:pt|sk)_[a-f0-9]{32}_[a-f0-9]{10}`},
	{id: "langsmith_old_key", family: familyAI, what: "LangSmith API key, old form", expr: `ls__[a-f0-9]{32}`},
	{id: "tavily_key", family: familyAI, what: "Tavily API key", expr: `tvly-(?:dev-|prod-)?[A-Za-z0-9-]{28,56}`},
	{id: "llamacloud_key", family: familyAI, what: "LlamaCloud API key", expr: `llx-[A-Za-z0-9]{48}`},
	{id: "elevenlabs_key", family: familyAI, what: "ElevenLabs API key", expr: `sk_[a-f0-9]{48}`},
	{id: "fireworks_key", family: familyAI, what: "Fireworks AI API key", expr: `fw_[A-Za-z0-9]{22,26}`, check: mixedCase},
	{id: "cerebras_key", family: familyAI, what: "Cerebras API key", expr: `csk-[a-z0-9]{48}`},
	{id: "jina_key", family: familyAI, what: "Jina AI key", expr: `jina_[a-f0-9]{32}[\w-]{28}`},
	{id: "voyage_key", family: familyAI, what: "Voyage AI key", words: []string{"voyage"}, within: 40, expr: `pa-[\w-]{43}`},
	{id: "e2b_key", family: familyAI, what: "E2B API key", expr: `e2b_[a-f0-9]{40}`},
	{id: "firecrawl_key", family: familyAI, what: "Firecrawl API key", words: []string{"fc-"}, expr: `fc-[a-f0-9]{32}`},
	{id: "anyscale_key", family: familyAI, what: "Anyscale API key", expr: `esecret_[A-Za-z0-9]{20,64}`},
	{id: "google_vertex_key", family: familyCloud, what: "Google API key of an AI service", expr: `AQ\.Ab8R[\w-]{40,60}`},
	{id: "cursor_key", family: familyAI, what: "Cursor API key", words: []string{"cursor"}, within: 30, expr: `key_[a-f0-9]{64}`},
}

// mixedCase is a check for short prefixes: words follow them too, so the
// secret must hold digits and letters of both cases without being a word.
var mixedCase = made(3, 0.7, func(m *shape) bool { return m.digits > 0 && m.lower > 1 && m.upper > 1 })

// lookMarked finds keys that hold a marker at a place that varies.
func lookMarked(t *text, r *rule, pos, end int) {
	if !t.begins(pos) {
		return
	}
	i := ahead(t.b, pos+len("sk-"), 9, letter)
	switch string(t.b[pos+3 : i]) {
	case "proj", "svcacct", "service", "admin", "None":
	default:
		return
	}
	if i >= len(t.b) || t.b[i] != '-' {
		return
	}
	if pos < t.marked {
		return // within the one before
	}
	word := r.x.firstClass()
	n := t.run(word, i+1, 400)
	if n < 40 || !t.ends(i+1+n) || indexOf(t.b[i+1:i+1+n], "T3BlbkFJ") < 0 {
		if !t.spaced {
			r.markedOverLines(t, pos)
		}
	}
	if n < 40 || !t.ends(i+1+n) {
		return
	}
	t.marked = i + 1 + n
	c := Likely
	secret := t.b[i+1 : i+1+n]
	if at := indexOf(secret, "T3BlbkFJ"); at >= 20 && len(secret)-at >= 28 {
		c = Confirmed
	}
	if s := measured(secret); placeholder(secret) || s.entropy < 3.5 || s.wordy() > 0.8 {
		return
	}
	t.add(r, pos, i+1+n, pos, i+1+n, c)
}

// markedOverLines tries the same with the line ends taken out.
func (r *rule) markedOverLines(t *text, pos int) {
	stop := t.pieceEnd(pos)
	if stop-pos < 12 || stop-pos > r.x.most || t.nextLineBegins(stop, "sk-") || !lineBreak(t.b, stop) {
		return
	}
	r.overBreaks(t, pos, unbounded, func(inner *text) bool {
		lookMarked(inner, r, 0, 3)
		return false
	})
}

func indexOf(b []byte, s string) int { return bytes.Index(b, []byte(s)) }
