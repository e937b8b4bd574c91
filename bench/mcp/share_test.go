package mcp

import (
	"context"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/resilientwrite/resilientwrite/mcpserver"
	"github.com/resilientwrite/resilientwrite/toolbox"
)

// BenchmarkShare measures what a call costs above the method of the Store that
// it calls: for the tools, which decode the arguments and make the reply, and for
// the protocol around them. The three take turns on one Store, and medians are
// compared, so that what the disk and the machine do from call to call is in all
// of them.
func BenchmarkShare(b *testing.B) {
	for _, w := range works() {
		if w.name == "write_1MiB" {
			continue
		}
		b.Run(w.name, func(b *testing.B) {
			s := openLocal(b)
			box := toolbox.New(s, &toolbox.Options{Caller: "bench", CallsPerSecond: -1})
			server := mcpserver.New(s, unlimited)
			own := method{s}
			var taken [3][]time.Duration
			i := 0
			for b.Loop() {
				for arm := range taken {
					i++
					args := w.args(i)
					data, err := json.Marshal(args)
					if err != nil {
						b.Fatal(err)
					}
					msg := message(i, w.tool, args)
					began := time.Now()
					switch arm {
					case 0:
						own.call(b, w.tool, args, 1)
					case 1:
						if a := box.Call(context.Background(), w.tool, data, nil); !a.OK {
							b.Fatalf("%.300s", a.Text)
						}
					case 2:
						if _, err := json.Marshal(mcpserver.Handle(context.Background(), server, msg)); err != nil {
							b.Fatal(err)
						}
					}
					taken[arm] = append(taken[arm], time.Since(began))
				}
			}
			var median [3]float64
			for arm, list := range taken {
				slices.Sort(list)
				median[arm] = float64(list[len(list)/2].Nanoseconds()) / 1000
			}
			b.ReportMetric(median[0], "store-µs")
			b.ReportMetric(median[1]-median[0], "tools-µs")
			b.ReportMetric(median[2]-median[1], "protocol-µs")
		})
	}
}
