package mcpserver

import (
	"context"
	"net/http"
	"strconv"
	"sync"

	"github.com/mark3labs/mcp-go/server"
)

// live is the features of a server besides its tools: resources, prompts, completions,
// and notifications.
type live struct {
	host  *host
	ready prepared
	subs  *subscriptions
	sent  onceMessages
	roots rootsSeen
}

// accompany adds all of it to the server.
func (h *host) accompany(s *server.MCPServer, hooks *server.Hooks) {
	l := &live{host: h}
	h.live = l
	l.offerResources(s, hooks)
	l.offerPrompts(s, hooks)
	l.offerCompletions(s)
	l.offerUpdates(s, hooks)
	l.offerLogging(s, hooks)
	l.offerRoots(s, hooks)
	s.Use(l.aroundTools)
}

// prepared passes the results of a hook to the handler of the same request, by a key in
// the header of the request. A header of that name from outside is replaced.
type prepared struct {
	mu   sync.Mutex
	last uint64
	all  map[string]preparation
}

type preparation struct {
	value any
	keep  func() bool // ends what removes it with the request
}

const preparedHeader = "Rw-Prepared"

// put keeps v for as long as the request lasts.
func (p *prepared) put(ctx context.Context, header http.Header, v any) http.Header {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.last++
	key := strconv.FormatUint(p.last, 10)
	if p.all == nil {
		p.all = map[string]preparation{}
	}
	p.all[key] = preparation{v, context.AfterFunc(ctx, func() { p.remove(key) })}
	if header = header.Clone(); header == nil {
		header = http.Header{}
	}
	header.Set(preparedHeader, key)
	return header
}

// take returns and removes a value; nil if there is none.
func (p *prepared) take(header http.Header) any {
	one := p.remove(header.Get(preparedHeader))
	if one.keep != nil {
		one.keep()
	}
	return one.value
}

func (p *prepared) remove(key string) preparation {
	p.mu.Lock()
	defer p.mu.Unlock()
	one := p.all[key]
	delete(p.all, key)
	return one
}
