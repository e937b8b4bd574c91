package resilientwrite_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	rw "github.com/resilientwrite/resilientwrite"
	"github.com/resilientwrite/resilientwrite/internal/fsx"
	"github.com/resilientwrite/resilientwrite/internal/simfs"
	"github.com/resilientwrite/resilientwrite/toolbox"
)

// The scenario C10 of the benchmark of record, bench/record: power cuts on the
// simulated file system. It is a test of this package because only its tests
// can open a Store there. The benchmark runs it with RW_RECORD set to the file
// that gets the counts, RW_RECORD_TRIALS and RW_RECORD_SEED.

// crashCounts are what one arm came to.
type crashCounts struct {
	Arm         string `json:"arm"`
	Trials      int    `json:"trials"`
	Faults      int    `json:"faults"` // the agent saw its call fail, or an acknowledged result does not exist
	Right       int    `json:"right"`  // of those: the file is as it should be in the end
	Lost        int    `json:"lost"`
	Broken      int    `json:"broken"` // right after the restart
	Calls       int    `json:"calls"`
	Tries       int    `json:"tries"`
	Answered    int    `json:"answered"`    // trials in which the power went after the answer
	AnswerLost  int    `json:"answer_lost"` // of those
	Torn        int    `json:"torn"`        // of the others: neither old nor new
	LeftOver    int    `json:"left_over"`   // files that no call requested
	Unexplained int    `json:"unexplained"` // stores in which Check found a problem
	Points      int    `json:"points"`      // operations of the longest call
	FlushesDir  bool   `json:"flushes_dir"` // the arm flushes directories
}

// crashArm writes on a simulated disk as one kind of tool does.
type crashArm interface {
	// put makes a call; false when it was not answered with success.
	put(deed, path, text string) bool
	// problems returns the problems that the tool itself reports.
	problems() int
}

// plainArm is a tool without a store.
type plainArm struct {
	root      fsx.Dir
	defensive bool
}

func (a plainArm) problems() int { return 0 }

func (a plainArm) put(deed, path, text string) bool {
	dir, name, err := a.parent(path)
	if err != nil {
		return false
	}
	switch {
	case !a.defensive:
		err = naivePut(dir, name, deed == "append", text)
	case deed == "append":
		old, rerr := readSim(dir, name)
		if err = rerr; err == nil {
			err = renamePut(dir, name, old+text)
		}
	default:
		err = renamePut(dir, name, text)
	}
	return err == nil
}

func (a plainArm) parent(path string) (fsx.Dir, string, error) {
	dir, name := a.root, path
	if sub, rest, deep := strings.Cut(path, "/"); deep {
		if err := a.root.Mkdir(sub, 0o777); err != nil && !errors.Is(err, fs.ErrExist) {
			return nil, "", err
		}
		var err error
		if dir, err = a.root.OpenDir(sub); err != nil {
			return nil, "", err
		}
		name = rest
	}
	return dir, name, nil
}

// naivePut opens, empties, writes, closes.
func naivePut(dir fsx.Dir, name string, extend bool, text string) error {
	flag := fsx.Write | fsx.Create
	if extend {
		flag |= fsx.Append
	}
	f, err := dir.Open(name, flag, 0o666)
	if err != nil {
		return err
	}
	if extend {
		_, err = f.Append([]byte(text))
	} else if err = f.Truncate(0); err == nil {
		_, err = f.Write([]byte(text))
	}
	return errors.Join(err, f.Close())
}

// renamePut writes a temporary file, flushes it, renames it and flushes the
// directory; as most such code does, it leaves the parents of a directory that
// was made alone.
func renamePut(dir fsx.Dir, name, text string) error {
	temp := ".tmp-" + name
	f, err := dir.Open(temp, fsx.Write|fsx.Create, 0o666)
	if err != nil {
		return err
	}
	if err = f.Truncate(0); err == nil {
		_, err = f.Write([]byte(text))
	}
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return err
	}
	if err := dir.Rename(temp, dir, name); err != nil {
		return err
	}
	return dir.Sync()
}

