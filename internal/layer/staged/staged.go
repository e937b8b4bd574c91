// Package staged describes the directories in which transactions are built by several
// calls.
package staged

import (
	"encoding/json"
	"fmt"
	"sort"

	"github.com/resilientwrite/resilientwrite/internal/durable"
	"github.com/resilientwrite/resilientwrite/internal/engine"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
)

// Dir has a directory for each transaction. The directory exists exactly as long as its
// file Begin does; each operation has a file of its own next to it.
const (
	Dir   = "tx"
	Begin = "begin.json"
	MaxOp = 512 << 20 // bytes of one operation
)

// Lock is the name under which calls lock a transaction.
func Lock(id string) string { return "tx\x00" + id }

// OpName is the file of an operation, counted from 1.
func OpName(i int) string { return fmt.Sprintf("op-%05d.json", i) }

// Head is the content of Begin.
type Head struct {
	TxID      string `json:"tx_id"`
	Caller    string `json:"caller"`
	Session   string `json:"session"`
	CreatedAt string `json:"created_at"`
	ExpiresAt string `json:"expires_at"`
}

// List reads the heads of the transactions, oldest first. One that cannot be
// read is left out.
func List(state fsx.Dir) []Head {
	list := []Head{}
	if state == nil {
		return list
	}
	all, err := state.OpenDir(Dir)
	if err != nil {
		return list
	}
	defer all.Close()
	names, _ := all.Names()
	for _, id := range names {
		dir, err := all.OpenDir(id)
		if err != nil {
			continue
		}
		var h Head
		if data, err := durable.ReadFile(dir, Begin, engine.MetaLimit); err == nil && json.Unmarshal(data, &h) == nil && h.TxID == id {
			list = append(list, h)
		}
		dir.Close()
	}
	sort.SliceStable(list, func(i, j int) bool { return list[i].CreatedAt < list[j].CreatedAt })
	return list
}
