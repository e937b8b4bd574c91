package main

func Example() {
	main()
	// Output:
	// permission
	//   written   docs/plan.md  7 bytes
	//   written   docs/plan.md  16 bytes
	//   asked     may safe_write do this: overwrite docs/plan.md? — yes
	//   written   docs/plan.md  9 bytes
	//   asked     may safe_write do this: append cmd/log.txt? — yes, always
	//   written   cmd/log.txt  6 bytes
	//   written   cmd/log.txt  15 bytes
	//   asked     may safe_write do this: create go.mod? — no
	//   refused   safe_write go.mod: policy violation: denied, suggested action ask_user
	//             hint: the user said no; do something else, or ask the user what to do instead
	//   refused   safe_write deploy/prod.yaml: policy violation: denied, suggested action ask_user
	//             hint: the path deploy/prod.yaml must not be changed; choose another path or ask the user
	// compiler
	//   asked     may safe_write do this: create cmd/main.go? — yes, always
	//   refused   safe_write cmd/main.go: policy violation: verify_failed, suggested action fix_call
	//             hint: a check of the host failed; context.output says why; correct the content and send it again
	//             | the check of cmd/main.go failed: exit status 2
	//             | cmd/main.go:3:15: expected ';', found 'EOF'
	//             | cmd/main.go:3:15: expected '}', found 'EOF'
	//   written   cmd/main.go  29 bytes
	// loop
	//   asked     may safe_write do this: overwrite cmd/config.txt? — yes, always
	//   written   cmd/config.txt  11 bytes
	//   asked     may safe_write do this: overwrite cmd/config.txt? — yes, always
	//   written   cmd/config.txt  11 bytes
	//   written   cmd/config.txt  11 bytes
	//   written   cmd/config.txt  11 bytes
	//   refused   safe_write cmd/config.txt: policy violation: denied, suggested action ask_user
	//             hint: cmd/config.txt has come back 2 times to a content it had before; stop changing it, look at what is wrong, and ask the user
	//   reset     by a human
	//   written   cmd/config.txt  11 bytes
	// seen by the host: 11 succeeded, 4 refused
}
