// Package staged makes the mutations of a transaction, and keeps the transactions that
// several calls build.
package staged

import (
	"context"
	"encoding/json"
	"fmt"
	"sort"
	"strings"

	"github.com/resilientwrite/resilientwrite/internal/durable"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fault"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/stamp"
)

// Dir has a directory for each transaction. The directory exists exactly as long as its
// file Begin does; each operation has a file of its own next to it. The commit of the
// transaction removes Begin together with its changes, so a transaction cannot be
// committed twice.
const (
	Dir    = "tx"
	Begin  = "begin.json"
	MaxOp  = 512 << 20 // bytes of one operation
	MaxOps = 500       // operations of a transaction
)

// Layer keeps the staged transactions of a store.
type Layer struct{ *engine.Engine }

// Lock is the name under which calls lock a transaction.
func Lock(id string) string { return "tx\x00" + id }

// opName is the file of an operation, counted from 1.
func opName(i int) string { return fmt.Sprintf("op-%05d.json", i) }

// Head is the content of Begin.
type Head struct {
	TxID      string `json:"tx_id"`
	Caller    string `json:"caller"`
	Session   string `json:"session"`
	CreatedAt string `json:"created_at"`
	ExpiresAt string `json:"expires_at"`
}

// Object is the object of an operation, counted from 1, and of Begin for 0. It is a path
// also for an id that no transaction has.
func Object(id string, op int) string {
	if !validID(id) {
		id = "tx_none"
	}
	if op == 0 {
		return Dir + "/" + id + "/" + Begin
	}
	return Dir + "/" + id + "/" + opName(op)
}

// IndexOf is the number of the operation that an object is.
func IndexOf(object string) (i int) {
	fmt.Sscanf(object[strings.LastIndexByte(object, '/')+1:], "op-%d.json", &i)
	return i
}

func validID(id string) bool {
	rest, ok := strings.CutPrefix(id, "tx_")
	return ok && len(rest) > 0 && len(rest) <= 80 && strings.Trim(rest, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// List reads the heads of the transactions, oldest first. What is no head is left out.
func (s Layer) List() ([]Head, error) {
	list := []Head{}
	ids, err := s.PartNames(Dir) // also of those that have ended
	if err != nil {
		return nil, err
	}
	for _, id := range ids {
		var h Head
		data, err := s.ReadPart(Dir+"/"+id, Begin, engine.MetaLimit)
		if engine.IsUnread(err) && !s.IsNoPart(err) {
			return nil, err
		}
		if err == nil && json.Unmarshal(data, &h) == nil && h.TxID == id && validID(id) {
			list = append(list, h)
		}
	}
	sort.SliceStable(list, func(i, j int) bool { return list[i].CreatedAt < list[j].CreatedAt })
	return list, nil
}

// Expired returns the transactions that have expired.
func (s Layer) Expired() (ids []string, err error) {
	now := stamp.Text(s.Now())
	list, err := s.List()
	for _, h := range list {
		if h.ExpiresAt < now {
			ids = append(ids, h.TxID)
		}
	}
	return ids, err
}

// open opens the directory of a transaction.
func (s Layer) open(id string) (fsx.Dir, error) {
	if !validID(id) {
		return nil, fault.New(fault.TxNotFound)
	}
	dir, err := s.StatePart(Dir + "/" + id)
	if dir == nil && err == nil {
		err = fault.New(fault.TxNotFound)
	}
	return dir, err
}

// Count returns the number of staged operations.
func (s Layer) Count(id string) (int, error) { return s.Read(id, nil) }

// Read passes the staged operations to take, in order, and returns their number.
func (s Layer) Read(id string, take func([]byte) error) (int, error) {
	dir, err := s.open(id)
	if err != nil {
		return 0, err
	}
	defer dir.Close()
	n, err := readOps(dir, take)
	if _, serr := dir.Lstat(Begin); engine.IsAbsent(serr) { // it may have ended meanwhile
		return 0, fault.New(fault.TxNotFound)
	} else if serr != nil {
		return 0, serr
	}
	return n, err
}

func readOps(dir fsx.Dir, take func([]byte) error) (int, error) {
	names, err := dir.Names()
	if err != nil {
		return 0, err
	}
	sort.Strings(names)
	n := 0
	for _, name := range names {
		if !strings.HasPrefix(name, "op-") || !strings.HasSuffix(name, ".json") {
			continue
		}
		if n++; take == nil {
			continue
		}
		data, err := durable.ReadFile(dir, name, MaxOp)
		if err != nil {
			return 0, err
		}
		if name != opName(n) || take(data) != nil {
			return 0, fault.New(fault.HashDriftOnRead).With("op_index", n-1).Hintf("a staged operation was changed or lost on disk; roll the transaction back and begin again")
		}
	}
	return n, nil
}

// Drop removes the remains of a transaction that no longer exists. The next
// Open removes what cannot be removed now.
func (s Layer) Drop(id string) {
	dir, err := s.open(id)
	if err != nil {
		return
	}
	defer dir.Close()
	if _, err := dir.Lstat(Begin); !engine.IsAbsent(err) {
		return
	}
	unlock, err := s.Locks.Names(context.Background(), engine.SweepWait, "transactions", Lock(id))
	if err != nil { // it is only beginning
		return
	}
	defer unlock()
	if _, err := dir.Lstat(Begin); !engine.IsAbsent(err) {
		return
	}
	names, _ := dir.Names()
	for _, n := range names {
		if strings.HasPrefix(n, "op-") || strings.HasPrefix(n, Begin) { // nothing of others
			dir.Remove(n)
		}
	}
	if all, err := s.StatePart(Dir); err == nil && all != nil {
		all.Rmdir(id)
		all.Close()
	}
}

// DropAll removes the remains of all transactions that have ended.
func (s Layer) DropAll() error {
	ids, err := s.PartNames(Dir)
	for _, id := range ids {
		s.Drop(id)
	}
	return err
}
