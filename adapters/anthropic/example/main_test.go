package main

import (
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/anthropics/anthropic-sdk-go"
	"github.com/anthropics/anthropic-sdk-go/option"

	"github.com/resilientwrite/resilientwrite/internal/scripted"
)

// serve returns the API with a scripted model.
func serve(t *testing.T) http.HandlerFunc {
	var m scripted.Model
	return func(w http.ResponseWriter, r *http.Request) {
		var req struct {
			Messages []struct {
				Content []struct {
					Type    string
					ID      string `json:"tool_use_id"`
					IsError bool   `json:"is_error"`
					Content []struct{ Text string }
				}
			}
			Tools []struct {
				Name   string
				Schema json.RawMessage `json:"input_schema"`
			}
		}
		if err := json.NewDecoder(r.Body).Decode(&req); err != nil {
			t.Error(err)
		}
		list := map[string]json.RawMessage{}
		for _, tool := range req.Tools {
			list[tool.Name] = tool.Schema
		}
		if err := scripted.Tools(list); err != nil {
			t.Error(err)
		}
		answer := ""
		if last := req.Messages[len(req.Messages)-1].Content[0]; last.Type == "tool_result" && last.ID != "" {
			answer = last.Content[0].Text
			var said struct{ OK bool }
			if json.Unmarshal([]byte(answer), &said); said.OK == last.IsError {
				t.Errorf("is_error %v: %s", last.IsError, answer)
			}
		}
		next, err := m.Next(answer)
		content, stop := map[string]any{"type": "text", "text": scripted.Done}, "end_turn"
		if next != nil {
			content, stop = map[string]any{"type": "tool_use", "id": next.ID, "name": next.Name, "input": json.RawMessage(next.Arguments)}, "tool_use"
		}
		if err != nil {
			t.Error(err)
			http.Error(w, fmt.Sprint(err), http.StatusBadRequest)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		json.NewEncoder(w).Encode(map[string]any{"type": "message", "role": "assistant", "content": []any{content}, "stop_reason": stop})
	}
}

// TestScriptedModel: the model is refused, repairs its call, and writes.
func TestScriptedModel(t *testing.T) {
	t.Setenv("XDG_STATE_HOME", t.TempDir())
	s := httptest.NewServer(serve(t))
	defer s.Close()
	dir := t.TempDir()
	client := anthropic.NewClient(option.WithBaseURL(s.URL), option.WithAPIKey("none"), option.WithMaxRetries(0))
	text, err := run(t.Context(), client, dir, "scripted", "write deploy.env")
	if err != nil || text != scripted.Done {
		t.Errorf("%q %v", text, err)
	}
	if err := scripted.Check(dir); err != nil {
		t.Error(err)
	}
}
