package hub

import (
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/resilientwrite/resilientwrite/hub/object/s3test"
)

// network is a network namespace connected to this one by a virtual cable.
type network struct {
	t            *testing.T
	name, cable  string
	here, inside string // addresses
}

// ip runs a command of iproute2.
func (n *network) ip(args string) error {
	out, err := exec.Command("ip", strings.Fields(args)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("ip %s: %w: %s", args, err, out)
	}
	return nil
}

func newNetwork(t *testing.T) *network {
	t.Helper()
	if _, err := exec.LookPath("ip"); err != nil || os.Getuid() != 0 {
		t.Skip("NOT RUN: network namespaces need root and iproute2")
	}
	id := os.Getpid() % 60000
	n := &network{t: t, name: fmt.Sprint("rwhub", id), cable: fmt.Sprint("rwh", id), here: fmt.Sprintf("10.%d.%d.1", 100+id/250%100, id%250), inside: fmt.Sprintf("10.%d.%d.2", 100+id/250%100, id%250)}
	if err := n.ip("netns add " + n.name); err != nil {
		t.Skip("NOT RUN: ", err)
	}
	t.Cleanup(func() { // the cable is removed with its end
		if err := n.ip("netns delete " + n.name); err != nil {
			t.Error(err)
		}
	})
	for _, step := range []string{
		"link add " + n.cable + " type veth peer name eth0 netns " + n.name,
		"addr add " + n.here + "/30 dev " + n.cable,
		"link set " + n.cable + " up",
		"-n " + n.name + " addr add " + n.inside + "/30 dev eth0",
		"-n " + n.name + " link set eth0 up",
		"-n " + n.name + " link set lo up",
	} {
		if err := n.ip(step); err != nil {
			t.Skip("NOT RUN: ", err)
		}
	}
	return n
}

// cut disconnects the cable, or connects it again.
func (n *network) cut(out bool) {
	n.t.Helper()
	state := map[bool]string{true: "down", false: "up"}[out]
	if err := n.ip("link set " + n.cable + " " + state); err != nil {
		n.t.Fatal(err)
	}
}

// TestPartition: the server and one agent are on the other side of a cable, which is cut
// while an agent on this side ships rows, and while it only renews its lease. The agent
// on the other side takes the task and publishes. When the cable is connected again,
// requests of this side that were in flight are refused.
func TestPartition(t *testing.T) {
	s3Environment(t)
	if os.Getenv("RW_CI_FULL") != "1" {
		t.Skip("NOT RUN: RW_CI_FULL=1 starts a server in a network namespace")
	}
	n := newNetwork(t)
	over := []string{"ip", "netns", "exec", n.name}
	g := s3test.StartGateway(t, n.inside+":7070", over...)
	r := newRecord(t, addressIn(g.URL()))
	cuts := 0
	for round, renewal := range []bool{false, true, false, true} {
		a := r.next()
		if round > 0 {
			a.done("resume")
		}
		a.write("a.txt", fmt.Sprint("before-", round))
		a.done("publish")
		r.published(a)
		for i := 0; !renewal && i < 3; i++ {
			a.write(fmt.Sprint("large", i, ".txt"), strings.Repeat(fmt.Sprint("large-", round), 60))
		}
		a.say("publish")
		if line := a.hear(); line != "begin" {
			t.Fatal(line)
		}
		n.cut(true)
		b := r.next(over...)
		b.done("resume")
		b.write("b.txt", fmt.Sprint("over-there-", round))
		b.done("publish")
		n.cut(false)
		switch said := a.hear(); said {
		case "done": // before the cable was cut
			r.published(a)
		case Unreachable, Fenced, Leased:
			cuts++
			t.Logf("round %d: %s", round, said)
		default:
			t.Errorf("round %d: %s", round, said)
		}
		r.published(b)
		r.lost(a, round)
		a.kill()
		b.kill()
	}
	if cuts == 0 {
		t.Error("no publication was interrupted")
	}
	r.check()
}
