package transport

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/resilientwrite/resilientwrite/internal/testbed"
	"github.com/resilientwrite/resilientwrite/spec"
)

// TestAPanicOfARequestHasAnUnknownEffect: the panic may have come after the
// call, and its value is not repeated.
func TestAPanicOfARequestHasAnUnknownEffect(t *testing.T) {
	h := testbed.Must(testServer().NewHTTP(&HTTPOptions{NoAuth: true}))(t)
	defer h.Shutdown(t.Context())
	answer := httptest.NewRecorder()
	func() {
		w := &guardWriter{ResponseWriter: answer, control: http.NewResponseController(answer)}
		defer h.contain(w)
		panic("the secret content")
	}()
	var m struct {
		Error struct{ Data json.RawMessage }
	}
	json.Unmarshal(answer.Body.Bytes(), &m)
	if err := spec.ValidateEnvelope(m.Error.Data); err != nil {
		t.Fatalf("%v: %s", err, answer.Body)
	}
	var e struct {
		Context struct{ Reason, Effect string }
	}
	json.Unmarshal(m.Error.Data, &e)
	if answer.Code != 500 || e.Context.Reason != "internal_error" || e.Context.Effect != "unknown" || strings.Contains(answer.Body.String(), "secret") {
		t.Errorf("%d %s", answer.Code, answer.Body)
	}
}
