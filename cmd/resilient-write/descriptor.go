package main

import (
	"fmt"
	"os"
	"strconv"
)

// descriptor is the value of a flag that names an open descriptor of the caller
// to write to; 0 means none.
type descriptor int

func (d *descriptor) String() string { return strconv.Itoa(int(*d)) }

func (d *descriptor) Type() string { return "int" }

// Set refuses the descriptors that have another meaning.
func (d *descriptor) Set(text string) error {
	const hint = "open one above 2 and name it, as in 3>file"
	n, err := strconv.Atoi(text)
	switch {
	case err != nil || n < 0:
		return &misuse{"it is not the number of a descriptor", hint}
	case n == 0:
		return &misuse{"0 is standard input", hint}
	case n == 1:
		return &misuse{"1 is standard output, which is reserved for the reply", hint}
	}
	*d = descriptor(n)
	return nil
}

// open takes over the descriptor from the caller, who must have opened it for
// writing.
func (d descriptor) open(flag string) (*os.File, error) {
	if !handedOver(int(d)) {
		return nil, &misuse{fmt.Sprintf("%s: %d is not open for writing", flag, d), "open it for the command, as in " + strconv.Itoa(int(d)) + ">file"}
	}
	return os.NewFile(uintptr(d), flag), nil
}
