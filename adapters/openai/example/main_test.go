package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/option"

	"github.com/resilientwrite/resilientwrite/internal/scripted"
)

// serve returns the API with a scripted model.
func serve(t *testing.T) http.HandlerFunc {
	var m scripted.Model
	return func(w http.ResponseWriter, r *http.Request) {
		var req struct {
			Messages []struct {
				Role, Content string
				ID            string `json:"tool_call_id"`
			}
			Tools []struct {
				Function struct {
					Name       string
					Parameters json.RawMessage
				}
			}
		}
		if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
			t.Error(err)
		}
		list := map[string]json.RawMessage{}
		for _, tool := range req.Tools {
			list[tool.Function.Name] = tool.Function.Parameters
		}
		if err := scripted.Tools(list); err != nil {
			t.Error(err)
		}
		answer := ""
		if last := req.Messages[len(req.Messages)-1]; last.Role == "tool" && last.ID != "" {
			answer = last.Content
		}
		next, err := m.Next(answer)
		message := map[string]any{"role": "assistant", "content": scripted.Done}
		if next != nil {
			function := map[string]any{"name": next.Name, "arguments": next.Arguments}
			message = map[string]any{"role": "assistant", "tool_calls": []any{map[string]any{"id": next.ID, "type": "function", "function": function}}}
		}
		if err != nil {
			t.Error(err)
			http.Error(w, fmt.Sprint(err), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(map[string]any{"object": "chat.completion", "choices": []any{map[string]any{"message": message}}})
	}
}

// TestScriptedModel: the model is refused, repairs its call, and writes.
func TestScriptedModel(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	s := httptest.NewServer(serve(t))
	defer s.Close()
	dir := t.TempDir()
	client := openai.NewClient(option.WithBaseURL(s.URL), option.WithAPIKey("none"), option.WithMaxRetries(0))
	text, err := run(t.Context(), client, dir, "scripted", "write deploy.env")
	if err != nil || text != scripted.Done {
		t.Errorf("%q %v", text, err)
	}
	if err := scripted.Check(dir); err != nil {
		t.Error(err)
	}
}
