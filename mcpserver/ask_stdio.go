package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"
)

// maxQuestions is how many questions a client may have open.
const maxQuestions = 64

// clientReply is what a client answers to a request of the server.
type clientReply struct {
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// connect gives the session the way to its client.
func (s *stdioSession) connect(send func(any)) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.send = send
}

// RequestElicitation sends a question to the client and waits for the answer.
// Later calls continue meanwhile.
func (s *stdioSession) RequestElicitation(ctx context.Context, req mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	id, reply, err := s.question()
	if err != nil {
		return nil, err
	}
	defer s.forget(id)
	c, _ := ctx.Value(callKey{}).(*call)
	defer c.letPass()()
	s.send(map[string]any{"jsonrpc": mcp.JSONRPC_VERSION, "id": id, "method": mcp.MethodElicitationCreate, "params": req.Params})
	select {
	case r := <-reply:
		if r.Error != nil {
			return nil, errors.New("the client could not ask")
		}
		res := new(mcp.ElicitationResult)
		if err := json.Unmarshal(r.Result, res); err != nil {
			return nil, errors.New("the client's answer cannot be read")
		}
		return res, nil
	case <-ctx.Done():
		// The user need not think about it any more.
		s.send(map[string]any{"jsonrpc": mcp.JSONRPC_VERSION, "method": mcp.MethodNotificationCancelled, "params": map[string]any{
			"requestId": id, "reason": "the call was canceled",
		}})
		return nil, ctx.Err()
	case <-s.ended:
		return nil, errors.New("the client has disconnected")
	}
}

// question opens a question and names it.
func (s *stdioSession) question() (id string, reply chan clientReply, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	switch {
	case s.send == nil:
		return "", nil, server.ErrElicitationNotSupported
	case len(s.questions) >= maxQuestions:
		return "", nil, errors.New("too many questions wait for an answer")
	}
	s.asked++
	id, reply = fmt.Sprintf("rw-ask-%d", s.asked), make(chan clientReply, 1)
	s.questions[id] = reply
	return id, reply, nil
}

func (s *stdioSession) forget(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.questions, id)
}

// answered takes a message that answers a question of ours.
func (s *stdioSession) answered(id, raw json.RawMessage) bool {
	var name string
	if json.Unmarshal(id, &name) != nil {
		return false
	}
	s.mu.Lock()
	reply := s.questions[name]
	s.mu.Unlock()
	if reply == nil {
		return false
	}
	var r clientReply
	if json.Unmarshal(raw, &r) != nil {
		return false
	}
	select {
	case reply <- r:
	default: // answered already
	}
	return true
}
