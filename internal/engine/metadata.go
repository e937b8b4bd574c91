package engine

import (
	"encoding/binary"
	"maps"
	"slices"

	"github.com/resilientwrite/resilientwrite/call"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
)

// applyMetadata gives the staged file the metadata it will have under its name: that
// of the file it replaces or brings back, or what a new file gets in that directory. What
// cannot be kept is a warning, not a failure.
//
// Ownership comes before the mode, because changing the owner clears the
// set-id bits, and the mode after the ACL, which carries one of its own.
func (m *Mutation) applyMetadata(s *Engine) error {
	was, perm := m.Prev, m.Perm
	if m.Former != nil {
		f, done, err := m.former(s)
		if err != nil {
			return err
		}
		defer done()
		was, perm = f, &f.Stat.Mode
	}
	if !was.Exists || was.Link() {
		if err := m.newMetadata(); err != nil || perm == nil {
			return err
		}
		m.metadata = true
		return fsx.SetMode(m.Slot.File, *perm)
	}
	st, err := m.Slot.File.Stat()
	if err != nil {
		return err
	}
	mode := was.Stat.Mode
	if perm != nil {
		mode = *perm
	}
	asMade := st.Mode == mode
	if st.UID != was.Stat.UID || st.GID != was.Stat.GID {
		asMade = false
		if m.Slot.File.Chown(was.Stat.UID, was.Stat.GID) != nil {
			m.Warn(call.WarnMetadataNotKept)
			// The group alone is often allowed, and without it the group bits
			// would refer to another group.
			m.Slot.File.Chown(-1, was.Stat.GID)
		}
	}
	copied, kept := m.copyXattrs(was.File)
	if !kept {
		m.Warn(call.WarnMetadataNotKept)
	}
	if asMade && copied == 0 {
		m.stageSt = st
		return nil
	}
	m.metadata = true
	return m.Slot.File.Chmod(mode)
}

// former returns the file whose metadata the mutation brings back, with the mode that its
// file gets: the one under the name to which it was moved or, of a deleted one, the version
// that it has become. If history has only a copy of that, it is the present file.
func (m *Mutation) former(s *Engine) (was fileFacts, done func(), err error) {
	was, done = m.Prev, func() {}
	mode := was.Stat.Mode
	switch {
	case m.Perm != nil:
		mode = *m.Perm
	case !was.Exists || was.Link():
		st, err := m.Slot.File.Stat()
		if err != nil {
			return was, done, err
		}
		mode = st.Mode
	}
	kept := fileFacts{}
	if m.FormerAt != nil {
		kept = m.FormerAt.Prev
	} else if f, err := s.OpenVersion(m.Former.PrevSHA256, m.Former); err == nil {
		done = func() { f.Close() }
		st, err := f.Stat()
		id := beforeOf(m.Former).Stat
		same := st.Ino == id.Ino && st.SameBirth(id) && st.Size == id.Size && st.Mtime == id.Mtime
		kept = fileFacts{Exists: err == nil && same, Stat: st, File: f}
	}
	if kept.Exists {
		was = kept
	} else if m.Former.PrevExtra {
		m.Warn(call.WarnMetadataNotKept)
	}
	was.Stat.Mode = mode
	return was, done, nil
}

// hasExtra reports whether the file that is deleted, or replaced by a move, has metadata that no new file gets.
func (m *Mutation) hasExtra() bool {
	st, err := m.Slot.File.Stat()
	if err != nil || st.UID != m.Prev.Stat.UID || st.GID != m.Prev.Stat.GID {
		return true
	}
	attrs, err := m.Prev.File.Xattrs()
	delete(attrs, "security.selinux") // a new file has one too
	return err != nil || len(attrs) > 0
}

// copyXattrs copies the extended attributes of a file to the staged
// file. It returns how many there are, and whether all were kept.
func (m *Mutation) copyXattrs(from fsx.File) (copied int, kept bool) {
	attrs, err := from.Xattrs()
	if err != nil {
		return 0, false
	}
	kept = true
	for _, name := range slices.Sorted(maps.Keys(attrs)) {
		kept = m.Slot.File.SetXattr(name, attrs[name]) == nil && kept
	}
	return len(attrs), kept
}

const (
	accessACL  = "system.posix_acl_access"
	defaultACL = "system.posix_acl_default"
	setGID     = 0o2000
)

// newMetadata gives a new file what the kernel would have given it in its
// directory: the group of a set-group-id directory and its default ACL. Both are
// missing because the file was created in a slot.
func (m *Mutation) newMetadata() error {
	if m.Private {
		return m.Slot.File.Chmod(0o600)
	}
	dir, err := m.Target.Parent.Stat()
	if err != nil {
		return err
	}
	m.metadata = dir.Mode&setGID != 0
	if m.metadata && m.Slot.File.Chown(-1, dir.GID) != nil {
		m.Warn(call.WarnMetadataNotKept)
	}
	acl, err := m.Target.Parent.Xattr(defaultACL)
	if err != nil || len(acl) == 0 {
		return nil
	}
	m.metadata = true
	if m.Slot.File.SetXattr(accessACL, maskACL(acl, 0o666)) != nil {
		m.Warn(call.WarnMetadataNotKept)
	}
	return nil
}

// Tags of the entries of a POSIX ACL, as Linux stores them in an extended
// attribute: a 4-byte version, then 8 bytes per entry – tag, permissions, id,
// little endian (linux/posix_acl_xattr.h).
const (
	aclUserObj  = 0x01
	aclGroupObj = 0x04
	aclMask     = 0x10
	aclOther    = 0x20
)

// maskACL is the access ACL that a file created with perm gets from a default
// ACL: owner, other and mask – or the group, where there is no mask – lose
// what perm does not grant (acl(5), "object creation and default ACLs").
func maskACL(acl []byte, perm uint16) []byte {
	out := append([]byte(nil), acl...)
	hasMask := false
	eachACL(out, func(tag uint16, _ []byte) { hasMask = hasMask || tag == aclMask })
	eachACL(out, func(tag uint16, p []byte) {
		have := binary.LittleEndian.Uint16(p)
		switch {
		case tag == aclUserObj:
			have &= perm >> 6 & 7
		case tag == aclMask, tag == aclGroupObj && !hasMask:
			have &= perm >> 3 & 7
		case tag == aclOther:
			have &= perm & 7
		}
		binary.LittleEndian.PutUint16(p, have)
	})
	return out
}

func eachACL(acl []byte, fn func(tag uint16, perm []byte)) {
	for i := 4; i+8 <= len(acl); i += 8 {
		fn(binary.LittleEndian.Uint16(acl[i:]), acl[i+2:i+4])
	}
}