func readSim(dir fsx.Dir, name string) (string, error) {
	f, err := dir.Open(name, fsx.Read, 0)
	if err != nil {
		return "", err
	}
	defer f.Close()
	var b bytes.Buffer
	_, err = b.ReadFrom(f)
	return b.String(), err
}

// storeArm is a Store, used through its tools.
type storeArm struct {
	store *rw.Store
	box   *toolbox.Toolbox
}

func (a storeArm) put(deed, path, text string) bool {
	args, err := json.Marshal(map[string]any{"path": path, "content": text, "mode": deed, "allow_shrink": deed == "overwrite", "idempotency_key": path + deed})
	if err != nil {
		return false
	}
	return a.box.Call(context.Background(), "rw_safe_write", args, nil).OK
}

func (a storeArm) problems() int {
	found, err := a.store.Check(context.Background(), rw.CheckRequest{Deep: true})
	if err != nil {
		return 1
	}
	return len(found.Problems) + found.Counters.Staged
}

// carelessArm is the store without flushes. It is in no table: it shows that the store
// can lose data here, too.
const carelessArm = "resilientwrite at off"

var crashArms = []string{"naive", "defensive", "resilientwrite"}

// openCrashArm opens the tool on a disk, in the state after a boot.
func openCrashArm(arm string, disk *simfs.FS, boot int) (crashArm, error) {
	level := rw.SyncFull
	switch arm {
	case "naive", "defensive":
		return plainArm{disk.Root(), arm == "defensive"}, nil
	case carelessArm:
		level = rw.SyncOff
	}
	s, err := rw.OpenSim(disk, &rw.Options{Sync: level}, rw.Sim{Nonce: fmt.Sprintf("%04d", boot), Manual: true})
	if err != nil {
		return nil, fmt.Errorf("open: %w (%v)", err, errors.Unwrap(err))
	}
	return storeArm{s, toolbox.New(s, &toolbox.Options{Caller: "agent", Replies: toolbox.FullReplies, CallsPerSecond: -1})}, nil
}

// crashTrial is one call, one power failure and one repetition.
type crashTrial struct {
	deed, path, old, text, wanted string
	op                            int // before which the power fails; after the last one the answer is lost; -1: after the answer
	loss                          simfs.Loss
	seed                          uint64
}

var crashDeeds = []string{"create", "overwrite", "append"}

// crashTrialOf picks the nth trial: deeds and losses alternate, every other trial fails
// after the answer, the others before each operation in turn, or after the last one and
// before the answer.
func crashTrialOf(seed uint64, n int, operations map[string]int) crashTrial {
	rng := rand.New(rand.NewPCG(seed, uint64(n)))
	text := func() string {
		return strings.Repeat(fmt.Sprintf("%016x of the text\n", rng.Uint64()), 1+rng.IntN(180))
	}
	c := crashTrial{deed: crashDeeds[n%3], path: "a.txt", old: text(), text: text(), op: -1, seed: rng.Uint64()}
	c.loss = []simfs.Loss{simfs.All, simfs.Some, simfs.None, simfs.Some}[n/6%4]
	if n/3%2 == 1 {
		c.op = n / 6 % (operations[c.deed] + 1)
	}
	c.wanted = c.text
	switch c.deed {
	case "create":
		c.path, c.old = "dir/a.txt", ""
	case "append":
		c.wanted = c.old + c.text
	}
	return c
}

// disk returns a disk with content that was written long ago, and the tool on it.
func (c crashTrial) disk(arm string) (*simfs.FS, crashArm, error) {
	disk := simfs.New()
	disk.WriteFile("beside.txt", []byte("not touched\n"), 0o644)
	if c.old != "" {
		disk.WriteFile(c.path, []byte(c.old), 0o644)
	}
	a, err := openCrashArm(arm, disk, 1)
	return disk, a, err
}

// countOperations returns the number of operations of each deed.
func countOperations(arm string) (map[string]int, error) {
	out := map[string]int{}
	for n, deed := range crashDeeds {
		c := crashTrialOf(1, n, nil)
		disk, a, err := c.disk(arm)
		if err != nil {
			return nil, err
		}
		before := disk.Muts()
		if !a.put(c.deed, c.path, c.text) {
			return nil, fmt.Errorf("%s %s fails by itself", arm, deed)
		}
		out[deed] = disk.Muts() - before
	}
	return out, nil
}

