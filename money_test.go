package resilientwrite_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	rw "github.com/resilientwrite/resilientwrite"
)

const accounts = 5

// moveMoney is the job of a child: it moves money between files until it is
// killed.
func moveMoney(s *rw.Store, seed string) error {
	n, _ := strconv.Atoi(seed)
	rng := rand.New(rand.NewPCG(uint64(n), 7))
	for i := 0; ; i++ {
		from, to := rng.IntN(accounts), rng.IntN(accounts)
		if from == to {
			continue
		}
		amount := 1 + rng.IntN(9)
		var ops []rw.TxOp
		for _, step := range []struct{ acc, by int }{{from, -amount}, {to, amount}} {
			path := fmt.Sprintf("acc%d.txt", step.acc)
			r, err := s.Read(context.Background(), rw.ReadRequest{Path: path})
			if err != nil {
				return err
			}
			ops = append(ops, rw.TxOp{Op: "write", Path: path, Content: []byte(account(moneyIn(string(r.Content)) + step.by)), Mode: rw.ModeOverwrite, AllowShrink: true})
		}
		if _, err := s.Tx(context.Background(), rw.TxRequest{Ops: ops}); err != nil {
			return err
		}
		fmt.Println(i)
	}
}

// account is a file of a length that changes, so that a mixture shows.
func account(n int) string {
	return fmt.Sprintf("%d\n%s", n, strings.Repeat(fmt.Sprintf("%d,", n), 50+n%40))
}

func moneyIn(content string) int {
	line, _, _ := strings.Cut(content, "\n")
	n, err := strconv.Atoi(line)
	if err != nil || content != account(n) {
		return -1 << 30 // torn
	}
	return n
}

// TestMoneyIsNeverLost: a child that moves money between files, two in one transaction,
// is killed at a random moment, two hundred times. After each reopening the sum is
// unchanged.
func TestMoneyIsNeverLost(t *testing.T) {
	t.Parallel()
	s, dir := opened(t, &rw.Options{Sync: rw.SyncOff})
	for i := range accounts {
		write(t, s, fmt.Sprintf("acc%d.txt", i), account(1000), rw.ModeCreate)
	}
	s.Close(background)
	moved := 0
	for round := range scale(200) {
		level := []rw.SyncLevel{rw.SyncOff, rw.SyncJournal, rw.SyncFull}[round%3]
		cmd, out := spawn(t, "money", dir, fmt.Sprint(round), level)
		until(t, "the other process goes on", func() bool { return len(out.lines()) > 0 }) // until it has started
		time.Sleep(time.Duration(rand.IntN(40)) * time.Millisecond)
		cmd.Process.Kill()
		cmd.Wait()
		moved += len(out.lines())
		s := must(rw.Open(background, dir, nil))(t)
		sum := 0
		for i := range accounts {
			data := must(os.ReadFile(filepath.Join(dir, fmt.Sprintf("acc%d.txt", i))))(t)
			sum += moneyIn(string(data))
		}
		mustEqual(t, sum, 1000*accounts, "round ", round, ": the sum")
		check(t, s, true)
		s.Close(background)
	}
	t.Logf("%d transfers were acknowledged", moved)
	expect(t, moved != 0, "no transfer was made")
}
