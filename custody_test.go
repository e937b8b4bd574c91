package resilientwrite_test

import (
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
)

// TestCustody checks who may own and write the state directory and its content.
func TestCustody(t *testing.T) {
	t.Parallel()
	if runtime.GOOS == "windows" {
		t.Skip("there are no owners")
	}
	const state = ".resilient_write"
	for _, row := range []struct {
		name    string
		self    int
		root    int // owner of the workspace
		at      string
		owner   int
		mode    uint32
		noChmod bool
		want    string // detail of the error
		warning string
		after   uint32 // mode
	}{
		{"ours", 1000, 1000, state, 1000, 0o700, false, "", "", 0o700},
		{"ours, readable", 1000, 1000, state, 1000, 0o755, false, "", "", 0o755},
		{"ours, group", 1000, 1000, state, 1000, 0o775, false, "", rw.WarnStateNarrowed, 0o700},
		{"ours, all", 1000, 1000, state, 1000, 0o777, false, "", rw.WarnStateNarrowed, 0o700},
		{"root's", 1000, 1000, state, 0, 0o755, false, "", "", 0o755},
		{"root's, all", 1000, 1000, state, 0, 0o777, false, "bad_state_dir", "", 0},
		{"another's", 1000, 1000, state, 1001, 0o700, false, "bad_state_dir", "", 0},
		{"another's, owner of the workspace", 1000, 1001, state, 1001, 0o700, false, "bad_state_dir", "", 0},
		{"root runs, another's", 0, 0, state, 1001, 0o700, false, "bad_state_dir", "", 0},
		{"root runs, owner of the workspace", 0, 1001, state, 1001, 0o700, false, "", "", 0o700},
		{"root runs, owner of the workspace, all", 0, 1001, state, 1001, 0o777, false, "", rw.WarnStateNarrowed, 0o700},
		{"no modes", 1000, 1000, state, 1000, 0o777, true, "", rw.WarnModesNotEnforced, 0o777},
		{"no modes, another's", 1000, 1000, state, 1001, 0o777, true, "", rw.WarnModesNotEnforced, 0o777},
		{"journal of another", 1000, 1000, state + "/journal", 1001, 0o700, false, "bad_state_dir", "", 0},
		{"locks, all", 1000, 1000, state + "/locks", 1000, 0o777, false, "", rw.WarnStateNarrowed, 0o700},
		{"meta.json of another", 1000, 1000, state + "/meta.json", 1001, 0o600, false, "bad_state_dir", "", 0},
		{"meta.json, group", 1000, 1000, state + "/meta.json", 1000, 0o660, false, "", rw.WarnStateNarrowed, 0o600},
		{"policy of another", 1000, 1000, state + "/policy.yaml", 1001, 0o600, false, "bad_state_dir", "", 0},
		{"policy, all", 1000, 1000, state + "/policy.yaml", 1000, 0o666, false, "", rw.WarnStateNarrowed, 0o600},
	} {
		fs := simfs.New()
		fs.User, fs.NoChmod = row.self, row.noChmod
		fs.MkdirAll(state + "/journal")
		fs.MkdirAll(state + "/locks")
		fs.WriteFile(state+"/meta.json", nil, 0o600)
		fs.WriteFile(state+"/policy.yaml", []byte("version: 1\n"), 0o600)
		fs.Own(state, row.self, 0o700)
		fs.Own("", row.root, 0o755)
		fs.Own(row.at, row.owner, row.mode)
		s, err := rw.OpenSimAs(fs, &rw.Options{Sync: rw.SyncOff}, row.self)
		if err != nil || row.want != "" {
			if e := rw.AsError("", err); row.want == "" || err == nil || !errors.Is(err, rw.Detail(row.want)) || e.Context["owner"] != fmt.Sprintf("uid %d", row.owner) ||
				e.Context["mode"] != fmt.Sprintf("%04o", row.mode) || !strings.Contains(fmt.Sprint(e.Context["command"]), row.at) || !strings.Contains(e.Hint, "chown") {
				t.Errorf("%s: %v %+v", row.name, err, e)
			}
			if s != nil {
				s.Close(background)
			}
			continue
		}
		if got := reasons(s.Recovery().Warnings); got != row.warning {
			t.Errorf("%s: warnings %q, want %q", row.name, got, row.warning)
		}
		if got := fs.Mode(row.at); got != row.after {
			t.Errorf("%s: mode %04o, want %04o", row.name, got, row.after)
		}
		s.Close(background)
	}
}
