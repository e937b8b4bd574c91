package mcpserver

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"

	"github.com/mark3labs/mcp-go/mcp"
)

// message is what the loop itself has to know of a message.
type message struct {
	id     json.RawMessage // as it was written; nil for none
	method string
	params struct {
		Name      string          `json:"name"`
		RequestID json.RawMessage `json:"requestId"`
	}
	answer bool // to a question of ours
}

// wantsReply distinguishes a request from notifications and answers.
func (m *message) wantsReply() bool { return m.method != "" && m.id != nil }

// parseMessage reads a line. What is no message is answered with an error of
// the protocol under the id of the line, as far as it has one: a client that
// waits for a reply to it should not wait for ever.
func parseMessage(line []byte) (m message, wrong *mcp.JSONRPCError) {
	var v struct {
		JSONRPC, ID, Method, Params, Result, Error json.RawMessage
	}
	if err := json.Unmarshal(line, &v); err != nil {
		var kind *json.UnmarshalTypeError
		if errors.As(err, &kind) {
			return m, problem(nil, mcp.INVALID_REQUEST, "a message must be one JSON object; batches are not supported")
		}
		return m, problem(idAtFront(line), mcp.PARSE_ERROR, "the line is not JSON, or nested too deeply")
	}
	if json.Unmarshal(v.Method, &m.method) != nil && v.Method != nil {
		return m, problem(goodID(v.ID), mcp.INVALID_REQUEST, "method must be a string")
	}
	if m.method == "" && v.ID != nil && (v.Result != nil || v.Error != nil) {
		m.id, m.answer = v.ID, true
		return m, nil
	}
	switch {
	case v.ID != nil && goodID(v.ID) == nil:
		return m, problem(nil, mcp.INVALID_REQUEST, "id must be a string or a number")
	case string(v.JSONRPC) != `"2.0"`:
		return m, problem(v.ID, mcp.INVALID_REQUEST, `jsonrpc must be "2.0"`)
	case m.method == "":
		return m, problem(v.ID, mcp.INVALID_REQUEST, "the message has neither a method nor a result nor an error")
	}
	m.id = v.ID
	json.Unmarshal(v.Params, &m.params) // the library reports params of another type
	return m, nil
}

func problem(id json.RawMessage, code int, text string) *mcp.JSONRPCError {
	e := mcp.NewJSONRPCError(mcp.NewRequestId(nil), code, text, nil)
	if id != nil {
		e.ID = mcp.NewRequestId(id)
	}
	return &e
}

// goodID is an id that a reply can carry, else nil.
func goodID(raw json.RawMessage) json.RawMessage {
	if len(raw) > 0 && (raw[0] == '"' || raw[0] == '-' || raw[0] >= '0' && raw[0] <= '9') && json.Valid(raw) {
		return raw
	}
	return nil
}

// exactly is a reply under the number that the request had: as a number of the
// library it would lose its last digits.
func exactly(id json.RawMessage, reply mcp.JSONRPCMessage) mcp.JSONRPCMessage {
	if id == nil || id[0] == '"' {
		return reply
	}
	switch r := reply.(type) {
	case mcp.JSONRPCResponse:
		r.ID = mcp.NewRequestId(id)
		return r
	case mcp.JSONRPCError:
		r.ID = mcp.NewRequestId(id)
		return r
	}
	return reply
}

// tooLong answers a message of which only the beginning and the end are known.
// Clients write the id into one of them.
func (l *stdioLoop) tooLong(head, tail []byte) {
	id := idAtFront(head)
	if id == nil {
		id = idAtEnd(tail)
	}
	l.write(problem(id, mcp.INVALID_REQUEST, fmt.Sprintf("the message is longer than %d bytes; send the content in smaller parts: create the file with the first one, then use mode append", maxLine)))
}

// idAtFront finds the id of a message that cannot be decoded whole: the one of
// the object itself, not one in its params.
func idAtFront(head []byte) json.RawMessage {
	d := json.NewDecoder(bytes.NewReader(head))
	if t, err := d.Token(); err != nil || t != json.Delim('{') {
		return nil
	}
	for {
		key, err := d.Token()
		if err != nil {
			return nil
		}
		if key == "id" {
			var id json.RawMessage
			if d.Decode(&id) != nil {
				return nil
			}
			return goodID(id)
		}
		if skipValue(d) != nil {
			return nil
		}
	}
}

// skipValue passes over one value, however deep it is.
func skipValue(d *json.Decoder) error {
	for depth := 0; ; {
		t, err := d.Token()
		if err != nil {
			return err
		}
		switch t {
		case json.Delim('{'), json.Delim('['):
			depth++
		case json.Delim('}'), json.Delim(']'):
			if depth--; depth < 0 {
				return io.ErrUnexpectedEOF
			}
		}
		if depth == 0 {
			return nil
		}
	}
}

// lastMember matches an id that is the last member of a message. It matches
// nothing inside a string or a nested object.
var lastMember = regexp.MustCompile(`[{,]\s*"id"\s*:\s*("(?:[^"\\]|\\.)*"|-?[0-9]+)\s*}\s*$`)

func idAtEnd(tail []byte) json.RawMessage {
	if m := lastMember.FindSubmatch(tail); m != nil {
		return goodID(bytes.Clone(m[1]))
	}
	return nil
}
