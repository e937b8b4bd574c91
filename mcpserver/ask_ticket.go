package mcpserver

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"encoding/json"
	"strings"
	"sync"
	"time"

	"github.com/resilientwrite/resilientwrite/hook"
)

// When the client puts the questions to the user, it holds them between the two calls.
// Their request state is a ticket: it proves that this server asked exactly these
// questions recently, and can be used once. An answer without a ticket, or with that of
// another question, is ignored, and the user is asked again. The ticket contains no
// decision and no secret.

const (
	ticketAge   = time.Hour
	ticketSpent = 4096 // used tickets that are remembered
	ticketForm  = "rw1."
	nonceBytes  = 16
	maxTicket   = 16 << 10 // bytes of a request state that are read
)

// subject identifies the content of a question: the call with all its arguments, the
// changes that it would make to which files, and the text.
type subject [sha256.Size]byte

func subjectOf(op hook.Call, text string) subject {
	type change struct {
		Op, Path, RealPath, From, RealFrom string
		Exists                             bool
	}
	about := struct {
		Verb, Request, Caller, Session, Text string
		Changes                              []change
	}{Verb: op.Verb, Request: op.Request, Caller: op.Caller, Session: op.Session, Text: text}
	for _, ch := range op.Changes {
		about.Changes = append(about.Changes, change{ch.Op, ch.Path, ch.RealPath, ch.From, ch.RealFrom, ch.Exists})
	}
	data, err := json.Marshal(about)
	if err != nil { // strings and booleans
		panic(err)
	}
	return sha256.Sum256(data)
}

// ticket is a request state.
type ticket struct {
	nonce   [nonceBytes]byte
	expires int64 // seconds since 1970
	asked   []subject
	reign   int // of the key that signed it
}

// office issues and redeems tickets.
type office struct {
	now func() time.Time

	mu    sync.Mutex
	key   []byte // of this process; nil until it is needed
	reign int    // which key of the process it is
	spent map[[nonceBytes]byte]int64
}

// tickets is one for the process: a host may make a server for each
// connection, and the second call may come over another one.
var tickets = &office{now: time.Now}

// sign returns the proof of data. The caller holds the lock.
func (o *office) sign(data []byte) []byte {
	if o.key == nil {
		o.key = make([]byte, 32)
		rand.Read(o.key)
	}
	mac := hmac.New(sha256.New, o.key)
	mac.Write(data)
	return mac.Sum(nil)
}

// issue makes the request state for some questions.
func (o *office) issue(about []subject) string {
	data := make([]byte, nonceBytes, nonceBytes+8+len(about)*sha256.Size)
	rand.Read(data)
	data = binary.BigEndian.AppendUint64(data, uint64(o.now().Add(ticketAge).Unix()))
	for _, s := range about {
		data = append(data, s[:]...)
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	return ticketForm + base64.RawURLEncoding.EncodeToString(append(data, o.sign(data)...))
}

// parse reads a request state. It is false for one that is not ours or too
// old.
func (o *office) parse(state string) (*ticket, bool) {
	text, ok := strings.CutPrefix(state, ticketForm)
	if !ok || len(text) > maxTicket {
		return nil, false
	}
	data, err := base64.RawURLEncoding.Strict().DecodeString(text)
	if err != nil || len(data) < nonceBytes+8+sha256.Size || (len(data)-nonceBytes-8)%sha256.Size != 0 {
		return nil, false
	}
	data, mac := data[:len(data)-sha256.Size], data[len(data)-sha256.Size:]
	o.mu.Lock()
	proof, reign := o.sign(data), o.reign
	o.mu.Unlock()
	if !hmac.Equal(mac, proof) {
		return nil, false
	}
	t := &ticket{nonce: [nonceBytes]byte(data), expires: int64(binary.BigEndian.Uint64(data[nonceBytes:])), reign: reign}
	for rest := data[nonceBytes+8:]; len(rest) > 0; rest = rest[sha256.Size:] {
		t.asked = append(t.asked, subject(rest))
	}
	return t, o.now().Unix() < t.expires
}

// redeem uses a ticket up. It is false for one that was used before.
func (o *office) redeem(t *ticket) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if _, used := o.spent[t.nonce]; used || t.reign != o.reign {
		return false
	}
	now := o.now().Unix()
	if len(o.spent) >= ticketSpent {
		for nonce, expires := range o.spent {
			if expires <= now {
				delete(o.spent, nonce)
			}
		}
	}
	if len(o.spent) >= ticketSpent {
		// A ticket that cannot be remembered must not be valid: with another key,
		// pending questions are asked again.
		o.key, o.spent = nil, nil
		o.reign++
	}
	if o.spent == nil {
		o.spent = map[[nonceBytes]byte]int64{}
	}
	o.spent[t.nonce] = t.expires
	return true
}
