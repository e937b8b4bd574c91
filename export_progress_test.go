package resilientwrite

import "context"

// Account makes an account of a call and uses it as a write of two pieces
// does.
func Account(ctx context.Context) {
	ctx, m, end := metered(ctx)
	defer end()
	for i := range stages {
		m.at(Stage(stages[i].name))
	}
	meterOf(ctx).add(1, false)
	meterOf(ctx).add(1, false)
}
