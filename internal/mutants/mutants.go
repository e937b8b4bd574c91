package main

// mutants are the faults, in the order of the requirements that they break.
var mutants = []mutant{
	{
		Point: 1, Fault: "a move does not look at the file that arrived",
		File: "internal/engine/publish/move.go",
		Old:  "\tif !c.Moved.is(st) {\n\t\treturn ErrForeign\n\t}\n\treturn nil\n}\n\n// moveOver moves",
		New:  "\t_ = st\n\treturn nil\n}\n\n// moveOver moves",
		Run:  "TestEditorSweep",
	},
	{
		Point: 2, Fault: "rolling back a replacement drops whatever comes out",
		File: "internal/engine/publish/replace.go",
		Old:  "err != nil || c.staged(out)", New: "err != nil || out.Size >= 0",
		Run: "TestEditorSweep|TestTakenBackSweep|TestCrashSweepTxTakenBack",
	},
	{
		Point: 2, Fault: "rolling back a creation drops whatever comes out",
		File: "internal/engine/publish/create.go",
		Old:  "err != nil || c.staged(out)", New: "err != nil || out.Size >= 0",
		Run: "TestEditorSweep|TestTakenBackSweep|TestCrashSweepTxTakenBack",
	},
	{
		Point: 3, Fault: "recovery judges a path from each of its commits, not from the newest",
		File: "internal/engine/recovery_place.go",
		Old:  "if last.Seq != p.f.rec.Seq { // a later", New: "if last.Seq < p.f.rec.Seq { // a later",
		Run: "TestOlderCommitSweep",
	},
	{
		Point: 3, Fault: "a commit does not wait until the one before it on its path is settled",
		File: "internal/engine/recovery.go",
		Old:  "func (c *Commit) settleEarlier(paths []string) error {\n",
		New:  "func (c *Commit) settleEarlier(paths []string) error {\n\tif len(paths) > 0 {\n\t\treturn nil\n\t}\n",
		Run:  "TestAppendRecoverySweep|TestSettledSweep|TestCrashSweep$",
	},
	{
		Point: 4, Fault: "recovery removes slots of a writer that died while it ran",
		File: "internal/engine/recovery.go",
		Old:  "\tfor _, x := range found {\n",
		New:  "\tfor _, x := range found {\n\t\tx.names, _ = x.in.dir.Names()\n\t\talive = aliveness{s: s}\n",
		Run:  "TestTwoOpenersSweep",
	},
	{
		Point: 5, Fault: "recovery infers from the content that a replacement is not published",
		File: "internal/engine/publish/replace.go",
		Old:  "func judgeOver(c *Change, held Held) (State, error) {\n\tif held != Staged {\n\t\treturn Published, nil\n\t}\n",
		New:  "func judgeOver(c *Change, held Held) (State, error) {\n\tif same, err := c.matches(c.Target, c.New); same || err != nil {\n\t\treturn Published, err\n\t}\n",
		Run:  "TestHumanSweep",
	},
	{
		Point: 5, Fault: "the bytes are not durable before the row",
		File: "internal/engine/flush.go",
		Old:  "c.s.flushes.do(append(here, foreign...)...) }", New: "c.s.flushes.do(foreign...) }",
		Run: "TestCrashSweep$",
	},
	{
		Point: 6, Fault: "rows that a failed flush left in doubt are not written again",
		File: "internal/journal/doubtful.go",
		Old:  "\tif err != nil || first == 0 {\n\t\treturn err\n\t}\n\tsegs", New: "\tif err != nil || first > 0 {\n\t\treturn err\n\t}\n\tsegs",
		Run: "TestPoison",
	},
	{
		Point: 7, Fault: "what a process published before a failed flush is believed",
		File: "internal/engine/recovery_place.go",
		Old:  "\tif p.f.again {\n\t\tif err := p.reopen()", New: "\tif p.f.again && p.m == nil {\n\t\tif err := p.reopen()",
		Run: "TestPoison",
	},
	{
		Point: 8, Fault: "commits of a poisoned process that lives are left to it",
		File: "internal/engine/poison.go",
		Old:  "return writer != s.Writer && slices.Contains(s.doubt.Writers, writer)", New: "return writer != s.Writer && s.doubt.Writers == nil && slices.Contains(s.doubt.Writers, writer)",
		Run: "TestPoison",
	},
	{
		Point: 8, Fault: "the mark of poison is removed while something of it is in doubt",
		File: "internal/engine/poison.go",
		Old:  "if !s.Report.Poisoned || s.doubt.left {", New: "if !s.Report.Poisoned {",
		Run: "TestPoison",
	},
	{
		Point: 9, Fault: "the version of another program is not flushed before it enters history",
		File: "internal/engine/flush.go",
		Old:  "\t\tcase unflushed && !m.Prev.Link():", New: "\t\tcase false && unflushed:",
		Run: "TestEditorSweep|TestCrashSweep$",
	},
	{
		Point: 10, Fault: "the cache of hashes does not look at the time stamps",
		File: "internal/engine/hashes.go",
		Old:  "return fileID{st.Dev, st.Ino, st.Size, st.Mtime, st.Ctime}", New: "return fileID{st.Dev, st.Ino, st.Size, 0, 0}",
	},
	{
		Point: 11, Fault: "a slot that is gone says nothing",
		File: "internal/engine/recovery_place.go",
		Old:  "if p.witness != witnessGone {", New: "if true {",
	},
	{
		Point: 13, Fault: "a write in place begins before the version before it is kept",
		File: "internal/engine/staging.go",
		Old:  "\t\treturn m.savePrevFor(c)\n\t}\n\treturn nil\n}\n\n// checkStaged",
		New:  "\t}\n\treturn nil\n}\n\n// checkStaged",
	},
	{
		Point: 13, Fault: "a write in place does not look at its target",
		File: "internal/engine/publish/inplace.go",
		Old:  "\tif !c.Redo && !c.Old.is(st) {", New: "\tif c.Redo && !c.Old.is(st) {",
	},
	{
		Point: 13, Fault: "sweeps of history are let in before the row names the version that was kept first",
		File: "internal/engine/staging.go",
		Old:  "\t\t\tc.sharing = done\n", New: "\t\t\tdefer done()\n",
		Run: "TestSweepBesideAWriteInPlace",
	},
	{
		Point: 14, Fault: "readers without the lock take rows after the published end",
		File: "internal/journal/catchup.go",
		Old:  "\t\tuntil = now.durable\n", New: "",
		Dir: "internal/journal",
	},
	{
		Point: 15, Fault: "Close truncates the journal where reading it failed",
		File: "internal/journal/log.go",
		Old:  "l.catchUp(locked) == nil && l.alloc > l.pos.Offset", New: "(l.catchUp(locked) == nil || true) && l.alloc > l.pos.Offset",
		Dir: "internal/journal", Run: "Close|Sweep",
	},
	{
		Point: 16, Fault: "a commit counts as settled before its names are flushed",
		File: "internal/engine/stages.go",
		Old:  "\ttodo := c.settlement()\n", New: "\ttodo := c.settlement()\n\tc.s.Unsettled.done(c)\n",
	},
	{
		Point: 17, Fault: "a lock timeout poisons the journal",
		File: "internal/journal/append.go",
		Old:  "\tif unlock, err = l.kernelLock(ctx, lockByte); err != nil {\n\t\treturn nil, err\n\t}\n\tif err = l.current()",
		New:  "\tif unlock, err = l.kernelLock(ctx, lockByte); err != nil {\n\t\tl.poisonLocked()\n\t\treturn nil, err\n\t}\n\tif err = l.current()",
		Dir:  "internal/journal",
	},
	{
		Point: 18, Fault: "directories that other programs made are not flushed",
		File: "internal/engine/flush.go",
		Old:  "\treturn c.flushWays()\n", New: "\treturn nil\n",
	},
	{
		Point: 21, Fault: "calls write to the report of recovery",
		File: "internal/engine/stages.go",
		Old:  "c.s.FinishDead(ctx, left, new(Report))", New: "c.s.FinishDead(ctx, left, &c.s.Report)",
		Run: "TestNextWriterFinishesForTheDead", Race: true,
	},
	{
		Point: 23, Fault: "a copied store is judged by inode numbers",
		File: "internal/engine/publish/slot.go",
		Old:  "\tcase s.Copied:\n", New: "\tcase false:\n",
	},
	{
		Point: 24, Fault: "the key of a commit that ended in a conflict reports success",
		File: "internal/engine/rows.go",
		Old:  "\tif rec.Kind == journal.KindConflict {\n\t\treturn false, endedInConflict(rec)\n\t}\n",
		New:  "\tif rec.Kind == journal.KindConflict {\n\t\trec.Kind = journal.KindCommit\n\t}\n",
	},
	{
		Point: 25, Fault: "a directory of slots is used that its maker did not finish",
		File: "internal/slotdir/slotdir.go",
		Old:  "in == parent && d.Ready {", New: "in == parent {",
	},
	{
		Point: 25, Fault: "a directory of slots is used that was emptied",
		File: "internal/engine/slotdirs.go",
		Old:  "err == nil && w == witnessSeen {", New: "err == nil && w <= witnessGone {",
		Run: "TestSlotsThatAreNotOurs",
	},
	{
		Point: 25, Fault: "a slot is emptied before the copy of its version is flushed",
		File: "internal/engine/copies.go",
		Old:  "err := s.flushFiles(files)", New: "var err error",
		Run: "Elsewhere|NestedMount",
	},
	{
		Point: 26, Fault: "a directory is removed before what left it is durable in its slots",
		File: "internal/engine/turns.go",
		Old:  "\tif err := c.s.syncDirs(dirs...); err != nil {\n\t\treturn c.s.Poison(err)\n\t}\n\tfor _, t := range", New: "\tfor _, t := range",
		Run: kinds,
	},
	{
		Point: 26, Fault: "a file is published in a directory that is not durable",
		File: "internal/engine/turns.go",
		Old:  "\tif err := c.s.syncDirs(dirs...); err != nil {\n\t\treturn c.s.Poison(err)\n\t}\n\treturn nil", New: "\treturn nil",
		Run: kinds,
	},
	{
		Point: 26, Fault: "a roll-back removes a directory before what left it is durable in its slots",
		File: "internal/engine/turns.go",
		Old:  "\tif err := c.flushUndone(c.Muts[c.clearing:]); err != nil {\n\t\treturn err\n\t}\n\tmade", New: "\tmade",
		Run: kinds,
	},
	{
		Point: 26, Fault: "a roll-back does not make the directories again",
		File: "internal/engine/turns.go",
		Old:  "c.grant.Try(func() error { return c.s.inDirOf(d.path, d.again(c.s)) })", New: "error(nil)\n\t\t_ = d",
		Run: kinds,
	},
	{
		Point: 26, Fault: "a roll-back gives files back into the directory that is gone",
		File: "internal/engine/turns.go",
		Old:  "\tc.relocate()\n", New: "",
		Run: kinds,
	},
	{
		Point: 26, Fault: "recovery does not remove the directories that files replace",
		File: "internal/engine/turns.go",
		Old:  "\tif t == nil || t.into {\n\t\treturn nil\n\t}\n\tif held", New: "\tif t == nil || !t.into {\n\t\treturn nil\n\t}\n\tif held",
		Run: kinds,
	},
	{
		Point: 26, Fault: "recovery removes a directory before what left it is durable in its slots",
		File: "internal/engine/turns.go",
		Old:  "\t\tif p.cleared = p.target != nil; p.cleared {", New: "\t\tif p.cleared = p.target != nil; p.cleared && p.m == nil {",
		Run: kinds,
	},
	{
		Point: 26, Fault: "what a directory holds besides is not looked at",
		File: "internal/engine/turns.go",
		Old:  "\tif len(in.unknown) == 0 {", New: "\tif len(in.unknown) >= 0 {",
		Run: "TestKindsThatAreNotChanged",
	},
}

// kinds are the sweeps of names that change between a directory and a file.
const kinds = "TestKindsRolledBackSweep|TestCrashSweep/undo_kinds|TestRecoveryCrashSweep/undo_kinds|TestFaultSweep/undo_kinds|TestKindsForeignSweep|TestCrashSweepElsewhere/.*/undo_kinds"
