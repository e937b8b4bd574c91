package main

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
)

// turn is a request of a host to its model, independent of the protocol: the
// tools that are offered, and the results of the calls that the model has made
// so far.
type turn struct {
	tools   []tool
	results []string
	stream  bool
}

// tool is one tool of a request. Codex puts the tools of a server in a
// namespace.
type tool struct{ namespace, name string }

// answer is the reply of the model: a call, or the end.
type answer struct {
	tool tool
	args map[string]any // nil: no call
	text string
}

// model answers like the four kinds of model service that hosts support. It
// decides nothing: say does.
type model struct {
	mu       sync.Mutex
	say      func(turn) answer
	log      io.Writer // every request, for the analysis of a failure
	url      string
	unknown  []string // paths of requests that it cannot answer
	calls    int
	phrase   []byte // of the instructions
	informed bool   // a request contained it
}

// serve starts the model on the loopback address.
func serve(log io.Writer) (*model, error) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	m := &model{log: log, url: "http://" + l.Addr().String()}
	go http.Serve(l, m)
	return m, nil
}

// script changes the replies of the model.
func (m *model) script(say func(turn) answer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.say = say
}

func (m *model) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, _ := io.ReadAll(r.Body)
	m.mu.Lock()
	defer m.mu.Unlock()
	fmt.Fprintf(m.log, "%s %s\n%s\n", r.Method, r.URL, body)
	m.informed = m.informed || bytes.Contains(body, m.phrase)
	var d doc
	json.Unmarshal(body, &d.v)
	switch path := r.URL.Path; {
	case r.Method == http.MethodPost && strings.HasSuffix(path, "/messages"):
		m.anthropic(w, d)
	case r.Method == http.MethodPost && strings.HasSuffix(path, "/count_tokens"):
		send(w, obj{"input_tokens": 10})
	case r.Method == http.MethodPost && strings.HasSuffix(path, "/chat/completions"):
		m.completions(w, d)
	case r.Method == http.MethodPost && strings.HasSuffix(path, "/responses"):
		m.responses(w, d)
	case strings.Contains(path, "enerateContent"):
		m.gemini(w, d, strings.Contains(path, "stream"))
	case strings.HasSuffix(path, "/models"):
		send(w, obj{"object": "list", "data": []obj{{"id": "scripted", "object": "model"}}, "models": []obj{}})
	default:
		m.unknown = append(m.unknown, r.Method+" "+path)
		http.NotFound(w, r)
	}
}

// next returns the next reply of the model. A request that offers no tools
// wants a title or a summary.
func (m *model) next(t turn) (answer, string) {
	if len(t.tools) == 0 || m.say == nil {
		return answer{text: "ok"}, ""
	}
	m.calls++
	a := m.say(t)
	fmt.Fprintf(m.log, "=> %+v\n", a)
	return a, fmt.Sprintf("call_%04d", m.calls)
}

type obj = map[string]any

func send(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	json.NewEncoder(w).Encode(v)
}

// event sends one server-sent event.
func event(w http.ResponseWriter, name string, v any) {
	w.Header().Set("Content-Type", "text/event-stream")
	data, _ := json.Marshal(v)
	if name != "" {
		fmt.Fprintf(w, "event: %s\n", name)
	}
	fmt.Fprintf(w, "data: %s\n\n", data)
}

// doc is any JSON, decoded without a type for each protocol.
type doc struct{ v any }

func (d doc) get(key string) doc { m, _ := d.v.(obj); return doc{m[key]} }
func (d doc) text() string       { s, _ := d.v.(string); return s }
func (d doc) list() (out []doc) {
	l, _ := d.v.([]any)
	for _, v := range l {
		out = append(out, doc{v})
	}
	return out
}

// words returns all the text below a value: what a model would read of a
// result.
func (d doc) words() string {
	switch v := d.v.(type) {
	case string:
		return v
	case []any:
		var out []string
		for _, one := range v {
			out = append(out, doc{one}.words())
		}
		return strings.Join(out, "\n")
	case obj:
		for _, key := range []string{"text", "content", "output", "response"} {
			if v[key] != nil {
				return doc{v[key]}.words()
			}
		}
		data, _ := json.Marshal(v)
		return string(data)
	}
	return ""
}

// anthropic serves POST /v1/messages.
func (m *model) anthropic(w http.ResponseWriter, d doc) {
	var t turn
	for _, one := range d.get("tools").list() {
		t.tools = append(t.tools, tool{"", one.get("name").text()})
	}
	for _, msg := range d.get("messages").list() {
		for _, part := range msg.get("content").list() {
			if part.get("type").text() == "tool_result" {
				t.results = append(t.results, part.get("content").words())
			}
		}
	}
	a, id := m.next(t)
	block, delta, reason := obj{"type": "text", "text": ""}, obj{"type": "text_delta", "text": a.text}, "end_turn"
	if a.args != nil {
		args, _ := json.Marshal(a.args)
		block = obj{"type": "tool_use", "id": "toolu_" + id, "name": a.tool.name, "input": obj{}}
		delta, reason = obj{"type": "input_json_delta", "partial_json": string(args)}, "tool_use"
	}
	usage := obj{"input_tokens": 10, "output_tokens": 10}
	head := obj{"id": "msg_" + id, "type": "message", "role": "assistant", "model": d.get("model").v, "content": []obj{}, "stop_reason": nil, "usage": usage}
	if d.get("stream").v != true {
		block["text"], block["input"] = a.text, a.args
		head["content"], head["stop_reason"] = []obj{block}, reason
		send(w, head)
		return
	}
	for _, e := range []obj{
		{"type": "message_start", "message": head},
		{"type": "content_block_start", "index": 0, "content_block": block},
		{"type": "content_block_delta", "index": 0, "delta": delta},
		{"type": "content_block_stop", "index": 0},
		{"type": "message_delta", "delta": obj{"stop_reason": reason}, "usage": usage},
		{"type": "message_stop"},
	} {
		event(w, e["type"].(string), e)
	}
}

