package resilientwrite

// Call is what a call that changes something says about itself.
type Call struct {
	// Who is asking; recorded in the journal.
	Caller string `json:"caller,omitempty" maxlen:"200"`
	// Name of the working session; recorded in the journal.
	Session string `json:"session,omitempty" maxlen:"200"`
	// Idempotency key. Send the same key again after a lost reply: the change is
	// made once and the first reply is returned.
	IdempotencyKey string `json:"idempotency_key,omitempty" maxlen:"200"`
	// Check everything and report what would be done, such as the hash and a
	// diff, but change nothing.
	DryRun bool `json:"dry_run,omitempty"`
	// Justification for writing flagged content; recorded in the journal. The
	// policy decides whether it is accepted.
	AcceptRisk string `json:"accept_risk,omitempty" maxlen:"500"`
}
