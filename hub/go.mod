module github.com/resilientwrite/resilientwrite/hub

go 1.25.5

require github.com/resilientwrite/resilientwrite v0.0.0

require golang.org/x/sys v0.41.0 // indirect

replace github.com/resilientwrite/resilientwrite => ..
