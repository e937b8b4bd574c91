package s3test

import (
	"bytes"
	"context"
	"io"
	"maps"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"regexp"
	"sync"
)

// Fault is what happens to a request in transit.
type Fault int

const (
	Pass       Fault = iota
	DropBefore       // the connection ends, nothing is applied
	DropAfter        // the connection ends, the request is applied
	FailBefore       // the answer is 503, nothing is applied
	FailAfter        // the answer is 500, the request is applied
	Replay           // the request is answered, and applied again later, like a delayed one
	Delay            // the connection ends, the request is applied later: before another one, or in Flush
	Cut              // the answer ends in its middle
	Shuffle          // the entries of a list are reordered and duplicated, if it is the last page
	Twice            // the request is applied twice, and answered by the second one
	Faults           // number of faults
)

// Proxy is a proxy in front of a store. It is safe for concurrent use.
type Proxy struct {
	Next http.Handler
	// Choose selects the fault of a request; nil means Pass.
	Choose func(r *http.Request) Fault

	mu      sync.Mutex
	delayed []func()
}

// Random chooses a fault for one of every n requests. It never chooses Twice: a client cannot
// distinguish it from a refusal if another one replaces the object before the client looks.
func Random(seed uint64, n int) func(*http.Request) Fault {
	var mu sync.Mutex
	rng := rand.New(rand.NewPCG(seed, 1))
	return func(*http.Request) Fault {
		mu.Lock()
		defer mu.Unlock()
		if rng.IntN(n) > 0 {
			return Pass
		}
		return Fault(rng.IntN(int(Twice)))
	}
}

// Flush applies the delayed requests.
func (p *Proxy) Flush() {
	p.mu.Lock()
	list := p.delayed
	p.delayed = nil
	p.mu.Unlock()
	for _, apply := range list {
		apply()
	}
}

func (p *Proxy) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(r.Body)
	if err != nil {
		panic(http.ErrAbortHandler)
	}
	pass := func() *httptest.ResponseRecorder {
		again := r.Clone(context.WithoutCancel(r.Context()))
		again.Body = io.NopCloser(bytes.NewReader(body))
		out := httptest.NewRecorder()
		p.Next.ServeHTTP(out, again)
		return out
	}
	fault := Pass
	if p.Choose != nil {
		fault = p.Choose(r)
	}
	later := func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.delayed = append(p.delayed, func() { pass() })
	}
	if fault == Delay {
		later()
		panic(http.ErrAbortHandler)
	}
	if p.Choose != nil && len(body)%3 == 0 { // some requests overtake the delayed ones
		p.Flush()
	}
	switch fault {
	case DropBefore:
		panic(http.ErrAbortHandler)
	case FailBefore:
		fail(w, http.StatusServiceUnavailable, "SlowDown")
		return
	case DropAfter:
		pass()
		panic(http.ErrAbortHandler)
	case FailAfter:
		pass()
		fail(w, http.StatusInternalServerError, "InternalError")
		return
	case Twice:
		pass()
	case Replay:
		defer later()
	}
	out := pass()
	data := out.Body.Bytes()
	if fault == Shuffle {
		data = shuffle(data)
		out.Header().Del("Content-Length")
	}
	maps.Copy(w.Header(), out.Header())
	if fault == Cut {
		w.Header().Set("Content-Length", "1000000")
		w.WriteHeader(out.Code)
		w.Write(data[:len(data)/2])
		panic(http.ErrAbortHandler)
	}
	w.WriteHeader(out.Code)
	w.Write(data)
}

var entry = regexp.MustCompile(`<Contents>.*?</Contents>`)

func shuffle(list []byte) []byte {
	if !bytes.Contains(list, []byte("<IsTruncated>false")) {
		return list
	}
	all := entry.FindAll(list, -1)
	rand.Shuffle(len(all), func(i, j int) { all[i], all[j] = all[j], all[i] })
	n := 0
	return entry.ReplaceAllFunc(list, func([]byte) []byte {
		n++
		return append(append([]byte(nil), all[n-1]...), all[0]...)
	})
}
