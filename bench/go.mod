module github.com/resilientwrite/resilientwrite/bench

go 1.25.5

require (
	github.com/google/renameio/v2 v2.0.2
	github.com/natefinch/atomic v1.0.1
	github.com/resilientwrite/resilientwrite v0.0.0
)

require (
	github.com/aymanbagabas/go-udiff v0.4.1 // indirect
	github.com/bmatcuk/doublestar/v4 v4.10.4 // indirect
	github.com/goccy/go-yaml v1.19.2 // indirect
	golang.org/x/sys v0.41.0 // indirect
)

replace github.com/resilientwrite/resilientwrite => ../
