package main

func Example() {
	main()
	// Output:
	// kept      deploy-log  120 bytes, deduped false
	// kept      incident-7  120 bytes, deduped true
	// refused   incident.md  risk_blocked
	// redacted  1 place, what is left is safe
	// written   incident.md  165 bytes
	// saved     incident-7, comes back to the letter: true
	// found     the token in .resilient_write/scratch
}
