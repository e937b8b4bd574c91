module github.com/resilientwrite/resilientwrite/hub

go 1.25.5

require (
	github.com/aws/aws-sdk-go-v2 v1.47.8
	github.com/resilientwrite/resilientwrite v0.0.0
)

require (
	github.com/aws/smithy-go v1.28.8 // indirect
	golang.org/x/sys v0.41.0 // indirect
)

replace github.com/resilientwrite/resilientwrite => ..
