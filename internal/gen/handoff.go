package main

import (
	"bytes"
	"encoding/json"
	"reflect"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/schema"
)

// handoffSchema is the envelope of a handoff, for those who write or check
// handoffs without this module.
func handoffSchema() []byte {
	body := schema.Input(reflect.TypeFor[rw.HandoffEnvelope]())
	head := []byte(`{"$schema":"http://json-schema.org/draft-07/schema#","title":"resilientwrite handoff envelope",`)
	var b bytes.Buffer
	if err := json.Indent(&b, append(head, body[1:]...), "", "  "); err != nil {
		panic(err)
	}
	b.WriteByte('\n')
	return b.Bytes()
}