// completions serves POST /v1/chat/completions.
func (m *model) completions(w http.ResponseWriter, d doc) {
	var t turn
	for _, one := range d.get("tools").list() {
		t.tools = append(t.tools, tool{"", one.get("function").get("name").text()})
	}
	for _, msg := range d.get("messages").list() {
		if msg.get("role").text() == "tool" {
			t.results = append(t.results, msg.get("content").words())
		}
	}
	a, id := m.next(t)
	message, reason := obj{"role": "assistant", "content": a.text}, "stop"
	if a.args != nil {
		args, _ := json.Marshal(a.args)
		call := obj{"index": 0, "id": id, "type": "function", "function": obj{"name": a.tool.name, "arguments": string(args)}}
		message, reason = obj{"role": "assistant", "content": nil, "tool_calls": []obj{call}}, "tool_calls"
	}
	usage := obj{"prompt_tokens": 10, "completion_tokens": 10, "total_tokens": 20}
	chunk := func(kind, key string, message obj, reason any) obj {
		return obj{"id": "chat" + id, "object": kind, "created": 1, "model": d.get("model").v,
			"choices": []obj{{"index": 0, key: message, "finish_reason": reason}}}
	}
	if d.get("stream").v != true {
		whole := chunk("chat.completion", "message", message, reason)
		whole["usage"] = usage
		send(w, whole)
		return
	}
	event(w, "", chunk("chat.completion.chunk", "delta", message, nil))
	last := chunk("chat.completion.chunk", "delta", obj{}, reason)
	event(w, "", last)
	last["choices"], last["usage"] = []obj{}, usage
	event(w, "", last)
	fmt.Fprint(w, "data: [DONE]\n\n")
}

// responses serves POST /v1/responses.
func (m *model) responses(w http.ResponseWriter, d doc) {
	var t turn
	for _, one := range d.get("tools").list() {
		name := one.get("name").text()
		if inner := one.get("tools").list(); inner != nil {
			for _, part := range inner {
				t.tools = append(t.tools, tool{name, part.get("name").text()})
			}
			continue
		}
		t.tools = append(t.tools, tool{"", name})
	}
	for _, item := range d.get("input").list() {
		if kind := item.get("type").text(); strings.HasSuffix(kind, "call_output") || strings.HasSuffix(kind, "search_output") {
			t.results = append(t.results, item.get("output").words())
		}
	}
	a, id := m.next(t)
	item := obj{"type": "message", "id": "msg_" + id, "role": "assistant", "status": "completed", "content": []obj{{"type": "output_text", "text": a.text, "annotations": []any{}}}}
	if a.args != nil {
		args, _ := json.Marshal(a.args)
		item = obj{"type": "function_call", "id": "fc_" + id, "call_id": id, "name": a.tool.name, "arguments": string(args), "status": "completed"}
		if a.tool.namespace != "" {
			item["namespace"] = a.tool.namespace
		}
	}
	head := obj{"id": "resp_" + id, "object": "response", "created_at": 1, "status": "in_progress", "model": d.get("model").v, "output": []obj{}}
	done := obj{"id": "resp_" + id, "object": "response", "created_at": 1, "status": "completed", "model": d.get("model").v, "output": []obj{item},
		"usage": obj{"input_tokens": 10, "output_tokens": 10, "total_tokens": 20, "input_tokens_details": obj{"cached_tokens": 0}, "output_tokens_details": obj{"reasoning_tokens": 0}}}
	if d.get("stream").v != true {
		send(w, done)
		return
	}
	for i, e := range []obj{
		{"type": "response.created", "response": head},
		{"type": "response.output_item.added", "output_index": 0, "item": item},
		{"type": "response.output_item.done", "output_index": 0, "item": item},
		{"type": "response.completed", "response": done},
	} {
		e["sequence_number"] = i
		event(w, e["type"].(string), e)
	}
}

// gemini serves POST /v1beta/models/MODEL:generateContent, and
// streamGenerateContent.
func (m *model) gemini(w http.ResponseWriter, d doc, stream bool) {
	var t turn
	for _, group := range d.get("tools").list() {
		for _, one := range group.get("functionDeclarations").list() {
			t.tools = append(t.tools, tool{"", one.get("name").text()})
		}
	}
	for _, msg := range d.get("contents").list() {
		for _, part := range msg.get("parts").list() {
			if r := part.get("functionResponse"); r.v != nil {
				t.results = append(t.results, r.get("response").words())
			}
		}
	}
	a, id := m.next(t)
	part := obj{"text": a.text}
	if a.args != nil {
		part = obj{"functionCall": obj{"id": id, "name": a.tool.name, "args": a.args}}
	}
	out := obj{
		"candidates":    []obj{{"index": 0, "content": obj{"role": "model", "parts": []obj{part}}, "finishReason": "STOP"}},
		"usageMetadata": obj{"promptTokenCount": 10, "candidatesTokenCount": 10, "totalTokenCount": 20}, "modelVersion": "scripted",
	}
	if stream {
		event(w, "", out)
		return
	}
	send(w, out)
}

// find looks for one of our tools among those that a host offers: hosts put a
// prefix before the name.
func (t turn) find(name string) (tool, bool) {
	i := slices.IndexFunc(t.tools, func(one tool) bool { return strings.HasSuffix(one.name, name) })
	if i < 0 {
		return tool{}, false
	}
	return t.tools[i], true
}
