package main

func Example() {
	main()
	// Output:
	// first agent
	//   left      HANDOFF.md, 0 of its files have changed
	// human
	//   edits     parser.go in an editor
	// second agent
	//   takes     calculator from first agent: Lexer and parser are written, the evaluator is not.
	//   knows     Numbers are decimal, never float64.
	//   can do    eval
	//   looks at  parser.go (hash_mismatch): package calc // the parser, with units
	//   left      HANDOFF.md, the one before is in .resilient_write/handoffs
	//   good      eval.go, lexer.go, parser.go
	//   to do     tests
	//   archived  the handoff of the first agent, read by 1
}
