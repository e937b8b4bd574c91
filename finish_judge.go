package resilientwrite

// verdict is what recovery finds of one mutation.
type verdict int

const (
	ready     verdict = iota // staged and whole, the target is as it was: publish
	published                // under its name; the traces remain to be taken away
	idle                     // nothing was to change here
	lost                     // the staged bytes are gone or torn, and were never published
	taken                    // somebody else changed the target: leave it, keep ours
)

// judge decides what became of one mutation.
func (f *finisher) judge(p *part) (verdict, error) {
	if p.m.SHA256 == p.m.PrevSHA256 { // says nothing of the commit
		return idle, nil
	}
	switch p.m.How {
	case howAppend:
		return f.judgeAppend(p)
	case howUnlink:
		return f.judgeUnlink(p)
	}
	if p.staged == nil {
		// Traces are taken away only when the whole commit is published.
		if p.sha == p.m.SHA256 || p.isLater(p.sha) {
			return published, nil
		}
		return lost, nil
	}
	if p.file != nil && p.fileSt.SameFile(p.stageSt) {
		return published, nil
	}
	whole, err := p.holdsNew()
	if err != nil {
		return lost, err
	}
	switch {
	case whole && p.isLater(p.sha): // a later commit proves that it was published
		return published, nil
	case whole && p.sha == p.m.PrevSHA256:
		return ready, nil
	case whole && f.over, whole && p.m.How == howInPlace:
		return f.judgeInPlace(p), nil
	case whole && (p.sha == p.m.SHA256 || p.isLater(p.sha)):
		return published, nil // the staged file may be a copy, after a failed flush
	case whole:
		return taken, nil
	case p.sha == p.m.SHA256 || p.isLater(p.sha):
		return published, nil // the exchange brought the old bytes out
	case p.sha == p.m.PrevSHA256:
		return lost, nil // torn before it could be published
	}
	old, err := shaOf(p.staged, p.stageSt.Size)
	if err == nil && old == p.m.PrevSHA256 {
		return published, nil // and edited since
	}
	return taken, err
}

// judgeUnlink: the staged entry is an empty mark until the file takes its
// place.
func (f *finisher) judgeUnlink(p *part) (verdict, error) {
	p.undone = p.file != nil && p.staged != nil && p.fileSt.SameFile(p.stageSt)
	switch {
	case p.undone && p.sha == p.m.PrevSHA256:
		return ready, nil
	case p.file == nil, p.isLater(p.sha):
		return published, nil
	case p.staged == nil && p.sha == p.m.PrevSHA256:
		return lost, nil
	case p.sha == p.m.PrevSHA256 && p.stageSt.Size == 0:
		return ready, nil
	}
	return taken, nil
}

// judgeInPlace: a file that was being written over is neither the old one nor
// the new one, and the intent says that it may be ours.
func (f *finisher) judgeInPlace(p *part) verdict {
	if p.sha == p.m.SHA256 || p.file == nil {
		return published
	}
	return ready
}

// judgeAppend: the bytes up to the base must be those that were there, and
// what follows must be the payload or its beginning. A file that is as a later
// commit of the path left it has had the append, whatever it begins with.
func (f *finisher) judgeAppend(p *part) (verdict, error) {
	if p.isLater(p.sha) {
		return published, nil
	}
	if p.file == nil || p.fileSt.Size < p.m.PrevBytes {
		return taken, nil
	}
	base, err := shaOf(p.file, p.m.PrevBytes)
	if err != nil {
		return taken, err
	}
	if base != p.m.PrevSHA256 {
		return taken, nil
	}
	if p.fileSt.Size >= p.m.Bytes {
		if all, err := shaOf(p.file, p.m.Bytes); err != nil || all == p.m.SHA256 {
			return published, err
		}
	}
	whole := false
	if p.staged != nil && p.stageSt.Size == p.m.PayBytes {
		sha, err := shaOf(p.staged, p.stageSt.Size)
		if err != nil {
			return taken, err
		}
		whole = sha == p.m.PaySHA256
	}
	switch {
	case whole:
		return ready, nil
	case p.fileSt.Size == p.m.PrevBytes:
		return lost, nil
	}
	return taken, nil
}

// holdsNew reports whether the staged file holds the final bytes. One that was
// linked to its target may have been made longer by a later append. One that was
// exchanged may hold the old version instead, which may begin with the new one.
func (p *part) holdsNew() (bool, error) {
	grew := p.m.How == howLink && len(p.later) > 0 && p.stageSt.Size > p.m.Bytes
	if p.stageSt.Size != p.m.Bytes && !grew {
		return false, nil
	}
	sha, err := shaOf(p.staged, p.m.Bytes)
	return sha == p.m.SHA256, err
}

// isLater reports whether sha is what a later commit of the path wrote.
func (p *part) isLater(sha string) bool {
	for _, m := range p.later {
		if m.SHA256 == sha {
			return true
		}
	}
	return false
}
