package main

import (
	"os"
	"testing"

	"github.com/resilientwrite/resilientwrite/examples/internal/demo"
)

// The test binary is its own crashing child.
func TestMain(m *testing.M) {
	if !demo.Crashes(crash) {
		os.Exit(m.Run())
	}
}

func Example() {
	main()
	// Output:
	// the project
	//   README.md              uses Calc()
	//   cmd/main.go            uses Calc()
	//   lib/area.go            uses Calc()
	//   lib/legacy.go
	//   lib/round.go
	// refused: tx cmd/main.go: stale precondition: old_string_not_found, effect none
	//   hint: old is not in the file; line 5 is closest (similar text): read the file and copy the text exactly
	// after the refusal
	//   README.md              uses Calc()
	//   cmd/main.go            uses Calc()
	//   lib/area.go            uses Calc()
	//   lib/legacy.go
	//   lib/round.go
	// after the crash
	//   README.md              uses Area()
	//   cmd/main.go            uses Area()
	//   lib/area.go            uses Area()
	//   lib/legacy.go
	//   lib/round.go
	// opened again
	//   finished lib/internal/round.go
	//   finished lib/legacy.go
	// recovered
	//   README.md              uses Area()
	//   cmd/main.go            uses Area()
	//   lib/area.go            uses Area()
	//   lib/internal/round.go
	// the same call again: replayed, journal row 3, 5 results
	// undone: journal row 3, 6 files
	// the project
	//   README.md              uses Calc()
	//   cmd/main.go            uses Calc()
	//   lib/area.go            uses Calc()
	//   lib/legacy.go
	//   lib/round.go
}
