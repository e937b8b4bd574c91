package resilientwrite_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/failpoint"
)

// TestChunkChild is not a test: it is the program of the child processes below.
func TestChunkChild(t *testing.T) {
	dir := os.Getenv("RW_CHUNK_DIR")
	if dir == "" {
		return
	}
	noErr(t, chunkChild(dir, os.Getenv("RW_CHUNK_JOB"), os.Getenv("RW_CHUNK_ARG")))
}

func chunkChild(dir, job, arg string) error {
	ctx := context.Background()
	s, err := rw.Open(ctx, dir, &rw.Options{Caller: "child" + arg, LockTimeout: time.Minute})
	if err != nil {
		return err
	}
	if stage, ok := strings.CutPrefix(job, "die-"); ok {
		// Dies without any cleanup before a stage.
		failpoint.Arm(func(point string) {
			if point == arg {
				os.Exit(9)
			}
		})
		switch stage {
		case "append":
			_, err = s.ChunkAppend(ctx, rw.ChunkAppendRequest{Session: "s", Content: []byte("third")})
		case "replace":
			_, err = s.ChunkWrite(ctx, rw.ChunkWriteRequest{Session: "s", Index: 2, Content: []byte("SECOND")})
		case "compose":
			_, err = s.ChunkCompose(ctx, rw.ChunkComposeRequest{Session: "s", OutputPath: "out.txt", Cleanup: true})
		case "reset":
			_, err = s.ChunkReset(ctx, rw.ChunkResetRequest{Session: "s"})
		}
		return err
	}
	for i := range 25 {
		if _, err := s.ChunkAppend(ctx, rw.ChunkAppendRequest{Session: "shared", Content: []byte(fmt.Sprintf("<%s.%d>", arg, i))}); err != nil {
			return err
		}
	}
	return s.Close(ctx)
}

func chunkProcess(t *testing.T, dir, job, arg string) (*exec.Cmd, *lineLog) {
	t.Helper()
	cmd, out := spawnTest(t, "TestChunkChild", "RW_CHUNK_DIR="+dir, "RW_CHUNK_JOB="+job, "RW_CHUNK_ARG="+arg)
	noErr(t, cmd.Start())
	return cmd, out
}

// TestChunksOfFourProcesses: 4 × 25 appends are 100 pieces, each exactly once.
func TestChunksOfFourProcesses(t *testing.T) {
	t.Parallel()
	dir := workspace(t)
	var cmds []*exec.Cmd
	var outs []*lineLog
	for i := range 4 {
		cmd, out := chunkProcess(t, dir, "append", string(rune('a'+i)))
		cmds, outs = append(cmds, cmd), append(outs, out)
	}
	for i, cmd := range cmds {
		if err := cmd.Wait(); err != nil {
			t.Fatalf("child %d: %v\n%s", i, err, outs[i].text.String())
		}
	}
	s := open(t, dir, nil)
	st := chunkStatus(t, s, "shared")
	if len(st.PresentIndices) != 100 || st.MissingCount != 0 || st.NextIndex != 101 {
		t.Fatalf("%+v", st)
	}
	composed(t, s, "shared", "out.txt")
	data, _ := os.ReadFile(filepath.Join(dir, "out.txt"))
	for _, id := range []string{"a", "b", "c", "d"} {
		at := -1
		for i := range 25 {
			mark := fmt.Sprintf("<%s.%d>", id, i)
			next := strings.Index(string(data), mark)
			if strings.Count(string(data), mark) != 1 || next < at {
				t.Errorf("%s is there %d times, at %d after %d", mark, strings.Count(string(data), mark), next, at)
			}
			at = next
		}
	}
	check(t, s, true)
}

// TestNextCallFinishesForTheDead: another process dies within each verb before each
// stage, and a store that stays open encounters its state, reading or writing: before
// the record nothing happened, after it everything did.
func TestNextCallFinishesForTheDead(t *testing.T) {
	t.Parallel()
	states := map[string][2]string{ // before and after the verb
		"append": {"first second", "first second third"}, "replace": {"first second", "first SECOND"},
		"compose": {"first second", ""}, "reset": {"first second", ""},
	}
	for verb, want := range states {
		stages := []rw.Stage{rw.StageRecord, rw.StagePublish, rw.StageSettle}
		if !*long && verb != "append" {
			stages = stages[1:2]
		}
		for _, stage := range stages {
			t.Run(verb+"/"+string(stage), func(t *testing.T) {
				t.Parallel()
				dir := workspace(t)
				s := open(t, dir, nil)
				addChunk(t, s, "s", "first")
				addChunk(t, s, "s", "second")
				cmd, out := chunkProcess(t, dir, "die-"+verb, string(stage))
				cmd.Wait()
				if code := cmd.ProcessState.ExitCode(); code != 9 {
					t.Fatalf("the child ended with %d\n%s", code, out.text.String())
				}
				text := want[0]
				if stage == rw.StagePublish || stage == rw.StageSettle {
					text = want[1]
				}
				meetTheDead(t, s, dir, verb, stage, text)
				s.Close(background)
				check(t, open(t, dir, nil), true) // which sweeps what never was a commit
			})
		}
	}
}

// meetTheDead checks the state that a dead process left, and then continues.
func meetTheDead(t *testing.T, s *rw.Store, dir, verb string, stage rw.Stage, text string) {
	t.Helper()
	if stage == rw.StagePublish { // a reader meets it first
		st := chunkStatus(t, s, "s")
		if st.Exists != (text != "") || len(st.PresentIndices) != len(strings.Fields(text)) {
			t.Errorf("status %+v, want %q", st, text)
		}
	}
	before := len(strings.Fields(text))
	if r := addChunk(t, s, "s", "fresh"); r.Index != before+1 {
		t.Errorf("index %d, want %d", r.Index, before+1)
	}
	sep := " "
	must(s.ChunkCompose(background, rw.ChunkComposeRequest{Session: "s", OutputPath: "after.txt", Separator: &sep}))(t)
	fileIs(t, dir, "after.txt", strings.TrimSpace(text+" fresh"))
	if verb == "compose" && text == "" {
		fileIs(t, dir, "out.txt", "firstsecond")
	}
}
