package main

import (
	"os"

	"github.com/resilientwrite/resilientwrite/internal/clients"
)

// installDoc returns the page about clients. It is written by hand, except for the
// content of the table of clients.
func installDoc() []byte {
	page := written("docs/install.md")
	filled, err := clients.Fill(string(page))
	if err != nil {
		panic(err)
	}
	return []byte(filled)
}

// written is a file that is written by hand, but for a part.
func written(name string) []byte {
	page, err := os.ReadFile("../" + name)
	if err != nil { // a test of this package runs one level below
		page, err = os.ReadFile("../../" + name)
	}
	return must(page, err)
}
