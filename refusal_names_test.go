package resilientwrite_test

import (
	"errors"
	"strings"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/adapter"
)

// namePlaces are the arguments that are names: what TestNoRefusalLeavesASecret puts
// into content is put into each of them as well, where it is a credential that
// its format alone shows.
var namePlaces = map[string]func(s *rw.Store, x shot) error{
	"path": func(s *rw.Store, x shot) error { return x.write(s, x.secret, rw.ModeCreate, "harmless\n") },
	"directory": func(s *rw.Store, x shot) error {
		return x.write(s, "a/"+x.secret+"/b", rw.ModeCreate, "harmless\n")
	},
	"caller": func(s *rw.Store, x shot) error {
		_, err := s.SafeWrite(background, rw.SafeWriteRequest{Path: x.path("named"), Content: []byte("x\n"), Call: rw.Call{Caller: "agent " + x.secret, DryRun: x.dry, AcceptRisk: x.accept, IdempotencyKey: x.key}})
		return err
	},
	"session": func(s *rw.Store, x shot) error {
		_, err := s.SafeWrite(background, rw.SafeWriteRequest{Path: x.path("named"), Content: []byte("x\n"), Call: rw.Call{Session: x.secret, DryRun: x.dry, AcceptRisk: x.accept, IdempotencyKey: x.key}})
		return err
	},
	"key": func(s *rw.Store, x shot) error {
		_, err := s.SafeWrite(background, rw.SafeWriteRequest{Path: x.path("named"), Content: []byte("x\n"), Call: rw.Call{IdempotencyKey: x.secret, DryRun: x.dry, AcceptRisk: x.accept}})
		return err
	},
	"move to": func(s *rw.Store, x shot) error {
		_, err := s.Move(background, rw.MoveRequest{Path: x.path("old"), To: x.path("to " + x.secret), Expect: x.expected, Call: rw.Call{DryRun: x.dry, IdempotencyKey: x.key}})
		return err
	},
	"move from": func(s *rw.Store, x shot) error {
		_, err := s.Move(background, rw.MoveRequest{Path: x.path(x.secret), To: x.path("to"), Call: rw.Call{DryRun: x.dry, IdempotencyKey: x.key}})
		return err
	},
	"delete": func(s *rw.Store, x shot) error {
		_, err := s.Delete(background, rw.DeleteRequest{Path: x.path(x.secret), Call: rw.Call{DryRun: x.dry, IdempotencyKey: x.key}})
		return err
	},
	"edit": func(s *rw.Store, x shot) error {
		_, err := s.Edit(background, rw.EditRequest{Path: x.path(x.secret), Edits: []rw.EditOp{{Old: "a", New: "b"}}, Call: rw.Call{DryRun: x.dry, IdempotencyKey: x.key}})
		return err
	},
	"tx path": func(s *rw.Store, x shot) error {
		return x.tx(s, rw.TxOp{Op: "write", Path: x.path("first"), Content: []byte("harmless\n")}, rw.TxOp{Op: "write", Path: x.path(x.secret), Content: []byte("harmless\n")})
	},
	"tx move": func(s *rw.Store, x shot) error {
		return x.tx(s, rw.TxOp{Op: "move", Path: x.path("old"), To: x.path(x.secret), Expect: x.expected})
	},
	"staged path": func(s *rw.Store, x shot) error {
		return x.staged(s, rw.TxOp{Op: "write", Path: x.path(x.secret), Content: []byte("harmless\n")})
	},
	"transaction": func(s *rw.Store, x shot) error {
		_, err := s.TxCommit(background, rw.TxCommitRequest{TxID: x.secret, Call: rw.Call{DryRun: x.dry}})
		return err
	},
	"session of pieces": func(s *rw.Store, x shot) error {
		_, err := s.ChunkWrite(background, rw.ChunkWriteRequest{Session: x.secret, Index: 1, Content: []byte("harmless\n"), Call: rw.Call{DryRun: x.dry, IdempotencyKey: x.key}})
		return err
	},
	"compose to": func(s *rw.Store, x shot) error {
		_, err := s.ChunkWrite(background, rw.ChunkWriteRequest{Session: "plain", Index: 1, TotalExpected: 1, Content: []byte("harmless\n")})
		_, cerr := s.ChunkCompose(background, rw.ChunkComposeRequest{Session: "plain", OutputPath: x.path(x.secret), Call: rw.Call{DryRun: x.dry, AcceptRisk: x.accept, IdempotencyKey: x.key}})
		return errors.Join(err, cerr)
	},
	"checkpoint": func(s *rw.Store, x shot) error {
		_, err := s.Checkpoint(background, rw.CheckpointRequest{Name: x.secret, Format: "json", Data: []byte(`{"a":1}`), Call: rw.Call{DryRun: x.dry, IdempotencyKey: x.key}})
		return err
	},
	"handoff": func(s *rw.Store, x shot) error {
		_, err := s.HandoffWrite(background, rw.HandoffWriteRequest{
			Envelope: rw.HandoffEnvelope{TaskID: "t", Status: rw.HandoffPartial, Agent: "a", Summary: "s", NextSteps: []string{"n"}, LastGoodState: []rw.HandoffFile{}},
			Path:     x.dir + x.secret + ".md", Call: rw.Call{DryRun: x.dry, AcceptRisk: x.accept, IdempotencyKey: x.key},
		})
		return err
	},
	"label": func(s *rw.Store, x shot) error {
		_, err := s.ScratchPut(background, rw.ScratchPutRequest{Content: []byte("harmless\n"), Label: "key " + x.secret, Call: rw.Call{DryRun: x.dry, IdempotencyKey: x.key}})
		return err
	},
	"restore": func(s *rw.Store, x shot) error {
		_, err := s.Restore(background, rw.RestoreRequest{Path: x.path(x.secret), Call: rw.Call{DryRun: x.dry, IdempotencyKey: x.key}})
		return err
	},
	"redact": func(s *rw.Store, x shot) error {
		_, err := s.Redact(background, rw.RedactRequest{DraftRef: x.secret})
		_, terr := s.Redact(adapter.WithMalformed(background, []string{"content"}), rw.RedactRequest{Content: []byte("%"), TargetPath: x.path(x.secret)})
		return errors.Join(err, terr)
	},
	"redacted content": func(s *rw.Store, x shot) error {
		_, err := s.Redact(adapter.WithMalformed(background, []string{"content"}), rw.RedactRequest{Content: []byte(x.secret + "%")})
		return err
	},
}

func init() {
	for argument, do := range namePlaces {
		places["name: "+argument] = func(s *rw.Store, x shot) error {
			if !strings.HasPrefix(x.secret, "gh") {
				return nil // no format shows it without surrounding text
			}
			return do(s, x)
		}
	}
}