// run makes the trial and adds its result.
func (c crashTrial) run(arm string, into *crashCounts) error {
	disk, a, err := c.disk(arm)
	if err != nil {
		return err
	}
	if c.op >= 0 {
		disk.StopAt(c.op)
	}
	answered := a.put(c.deed, c.path, c.text) && c.op < 0
	after := disk.Crash(c.seed, c.loss) // the power is gone
	if a, err = openCrashArm(arm, after, 2); err != nil {
		return err
	}
	found, there := after.ReadFile(c.path)
	isNew, isOld := there && string(found) == c.wanted, there && string(found) == c.old || !there && c.old == ""
	into.Trials++
	into.Calls++
	switch {
	case answered:
		into.Answered++
		into.AnswerLost += count(!isNew)
	case !isOld && !isNew:
		into.Torn++
	}
	broken := answered && !isNew || !answered && !isOld && !isNew
	into.Broken += count(broken)
	into.Unexplained += count(a.problems() > 0)
	into.LeftOver += c.strays(after)
	lost := broken
	if !answered { // the agent knows that it got no answer, and sends the call again
		into.Calls++
		into.Tries += 2
		into.Faults++
		done := a.put(c.deed, c.path, c.text)
		found, _ := after.ReadFile(c.path)
		lost = string(found) != c.wanted && (done || string(found) != c.old)
		into.Right += count(done && !lost)
	} else if lost {
		into.Faults++ // and the agent does not learn of it
	}
	into.Lost += count(lost)
	return nil
}

func (c crashTrial) strays(disk *simfs.FS) int {
	n := 0
	for path, content := range disk.Tree() {
		if content != "/" && !ofStore(path) && path != c.path && path != "beside.txt" {
			n++
		}
	}
	return n
}

func count(yes bool) int {
	if yes {
		return 1
	}
	return 0
}

func number(name string, otherwise int) int {
	if n, err := strconv.Atoi(os.Getenv(name)); err == nil && n > 0 {
		return n
	}
	return otherwise
}

// TestRecordMachineCrash makes the power fail before every operation of a write, and
// after its answer: acknowledged content survives, everything else is old or new, and a
// repeated call completes the file. The other two ways to write show that the oracle
// can fail.
func TestRecordMachineCrash(t *testing.T) {
	trials, seed := number("RW_RECORD_TRIALS", 150), uint64(number("RW_RECORD_SEED", 1))
	var all []*crashCounts
	for _, arm := range append(crashArms[:len(crashArms):len(crashArms)], carelessArm) {
		operations := must(countOperations(arm))(t)
		got := &crashCounts{Arm: arm, FlushesDir: arm != "naive"}
		for _, n := range operations {
			got.Points = max(got.Points, n)
		}
		for n := range trials {
			c := crashTrialOf(seed, n, operations)
			noErr(t, c.run(arm, got), arm, ", trial ", n, " (", c.deed, ")")
		}
		t.Logf("%+v", *got)
		if arm == carelessArm {
			if got.AnswerLost == 0 || got.Lost == 0 {
				t.Errorf("a store that flushes nothing loses nothing: %+v", *got)
			}
			continue
		}
		all = append(all, got)
	}
	for _, got := range all[:2] {
		if got.AnswerLost == 0 || got.Lost == 0 {
			t.Errorf("%s loses nothing: the oracle sees nothing: %+v", got.Arm, *got)
		}
	}
	if all[0].Torn == 0 {
		t.Errorf("naive tears nothing: %+v", *all[0])
	}
	store := all[2]
	if store.Lost+store.Broken+store.LeftOver+store.Unexplained > 0 || store.Right != store.Faults || store.Answered == 0 {
		t.Errorf("the store: %+v", *store)
	}
	if name := os.Getenv("RW_RECORD"); name != "" {
		data, err := json.Marshal(all)
		if err == nil {
			err = os.WriteFile(name, data, 0o600)
		}
		noErr(t, err)
	}
}
