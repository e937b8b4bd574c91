package transport

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"strings"

	"github.com/mark3labs/mcp-go/mcp"
)

// message is the part of a message that a transport needs.
type message struct {
	JSONRPC json.RawMessage `json:"jsonrpc"`
	ID      json.RawMessage `json:"id"` // as it was written; nil for none
	Method  string          `json:"method"`
	Result  json.RawMessage `json:"result"`
	Error   json.RawMessage `json:"error"`
	Params  struct {
		Name      string          `json:"name"`
		RequestID json.RawMessage `json:"requestId"`
		Meta      struct {
			Version string `json:"io.modelcontextprotocol/protocolVersion"`
		} `json:"_meta"`
	} `json:"params"`
}

// wantsReply distinguishes a request from notifications and answers.
func (m *message) wantsReply() bool {
	return m.Method != "" && len(m.ID) > 0 && string(m.ID) != "null"
}

// isAnswer reports whether it answers a question of ours.
func (m *message) isAnswer() bool {
	return m.Method == "" && m.ID != nil && (m.Result != nil || m.Error != nil)
}

var errNoObject = errors.New("a message must be one JSON object; batches are not supported")

// decode reads what can be read of a message: members of another type are left
// out, and the protocol library reports them.
func decode(doc []byte) (m message, err error) {
	err = json.Unmarshal(doc, &m)
	var kind *json.UnmarshalTypeError
	switch {
	case err != nil && !errors.As(err, &kind):
		return m, err
	case !isObject(doc):
		return m, errNoObject
	}
	return m, nil
}

// parse reads a message. An invalid message is answered with an error of the protocol
// under its id, if it has one: a client that waits for a reply to it should
// not wait for ever.
func parse(line []byte) (m message, wrong *mcp.JSONRPCError) {
	m, err := decode(line)
	switch {
	case errors.Is(err, errNoObject):
		wrong = problem(nil, mcp.INVALID_REQUEST, err.Error())
	case err != nil:
		wrong = problem(idAtFront(line), mcp.PARSE_ERROR, "the message is not JSON, or nested too deeply")
	case m.isAnswer():
	case m.ID != nil && goodID(m.ID) == nil:
		wrong = problem(nil, mcp.INVALID_REQUEST, "id must be a string or a number")
	case string(m.JSONRPC) != `"2.0"`:
		wrong = problem(m.ID, mcp.INVALID_REQUEST, `jsonrpc must be "2.0"`)
	case m.Method == "":
		wrong = problem(m.ID, mcp.INVALID_REQUEST, "the message has neither a result nor an error, nor a method that is a string")
	}
	return m, wrong
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

// idOf is what an id is known by: a number may be written in several ways, and
// is not the text of the same digits.
func idOf(raw json.RawMessage) string {
	var v any
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	if d.Decode(&v) != nil {
		return string(raw)
	}
	if n, ok := v.(json.Number); ok {
		if f, err := n.Float64(); err == nil && strings.ContainsAny(n.String(), ".eE") {
			return strconv.FormatFloat(f, 'f', -1, 64)
		}
		return n.String()
	}
	return fmt.Sprintf("%T %v", v, v)
}
