package mcpserver

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/mark3labs/mcp-go/mcp"
	"github.com/mark3labs/mcp-go/server"

	rw "github.com/resilientwrite/resilientwrite"
)

// withAsk lets the hooks of the host ask the user behind the client, where the
// client can: by an elicitation, which is a request of the server.
func withAsk(ctx context.Context) context.Context {
	session := server.ClientSessionFromContext(ctx)
	info, ok := session.(server.SessionWithClientInfo)
	if !ok || info.GetClientCapabilities().Elicitation == nil {
		return ctx
	}
	if _, ok := session.(server.SessionWithElicitation); !ok {
		return ctx
	}
	return rw.WithAsk(ctx, elicit)
}

// consent is the form that the user fills in.
var consent = map[string]any{
	"type": "object",
	"properties": map[string]any{
		"allow":  map[string]any{"type": "boolean", "title": "Allow it", "description": "Let this change happen."},
		"always": map[string]any{"type": "boolean", "title": "And from now on", "description": "Do not ask again for the same change of the same files.", "default": false},
	},
	"required": []string{"allow"},
}

func elicit(ctx context.Context, _ rw.Operation, question string) (rw.Answer, error) {
	s := server.ServerFromContext(ctx)
	if s == nil {
		return rw.Answer{}, errors.New("no server to ask through")
	}
	var req mcp.ElicitationRequest
	req.Params.Message, req.Params.RequestedSchema = question, consent
	res, err := s.RequestElicitation(ctx, req)
	if err != nil {
		return rw.Answer{}, err
	}
	if res.Action != mcp.ElicitationResponseActionAccept {
		return rw.Answer{}, nil
	}
	var answer struct{ Allow, Always bool }
	data, err := json.Marshal(res.Content)
	if err == nil {
		err = json.Unmarshal(data, &answer)
	}
	return rw.Answer{Allow: answer.Allow, Always: answer.Allow && answer.Always}, err
}

// question is a request of the server that waits for the client.
type question struct {
	reply chan clientReply
}

type clientReply struct {
	Result json.RawMessage `json:"result"`
	Error  *struct {
		Message string `json:"message"`
	} `json:"error"`
}

// RequestElicitation sends the question to the client and waits for the
// answer.
func (s *stdioSession) RequestElicitation(ctx context.Context, req mcp.ElicitationRequest) (*mcp.ElicitationResult, error) {
	s.mu.Lock()
	if s.send == nil {
		s.mu.Unlock()
		return nil, server.ErrElicitationNotSupported
	}
	s.asked++
	id := fmt.Sprintf("rw-ask-%d", s.asked)
	q := &question{reply: make(chan clientReply, 1)}
	s.questions[id] = q
	send := s.send
	s.mu.Unlock()
	defer func() {
		s.mu.Lock()
		delete(s.questions, id)
		s.mu.Unlock()
	}()
	send(map[string]any{"jsonrpc": "2.0", "id": id, "method": mcp.MethodElicitationCreate, "params": req.Params})
	select {
	case r := <-q.reply:
		if r.Error != nil {
			return nil, errors.New("the client could not ask")
		}
		res := new(mcp.ElicitationResult)
		if err := json.Unmarshal(r.Result, res); err != nil {
			return nil, errors.New("the client's answer cannot be read")
		}
		return res, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	case <-s.ended:
		return nil, errors.New("the client is gone")
	}
}

// answered takes a message that answers a question of ours.
func (s *stdioSession) answered(id, raw json.RawMessage) bool {
	var name string
	if json.Unmarshal(id, &name) != nil {
		return false
	}
	s.mu.Lock()
	q := s.questions[name]
	s.mu.Unlock()
	if q == nil {
		return false
	}
	var r clientReply
	if json.Unmarshal(raw, &r) != nil {
		return false
	}
	select {
	case q.reply <- r:
	default: // answered already
	}
	return true
}
