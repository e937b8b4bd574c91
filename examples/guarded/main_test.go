package main

func Example() {
	main()
	// Output:
	// an agent that reads
	//   refused   risk_blocked, suggested action redact, retry budget 2, line 2: github_pat ghp_… (confirmed)
	//             hint: the draft contains what looks like github_pat; call Store.Redact with draft_ref and write the result, or ask the user
	//   redacted  1 place of the draft, what is left is safe
	//   written   deploy.env  61 bytes
	//   found     GITHUB_TOKEN={GHP-REDACTED} in workspace
	//   found     the secret in workspace/.resilient_write/quarantine
	// an agent that does not
	//   refused   risk_blocked, suggested action redact, retry budget 2, line 2: github_pat ghp_… (confirmed)
	//   refused   risk_blocked, suggested action redact, retry budget 1, line 2: github_pat ghp_… (confirmed)
	//   refused   risk_blocked, suggested action redact, retry budget 0, line 2: github_pat ghp_… (confirmed)
	//   refused   retry_exhausted, suggested action ask_user, retry budget 0
	//             hint: this call failed 3 times with risk_blocked and was not tried again; the draft contains what looks like a secret; redact it and send the result. Change the call, or ask the user
	//             journaled: false
	//   reset     by a human
	//   refused   risk_blocked, suggested action redact, retry budget 2, line 2: github_pat ghp_… (confirmed)
	// a human who knows better
	//   written   deploy.env  87 bytes
	//   journal   1  create deploy.env by guarded, risk accepted: synthetic token for the tests of the scanner
}
