//go:build unix

package engine

import "github.com/resilientwrite/resilientwrite/internal/fault"

func platformDetail(error) fault.Code { return "" }
