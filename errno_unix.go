//go:build !windows

package resilientwrite

func platformDetail(error) Detail { return "" }
