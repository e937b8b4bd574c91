module github.com/resilientwrite/resilientwrite/hub

go 1.25.5

require (
	filippo.io/age v1.2.1
	github.com/aws/aws-sdk-go-v2 v1.47.8
	github.com/klauspost/compress v1.19.2
	github.com/resilientwrite/resilientwrite v0.0.0
	github.com/spf13/cobra v1.10.2
	golang.org/x/term v0.40.0
)

require (
	github.com/aws/smithy-go v1.28.8 // indirect
	github.com/aymanbagabas/go-udiff v0.4.1 // indirect
	github.com/bmatcuk/doublestar/v4 v4.10.4 // indirect
	github.com/inconshreveable/mousetrap v1.1.0 // indirect
	github.com/pelletier/go-toml/v2 v2.2.4 // indirect
	github.com/spf13/pflag v1.0.9 // indirect
	go.yaml.in/yaml/v4 v4.0.0 // indirect
	golang.org/x/crypto v0.24.0 // indirect
	golang.org/x/sys v0.41.0 // indirect
	golang.org/x/text v0.16.0 // indirect
)

replace github.com/resilientwrite/resilientwrite => ..
