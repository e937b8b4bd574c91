package place

// OpenRoot opens directories for this package. Tests replace it.
var OpenRoot = &openRoot
