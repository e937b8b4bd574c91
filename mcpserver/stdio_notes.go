package mcpserver

import "github.com/mark3labs/mcp-go/mcp"

// carry writes the messages of the session until stop is called. One goroutine
// handles all of them, so that no message is between the channel and the client
// when drain returns.
func (l *stdioLoop) carry() (stop func()) {
	l.settle = make(chan chan struct{})
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			select {
			case n := <-l.session.notes:
				l.write(n)
			case done, open := <-l.settle:
				if !open {
					return
				}
				l.writeWaiting()
				close(done)
			}
		}
	}()
	return func() { close(l.settle); <-ended }
}

// drain returns when all earlier messages are written.
func (l *stdioLoop) drain() {
	done := make(chan struct{})
	l.settle <- done
	<-done
}

func (l *stdioLoop) writeWaiting() {
	for {
		select {
		case n := <-l.session.notes:
			l.write(n)
		default:
			return
		}
	}
}

// readsMuch reports whether a request that is not a tool call may take long: it
// must not delay later requests, a cancellation least of all.
func readsMuch(method string) bool {
	switch mcp.MCPMethod(method) {
	case mcp.MethodResourcesRead, mcp.MethodPromptsGet, mcp.MethodCompletionComplete:
		return true
	}
	return false
}
