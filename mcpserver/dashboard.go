package mcpserver

import (
	"cmp"
	"context"
	"errors"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/mcpserver/internal/dashboard"
	"github.com/resilientwrite/resilientwrite/mcpserver/internal/transport"
)

// Dashboard is a live view of a store in a browser: the running calls of all processes,
// unfinished work, refusals with their reasons, and changes with diffs. It shows no
// secrets and no absolute paths.
type Dashboard struct {
	// Open opens the store to look at it, read-only. Each look closes it again.
	Open func(context.Context) (*rw.Store, error)
	// Undo undoes the commit that a person has chosen and confirmed. nil:
	// nothing can be undone.
	Undo *rw.Store
	// State is the state directory of the store.
	State string
}

// dashboardStreams is how many pages may be open at a time.
const dashboardStreams = 16

// NewDashboard serves a dashboard: the page at /, whose address needs the token as its
// fragment, and the requests of the page, with the token in a header. The checks of
// Host, Origin and token are those of [NewHTTP], and the token is required:
// [HTTPOptions.NoAuth] is refused. [HTTPServer.Serve] accepts loopback addresses only.
func NewDashboard(d Dashboard, opts *HTTPOptions) (*HTTPServer, error) {
	o := HTTPOptions{}
	if opts != nil {
		o = *opts
	}
	if o.NoAuth {
		return nil, errors.New("a dashboard needs a token")
	}
	o.BasePath = "" // the page is at /
	o.MaxStreams = cmp.Or(o.MaxStreams, dashboardStreams)
	h, err := transport.NewPages(dashboard.Dashboard(d).Pages(), (*transport.HTTPOptions)(&o))
	if err != nil {
		return nil, err
	}
	return &HTTPServer{h}, nil
}
