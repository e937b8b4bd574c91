package engine

import (
	"errors"
	"syscall"

	"github.com/resilientwrite/resilientwrite/internal/fault"
)

func platformDetail(err error) fault.Code {
	if errors.Is(err, syscall.EUCLEAN) { // the file system is damaged
		return fault.IOError
	}
	return ""
}
