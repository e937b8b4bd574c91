package main

func ignoreSizeSignal() {}

func ignorePipeSignal() {}
