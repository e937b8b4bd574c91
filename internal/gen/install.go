package main

import (
	"os"

	"github.com/resilientwrite/resilientwrite/internal/clients"
)

// installDoc is the page about clients: written by hand, but for what the
// table of clients says.
func installDoc() []byte {
	page, err := os.ReadFile("../docs/install.md")
	if err != nil { // a test of this package runs one level below
		page, err = os.ReadFile("../../docs/install.md")
	}
	if err != nil {
		panic(err)
	}
	filled, err := clients.Fill(string(page))
	if err != nil {
		panic(err)
	}
	return []byte(filled)
}
