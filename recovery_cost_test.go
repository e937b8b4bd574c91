package resilientwrite_test

import (
	"fmt"
	"strings"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
)

// TestRecoveryReadsTheJournalFewTimes: what Open reads of the journal does not
// grow with the number of files that a dead writer left unpublished.
func TestRecoveryReadsTheJournalFewTimes(t *testing.T) {
	fs := simfs.New()
	first := fs.NewProcess()
	s := must(rw.OpenSim(fs, nil, rw.Sim{Nonce: "0001", Process: first}))(t)
	other := must(rw.OpenSim(fs, nil, rw.Sim{Nonce: "0002", Process: fs.NewProcess()}))(t)
	const files = 40
	version := func(content string, mode rw.WriteMode) (list []rw.SafeWriteRequest) {
		for i := range files {
			list = append(list, put(fmt.Sprintf("f%d.txt", i), content, mode))
		}
		return list
	}
	noErr(t, s.CommitAll(background, version("old", rw.ModeCreate)...))
	fs.Before(func(op simfs.Op) {
		if op.Kind == "exchange" {
			first.Kill()
		}
	})
	if err := s.CommitAll(background, version("new", rw.ModeOverwrite)...); err == nil {
		t.Fatal("the process did not die")
	}
	fs.Before(nil)
	for i := range 60 {
		write(t, other, "beside.txt", fmt.Sprint("text ", i), rw.ModeOverwrite)
	}
	fs.Kill()
	fs.ResetTrace()
	s = must(rw.OpenSim(fs, nil, rw.Sim{Nonce: "0003"}))(t)
	var read, size int64
	for _, op := range fs.Trace() {
		if op.Kind == "read" && strings.Contains(op.Path, "/journal/") {
			read, size = read+op.Len, max(size, op.Off+op.Len)
		}
	}
	if n := len(s.Recovery().Finished); n != files {
		t.Errorf("%d files were finished", n)
	}
	if read > 8*size {
		t.Errorf("recovery of %d files read %d bytes of a journal of %d", files, read, size)
	}
}
